"""The pages and the README: their Python runs, their links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ops

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_three_pages_are_there() -> None:
    assert {page.name for page in PAGES} >= {"README.md", "using.md", "plans.md", "new-op.md"}


@pytest.mark.timeout(200)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    # A file, not standard input: Triton reads the source of its kernels.
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASCEND_OPS_TUNED_DIR": str(tmp_path / "tuned")}
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_files_named_in_the_pages_exist(page: Path) -> None:
    """Those of the operator that is only an example excepted."""
    for name in re.findall(r"`((?:ops|tiling|autotune|emulator|bench|tests)/[\w/]+\.py)`", page.read_text()):
        assert "lcm" in name or (ROOT / name).exists(), name


MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("ops", "tiling")
    for path in (ROOT / package).rglob("*.py")
    if "kernels" not in path.parts
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_give_what_they_say(name: str) -> None:
    importlib.import_module(name)
    module = sys.modules[name]  # not an attribute of its package: ops.gcd is the function there
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


@pytest.mark.parametrize("name", ops.__all__)
def test_public_functions_say_what_a_user_needs(name: str) -> None:
    text = inspect.getdoc(getattr(ops, name)) or ""
    first = text.partition("\n")[0]
    assert first.endswith((".", "``."))
    assert ">>> " in text
    assert "Raises" in text
    if name in ("gcd", "gcd_", "as_strided", "override_aten"):  # those that stand for something of others
        assert "Source: " in text
