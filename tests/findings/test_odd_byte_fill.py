"""Vendor template: the fill of an odd number of bytes writes its last byte from the scalar unit, in nobody's order.

ascendnpu-ir 1.2.0, `broadcast_scalar_int8_t_to_1d`: bytes are filled in pairs by the vector unit, and an odd last one
by a scalar store. The compiler orders the call as vector work, so the scalar unit, which runs ahead, may store into the
buffer of a tile that is still being loaded or read: the last byte of that tile can be overwritten by the padding of a
later one. The results are right here, since the emulator runs instructions in the order of the program; the check of
hazards reports it.

Rule for the kernels of this project: tiles of one-byte elements that a masked load pads have an even number of bytes.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import emulator
from emulator.device import DeviceCheckError, options


@triton.jit
def copy_parts(x, out, tiles, inside, BLOCK: tl.constexpr):
    """Of every BLOCK bytes the first `inside`."""
    at = tl.arange(0, BLOCK)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        part = tl.load(x + tile * BLOCK + at, mask=at < inside, other=0)
        tl.store(out + tile * BLOCK + at, part + 1, mask=at < inside)


def run(block: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(6 * block, dtype=torch.int8)
    out = torch.zeros_like(x)
    want = (x + 1).view(6, block)
    want[:, 5:] = 0
    copy_parts[(1,)](x, out, 6, 5, BLOCK=block)
    return out, want.reshape(-1)


def test_odd_fill_is_reported() -> None:
    with emulator.route("device"), pytest.raises(DeviceCheckError) as caught:
        run(11)
    finding = caught.value.findings[0]
    assert finding.check == "hazard", "the vendor's template was repaired: see the rule above"
    assert "broadcast_scalar_int8_t_to_1d" in finding.instruction
    assert "scalar store on S" in finding.message


@pytest.mark.parametrize("block", [10, 12, 64])
def test_even_fill_is_clean(block: int) -> None:
    with emulator.route("device"):
        out, want = run(block)
    assert torch.equal(out, want)


def test_program_order_gives_the_right_result() -> None:
    with emulator.route("device"), options(checks=False):
        out, want = run(11)
    assert torch.equal(out, want)
