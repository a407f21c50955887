"""Casts between storage dtypes and the arithmetic of each compute dtype, every one a sequence of vector instructions.

`widen` is applied on load, `narrow_*` on store, so that no dtype temporary exists. A result is first a value of the
compute dtype (2^(n-1) wrapped to -2^(n-1)), then cast: what torch does for `out=` of another dtype. Integers go to
float16 and bfloat16 through float32, which rounds twice exactly as torch does.

Avoided on purpose: integer arithmetic on int8 (a transposing cast), 64-bit arithmetic and int8 <-> int16 conversions
(scalar loops).
"""

from __future__ import annotations

import triton
import triton.language as tl

from .intrinsics import truncate_saturating


@triton.jit
def truth(v, KIND: tl.constexpr):
    """The bytes of bools as 0 or 1, in the dtype in which bytes are cast further: float16, a scalar int32."""
    if KIND == "scalar":
        return tl.minimum(v.to(tl.int32), 1)
    else:
        return tl.minimum(v.to(tl.float16), 1.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def to_float32(v, KIND: tl.constexpr):
    """Any dtype to float32 with one rounding; 8-bit integers by way of float16, which holds them."""
    BITS: tl.constexpr = v.dtype.primitive_bitwidth
    if KIND == "scalar":
        return v.to(tl.float32)
    elif BITS == 8:
        return v.to(tl.float16).to(tl.float32)
    else:
        return v.to(tl.float32)


@triton.jit
def to_int32(v, KIND: tl.constexpr):
    """Any integer, or a `truth`, to int32, modulo 2^32."""
    BITS: tl.constexpr = v.dtype.primitive_bitwidth
    if KIND == "scalar":
        return v.to(tl.int32)
    elif (BITS == 8) or (v.dtype == tl.float16):
        return truncate_saturating(v.to(tl.float16), tl.int32)
    else:
        return v.to(tl.int32)


@triton.jit
def _scalar_rounded(v, BITS: tl.constexpr):
    """A scalar float32 rounded to nearest even without its BITS low bits.

    The compiler drops a scalar's cast to a narrower float and back, rounding included
    (tests/findings/test_scalar_float_casts.py), so the rounding is done on the bits.
    """
    bits = v.to(tl.int32, bitcast=True)
    odd = (bits >> BITS) & 1
    rounded = ((bits + ((1 << (BITS - 1)) - 1) + odd) >> BITS) << BITS
    return tl.where(v == v, rounded.to(tl.float32, bitcast=True), v)


@triton.jit
def _scalar_as_half(v):
    """A scalar float32 with the value it has in float16. What is subnormal there stays finer: gcd truncates it to 0."""
    rounded = _scalar_rounded(v, 13)
    return tl.where(tl.abs(rounded) <= 65504.0, rounded, float("nan"))  # an infinity gives NaN as well


@triton.jit
def widen(v, COMPUTE: tl.constexpr, KIND: tl.constexpr):
    """A loaded value as COMPUTE, in the dtype its arithmetic wants: float16 for 8 bits, float32 for floats.

    Only a 0-d operand can be wider than COMPUTE (torch's promotion): those narrowing casts are scalar.
    """
    BITS: tl.constexpr = v.dtype.primitive_bitwidth
    if COMPUTE == "int8":
        if KIND == "scalar":
            v = v.to(tl.int8)
        return v.to(tl.float16)
    elif COMPUTE == "uint8":
        if KIND == "scalar":
            v = v.to(tl.uint8)
        return v.to(tl.float16)
    elif COMPUTE == "int16":
        if KIND == "scalar":
            return v.to(tl.int16)
        elif (BITS == 8) or (v.dtype == tl.float16):
            return truncate_saturating(v.to(tl.float16), tl.int16)
        else:
            return v
    elif COMPUTE == "int32":
        return to_int32(v, KIND)
    elif COMPUTE == "float16":
        if v.dtype == tl.float16:
            return v.to(tl.float32)
        elif KIND == "scalar":
            return _scalar_as_half(to_float32(v, KIND))
        else:
            return to_float32(v, KIND).to(tl.float16).to(tl.float32)
    elif COMPUTE == "bfloat16":
        if v.dtype == tl.bfloat16:
            return v.to(tl.float32)
        elif KIND == "scalar":
            return _scalar_rounded(to_float32(v, KIND), 16)
        else:
            return to_float32(v, KIND).to(tl.bfloat16).to(tl.float32)
    else:
        tl.static_assert(COMPUTE == "float32")
        return to_float32(v, KIND)


@triton.jit
def _byte(g):
    """float16 0..255 to the 8 bits of an int8, by one saturating vconv (NaN gives 0)."""
    return tl.cast(g, tl.uint8, overflow_mode="saturate").to(tl.int8, bitcast=True)


@triton.jit
def narrow_byte_gcd(g, COMPUTE: tl.constexpr, OUT: tl.constexpr):
    """The float16 gcd of int8 (0..128) or uint8 (0..255) to OUT."""
    if OUT == tl.int8:
        return _byte(g)  # 128 has the bits of -128
    else:
        if COMPUTE == "int8":
            over = tl.maximum(g - 127.0, 0.0, propagate_nan=tl.PropagateNan.ALL)  # 1 for 128, else 0
            g = g - over * 256.0
        if OUT == tl.int16:
            return truncate_saturating(g, tl.int16)
        elif OUT == tl.int32:
            return truncate_saturating(g, tl.int32)
        elif OUT == tl.int64:
            return g.to(tl.float32).to(tl.int64)
        elif OUT == tl.float16:
            return g
        else:
            return g.to(tl.float32).to(OUT)


@triton.jit
def narrow_int16(g, OUT: tl.constexpr):
    """An int16 gcd to OUT."""
    if OUT == tl.int8:
        return _byte((g & 255).to(tl.float16))
    elif OUT == tl.int64:
        return g.to(tl.int32).to(tl.int64)
    elif OUT == tl.bfloat16:
        return g.to(tl.float32).to(tl.bfloat16)
    else:
        return g.to(OUT)


@triton.jit
def narrow_int32(g, OUT: tl.constexpr):
    """An int32 gcd to OUT."""
    if OUT == tl.int8:
        return _byte((g & 255).to(tl.float32).to(tl.float16))
    elif OUT.value.is_floating():
        return g.to(tl.float32).to(OUT)
    else:
        return g.to(OUT)


@triton.jit
def narrow_words(low, high, OUT: tl.constexpr):
    """An int64 gcd, given as two int32 words, to OUT.

    The int64 is assembled from exact casts of 16-bit fields and three vor: interleaving the words costs 30 cycles an
    element.
    """
    if OUT.value.is_floating():
        WIDE: tl.constexpr = True
    else:
        WIDE: tl.constexpr = OUT == tl.int64
    if WIDE:
        bits_48 = (high >> 16).to(tl.float32) * 281474976710656.0
        bits_32 = (high & 65535).to(tl.float32) * 4294967296.0
        bits_16 = ((low >> 16) & 65535).to(tl.float32) * 65536.0
        bits_0 = (low & 65535).to(tl.float32)
        g = (bits_48.to(tl.int64) | bits_32.to(tl.int64)) | (bits_16.to(tl.int64) | bits_0.to(tl.int64))
        if OUT == tl.int64:
            return g
        else:
            return g.to(tl.float32).to(OUT)
    else:
        return narrow_int32(low, OUT)


@triton.jit
def narrow_float(g, OUT: tl.constexpr):
    """A float gcd, an integer 0..2^64 held in float32 or NaN, to OUT: integers modulo 2^n, NaN to 0.

    Every step is exact: floor and multiples of powers of two keep the 24 bits, and so does the difference, because it
    is a multiple of g's last bit and smaller than g. float -> integer conversion gives 0 for NaN.
    """
    if OUT.value.is_floating():
        return g.to(OUT)
    elif OUT == tl.int8:
        return _byte((g - tl.floor(g * 0.00390625) * 256.0).to(tl.float16))
    elif OUT == tl.int16:
        g = g - tl.floor(g * 1.52587890625e-05) * 65536.0
        g = g - tl.floor(g * 3.0517578125e-05) * 65536.0  # from 2^15 on: minus 2^16
        return g.to(tl.int32).to(tl.int16)
    elif OUT == tl.int32:
        g = g - tl.floor(g * 2.3283064365386963e-10) * 4294967296.0
        g = g - tl.floor(g * 4.656612873077393e-10) * 4294967296.0
        return g.to(tl.int32)
    else:
        # 0 below 2^63, 1 from there on, also for 2^64 itself
        high = tl.minimum(tl.floor(g * 1.0842021724855044e-19), 1.0, propagate_nan=tl.PropagateNan.ALL)
        return (g - high * 18446744073709551616.0).to(tl.int64)
