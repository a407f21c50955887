"""What `import ops` needs, and what it says when something is missing. Each case is a process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BLOCK = """
import importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("ascendnpuir", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_import_without_the_emulators_packages_and_then_a_cpu_tensor():
    use = "import torch, ops\nprint('imported')\nx = torch.tensor([12, 18])\nops.gcd(x, x)\n"
    result = run(BLOCK + use)
    assert result.stdout.strip() == "imported", result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert "ascend-triton-ops[emulator]" in last, result.stderr


def test_import_with_upstream_triton_prints_the_repair(tmp_path):
    # Upstream triton has a backends package without `ascend` in it.
    backends = tmp_path / "triton" / "backends"
    backends.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '3.5.0'\n")
    (backends / "__init__.py").write_text("")
    result = run("import ops", PYTHONPATH=str(tmp_path))
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert "--force-reinstall --no-deps triton-ascend" in last, result.stderr


def test_import_loads_neither_the_emulator_nor_autotune():
    result = run(
        """
        import sys, ops
        print([name for name in ("emulator", "autotune", "bench", "llvmlite", "torch_npu") if name in sys.modules])
        """
    )
    assert result.stdout.strip() == "[]", result.stderr
