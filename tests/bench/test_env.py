"""`bench env` prints what a bug report needs, also when the installation is broken."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest
import torch

from bench import env


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    env.add_arguments(parser)
    return parser.parse_args(list(options))


def test_text_has_every_section(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_EMULATOR_LEVEL", "linalg")
    assert env.run(parsed()) == 0
    printed = capsys.readouterr().out
    for wanted in ("host", "device", "packages", "triton", "caches", "variables", "ASCEND_EMULATOR_LEVEL"):
        assert wanted in printed
    assert torch.__version__.partition("+")[0] in printed


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert env.run(parsed("--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["torch"] == env.version_of("torch")
    assert "Ascend910" in found["device"]["plans for"]


def test_versions_hold_only_what_is_installed() -> None:
    found = env.versions()
    assert found["python"].startswith("3.")
    assert "not installed" not in found.values()
    assert env.version_of("no-such-package-here") is None


def test_a_broken_triton_is_reported_not_raised() -> None:
    program = """
import sys, importlib.util
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
from bench import __main__ as cli
sys.exit(cli.main(["env"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "force-reinstall" in done.stdout
