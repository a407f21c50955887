"""Inputs named in public bug reports of other gcd implementations, numbered as in the project's list of reports."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ops

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)


def test_2_the_gcd_of_int64_min_is_not_negative() -> None:
    """pytorch#121343: gcd(-2^63, 215) was -1, and lcm divided by it."""
    assert ops.gcd(torch.tensor([-(2**63)]), torch.tensor([215])).item() == 1


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_4_the_gcd_of_min_and_0_is_min(dtype: torch.dtype) -> None:
    """num-integer#55: 2^(n-1) has no representation; it wraps, in torch and numpy as here."""
    low = torch.iinfo(dtype).min
    a = torch.tensor([low, 0, low], dtype=dtype)
    b = torch.tensor([0, low, low], dtype=dtype)
    assert ops.gcd(a, b).tolist() == [low] * 3 == torch.gcd(a, b).tolist() == np.gcd(a.numpy(), b.numpy()).tolist()


def test_6_mixed_int8_and_uint8_and_a_wrapping_0d_operand() -> None:
    """pytorch#178593, #58489."""
    mixed = ops.gcd(torch.tensor([6], dtype=torch.int8), torch.tensor([6], dtype=torch.uint8))
    assert (mixed.dtype, mixed.tolist()) == (torch.int16, [6])
    wrapped = ops.gcd(torch.tensor([200, 6], dtype=torch.uint8), torch.tensor(300))
    assert (wrapped.dtype, wrapped.tolist()) == (torch.uint8, [4, 2])


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_8_min_and_6(dtype: torch.dtype) -> None:
    """FlagGems#1844 gave 6. numpy gives 2; torch 2.13 gives -2 and calls that a bug (pytorch#187338)."""
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    a = torch.tensor([low, 6, low, low, high], dtype=dtype)
    b = torch.tensor([6, low, high, -1, low], dtype=dtype)
    assert ops.gcd(a, b).tolist() == [2, 2, 1, 1, 1]
    assert ops.gcd(a, b).tolist() == np.gcd(a.numpy(), b.numpy()).tolist()


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_8_all_else_is_as_in_torch(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(8)
    a, b = (torch.randint(info.min + 1, info.max, (50000,), dtype=dtype, generator=generator) for _ in range(2))
    assert torch.equal(ops.gcd(a, b), torch.gcd(a, b))


def test_14_numpy_near_the_limits() -> None:
    """The built-in's own tests stay within (-100, 100)."""
    for dtype in SIGNED:
        info = torch.iinfo(dtype)
        near = [info.min + step for step in range(4)] + [info.max - step for step in range(4)] + [0, 1, -1, 2, 3]
        side = torch.tensor(near, dtype=dtype)
        a, b = side.repeat_interleave(len(near)), side.repeat(len(near))
        assert np.array_equal(ops.gcd(a, b).numpy(), np.gcd(a.numpy(), b.numpy()))


def test_40_narrow_stores_leave_no_sentinel() -> None:
    """FlagTree#1245: masked stores of narrow rows dropped groups of 8 bytes, now and then."""
    for inner in (1, 2, 3, 4, 8):
        a = torch.randint(1, 100, (500, inner + 1), dtype=torch.int16)[:, :inner]
        b = torch.randint(1, 100, (inner,), dtype=torch.int16)
        want = torch.gcd(a, b)
        for _ in range(20):
            out = torch.full((500, inner + 2), -1, dtype=torch.int16)[:, :inner]
            assert torch.equal(ops.gcd(a, b, out=out), want)


def test_48_empty_after_a_compile() -> None:
    """triton-ascend#984: a grid of 0 programs after a warm compile aborted."""
    full = torch.tensor([4, 6], dtype=torch.int32)
    assert ops.gcd(full, full).tolist() == [4, 6]
    assert ops.gcd(full[:0], full[:0]).tolist() == []
    assert ops.gcd(full[0], full[1]).item() == 2


def test_58_all_zeros() -> None:
    """triton#11402: loops that run no turn."""
    for dtype in (*SIGNED, torch.uint8, torch.float16, torch.bfloat16, torch.float32):
        zeros = torch.zeros(3000, dtype=dtype)
        assert torch.equal(ops.gcd(zeros, zeros), zeros)


def test_66_in_place_on_a_cold_cache() -> None:
    """triton#6547 and others: an operator that runs its kernel several times to tune corrupts in-place data."""
    a, b = torch.tensor([12, 18, 7], dtype=torch.int16), torch.tensor([8, 27, 21], dtype=torch.int16)
    ops.gcd_(a, b)
    assert a.tolist() == [4, 9, 7]
    assert b.tolist() == [8, 27, 21]
