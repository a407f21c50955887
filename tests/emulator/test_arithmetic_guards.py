"""Arithmetic where a host would trap or answer otherwise than the device: division, shifts, conversions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator import kernels

pytestmark = pytest.mark.usefixtures("routed")

INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def _specials(dtype: torch.dtype) -> list[int]:
    info = torch.iinfo(dtype)
    values = [info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 3, 7, info.max - 1, info.max]
    return sorted({value for value in values if value >= info.min})


def _pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    values = _specials(dtype)
    pairs = [(a, b) for a in values for b in values]
    pairs += [(5, 3)] * (256 - len(pairs))
    a, b = torch.tensor(pairs, dtype=dtype).T.contiguous()
    return a, b


def _expected_division(a: int, b: int, dtype: torch.dtype) -> tuple[int, int]:
    """C's division toward zero; INT_MIN / -1 is INT_MIN; by 0 what the vendor's templates give, see llvm_ir._divide."""
    info = torch.iinfo(dtype)
    if b == 0 and info.bits == 64:
        return 0, -1
    if b == 0:
        infinity = 2**31 - 1 if a > 0 else -(2**31) if a < 0 else 0
        span = info.max - info.min + 1
        return (infinity - info.min) % span + info.min, -1 if dtype.is_signed else info.max
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    remainder = a - quotient * b
    return (quotient - info.min) % (info.max - info.min + 1) + info.min, remainder


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_never_traps(dtype: torch.dtype) -> None:
    a, b = _pairs(dtype)
    quotient, remainder = torch.empty_like(a), torch.empty_like(a)
    kernels.divide[(1,)](a, b, quotient, remainder, BLOCK=256)
    expected = [_expected_division(x, y, dtype) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert quotient.tolist() == [q for q, _ in expected]
    assert remainder.tolist() == [r for _, r in expected]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("x", "y"), [(7, 0), (0, 0), ("min", -1), ("min", 0), (-7, 2)])
def test_scalar_division_never_traps(dtype: torch.dtype, x: int | str, y: int) -> None:
    x = torch.iinfo(dtype).min if x == "min" else int(x)
    out = torch.empty(2, dtype=dtype)
    kernels.divide_scalar[(1,)](torch.tensor([x], dtype=dtype), torch.tensor([y], dtype=dtype), out)
    assert tuple(out.tolist()) == _expected_division(x, y, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_beyond(dtype: torch.dtype) -> None:
    bits = torch.iinfo(dtype).bits
    amounts = [0, 1, bits - 1, bits, bits + 1, 2 * bits, torch.iinfo(dtype).max]
    if dtype.is_signed:
        amounts += [-1, torch.iinfo(dtype).min]  # an amount is read as unsigned: far beyond the width
    pairs = [(a, b) for a in _specials(dtype) for b in amounts]
    pairs += [(1, 1)] * (128 - len(pairs))
    a, b = torch.tensor(pairs, dtype=dtype).T.contiguous()
    left, right = torch.empty_like(a), torch.empty_like(a)
    kernels.shift[(1,)](a, b, left, right, BLOCK=128)
    info = torch.iinfo(dtype)
    span = info.max - info.min + 1
    for x, y, got_left, got_right in zip(a.tolist(), b.tolist(), left.tolist(), right.tolist(), strict=True):
        amount = y % span
        assert got_left == ((x << amount) - info.min) % span + info.min if amount < bits else got_left == 0, (x, y)
        assert got_right == x >> min(amount, bits), (x, y)


@pytest.mark.filterwarnings("ignore:Value .* exceeds the maximum bitwidth:UserWarning")
@pytest.mark.parametrize("by", [31, 32, 40])
def test_shift_by_a_constant(by: int) -> None:
    x = torch.tensor(_specials(torch.int32) + [5] * 4, dtype=torch.int32)[:16].repeat(2)[:16].contiguous()
    left, right = torch.empty_like(x), torch.empty_like(x)
    kernels.shift_constant[(1,)](x, left, right, BLOCK=16, BY=by)
    for value, got_left, got_right in zip(x.tolist(), left.tolist(), right.tolist(), strict=True):
        assert got_left == (-(2**31) if value % 2 and by == 31 else 0)
        assert got_right == (-1 if value < 0 else value >> by)


def _edges(source: torch.dtype, target: torch.dtype) -> torch.Tensor:
    info = torch.iinfo(target)
    edges = [0.0, -0.0, 0.5, -0.9, 1.5, -1.5, 100.7, -100.7, float("inf"), -float("inf"), float("nan"), 1e38, -1e38]
    edges += [300.0, -300.0, 40000.0, -40000.0, 70000.0, 3e9, -3e9]
    for bound in (info.min, info.max, info.max + 1):
        exact = torch.tensor(float(bound), dtype=torch.float64).to(source)
        edges += [float(exact), float(torch.nextafter(exact, torch.tensor(0, dtype=source)))]
    return torch.tensor(edges + [1.0] * (32 - len(edges)), dtype=torch.float64).to(source)


def _saturated(value: float, target: torch.dtype) -> int:
    info = torch.iinfo(target)
    if np.isnan(value):
        return 0
    if np.isinf(value):
        return info.max if value > 0 else info.min
    return min(max(int(value), info.min), info.max)


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("target", [torch.int32, torch.int64])
def test_float_to_int_saturates_and_nan_is_zero(source: torch.dtype, target: torch.dtype) -> None:
    x = _edges(source, target)
    out = torch.empty(32, dtype=target)
    kernels.cast[(1,)](x, out, BLOCK=32)
    assert out.tolist() == [_saturated(value, target) for value in x.double().tolist()]


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("target", [torch.int8, torch.uint8, torch.int16])
def test_float_to_a_narrow_int_keeps_the_low_bits_of_32(source: torch.dtype, target: torch.dtype) -> None:
    x = _edges(source, target)
    out = torch.empty(32, dtype=target)
    kernels.cast[(1,)](x, out, BLOCK=32)
    wide = torch.tensor([_saturated(value, torch.int32) for value in x.double().tolist()], dtype=torch.int32)
    assert torch.equal(out, wide.to(target))


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("target", INTEGERS)
def test_a_saturating_cast_of_floats(source: torch.dtype, target: torch.dtype) -> None:
    x = _edges(source, target)
    out = torch.empty(32, dtype=target)
    kernels.cast_saturating[(1,)](x, out, BLOCK=32)
    assert out.tolist() == [_saturated(value, target) for value in x.double().tolist()]


@pytest.mark.parametrize("source", [torch.int64, torch.int32, torch.int16])
def test_a_saturating_cast_of_integers(source: torch.dtype) -> None:
    x = torch.tensor((_specials(source) * 3)[:32], dtype=source)
    out = torch.empty(32, dtype=torch.int8)
    kernels.cast_saturating[(1,)](x, out, BLOCK=32)
    assert out.tolist() == [min(max(value, -128), 127) for value in x.tolist()]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float32])
def test_int_to_float_goes_by_way_of_float32(source: torch.dtype, target: torch.dtype) -> None:
    values = _specials(source) + [
        value for value in (2049, 4097, 32767, 65519, 65520) if value <= torch.iinfo(source).max
    ]
    x = torch.tensor((values * 8)[:32], dtype=source)
    out = torch.empty(32, dtype=target)
    kernels.cast[(1,)](x, out, BLOCK=32)
    expected = x.to(torch.float32).to(target)
    assert out.view(torch.uint8).tolist() == expected.view(torch.uint8).tolist()


@pytest.mark.parametrize("source", [torch.int64, torch.int32, torch.int16])
def test_narrowing_an_integer_keeps_the_low_bits(source: torch.dtype) -> None:
    x = torch.tensor((_specials(source) * 3)[:32], dtype=source)
    out = torch.empty(32, dtype=torch.int8)
    kernels.cast[(1,)](x, out, BLOCK=32)
    assert torch.equal(out, x.to(torch.int8))
