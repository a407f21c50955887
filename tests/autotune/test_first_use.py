"""ASCEND_OPS_AUTOTUNE=1: a process that tunes on first use without a line of code."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.autotune.double import ROOT

FIRST_USE = """
import sys
import ops.launch
from tiling import tuned
from tiling.platform import platform
print("autotune" in sys.modules)
{before}
class Problem:
    elements = 4
    key = pattern = lambda self: "p"
print(tuned.resolve("double", Problem(), platform(), lambda *_, **decisions: decisions))
print("autotune" in sys.modules)
"""

FAKE = """
import autotune.tuner
from types import SimpleNamespace as Fake
autotune.tuner.tune = lambda op, *_, **__: Fake(winner=Fake(decisions={"block": 128}), stored="the store")
del sys.modules["autotune"]
"""


def run(before: str = "", **environment: str) -> tuple[list[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE.format(before=before)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[:-1], done.stderr


def test_without_the_variable_autotune_is_never_imported():
    assert run(ASCEND_OPS_AUTOTUNE="0")[0] == ["False", "None", "False"]


def test_with_it_the_first_plan_imports_autotune_and_tunes():
    lines, _ = run(FAKE, ASCEND_OPS_AUTOTUNE="1")
    assert lines[:2] == ["False", "{'block': 128}"]


def test_without_the_extra_it_says_so_once_and_plans_by_the_heuristic():
    lines, said = run('sys.modules["filelock"] = None', ASCEND_OPS_AUTOTUNE="1")
    assert lines[1] == "None"
    assert said.count("ASCEND_OPS_AUTOTUNE=1 has no effect") == 1
    assert "ascend-triton-ops[autotune]" in said
