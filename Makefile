# Two commands for a newcomer: `make compare` and `make test`. Each target makes .venv when it is missing or stale.

VENV   := .venv
STAMP  := $(VENV)/.ready
PY     := $(VENV)/bin/python
JOBS   ?= 2

.PHONY: compare test test-all lint venv clean

compare: $(STAMP)
	$(PY) -m bench compare $(ARGS)

test: $(STAMP)
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-all: $(STAMP)
	$(PY) -m pytest -n $(JOBS) --dist worksteal --thorough --timeout=7200 $(ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

venv: $(STAMP)

# The order matters: torch's CUDA builds require upstream `triton`, which unpacks into the same folder as triton-ascend
# and overwrites it. So the repair comes last, after everything that could bring `triton` back, and is then asserted.
$(STAMP): pyproject.toml constraints.txt
	@command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || \
	  { echo "No C++ compiler found: install one, for instance 'apt-get install g++'."; exit 1; }
	@python=""; for candidate in $(PYTHON) python3.11 python3.10 python3; do \
	  if $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' >/dev/null 2>&1; \
	  then python=$$candidate; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "No Python 3.10 or 3.11 with venv found: install one, for instance 'apt-get install python3.11 python3.11-venv', or name it with PYTHON=..."; \
	  exit 1; fi; \
	echo "Setting up $(VENV) with $$python: some minutes, about 2 GB."; \
	rm -rf $(VENV) && $$python -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade "pip>=24"
	@if [ -n "$(TORCH_INDEX)" ]; then $(PY) -m pip install --index-url "$(TORCH_INDEX)" -c constraints.txt torch; fi
	$(PY) -m pip install --quiet -c constraints.txt --editable '.[dev]'
	@if $(PY) -m pip show --quiet triton 2>/dev/null; then $(PY) -m pip uninstall --quiet --yes triton; fi
	$(PY) -m pip install --quiet -c constraints.txt --force-reinstall --no-deps triton-ascend
	@$(PY) -c 'import triton.backends.ascend' || \
	  { echo "triton.backends.ascend is missing after the repair: remove $(VENV) and run again."; exit 1; }
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
