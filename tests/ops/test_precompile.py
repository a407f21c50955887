"""precompile: afterwards the calls run without any tool, each kernel counts once, and mistakes are named beforehand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ops
from tiling.as_strided import AsStridedProblem

ROOT = Path(__file__).resolve().parents[2]

CODE = """
import torch, ops
from emulator import toolchain

a = torch.arange(1, 2001, dtype=torch.int16)
b = torch.arange(2001, 1, -1, dtype=torch.int16)[:2000]
x = torch.arange(4096, dtype=torch.float32)
wide = torch.arange(1, 4001, dtype=torch.int16)[::2]
calls = [(a, b), (x, (50, 60), (64, 1)), (a, b), (wide, b)]
seen = []
count = ops.precompile(calls, jobs=2, progress=lambda done, total, name: seen.append((done, total)))
assert count == 3, count  # (a, b) twice is one kernel; the strided operand's copy is another
assert seen == [(1, 3), (2, 3), (3, 3)], seen
before = toolchain.runs()
assert before > 0
assert torch.equal(ops.gcd(a, b), torch.gcd(a, b))
assert torch.equal(ops.gcd(wide, b), torch.gcd(wide, b))
assert torch.equal(ops.as_strided(x, (50, 60), (64, 1)), x.as_strided((50, 60), (64, 1)))
assert toolchain.runs() == before, (before, toolchain.runs())
print("done")
"""


def test_afterwards_the_calls_run_no_tool(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout.strip() == "done", result.stderr


def test_problems_and_plans_are_taken(capsys):
    plan = ops.plan_gcd(torch.zeros(100, dtype=torch.int8), torch.zeros(100, dtype=torch.int8))
    problem = AsStridedProblem((10, 10), (20, 1), 0, 4)
    assert ops.precompile([plan, plan.problem, problem]) == 2
    assert "compiled 2/2" in capsys.readouterr().err


def test_what_no_call_is():
    with pytest.raises(TypeError, match="not int"):
        ops.precompile([7])
    with pytest.raises(ValueError, match="empty"):
        ops.precompile([(torch.zeros(4), (0,), (1,))])
    with pytest.raises(RuntimeError, match="out of bounds"):
        ops.precompile([(torch.zeros(4), (9,), (1,))])


def test_nothing_to_compile():
    assert ops.precompile([]) == 0
