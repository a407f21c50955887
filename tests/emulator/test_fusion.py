"""Fused kernels compute what unfused ones do, and loops update their tiles in place where that is allowed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from emulator import fusion, linalg_ir, toolchain
from tests.emulator import kernels

BLOCK = 128


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_a_loop_that_swaps_its_tiles(turns: int) -> None:
    x, y = torch.randint(-100, 100, (2, BLOCK), dtype=torch.int32)
    out = torch.empty(2, BLOCK, dtype=torch.int32)
    kernels.fibonacci[(1,)](x, y, out, turns, BLOCK=BLOCK)
    a, b = x, y
    for _ in range(turns):
        a, b = b, a + b
    assert torch.equal(out, torch.stack([a, b]))


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_loop_in_place_leaves_the_first_values_alone(turns: int) -> None:
    x, y = torch.randint(-1000, 1000, (2, BLOCK)).float()
    out = torch.empty(2, BLOCK)
    kernels.euclid[(1,)](x, y, out, turns, BLOCK=BLOCK)
    a, b = x.numpy(), y.numpy()
    for _ in range(turns):
        with np.errstate(all="ignore"):
            a = a - _round(a / (b + np.float32(0.25))) * b
            b = b - _round(b / (a + np.float32(0.25))) * a
    assert np.array_equal(out.numpy(), np.stack([a + x.numpy(), b]))


def _round(values: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(values.astype(np.float64)) + 0.5), values).astype(np.float32)


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_a_branch_that_may_pass_a_carried_tile_through(turns: int) -> None:
    x, y = torch.randint(-50, 50, (2, BLOCK)).float()
    out = torch.empty(2, BLOCK)
    kernels.branch_in_loop[(1,)](x, y, out, turns, BLOCK=BLOCK)
    a, b, total = x, y, torch.zeros(BLOCK)
    for turn in range(turns):
        u = b * 0.5 if turn % 2 == 1 else b
        d = u + a
        a = a - 1.0
        b = a * 3.0
        total = total + (d - b)
    assert torch.equal(out, torch.stack([total, b]))


@pytest.mark.usefixtures("routed")
def test_results_read_through_a_broadcast() -> None:
    x = torch.randint(-9, 9, (16, 32), dtype=torch.int32)
    out = torch.empty_like(x)
    kernels.centre_rows[(1,)](x, out, ROWS=16, COLUMNS=32)
    shifted = x * 2 - (x * 2).sum(1, keepdim=True, dtype=torch.int32)
    assert torch.equal(out, shifted * x + shifted.amax(0, keepdim=True))


@pytest.mark.usefixtures("routed")
def test_two_tiles_carried_through_a_loop_of_loads() -> None:
    x = torch.randint(0, 1000, (40, 64), dtype=torch.int32)
    out = torch.empty(2, 64, dtype=torch.int32)
    kernels.running_maximum[(1,)](x, out, 40, COLUMNS=64)
    assert torch.equal(out[0], x.amax(0))
    assert torch.equal(out[1], torch.from_numpy(x.numpy().argmax(0).astype(np.int32)))


def _fused(kernel, signature: dict[str, str]) -> str:
    lowered = toolchain.lower_to_linalg(kernel, signature, {"BLOCK": BLOCK})
    text = toolchain.optimise("k", "test", linalg_ir.clean(lowered.text), linalg_ir.FUSE)
    return toolchain.optimise("k", "test", fusion.apply(text), linalg_ir.BUFFERISE)


def _loop(text: str) -> list[str]:
    """Lines of the loop that carries tiles."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "scf.for" in line and "iter_args" in line)
    end = next(i for i in range(start, len(lines)) if lines[i].startswith(" " * 4 + "}"))
    return lines[start:end]


def test_a_step_of_euclid_is_one_loop_in_place() -> None:
    loop = _loop(_fused(kernels.euclid, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "turns": "i32"}))
    assert sum("linalg.generic" in line for line in loop) == 1
    assert not any("memref.alloc" in line or "memref.copy" in line for line in loop)


def test_text_without_tensor_operations_is_unchanged() -> None:
    text = "module {\n  func.func @f(%arg0: i32) {\n    %0 = arith.addi %arg0, %arg0 : i32\n    return\n  }\n}\n"
    assert fusion.apply(text) == text
