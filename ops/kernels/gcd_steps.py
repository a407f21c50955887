"""One step of the signed least-absolute-remainder Euclidean algorithm, in each arithmetic, and how many steps are
enough.

A step replaces a by r = a - round(a / b) * b. Any integer quotient keeps gcd(a, b) = gcd(b, r) as long as r is computed
exactly, so rounding errors of the division cost at most speed, never correctness. No magnitudes, no sorting, no
selects: signs are free in a remainder, and a first step with |a| < |b| gives q = 0 or +-1 and only swaps.

How many steps. With |r| <= |b| / 2 and q = round(a / b), consecutive remainders satisfy |a[i]| >= 2 |a[i+1]| + |a[i+2]|
(q = +-2 forces equal signs, and |q| >= 3 gives at least 3 |a[i+1]| - |a[i+2]| >= 2 |a[i+1]| + |a[i+2]|). So a chain of
n steps that has not reached |b| <= 1 starts at 2 P(n+1) at least, with the Pell numbers P = 1, 2, 5, 12, 29, 70, 169,
408, ... (P(n+1) = 2 P(n) + P(n-1)). The bound depends on the smaller magnitude only. `finish` takes |b| <= 1, which
saves the last step: K steps are enough for magnitudes below 2 P(K+1).

A quotient off by an ulp of the division at a half-integer may leave |r| a little above |b| / 2. The bounds were
therefore also checked with the division perturbed by one unit in the last place in every direction, exhaustively for 8
and 16 bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .intrinsics import divide, round_to_integer, truncate_saturating

# 1.5 * 2^10: adding and subtracting it rounds a float16 below 2^9 to an integer in two vadds.
_ROUND_F16 = tl.constexpr(1536.0)


@triton.jit
def step_f16(a, b, EPS: tl.constexpr):
    """One step in float16, exact while |q * b| <= 2^11. EPS makes x / 0 finite and vanishes beside |b| >= 1."""
    q = (divide(a, b + EPS) + _ROUND_F16) - _ROUND_F16
    return a - q * b


@triton.jit
def step_f32(a, b):
    """One step in float32, exact while |q * b| <= 2^24, so for magnitudes up to 2^23. 1e-9 vanishes beside |b| >= 1."""
    q = round_to_integer(divide(a, b + 1e-9))
    return a - q * b


@triton.jit
def step_i16(a, b, af, bf):
    """One step in int16 with the quotient from float16: the remainder is exact in wrapping arithmetic.

    The magic number leaves halves for quotients beyond 2^9, but the conversion to int16 makes any of them an integer.
    """
    q = (divide(af, bf) + _ROUND_F16) - _ROUND_F16
    r = a - truncate_saturating(q, tl.int16) * b
    return r, r.to(tl.float16)


@triton.jit
def step_i32(a, b, af, bf):
    """One step in int32 with the quotient from float32.

    |r| <= |b| / 2 + |a| * 2^-22 < 2^31, so wrapping arithmetic gives it exactly. With b = 0 the quotient is some
    integer (infinity saturates, NaN gives 0) and r = a.
    """
    q = round_to_integer(divide(af, bf)).to(tl.int32)
    r = a - q * b
    return r, r.to(tl.float32)


@triton.jit
def finish(a, b):
    """gcd when |b| <= 1, or a = 0: |a| - |b| * (|a| - 1). With b = 0 it is |a|, with |b| = 1 it is 1."""
    a = tl.abs(a)
    b = tl.abs(b)
    return a - b * (a - 1.0)


@triton.jit
def largest(a, b):
    """The largest value in two float32 tiles of magnitudes, one scalar. A NaN may or may not show: see gcd_float."""
    return tl.max(tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def pairs_to_one(top):
    """Pairs of steps after which |b| <= 1, for magnitudes up to `top` < 2 P(25) = 2623476242: j pairs below 2 P(2j+1).

    A bound that float32 cannot hold is rounded like the magnitudes compared with it, and rounding is monotonic.
    """
    pairs = (top >= 2.0).to(tl.int32) + (top >= 10.0).to(tl.int32) + (top >= 58.0).to(tl.int32)
    pairs += (top >= 338.0).to(tl.int32) + (top >= 1970.0).to(tl.int32) + (top >= 11482.0).to(tl.int32)
    pairs += (top >= 66922.0).to(tl.int32) + (top >= 390050.0).to(tl.int32) + (top >= 2273378.0).to(tl.int32)
    pairs += (top >= 13250218.0).to(tl.int32) + (top >= 77227930.0).to(tl.int32) + (top >= 450117362.0).to(tl.int32)
    return pairs
