"""Frontend fault: a stride that is the constant 0 aborts triton-adapter-opt (triton-ascend 3.2.0).

An assertion in MLIR ("strides must not be zero") ends the process instead of an error. A run-time stride of 0 works.
Related: triton-ascend#1509, where a boundary-checked load with stride 0 crashes the same pass.

Rule for the kernels of this project: strides are run-time arguments, or `tl.broadcast_to` does the repeating.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import emulator
from emulator.errors import ToolError
from tests.findings.levels import differing, outputs

ROWS, COLS = 8, 16


@triton.jit
def repeat_constant(x, n, out, STRIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLS)[None, :]
    values = tl.load(x + row * STRIDE + column, mask=(row < n) & (column < COLS))
    tl.store(out + row * COLS + column, values, mask=(row < n) & (column < COLS))


@triton.jit
def repeat_runtime(x, n, stride, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLS)[None, :]
    values = tl.load(x + row * stride + column, mask=(row < n) & (column < COLS))
    tl.store(out + row * COLS + column, values, mask=(row < n) & (column < COLS))


def test_a_constant_stride_of_zero_aborts_the_frontend() -> None:
    with emulator.route("linalg"), pytest.raises(ToolError, match="strides must not be zero"):
        repeat_constant[(1,)](torch.rand(COLS), ROWS, torch.zeros(ROWS * COLS), STRIDE=0, ROWS=ROWS, COLS=COLS)


def test_a_run_time_stride_of_zero_works_at_both_levels() -> None:
    x = torch.rand(COLS)
    for result in outputs(repeat_runtime, (1,), torch.zeros(ROWS * COLS), x, ROWS, 0, ROWS=ROWS, COLS=COLS):
        assert differing(result, x.repeat(ROWS)) == 0
