"""Promotion of every ordered pair of dtypes, with tensors and 0-d operands, and every dtype of out."""

from __future__ import annotations

import itertools

import pytest
import torch

import ops
from ops.reference import gcd_reference
from tests.ops.gcd_asserts import assert_gcd, assert_same
from tests.ops.gcd_inputs import DTYPES, FLOATS, INTEGERS, random_pairs

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
PAIRS = list(itertools.product(DTYPES, DTYPES))
COUNT = 700


def name(value: object) -> str:
    return str(value).removeprefix("torch.")


def operand(dtype: torch.dtype, seed: int) -> torch.Tensor:
    values = random_pairs(dtype, COUNT, seed)[0]
    if dtype.is_floating_point:
        limits = [torch.finfo(dtype).max, -torch.finfo(dtype).max, float("nan"), float("inf"), 0.75, -6.0]
    else:
        limits = [torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1, 6, 100]
    values[: len(limits)] = torch.tensor(limits, dtype=dtype)
    return values


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=name)
def test_tensors_of_any_two_dtypes(first: torch.dtype, second: torch.dtype) -> None:
    a, b = operand(first, 1), operand(second, 2).flip(0)
    actual = ops.gcd(a, b)
    assert actual.dtype == torch.result_type(a, b)
    assert_gcd(actual, a, b)


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=name)
def test_0d_operands(first: torch.dtype, second: torch.dtype) -> None:
    """A 0-d operand does not raise the dtype within its category, and is cast to the result type before the gcd."""
    a, zero_d = operand(first, 1), operand(second, 2)
    for value in (*zero_d[:6], zero_d[11]):
        for x, y in ((a, value), (value, a)):
            actual = ops.gcd(x, y)
            assert actual.dtype == torch.result_type(x, y)
            assert_gcd(actual, x, y)
    for x, y in ((a[0], zero_d[4]), (a[5], zero_d[5]), (a[9], zero_d[20])):
        actual = ops.gcd(x, y)
        assert actual.dtype == torch.result_type(x, y)
        assert actual.shape == ()
        assert_gcd(actual, x, y)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_bool_beside_another_dtype(dtype: torch.dtype) -> None:
    flags = torch.arange(COUNT) % 3 == 0
    for a, b in ((operand(dtype, 1), flags), (flags, operand(dtype, 1)), (flags, operand(dtype, 1)[5])):
        actual = ops.gcd(a, b)
        assert actual.dtype == torch.result_type(a, b)
        assert_gcd(actual, a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_bool_bytes_other_than_0_and_1_are_1(dtype: torch.dtype) -> None:
    flags = torch.tensor([0, 1, 2, 255, 128, 127, 0, 64], dtype=torch.uint8).view(torch.bool)
    x = torch.tensor([0, 0, 0, 0, 5, 6, 7, 0]).to(dtype)
    want = torch.tensor([0, 1, 1, 1, 1, 1, 7, 1]).to(dtype)
    assert_same(ops.gcd(flags, x), want)
    assert_same(ops.gcd(x, flags), want)
    assert_same(ops.gcd(x, flags[3]), torch.ones_like(x))
    assert_same(ops.gcd(flags[3:4], x), torch.ones_like(x))


@pytest.mark.parametrize(
    ("zero_d", "dtype"),
    [
        (torch.tensor(60_000, dtype=torch.uint16), torch.int32),
        (torch.tensor(4_000_000_000, dtype=torch.uint32), torch.int64),
        (torch.tensor(4_000_000_000, dtype=torch.uint32), torch.int8),
        (torch.tensor(2**64 - 6, dtype=torch.uint64), torch.int32),
        (torch.tensor(2.0**40 + 6, dtype=torch.float64), torch.float32),
        (torch.tensor(6.5, dtype=torch.float64), torch.bfloat16),
    ],
    ids=str,
)
def test_0d_operands_no_kernel_loads_take_the_dtype_computed_in(zero_d: torch.Tensor, dtype: torch.dtype) -> None:
    x = torch.tensor([100, 96, 0, -36]).to(dtype)
    for actual in (ops.gcd(x, zero_d), ops.gcd(zero_d, x)):
        assert actual.dtype == dtype
        assert_gcd(actual, x, zero_d)


def test_a_wider_0d_operand_beside_an_expanded_tensor_wraps_first() -> None:
    column = torch.tensor([[30], [44], [88]], dtype=torch.int8)
    want = torch.tensor([[2], [44], [44]], dtype=torch.int8)  # 300 is 44 in int8
    for x in (column, column.expand(3, 4), column.expand(5, 3, 4), column.t().expand(4, 3)):
        result = want.t() if x.shape == (4, 3) else want
        assert_same(ops.gcd(torch.tensor(300), x), result.broadcast_to(x.shape))
        assert_same(ops.gcd(x, torch.tensor(300)), result.broadcast_to(x.shape))


@pytest.mark.parametrize("stored", [*DTYPES, *UNSIGNED], ids=name)
@pytest.mark.parametrize("compute", DTYPES, ids=name)
def test_every_dtype_of_out(compute: torch.dtype, stored: torch.dtype) -> None:
    a, b = operand(compute, 1), operand(compute, 2)
    b[:6] = a[:6]  # the gcd of a limit with itself is the limit
    out = torch.empty(COUNT, dtype=stored)
    assert ops.gcd(a, b, out=out) is out
    assert ops.plan_gcd(a, b, out).temporary is None
    assert_same(out, gcd_reference(a, b, stored), a, b)


@pytest.mark.parametrize("stored", [*INTEGERS, *UNSIGNED], ids=name)
@pytest.mark.parametrize("compute", FLOATS, ids=name)
def test_floats_are_stored_modulo_2_to_the_n_and_nan_as_0(compute: torch.dtype, stored: torch.dtype) -> None:
    top = 16 if compute == torch.float16 else 66
    powers = torch.tensor([2.0**power for power in range(top)] + [3 * 2.0**power for power in range(top - 2)])
    values = torch.cat([powers.double(), torch.tensor([float("nan"), float("inf"), 255.0, 128.0, 384.0, 640.0])])
    values = values.to(compute)
    out = torch.empty(len(values), dtype=stored)
    ops.gcd(values, values, out=out)
    bits = 8 * stored.itemsize
    for value, got in zip(values.tolist(), out.to(torch.int64).tolist(), strict=True):
        want = int(value) if 0 <= value < 2.0**64 else 0
        assert (got - want) % 2**bits == 0


@pytest.mark.parametrize("stored", [torch.float64, torch.complex64, torch.complex128], ids=name)
@pytest.mark.parametrize("compute", [torch.int8, torch.int64, torch.float32], ids=name)
def test_other_dtypes_of_out_cost_one_temporary(compute: torch.dtype, stored: torch.dtype) -> None:
    a, b = operand(compute, 1)[6:], operand(compute, 2)[6:]
    out = torch.empty(len(a), 2, dtype=stored)[:, 0]
    plan = ops.plan_gcd(a, b, out)
    assert plan.temporary == name(compute)
    assert "temporary" in repr(plan)
    assert_same(ops.gcd(a, b, out=out), gcd_reference(a, b, stored), a, b)


@pytest.mark.parametrize(
    ("first", "second", "stored"),
    [
        (torch.uint8, torch.bfloat16, torch.uint8),
        (torch.int8, torch.float32, torch.int8),
        (torch.int16, torch.float16, torch.int16),
    ],
    ids=name,
)
def test_documented_fused_signatures(first: torch.dtype, second: torch.dtype, stored: torch.dtype) -> None:
    a, b = operand(first, 1), operand(second, 2)
    for x, y in ((a, b), (b, a)):
        plan = ops.plan_gcd(x, y, torch.empty(COUNT, dtype=stored))
        assert (plan.temporary, plan.copied, plan.kernel) == (None, (), "gcd_linear")
        out = torch.empty(COUNT, dtype=stored)
        ops.gcd(x, y, out=out)
        assert_same(out, gcd_reference(x, y, stored), x, y)


def test_one_order_of_two_dtypes_is_compiled() -> None:
    a, b = operand(torch.int32, 1), operand(torch.int8, 2)
    first, second = ops.plan_gcd(a, b), ops.plan_gcd(b, a)
    assert first.constexprs == second.constexprs
    assert (first.swapped, second.swapped) == (False, True)
