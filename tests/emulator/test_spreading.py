"""Broadcasts written straight to their destination."""

from __future__ import annotations

import pytest
import torch

from emulator import fusion, linalg_ir, spreading, toolchain
from tests.emulator import kernels

SIGNATURE = {"x": "*fp32", "out": "*fp32", "rows": "i32", "columns": "i32"}


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float32, torch.int64])
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (5, 32), (16, 7), (3, 1), (1, 1)])
def test_rows_and_columns(axis: int, dtype: torch.dtype, rows: int, columns: int) -> None:
    x = torch.randint(-100, 100, (rows if axis == 0 else columns,)).to(dtype)
    guard = torch.full((rows * columns + 64,), 77, dtype=dtype)
    out = guard[32:-32]
    kernels.spread[(1,)](x, out, rows, columns, ROWS=16, COLUMNS=32, AXIS=axis)
    expected = (x[:, None] if axis == 0 else x[None, :]).expand(rows, columns)
    assert torch.equal(out.view(rows, columns), expected)
    assert (guard[:32] == 77).all()
    assert (guard[-32:] == 77).all()


@pytest.mark.usefixtures("routed")
def test_destination_over_the_source() -> None:
    """The source is read into a tile first: what the destination overwrites does not matter."""
    storage = torch.arange(512, dtype=torch.float32)
    kernels.spread[(1,)](storage, storage, 16, 32, ROWS=16, COLUMNS=32, AXIS=0)
    assert torch.equal(storage.view(16, 32), torch.arange(16.0)[:, None].expand(16, 32))


@pytest.mark.usefixtures("routed")
def test_a_tile_with_another_use_is_kept() -> None:
    x = torch.randn(8)
    out = torch.empty(2, 8, 16)
    kernels.spread_twice[(1,)](x, out, ROWS=8, COLUMNS=16)
    assert torch.equal(out[0], x[:, None].expand(8, 16))
    assert torch.equal(out[1], out[0] + 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_tile_is_gone(axis: int) -> None:
    lowered = toolchain.lower_to_linalg(kernels.spread, SIGNATURE, {"ROWS": 16, "COLUMNS": 32, "AXIS": axis})
    text = toolchain.optimise("k", "test", linalg_ir.clean(lowered.text), linalg_ir.FUSE)
    text = toolchain.optimise("k", "test", fusion.apply(text), linalg_ir.BUFFERISE)
    assert "memref.alloc() {alignment = 64 : i64} : memref<16x32xf32>" in text
    direct = spreading.apply(text)
    assert "memref<16x32xf32>" not in direct.replace("to memref<16x32xf32, strided", "")
    assert "linalg.yield %in : f32" in direct
