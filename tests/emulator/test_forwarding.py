"""Copies that skip their tile must not differ from copies that use it, overlapping regions least of all."""

from __future__ import annotations

import pytest
import torch

from emulator import forwarding, linalg_ir, toolchain
from tests.emulator import kernels

SIGNATURE = {"source": "*fp32", "target": "*fp32", "n": "i32"}


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("shift", [-70, -64, -63, -5, -1, 0, 1, 5, 63, 64, 70])
def test_overlapping_copy_reads_before_it_writes(shift: int) -> None:
    storage = torch.arange(300, dtype=torch.float32)
    expected = storage.clone()
    expected[100 + shift : 164 + shift] = storage[100:164]
    kernels.move[(1,)](storage[100:], storage[100 + shift :], 64, BLOCK=64)
    assert torch.equal(storage, expected)


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("shift", [-17, -1, 1, 8, 40, 161])
@pytest.mark.parametrize("stride", [20, -20])
def test_overlapping_rows(shift: int, stride: int) -> None:
    """Rows of 8, a stride apart: a copy shifted by 8 falls between them, one shifted by 40 onto other rows."""
    storage = torch.arange(600, dtype=torch.int32)
    expected = storage.clone()
    places = torch.tensor([300 + row * stride + column for row in range(7) for column in range(8)])
    expected[places + shift] = storage[places]
    kernels.move_rows[(1,)](storage[300:], storage[300 + shift :], 7, stride, COLUMNS=8, ROWS=8)
    assert torch.equal(storage, expected)


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64])
def test_disjoint_copy(dtype: torch.dtype) -> None:
    source = torch.randint(-100, 100, (1000,)).to(dtype)
    target = torch.zeros(1010, dtype=dtype)
    kernels.move[(4,)](source, target[5:], 1000, BLOCK=256)
    assert torch.equal(target[5:1005], source)
    assert not target[:5].any()
    assert not target[1005:].any()


def _buffers(kernel) -> str:
    lowered = toolchain.lower_to_linalg(kernel, SIGNATURE, {"BLOCK": 64})
    return toolchain.optimise("move", "test", linalg_ir.clean(lowered.text), [*linalg_ir.FUSE, *linalg_ir.BUFFERISE])


def test_the_copy_kernel_is_forwarded() -> None:
    text = _buffers(kernels.move)
    assert text.count("memref.copy") == 2
    forwarded = forwarding.apply(text)
    assert forwarded.count("memref.copy") == 3  # direct, or in and out of the tile
    assert forwarded.count("scf.if %forward") == 1


def test_a_tile_with_another_use_is_left_alone() -> None:
    text = _buffers(kernels.move)
    fill = next(line for line in text.splitlines() if "memref.copy" in line)
    tile = fill.split(",")[1].split(":")[0].strip()
    between = text.replace(fill, f"{fill}\n    %read = memref.load {tile}[%c0] : memref<?xf32, strided<[1]>>", 1)
    assert "scf.if %forward" not in forwarding.apply(between)
    stored = text.replace(fill, f"{fill}\n    memref.store %cst, %elsewhere[%c0] : memref<?xf32>", 1)
    assert "scf.if %forward" not in forwarding.apply(stored)
