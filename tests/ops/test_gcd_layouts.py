"""Layouts: broadcast in every position, strides on every operand and on out, guard zones, aliases, many dims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import ops
from ops.reference import gcd_reference
from tests.ops.gcd_asserts import assert_gcd, assert_same
from tests.ops.gcd_inputs import DTYPES, random_pairs

GUARD = 77


def name(value: object) -> str:
    return str(value).removeprefix("torch.")


def filled(shape: tuple[int, ...], dtype: torch.dtype, number: int) -> torch.Tensor:
    return random_pairs(dtype, math.prod(shape), number)[0].reshape(shape)


def check(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """ops.gcd of both into a fresh tensor and into one inside a guard zone."""
    before = a.clone(), b.clone()
    actual = ops.gcd(a, b)
    assert_gcd(actual, a, b)
    zone = torch.full((actual.numel() + 2 * GUARD,), 42, dtype=actual.dtype)
    inside = zone[GUARD : GUARD + actual.numel()].view(actual.shape)
    ops.gcd(a, b, out=inside)
    assert_gcd(inside, a, b)
    assert (zone[:GUARD] == 42).all()
    assert (zone[-GUARD:] == 42).all()
    assert_same(a, before[0])
    assert_same(b, before[1])
    return actual


@pytest.mark.parametrize("mask", list(itertools.product((0, 1), repeat=6)), ids=lambda m: "".join(map(str, m)))
def test_broadcast_in_every_position(mask: tuple[int, ...]) -> None:
    """(5, 40, 70) with any dims of either operand of size 1."""
    shape = (5, 40, 70)
    sizes = [tuple(1 if one else n for one, n in zip(mask[at : at + 3], shape, strict=True)) for at in (0, 3)]
    actual = check(filled(sizes[0], torch.int32, 1), filled(sizes[1], torch.int32, 2))
    assert actual.shape == torch.broadcast_shapes(*sizes)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize(
    "kinds", ["matrix-row", "matrix-column", "matrix-scalar", "row-column", "line-scalar", "matrix-matrix"]
)
def test_every_layout_of_every_dtype(dtype: torch.dtype, kinds: str) -> None:
    wide = filled((37, 400), dtype, 1)
    a, b = {
        "matrix-row": (wide[:, :300], filled((300,), dtype, 2)),
        "matrix-column": (wide[:, :300], filled((37, 1), dtype, 2)),
        "matrix-scalar": (wide[:, :300], filled((1, 1), dtype, 2)),
        "row-column": (filled((300,), dtype, 1), filled((37, 1), dtype, 2)),
        "line-scalar": (wide, filled((1,), dtype, 2)),
        "matrix-matrix": (wide[:, :300], filled((37, 500), dtype, 2)[:, 100:400]),
    }[kinds]
    plan = ops.plan_gcd(a, b)
    assert f"{plan.arrangement.self}-{plan.arrangement.other}" == kinds
    assert not plan.copied
    check(a, b)
    check(b, a)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_scattered_out(dtype: torch.dtype) -> None:
    """Elements of out apart from each other: written one by one, and nothing between."""
    a, b = filled((23, 50), dtype, 1), filled((23, 50), dtype, 2)
    for zone, view in (
        (torch.full((23, 150), 42, dtype=dtype), lambda z: z[:, 1::3]),
        (torch.full((50, 23, 2), 42, dtype=dtype), lambda z: z[:, :, 1].T),
        (torch.full((50, 40), 42, dtype=dtype), lambda z: z[:, 5:28].T),
    ):
        out = view(zone)
        stride = out.stride()
        assert ops.gcd(a, b, out=out) is out
        assert out.stride() == stride
        assert_gcd(out, a, b)
        out.fill_(42)
        assert (zone == 42).all()


def test_out_rows_apart() -> None:
    a, b = filled((30, 100), torch.int16, 1), filled((100,), torch.int16, 2)
    zone = torch.full((30, 128), 42, dtype=torch.int16)
    out = zone[:, 14:114]
    assert ops.plan_gcd(a, b, out).arrangement.out == "matrix"
    ops.gcd(a, b, out=out)
    assert_gcd(out, a, b)
    assert (zone[:, :14] == 42).all()
    assert (zone[:, 114:] == 42).all()


def strided() -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    x, y = filled((12, 18, 20), torch.int32, 1), filled((12, 18, 20), torch.int32, 2)
    yield "every other row", x[::2], y[1::2]
    yield "every other column", x[:, :, ::2], y[:, :, 1::2]
    yield "permuted alike", x.permute(2, 0, 1), y.permute(2, 0, 1)
    yield "one permuted", x.permute(2, 1, 0), y.reshape(20, 18, 12)
    yield "both permuted, differently", x.reshape(12, 12, 30).permute(1, 0, 2), y.reshape(12, 30, 12).permute(0, 2, 1)
    yield "expanded along the same dims", x[:, :1, :1].expand(12, 18, 20), y[:1, :1, :1].expand(12, 18, 20)
    yield "expanded along everything", x[0, 0, 0].expand(18, 20), y[0, 0, 0].expand(18, 20)
    yield "a column apart", x[:, :, 3:4], y
    yield "an outer product of columns", x[:, 0, :1], y[0, :, 5]
    yield "channels last", *(t.reshape(2, 6, 18, 20).to(memory_format=torch.channels_last) for t in (x, y))
    yield "windows", x.flatten().as_strided((100, 8), (3, 1)), y.flatten().as_strided((100, 8), (1, 7))
    yield "an offset", x.flatten()[7:1007], y.flatten()[1:1001]
    odd = x.flatten().as_strided((1, 90, 1, 7), (999, 7, 5, 1))
    yield "size-1 dims with odd strides", odd, y.flatten()[:630].view(1, 90, 1, 7)


@pytest.mark.parametrize(("a", "b"), [pytest.param(a, b, id=title) for title, a, b in strided()])
def test_strided_operands(a: torch.Tensor, b: torch.Tensor) -> None:
    check(a, b)
    check(b, a)


def test_the_result_keeps_the_order_of_operands_that_share_one() -> None:
    x, y = filled((2, 3, 4, 5), torch.int32, 1), filled((2, 3, 4, 5), torch.int32, 2)
    for order in (torch.contiguous_format, torch.channels_last):
        a, b = x.to(memory_format=order), y.to(memory_format=order)
        assert ops.gcd(a, b).stride() == torch.gcd(a, b).stride() == a.stride()
        assert ops.plan_gcd(a, b).kernel == "gcd_linear"


@pytest.mark.parametrize("rank", [9, 12, 25])
def test_many_dims(rank: int) -> None:
    shape = (2,) * min(rank, 10) + (1,) * (rank - 10)
    x = filled(shape, torch.int32, 1)
    y = filled(tuple(n if at % 2 else 1 for at, n in enumerate(shape)), torch.int32, 2)
    check(x, y)
    assert ops.plan_gcd(x, y).arrangement.host_dims


def test_rank_65() -> None:
    x = filled((3, 5), torch.int32, 1).reshape((1,) * 40 + (3,) + (1,) * 23 + (5,))
    assert ops.gcd(x, x[..., :1]).shape == x.shape
    assert_same(ops.gcd(x, x[..., :1]), torch.gcd(x, x[..., :1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_in_place_and_out_as_an_operand(dtype: torch.dtype) -> None:
    """An operand may be out, also where a second loop reads tiles again that the first has written."""
    size = 40000
    a, b = filled((size,), dtype, 1), filled((size,), dtype, 2)
    a[:20000] = a[:20000] % 100 if not dtype.is_floating_point else a[:20000].clamp(-100, 100).nan_to_num()
    b[:20000] = b[:20000] % 100 if not dtype.is_floating_point else b[:20000].clamp(-100, 100).nan_to_num()
    expected = gcd_reference(a, b)
    x = a.clone()
    assert ops.gcd_(x, b) is x
    assert_same(x, expected, a, b)
    x = b.clone()
    assert ops.gcd(a, x, out=x) is x
    assert_same(x, expected, a, b)
    x = a.clone()
    ops.gcd(x, x, out=x)
    assert_same(x, gcd_reference(a, a), a)


def test_out_that_shares_memory_in_other_ways_is_written_last() -> None:
    """Views with holes and expanded operands, which torch does not look into: as if all had been read first."""
    holes = torch.arange(1, 41)
    want = torch.gcd(holes[0:30:2].clone(), holes[1:31:2].clone())
    ops.gcd(holes[0:30:2], holes[1:31:2], out=holes[2:32:2])
    assert torch.equal(holes[2:32:2], want)
    square = torch.randint(1, 1000, (6, 6))
    want = torch.gcd(square.clone(), square[2:3].clone())
    ops.gcd(square, square[2:3].expand(6, 6), out=square)
    assert torch.equal(square, want)


def test_out_of_another_dtype_over_an_operand() -> None:
    x = torch.randint(-(2**15), 2**15, (30000,), dtype=torch.int16)
    y = torch.randint(-100, 100, (30000,), dtype=torch.int16).to(torch.bfloat16)
    want = gcd_reference(x, y, torch.int16)
    out = y.view(torch.int16)
    ops.gcd(x, y, out=out)
    assert_same(out, want)


def test_a_float_result_over_its_operand_is_stored_modulo_2_to_the_n() -> None:
    x = torch.tensor([1e10, 300.0, float("nan"), -7.0, float("inf"), 2.0**40, 2.0**31, 2.0**64])
    want = gcd_reference(x, torch.zeros(8), torch.int32)
    assert want.tolist() == [10**10 - 2**33, 300, 0, 7, 0, 0, -(2**31), 0]
    out = x.view(torch.int32)
    assert ops.gcd(x, torch.zeros(8), out=out) is out
    assert_same(out, want)
    wide = torch.tensor([3e4, 300.0, float("nan"), -7.0]).repeat(2)
    out = wide.view(torch.int32)[::2]
    ops.gcd(wide[:4], torch.zeros(4), out=out)
    assert out.tolist() == [30000, 300, 0, 7]


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32], ids=str)
def test_negative_views(dtype: torch.dtype) -> None:
    x = torch.arange(-12, 12).to(dtype)
    y = torch.tensor([6, 9, 12, 15, 0, 21, 4, 4]).to(dtype)
    want = gcd_reference(-x[1::3], y)
    view = torch._neg_view(x)[1::3]
    assert_same(ops.gcd(view, y), want)
    assert_same(ops.gcd(x[1::3], y), want)
    assert_same(ops.gcd(y, view), want)
    assert_same(ops.gcd(view, view), gcd_reference(x[1::3], x[1::3]))
    out = torch._neg_view(torch.zeros(8, dtype=dtype))
    assert ops.gcd(x[1::3], y, out=out) is out
    assert out.is_neg()
    assert_same(out.resolve_neg(), want)
    assert ops.gcd_(view, y) is view
    assert_same(view.resolve_neg(), want)
    assert_same(-x[1::3], want)
    assert x[0] == -12
    assert x[2] == -10


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (0, 5)])
def test_empty_after_a_call_that_was_not(shape: tuple[int, ...]) -> None:
    assert ops.gcd(torch.tensor([4]), torch.tensor([6])).tolist() == [2]
    x = torch.empty(shape, dtype=torch.int32)
    assert ops.gcd(x, x).shape == shape
    assert ops.gcd(x, torch.tensor(3, dtype=torch.int32)).shape == shape
    out = torch.empty(7, dtype=torch.int32)[:0]
    assert ops.gcd(x, x, out=out) is out
    assert out.shape == shape


def test_an_empty_expanded_out_is_accepted() -> None:
    x = torch.empty(4, 0, dtype=torch.int32)
    out = torch.empty(1, 0, dtype=torch.int32).expand(4, 0)
    assert ops.gcd(x, x, out=out) is out
    with pytest.raises(ValueError, match="needs no plan"):
        ops.plan_gcd(x, x)


def test_0d() -> None:
    a, b = torch.tensor(12, dtype=torch.int8), torch.tensor(18, dtype=torch.int8)
    assert ops.gcd(a, b).shape == ()
    assert ops.gcd(a, b).item() == 6
    assert ops.gcd_(a, b).item() == 6


@seed(20)
@settings(max_examples=60, deadline=None, print_blob=True)
@given(data=st.data())
def test_fuzz(data: st.DataObject) -> None:
    """Random shapes, permutations, steps, broadcasts and outs of int32."""
    rank = data.draw(st.integers(1, 5))
    shape = tuple(data.draw(st.integers(1, 9)) for _ in range(rank))

    def view(number: int) -> torch.Tensor:
        order = data.draw(st.permutations(range(rank)))
        steps = [data.draw(st.sampled_from((1, 1, 2, 3))) for _ in range(rank)]
        repeated = (
            [data.draw(st.sampled_from((False, False, True))) for _ in range(rank)] if number < 3 else [False] * rank
        )
        sizes = [1 if one else n for n, one in zip(shape, repeated, strict=True)]
        base = filled(tuple(sizes[d] * steps[d] for d in order), torch.int32, number)
        back = sorted(range(rank), key=lambda d: order[d])
        cut = base.permute(back)[tuple(slice(None, None, step) for step in steps)]
        return cut.expand(shape) if data.draw(st.booleans()) else cut

    a, b, out = view(1), view(2), view(3)
    full = torch.broadcast_shapes(a.shape, b.shape)
    assert_gcd(ops.gcd(a, b), a, b)
    if full == out.shape:
        ops.gcd(a, b, out=out)
        assert_gcd(out, a, b)


def test_a_repeated_call_looks_at_its_memory_again() -> None:
    """The description of a call is remembered, where its tensors lie is not."""
    base = torch.arange(1, 61, dtype=torch.int32)
    a, b = base[0:10], base[20:30]
    want = torch.gcd(a, b)
    for _ in range(2):
        ops.gcd(a, b, out=base[40:50])
        assert torch.equal(base[40:50], want)
    kept = base.clone()
    with pytest.raises(RuntimeError, match="single memory location"):
        ops.gcd(a, b, out=base[5:15])
    assert torch.equal(base, kept)
    ops.gcd(a, b, out=b)
    assert torch.equal(b, want)
    ops.gcd_(a, b)
    assert torch.equal(a, torch.gcd(kept[0:10], want))
