"""gcd of one tile for int8, uint8 and int16 (float16 arithmetic) and for float16 (float32 arithmetic).

The step counts are fixed: at these widths a tile maximum costs more than the steps it would save.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .gcd_steps import finish, step_f16, step_f32, step_i16


@triton.jit
def gcd_int8(a, b):
    """float16 tiles holding -128..127 -> float16 gcd 0..128. Five steps: 128 < 2 P(6) = 140.

    2^-8 vanishes beside |b| >= 1, and 127 * 2^8 + 1536 still fits float16, so that x / 0 gives a finite quotient.
    """
    for _pair in tl.static_range(2):
        a = step_f16(a, b, 0.00390625)
        b = step_f16(b, a, 0.00390625)
    r = step_f16(a, b, 0.00390625)
    return finish(b, r)


@triton.jit
def gcd_uint8(a, b):
    """float16 tiles holding 0..255 -> float16 gcd.

    Six steps: 255 < 2 P(7) = 338. 2^-7, since 255 * 2^8 + 1536 overflows.
    """
    for _pair in tl.static_range(3):
        a = step_f16(a, b, 0.0078125)
        b = step_f16(b, a, 0.0078125)
    return finish(a, b)


@triton.jit
def gcd_int16(a, b):
    """int16 tiles -> int16 gcd, where 32768 wraps to -32768.

    Twelve steps to b = 0 are the worst over all 32769^2 magnitudes and any quotient within 2.5 * 2^-10 of the true one
    (a dynamic programme over all states). -32768 needs no care: it is exact in both int16 and float16.
    """
    af = a.to(tl.float16)
    bf = b.to(tl.float16)
    for _pair in tl.static_range(6):
        a, af = step_i16(a, b, af, bf)
        b, bf = step_i16(b, a, bf, af)
    total = a + b  # one of them is 0
    return tl.maximum(total, total * -1)


@triton.jit
def gcd_float16(a, b):
    """float32 tiles holding float16 values -> float32 gcd of the truncated magnitudes.

    Twelve steps: 65504 < 2 P(13) = 66922. A NaN or Inf on either side makes a remainder NaN in the first step (inf / b
    * b is inf or NaN, inf - inf is NaN, a - 0 * inf is NaN), and NaN then stays.
    """
    a = tl.floor(tl.abs(a))
    b = tl.floor(tl.abs(b))
    for _pair in tl.static_range(6):
        a = step_f32(a, b)
        b = step_f32(b, a)
    return finish(a, b)
