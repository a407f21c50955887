"""Operand pairs for gcd: random over all bit lengths, and the sets on which such kernels fail first."""

from __future__ import annotations

import numpy as np
import torch

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
DTYPES = INTEGERS + FLOATS

# 2^64 - 1, the saturated magnitude, is the product of these.
FACTORS = (3, 5, 17, 257, 641, 65537, 6700417)

Pair = tuple[torch.Tensor, torch.Tensor]


def random_pairs(dtype: torch.dtype, count: int, seed: int) -> Pair:
    """Both signs, magnitudes of every bit length; for floats up to 2^72 (all of float16), some with fractions."""
    rng = np.random.default_rng(seed)
    return _random(dtype, count, rng), _random(dtype, count, rng)


def _random(dtype: torch.dtype, count: int, rng: np.random.Generator) -> torch.Tensor:
    if dtype.is_floating_point:
        top = 15 if dtype == torch.float16 else 72
        significand = 2**11 if dtype == torch.float16 else 2**24
        value = rng.integers(-significand, significand, count, endpoint=True) / significand
        return torch.from_numpy(np.ldexp(value, rng.integers(-2, top, count, endpoint=True))).to(dtype)
    info = torch.iinfo(dtype)
    bits = info.bits if info.min == 0 else info.bits - 1
    length = rng.integers(0, bits, count, endpoint=True)
    raw = rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)
    magnitude = np.where(length == 0, 0, raw >> np.minimum(64 - length, 63).astype(np.uint64)).astype(np.int64)
    signed = magnitude if info.min == 0 else magnitude * rng.choice([-1, 1], count)
    return torch.from_numpy(signed).to(dtype)


def adversarial_integers(dtype: torch.dtype) -> Pair:
    """Chains that take the most steps, half-integer quotients, powers of two and their neighbours, limits."""
    info = torch.iinfo(dtype)
    rng = np.random.default_rng(info.bits)
    low, high = int(info.min), int(info.max)
    pairs: list[tuple[int, int]] = []
    special = {0, 1, 2, 3, low, low + 1, high, high - 1, high // 2, high // 2 + 1}
    for power in range(info.bits):
        special |= {2**power + step for step in (-1, 0, 1)}
    # Fibonacci numbers are the worst case of truncated quotients, Pell numbers of the nearest.
    for step in (1, 2):
        chain = [1, step]
        while chain[-1] <= high:
            chain.append(step * chain[-1] + chain[-2])
        special |= set(chain[-9:])
        for a, b in zip(chain[1:], chain, strict=False):
            # Twice a Pell number and its neighbour: the smallest pair that needs one step more.
            for x, y in ((a, b), (2 * a, b), (2 * a, 2 * b - 1), (2 * a + b, a)):
                pairs += [(x * factor, y * factor) for factor in (1, 2, 3, 7, max(high // max(x, 1), 1))]
    for _ in range(2000):
        q = int(rng.integers(1, 2 ** int(rng.integers(1, info.bits - 1))))
        b = int(rng.integers(1, max(2, high // (q + 1)), dtype=np.int64))
        pairs.append((q * b + b // 2 + int(rng.integers(-1, 2)), b))
        shared = int(rng.integers(1, 2 ** int(rng.integers(1, info.bits - 1))))
        pairs.append(tuple(shared * int(rng.integers(1, high // shared + 1, dtype=np.int64)) for _ in range(2)))  # type: ignore[arg-type]
    chosen = sorted(value for value in special | {-value for value in special} if low <= value <= high)
    if len(chosen) > 240:
        chosen = sorted({*chosen[:60], *chosen[-60:], *rng.choice(np.array(chosen), 120).tolist(), 0, 1, -1})
    pairs += [(a, b) for a in chosen for b in chosen]
    for index, (a, b) in enumerate(pairs):
        a, b = (a, b) if index % 2 else (b, a)
        signs = (1, 1) if low == 0 else (1 - (index // 2) % 2 * 2, 1 - (index // 4) % 2 * 2)
        pairs[index] = (a * signs[0], b * signs[1])
    kept = [(a, b) for a, b in pairs if low <= a <= high and low <= b <= high]
    return tuple(torch.tensor(side, dtype=dtype) for side in zip(*kept, strict=True))  # type: ignore[return-value]


def adversarial_int64() -> Pair:
    """|a| within 2^-k of 2^63 against |b| near 2^22 or 2^43, with a lane in each tile whose quotient is above 2^21.

    Random pairs never come here: a quotient rounded to nearest leaves a remainder of 2^63, which does not fit.
    """
    rng = np.random.default_rng(43)
    first, second = [], []
    for index in range(20000):
        exponent, near = int(rng.choice([21, 22, 23, 42, 43, 44])), int(rng.integers(17, 40))
        a = 2**63 - int(rng.integers(0, 2 ** (63 - near)))
        width = 2 ** max(1, exponent - near)
        b = max(1, 2**exponent + int(rng.integers(-width, width + 1)))
        if index % 3 == 0:
            shared = int(rng.integers(1, 1000))
            a, b = a // shared * shared, max(b // shared * shared, shared)
        if index % 32 == 0:
            a, b = 2**62 + int(rng.integers(0, 2**50)), int(rng.integers(1, 9))
        a, b = min(a, 2**63 - 1) * (-1) ** (index % 2), b * (-1) ** (index // 2 % 2)
        if index % 16 == 5:
            a = -(2**63)
        first.append(a if index % 4 < 2 else b)
        second.append(b if index % 4 < 2 else a)
    first += [2**43 + 1, 2**43 + 1, -(2**63)]
    second += [2**63 - 2, -(2**63), 215]
    return torch.tensor(first), torch.tensor(second)


def adversarial_floats(dtype: torch.dtype) -> Pair:
    """Every pair of:

    signs, fractions, powers of two, limits, 2^23 and 2^24, 2^64 and below, factors of 2^64 - 1, NaN, Inf.
    """
    info = torch.finfo(dtype)
    digits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}[dtype]
    values = [0.0, -0.0, 0.5, 0.999, 1.0, 1.5, -2.0, 3.0, 12.75, float("nan"), float("inf"), float("-inf")]
    values += [info.max, info.min, info.tiny, 2.0**digits - 1, 2.0**digits, 2.0**digits + 2]
    values += [sign * 2.0**power for power in range(0, 16 if dtype == torch.float16 else 70, 3) for sign in (1, -1)]
    product = 1
    for factor in FACTORS:
        values += [float(factor), 2.0 * factor]
        if product * factor < 2**digits:
            product *= factor
            values.append(float(product))
    if dtype != torch.float16:
        values += [
            2.0**64,
            2.0**64 * (1 - 2.0**-digits),
            2.0**63,
            2.0**65,
            2.0**127,
            3 * 2.0**60,
            2.0**31,
            255 * 2.0**50,
        ]
        values += [2.0**23 - 1, 2.0**23, 2.0**23 + 1, 2.0**24 - 1, 2.0**24, 2.0**24 + 2, 15 * 2.0**63]
    side = torch.tensor(values, dtype=torch.float64).to(dtype)
    return side.repeat_interleave(len(side)), side.repeat(len(side))


def adversarial(dtype: torch.dtype) -> Pair:
    """All hand-made pairs of a dtype."""
    if dtype.is_floating_point:
        return adversarial_floats(dtype)
    first, second = adversarial_integers(dtype)
    if dtype != torch.int64:
        return first, second
    more = adversarial_int64()
    return torch.cat([first, more[0]]), torch.cat([second, more[1]])
