"""gcd of one tile for float32 and bfloat16, in float32.

NaN and Inf cost finite tiles nothing. Below 2^23 they need no care at all: the first step turns them into NaN, and so
does `finish`. A tile maximum may or may not show a NaN (hardware documents neither), so nothing here depends on it:
comparisons are written so that a NaN maximum takes the general branch, and the general branch keeps a NaN that the
maximum hid.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .gcd_steps import finish, pairs_to_one, step_f32
from .intrinsics import round_to_integer

_TWO_64 = tl.constexpr(18446744073709551616.0)


@triton.jit
def magnitude(x):
    """The truncated magnitude, an integer."""
    return tl.floor(tl.abs(x))


@triton.jit
def gcd_below_2_23(a, b, top):
    """Integers up to 2^23 held in float32, `top` being the largest -> gcd.

    At most 9 pairs: 2^23 < 2 P(19) = 13250218.
    """
    for _pair in range(pairs_to_one(top)):
        a = step_f32(a, b)
        b = step_f32(b, a)
    return finish(a, b)


@triton.jit
def _odd_and_power(x):
    """An integer x >= 1 as odd * power of two, by bits, exact whatever the division does.

    For Inf and NaN the power is Inf and the odd part Inf or NaN; for 0 both are meaningless and selected away.
    """
    bits = x.to(tl.int32, bitcast=True)
    # The lowest set bit of the 24-bit significand: exponent and sign bits are set to ones, so that -t isolates it.
    t = bits | -8388608
    lowest = (t & (t * -1)).to(tl.float32)
    # 2^(e - 23), the weight of the significand's last bit; Inf for a biased exponent of 255.
    unit = (bits & 0x7F800000).to(tl.float32, bitcast=True) * 1.1920928955078125e-07
    power = lowest * unit
    # 1 / power by negating the exponent: exact for powers up to 2^126; 2^127 gives 0, but from 2^64 on x is saturated.
    inverse = ((power.to(tl.int32, bitcast=True) * -1) + 0x7F000000).to(tl.float32, bitcast=True)
    return x * inverse, power


@triton.jit
def _factor(w, P: tl.constexpr):
    """P where the prime P divides the integer w < 2^24, else 1."""
    r = tl.abs(w - round_to_integer(w * (1.0 / P)) * P)
    return P - tl.minimum(r, 1.0, propagate_nan=tl.PropagateNan.ALL) * (P - 1.0)


@triton.jit
def gcd_any_magnitude(x, y, saturated, BFLOAT16: tl.constexpr):
    """Integers of any magnitude held in float32 -> gcd, magnitudes saturating at 2^64 - 1.

    saturated: whether a value of the tile is 2^64 or more, or a NaN was seen.

    Both odd parts have 24 bits (8 for bfloat16). gcd(odd, odd') = gcd(min, |odd - odd'| / 2), because the difference is
    even and the gcd is odd; this keeps |q * b| <= 2^24 in every step. 18 steps: the smaller of the two is below 2^23 <
    2 P(19). bfloat16: 6 steps, 128 < 2 P(7) = 338.
    """
    ox, px = _odd_and_power(x)
    oy, py = _odd_and_power(y)
    a = tl.minimum(ox, oy, propagate_nan=tl.PropagateNan.ALL)
    b = tl.abs(ox - oy) * 0.5
    if BFLOAT16:
        for _pair in tl.static_range(3):
            a = step_f32(a, b)
            b = step_f32(b, a)
    else:
        for _pair in range(9):
            a = step_f32(a, b)
            b = step_f32(b, a)
    g = finish(a, b) * tl.minimum(px, py, propagate_nan=tl.PropagateNan.ALL)
    if saturated > 0:
        g = _saturated(x, y, ox, oy, g, BFLOAT16)
    g = tl.where(x == 0.0, y, g)
    g = tl.where(y == 0.0, x, g)
    if saturated > 0:
        g = tl.where(g >= _TWO_64, _TWO_64, g)
        # Inf - Inf and NaN - NaN are NaN: restores what gcd(Inf, 0) and the clamp lost. Only tiles from 2^64 on come
        # here.
        g += (x - x) + (y - y)
    return g


@triton.jit
def _saturated(x, y, ox, oy, g, BFLOAT16: tl.constexpr):
    """Replaces g where a side is 2^64 or more, that is U = 2^64 - 1 = 3 * 5 * 17 * 257 * 641 * 65537 * 6700417.

    U is squarefree and odd: gcd(U, w) is the product of those primes that divide w's odd part. A bfloat16 odd part is
    below 256: only 3, 5 and 17 can. Both saturated: U, which float32 rounds to 2^64.
    """
    sx = x >= _TWO_64
    sy = y >= _TWO_64
    w = tl.where(sx, oy, ox)
    # The prime 3 without a minimum, so that a NaN of w stays one: r is 0, 1 or 2, and 3 - r * (3 - r) is 3, 1 or 1.
    r = tl.abs(w - round_to_integer(w * (1.0 / 3.0)) * 3.0)
    h = 3.0 - r * (3.0 - r)
    h = h * _factor(w, 5.0) * _factor(w, 17.0)
    if not BFLOAT16:
        h = h * _factor(w, 257.0) * _factor(w, 641.0) * _factor(w, 65537.0) * _factor(w, 6700417.0)
    return tl.where(sx, tl.where(sy, _TWO_64, h), tl.where(sy, h, g))
