"""Compiler trap: what a mask that is no bound, and an address that is no structure, become (triton-ascend 3.2.0).

A store whose mask picks scattered lanes is compiled into a load of the whole tile, a select, and a store of the whole
tile: it writes lanes beyond the bound, and races with other programs. A load with computed places becomes a scalar
loop over all lanes that reads the masked ones as well. Both are right in what they keep, so only a check of addresses
sees them.

Rules for the kernels of this project: masks are `index < bound` joined by `&`; addresses are ranges times strides.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import emulator
from emulator import inspect, toolchain
from emulator.device import DeviceCheckError
from ops.variants import variants


@triton.jit
def every_third(x, n, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    values = tl.load(x + lane, mask=lane < n)
    tl.store(out + lane, values, mask=(lane % 3 == 0) & (lane < n))


@triton.jit
def computed_places(x, n, inner, stride, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    values = tl.load(x + (lane // inner) * stride + lane % inner, mask=lane < n, other=0)
    tl.store(out + lane, values, mask=lane < n)


def test_a_discrete_mask_stores_beyond_the_bound() -> None:
    with emulator.route("device"), pytest.raises(DeviceCheckError) as caught:
        every_third[(1,)](torch.rand(500), 500, torch.zeros(500), BLOCK=512)
    assert "gm bounds" in {finding.check for finding in caught.value.findings}


def test_computed_places_read_masked_lanes_one_by_one() -> None:
    with emulator.route("device"), pytest.raises(DeviceCheckError) as caught:
        computed_places[(1,)](torch.rand(297), 297, 3, 3, torch.zeros(297), BLOCK=512)
    assert "gm bounds" in {finding.check for finding in caught.value.findings}
    signature = {"x": "*fp32", "n": "i32", "inner": "i32", "stride": "i32", "out": "*fp32"}
    linalg = toolchain.lower_to_linalg(computed_places, signature, {"BLOCK": 512})
    assert inspect.scalar_loops(toolchain.compile_hivm(linalg))


def test_as_strided_kernels_have_neither() -> None:
    """Loads and stores of every kernel are structured: the Linalg IR has no element-wise access and no select."""
    seen = set()
    for variant in variants("as_strided"):
        if variant.kernel in seen:
            continue
        seen.add(variant.kernel)
        linalg = toolchain.lower_to_linalg(variant.function, dict(variant.signature), dict(variant.constexprs))
        for word in ("memref.load", "tensor.extract ", "arith.select"):
            assert word not in linalg.text, (variant.name, word)
    assert len(seen) == 17
