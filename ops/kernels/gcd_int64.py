"""gcd of one tile for int64 beyond 31 bits: phases by magnitude on two 32-bit limbs.

A  |v| up to 2^63. v = h * 2^32 + l with both limbs signed int32, and floats scaled by 2^-32. Exact carry. Until < 2^53.
B  |v| < 2^53.3. Only l = v mod 2^32 (int32) and f = v * 2^-32 rounded to float32 are kept. The float remainder
   t = af - q * bf is within 3 * 2^-24 * af < 0.45 of the true one, so its high limb, an integer, is round(t - l / 2^32)
   exactly, and need not be kept. q enters the low limb modulo 2^32, so that no quotient is too large. Until < 2^28.9.
C  six int32 steps (below 2^28.9 / 70 = 2^22.8), then D, 18 float32 steps (2^23 < 2 P(19)).

Inputs start as -|v|: 2^63 itself has no positive balanced form, and sign does not matter.

Two rules from faults found by running the compiled module. (1) In a loop, read every result of an `if` that may pass a
carried tensor through before computing that tensor's next value: the compiler's memory planner gives both one buffer.
(2) Quotients of the two reductions for large quotients round toward zero: rounded to nearest, |a| within 2^-21 of 2^63
and |b| within 2^-21 of 2^43 or 2^22 give q = 1 and a remainder of 2^63, which does not fit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .gcd_steps import finish, largest, step_f32, step_i32
from .intrinsics import divide, round_to_integer

_SCALE = tl.constexpr(2.3283064365386963e-10)  # 2^-32
_EPS = tl.constexpr(8.673617379884035e-19)  # 2^-60: vanishes beside 2^-32, the smallest scaled |b| >= 1


@triton.jit
def negative_limbs(low, high):
    """The words of an int64 as balanced limbs (high, low) of -|v|."""
    sign = high >> 31  # -1 or 0
    flip = sign * -2 - 1  # 1 for negative v, else -1
    limb = low * flip
    positive = tl.minimum(tl.maximum(limb, 0), 1)
    # The high word of -v is ~high + (low == 0), that of a negative v is high; a low limb below 0 takes a carry of 1.
    return high * flip + (sign * (limb >> 31) - (sign + 1) * positive), limb


@triton.jit
def _quotient(af, bf):
    return round_to_integer(divide(af, bf + _EPS))


@triton.jit
def _quotient_toward_zero(af, bf):
    return divide(af, bf + _EPS).to(tl.int32)


@triton.jit
def _remainder_a(ah, al, alf, bh, bl, blf, q):
    """a - q * b on limbs: the low limb wraps, and the carry into the high one is exact in float32 for |q| < 2^22."""
    qi = q.to(tl.int32)
    d = alf - q * blf  # reads alf before rlf exists: rule (1)
    h = ah - qi * bh
    rl = al - qi * bl
    rlf = rl.to(tl.float32) * _SCALE
    rh = h + round_to_integer(d - rlf).to(tl.int32)
    return rh, rl, rlf, rh.to(tl.float32) + rlf


@triton.jit
def _step_a(ah, al, alf, af, bh, bl, blf, bf):
    q = _quotient(af, bf)
    if tl.max(tl.abs(q)) > 2097152.0:  # some quotient above 2^21, or a finished lane (b = 0: every product is 0)
        # Reduce by b << 42, whose low limb is 0 and high limb bl << 10 modulo 2^32, then by b << 21. Limbs that wrap
        # belong to lanes with quotient 0.
        ah = ah - _quotient_toward_zero(af, bf * 4398046511104.0) * (bl << 10)
        af = ah.to(tl.float32) + alf
        cl = bl << 21
        ch = (bh << 21) + (bl >> 11) - (cl >> 31)
        q21 = _quotient_toward_zero(af, bf * 2097152.0).to(tl.float32)
        ah, al, alf, af = _remainder_a(ah, al, alf, ch, cl, cl.to(tl.float32) * _SCALE, q21)
        q = _quotient(af, bf)
    return _remainder_a(ah, al, alf, bh, bl, blf, q)


@triton.jit
def _step_b(al, af, bl, bf):
    q = _quotient(af, bf)
    w = round_to_integer(q * _SCALE) * 4294967296.0
    rl = al - (q - w).to(tl.int32) * bl
    rlf = rl.to(tl.float32) * _SCALE
    return rl, round_to_integer((af - q * bf) - rlf) + rlf


@triton.jit
def _pairs_a(top):
    """Pairs of A-steps until < 2^53, for magnitudes up to top * 2^32: j pairs below 2^53 P(2j)."""
    pairs = (top >= 2097152.0).to(tl.int32) + (top >= 4194304.0).to(tl.int32) + (top >= 25165824.0).to(tl.int32)
    return pairs + (top >= 146800640.0).to(tl.int32) + (top >= 855638016.0).to(tl.int32)


@triton.jit
def _pairs_b(top):
    """Pairs of A- and B-steps until < 2^28.9, for magnitudes up to top * 2^32: j pairs below 2^28.9 P(2j)."""
    pairs = (top >= 0.11636).to(tl.int32) + (top >= 0.23272).to(tl.int32) + (top >= 1.39632).to(tl.int32)
    pairs += (top >= 8.1452).to(tl.int32) + (top >= 47.47488).to(tl.int32) + (top >= 276.70408).to(tl.int32)
    pairs += (top >= 1612.7496).to(tl.int32) + (top >= 9399.79352).to(tl.int32) + (top >= 54786.01152).to(tl.int32)
    pairs += (top >= 319316.2756).to(tl.int32) + (top >= 1861111.64208).to(tl.int32)
    pairs += (top >= 10847353.57688).to(tl.int32) + (top >= 63223009.8192).to(tl.int32)
    return pairs + (top >= 368490705.33832).to(tl.int32)


@triton.jit
def gcd_words(ah, al, bh, bl):
    """Negative balanced limbs of two int64 tiles -> the low and high words of their gcd."""
    alf = al.to(tl.float32) * _SCALE
    blf = bl.to(tl.float32) * _SCALE
    af = ah.to(tl.float32) + alf
    bf = bh.to(tl.float32) + blf
    top = largest(tl.abs(af), tl.abs(bf))
    pairs_a = _pairs_a(top)
    for _pair in range(pairs_a):
        ah, al, alf, af = _step_a(ah, al, alf, af, bh, bl, blf, bf)
        bh, bl, blf, bf = _step_a(bh, bl, blf, bf, ah, al, alf, af)
    high_a = ah + bh  # right for every lane that finished in A, as one from 2^54 on has
    for _pair in range(_pairs_b(top) - pairs_a):
        al, af = _step_b(al, af, bl, bf)
        bl, bf = _step_b(bl, bf, al, af)
    # A lane is finished where one side is 0: its value is (total_f, total), of either sign.
    open_lane = af * bf
    total = al + bl
    total_f = af + bf
    # total_f is high + low / 2^32 rounded: below 2^54 within 2^-3, so that the high limb is the nearest integer. B,
    # which keeps no high limb, may find a gcd of up to 2^53.
    high_b = round_to_integer(total_f - total.to(tl.float32) * _SCALE).to(tl.int32)
    high = tl.where(tl.abs(total_f) >= 4194304.0, high_a, high_b)
    high = high + (total >> 31)  # balanced limbs to two's complement words
    sign = high >> 31
    flip = sign * 2 + 1
    low_is_zero = tl.where(total == 0, 1, 0)
    high = tl.where(sign == 0, high, (high * -1 - 1) + low_is_zero)
    low = total * flip
    # Open lanes are below 2^28.9 and live in the low limbs alone.
    af = al.to(tl.float32)
    bf = bl.to(tl.float32)
    for _pair in range(3):
        al, af = step_i32(al, bl, af, bf)
        bl, bf = step_i32(bl, al, bf, af)
    total = al + bl
    product = af * bf
    for _pair in range(9):
        af = step_f32(af, bf)
        bf = step_f32(bf, af)
    g = finish(af, bf)
    g = tl.where(product == 0.0, tl.maximum(total, total * -1), g.to(tl.int32))
    return tl.where(open_lane == 0.0, low, g), tl.where(open_lane == 0.0, high, 0)
