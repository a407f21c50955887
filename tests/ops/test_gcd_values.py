"""Exact values: all 8-bit pairs, random pairs of every magnitude, and the pairs made to break the algorithm."""

from __future__ import annotations

import math
import random

import pytest
import torch

import ops
import tiling.gcd
from ops.reference import gcd_reference
from tests.ops.gcd_asserts import assert_gcd, assert_same
from tests.ops.gcd_inputs import DTYPES, FLOATS, adversarial, adversarial_int64, random_pairs
from tiling.gcd_tiles import linear_tiles
from tiling.platform import platform

RANDOM_PAIRS = 1_000_000


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("first", "second"), [(torch.int8, torch.int8), (torch.uint8, torch.uint8), (torch.int8, torch.uint8)]
)
def test_every_pair_of_8_bit_values(first: torch.dtype, second: torch.dtype) -> None:
    values = torch.arange(256).to(torch.uint8)
    a, b = values.repeat_interleave(256).view(first), values.repeat(256).view(second)
    expected = torch.tensor([math.gcd(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    actual = ops.gcd(a, b)
    assert_same(actual, expected.to(torch.result_type(a, b)), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_random_pairs_of_every_bit_length(dtype: torch.dtype) -> None:
    a, b = random_pairs(dtype, RANDOM_PAIRS, seed=20)
    assert_gcd(ops.gcd(a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_adversarial_pairs(dtype: torch.dtype) -> None:
    a, b = adversarial(dtype)
    assert_gcd(ops.gcd(a, b), a, b)
    assert_gcd(ops.gcd(b, a), b, a)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_the_reference_agrees_with_math_gcd(dtype: torch.dtype) -> None:
    a, b = adversarial(dtype)
    picked = torch.linspace(0, len(a) - 1, 3000).long()
    a, b = a[picked], b[picked]

    def whole(x: float) -> int:
        return min(abs(int(x)), 2**64 - 1)

    for x, y, g in zip(a.tolist(), b.tolist(), gcd_reference(a, b).tolist(), strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            assert math.isnan(g)
            continue
        want = math.gcd(whole(x), whole(y))
        if dtype.is_floating_point:
            assert g == float(want)
        else:
            assert (g - want) % 2 ** (8 * dtype.itemsize) == 0


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, *FLOATS], ids=name)
def test_tiles_of_every_magnitude(dtype: torch.dtype) -> None:
    """One tile for each bound 2^k, so that every trip count and branch is taken with its largest values."""
    block = linear_tiles(name(dtype))[-1].cols
    bits = torch.iinfo(dtype).bits - 1 if not dtype.is_floating_point else {torch.float16: 16}.get(dtype, 72)
    generator = torch.Generator().manual_seed(3)
    tiles = []
    for power in range(1, bits + 1):
        fraction = torch.rand(2, block, generator=generator, dtype=torch.float64) * 2 - 1
        tile = (fraction * 2.0**power).trunc()
        # The step bounds are reached by consecutive Pell numbers (P(n+1) = 2 P(n) + P(n-1)).
        pell = [1, 2]
        while pell[-1] * 2 + pell[-2] <= 2**power - 1:
            pell.append(pell[-1] * 2 + pell[-2])
        tile[:, : len(pell) - 1] = torch.tensor([pell[1:], pell[:-1]], dtype=torch.float64)
        tile[0, len(pell)] = 2.0**power - 1 if power < 53 else 2.0**power * (1 - 2.0**-20)
        limit = float(torch.finfo(dtype).max) if dtype.is_floating_point else 2.0**bits * (1 - 2.0**-50)
        tiles.append(tile.clamp(-limit, limit))
    pairs = torch.cat(tiles, dim=1)
    a, b = pairs[0].to(dtype), pairs[1].to(dtype)
    plan = ops.plan_gcd(a, b)
    small = type(plan)(**{**plan.__dict__, "cols": block, "parts": 1, "tiles": bits})
    assert_gcd(ops.gcd(a, b, plan=small), a, b)
    assert_gcd(ops.gcd(a, b), a, b)


def test_int64_corners_beside_small_tiles() -> None:
    """Tiles that fit in 31 bits and tiles that do not, in one program: each takes its own loop."""
    block = linear_tiles("int64")[0].cols
    a, b = adversarial_int64()
    small = torch.randint(-1000, 1000, (2, block), generator=torch.Generator().manual_seed(1))
    parts = []
    for start in range(0, len(a) - block, block):
        parts.append(torch.stack([a[start : start + block], b[start : start + block]]))
        parts.append(small + start)
    pairs = torch.cat(parts, dim=1)
    assert_gcd(ops.gcd(pairs[0], pairs[1]), pairs[0], pairs[1])


@pytest.mark.parametrize("nearly", [False, True], ids=["up to 2^k", "a little below 2^k"])
def test_int64_gcds_as_large_as_their_operands(nearly: bool) -> None:
    """Equal pairs, multiples and large common factors, one tile for each bound 2^k.

    Which phase finds such a gcd, and from which numbers its high word is then made, depends on the tile's maximum.
    """
    block = linear_tiles("int64")[-1].cols
    rng = random.Random(52)
    first, second = [], []
    for power in range(40, 64):
        top = 2**power - (2 ** (power - 11) if nearly else 1)
        pairs = [(top, top), (top, -top), (top, 0), (top // 2, top // 2 * 2), (top // 3 * 3, top // 3)]
        while len(pairs) < block:
            low = 2 ** rng.randrange(power - 6, power)
            shared = min(rng.choice([low, low + 1, rng.randrange(low, 2 * low), 2 * low - 1]), top)
            times = [rng.randint(1, top // shared) for _ in range(2)]
            times = rng.choice([(1, 1), (1, times[0]), (times[1], 1), times])
            pairs.append((shared * times[0] * rng.choice([1, -1]), shared * times[1] * rng.choice([1, -1])))
        first += [a for a, _ in pairs]
        second += [b for _, b in pairs]
    a, b = torch.tensor(first), torch.tensor(second)
    chosen = ops.plan_gcd(a, b)
    small = tiling.gcd.plan(chosen.problem, platform(), rows=1, cols=block, parts=1)
    expected = torch.tensor([math.gcd(x, y) for x, y in zip(first, second, strict=True)])
    assert_same(ops.gcd(a, b, plan=small), expected, a, b)
    assert_same(ops.gcd(a, b), expected, a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("top", [100.0, 2.0**15, 2.0**40, 2.0**66])
def test_nan_and_inf_anywhere_in_a_tile(dtype: torch.dtype, bad: float, top: float) -> None:
    if dtype == torch.float16 and top > 2.0**15:
        top = 60000.0
    generator = torch.Generator().manual_seed(5)
    a = ((torch.rand(9000, generator=generator, dtype=torch.float64) - 0.5) * top).to(dtype)
    b = ((torch.rand(9000, generator=generator, dtype=torch.float64) - 0.5) * top).to(dtype)
    a[::97] = 0
    for operand, start in ((a, 0), (b, 1), (a, 4000), (b, 8999)):
        operand[start] = bad
    b[97], a[194] = bad, bad
    b[194] = 0
    if top > 2.0**64:
        b[200], a[200] = bad, top
    assert_gcd(ops.gcd(a, b), a, b)


def test_nan_made_by_promotion() -> None:
    big = torch.tensor([2**40, 6, -(2**62)])
    half = torch.tensor([4.0, 4.0, 0.0], dtype=torch.float16)
    actual = ops.gcd(big, half)  # 2^40 is Inf in float16
    assert actual.dtype == torch.float16
    assert actual.isnan().tolist() == [True, False, True]
    assert actual[1] == 2
