"""The Makefile's set-up on machines that lack something, and the order of its steps beside upstream triton.

Each test runs make in an empty folder with a PATH of its own, holding stand-ins for python and c++.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ("make", "sh", "rm", "cp", "mkdir", "touch", "chmod", "dirname", "cat", "grep")

# Answers as `version`, makes a folder with a copy of itself for `-m venv`, and notes every pip command.
PYTHON = """#!/bin/sh
case "$*" in
  "-c import sys, venv"*) exit {unsuitable} ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip show"*) exit {triton_missing} ;;
  "-m pip "*) echo "$*" >> "{log}" ;;
  "-c import triton.backends.ascend"*) exit {broken} ;;
  *) echo "unexpected: $*" >&2; exit 3 ;;
esac
"""


class Machine:
    """A folder with the Makefile and a PATH on which only the tools named exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "path"
        self.path.mkdir()
        self.log = folder / "pip.log"
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, f"the tests of the set-up need {tool}"
            (self.path / tool).symlink_to(found)

    def tool(self, name: str, text: str = "#!/bin/sh\n") -> Path:
        script = self.path / name
        script.write_text(text)
        script.chmod(0o755)
        return script

    def python(self, name: str, *, unsuitable: bool = False, triton_missing: bool = True, broken: bool = False) -> Path:
        return self.tool(
            name,
            PYTHON.format(unsuitable=+unsuitable, triton_missing=+triton_missing, broken=+broken, log=self.log),
        )

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "PYTHON"))}
        environment |= {"PATH": str(self.path)}
        environment.pop("TORCH_INDEX", None)
        return subprocess.run(
            ["make", "venv", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
        )

    def pip(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_no_compiler_is_said_first(machine: Machine) -> None:
    machine.python("python3.11")
    run = machine.make()
    assert run.returncode != 0
    assert "No C++ compiler found: install one, for instance 'apt-get install g++'." in run.stdout
    assert not machine.log.exists()
    assert not (machine.folder / ".venv").exists()


@pytest.mark.parametrize("compiler", ["c++", "g++"])
def test_either_compiler_serves(machine: Machine, compiler: str) -> None:
    machine.tool(compiler)
    machine.python("python3.11")
    run = machine.make()
    assert run.returncode == 0, run.stdout
    assert (machine.folder / ".venv" / ".ready").exists()


def test_no_python_names_what_to_install(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3", unsuitable=True)
    run = machine.make()
    assert run.returncode != 0
    assert "No Python 3.10 or 3.11 with venv found" in run.stdout
    assert "apt-get install python3.11 python3.11-venv" in run.stdout
    assert "PYTHON=..." in run.stdout
    assert not (machine.folder / ".venv").exists()


def test_the_python_named_is_taken(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.11", broken=True)
    named = machine.python("elsewhere")
    run = machine.make(f"PYTHON={named}")
    assert run.returncode == 0, run.stdout


def test_a_named_python_that_does_not_serve_falls_back(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.10")
    named = machine.python("python3.12", unsuitable=True)
    run = machine.make(f"PYTHON={named}")
    assert run.returncode == 0, run.stdout


def test_triton_ascend_is_repaired_after_everything_else(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.11", triton_missing=False)
    run = machine.make()
    assert run.returncode == 0, run.stdout
    steps = machine.pip()
    assert [line for line in steps if "uninstall" in line] == [steps[-2]]
    assert steps[-2].endswith("triton")
    assert "--force-reinstall --no-deps triton-ascend" in steps[-1]
    assert any("--editable .[dev]" in line for line in steps[:-2])
    assert all("-c constraints.txt" in line for line in steps if "install --quiet -c" in line)


def test_without_upstream_triton_nothing_is_uninstalled(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.11")
    assert machine.make().returncode == 0
    assert not any("uninstall" in line for line in machine.pip())


def test_torch_may_come_from_another_index(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.11")
    assert machine.make("TORCH_INDEX=https://example.org/cpu").returncode == 0
    torch = next(line for line in machine.pip() if line.endswith("torch"))
    assert "--index-url https://example.org/cpu -c constraints.txt" in torch
    assert machine.pip().index(torch) < next(i for i, line in enumerate(machine.pip()) if "--editable" in line)


def test_a_failed_repair_leaves_no_stamp(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.11", broken=True)
    run = machine.make()
    assert run.returncode != 0
    assert "triton.backends.ascend is missing after the repair: remove .venv and run again." in run.stdout
    assert not (machine.folder / ".venv" / ".ready").exists()


def test_a_ready_environment_is_kept(machine: Machine) -> None:
    machine.tool("c++")
    machine.python("python3.11")
    assert machine.make().returncode == 0
    machine.log.unlink()
    assert machine.make().returncode == 0
    assert not machine.log.exists()
