"""Compiler fault: a scalar's cast to a narrower float and back is dropped, and the rounding with it.

bishengir-compile 1.2.0 (ascendnpu-ir 1.2.0), silent wrong results: the final module of a scalar's `.to(bfloat16)
.to(float32)` has neither cast. A value of a bfloat16 or float16 that came from a wider dtype keeps digits it cannot
have. Tensors are not affected.

Rule for the kernels of this project: a scalar is rounded to a narrower float on its bits (ops/kernels/gcd_casts.py).
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.findings.levels import outputs


@triton.jit
def round_scalar(x, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.broadcast_to(tl.load(x).to(KIND).to(tl.float32), (BLOCK,)))


@triton.jit
def round_tensor(x, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at).to(KIND).to(tl.float32))


KINDS = [(tl.bfloat16, torch.bfloat16), (tl.float16, torch.float16)]


@pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=["bfloat16", "float16"])
def test_rounding_of_a_scalar_is_lost(kind: tl.dtype, dtype: torch.dtype) -> None:
    x = torch.full((64,), 12345.678)
    linalg, device = outputs(round_scalar, (1,), torch.zeros(64), x, KIND=kind, BLOCK=64)
    assert torch.equal(linalg, x.to(dtype).float())
    assert torch.equal(device, x), "the compiler was repaired: see the rule above"


@pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=["bfloat16", "float16"])
def test_tensors_are_rounded(kind: tl.dtype, dtype: torch.dtype) -> None:
    x = torch.randn(64) * 1000
    linalg, device = outputs(round_tensor, (1,), torch.zeros(64), x, KIND=kind, BLOCK=64)
    assert torch.equal(linalg, x.to(dtype).float())
    assert torch.equal(device, linalg)
