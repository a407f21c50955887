"""The two gcd kernels: `gcd_linear` over one dense dimension, `gcd_tiled` over rows and columns with six dims around.

Both run one persistent loop over tiles, so that the compiler double-buffers loads and stores. A tile is described by
the offset of its first element, how many of its rows and columns exist, and the *kind* of each operand:

    line    COLS consecutive elements                       (gcd_linear)
    matrix  ROWS rows of COLS consecutive elements, a stride apart
    row     one row, the same for all rows                  (stride 0 along the rows)
    column  one element a row, consecutive                  (stride 0 along the columns)
    scalar  one element

A broadcast operand is loaded and cast in its own shape, then spread in UB: nothing is materialised in memory. (A
pointer with a literal stride 0 would crash the frontend.)

int64, float32 and bfloat16 take two loops: the first serves tiles whose magnitudes are small, the second, skipped if
the program saw none, the others in sub-tiles. Loops in sequence share UB, branches in one loop do not. A tile that the
first loop stored is still small when read back, so that `out` may be an input.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .gcd_access import further, load, spread, store
from .gcd_casts import (
    narrow_byte_gcd,
    narrow_float,
    narrow_int16,
    narrow_int32,
    narrow_words,
    to_float32,
    to_int32,
    widen,
)
from .gcd_float import gcd_any_magnitude, gcd_below_2_23, magnitude
from .gcd_int32 import gcd_int32
from .gcd_int64 import gcd_words, negative_limbs
from .gcd_narrow import gcd_float16, gcd_int8, gcd_int16, gcd_uint8
from .gcd_steps import largest
from .signature import kernel

# Tiles above these take the second loop: int32 arithmetic, and float32 steps, are exact up to them.
_INT64_LIMIT = tl.constexpr(2147483648.0)
_FLOAT_LIMIT = tl.constexpr(8388608.0)
_TWO_64 = tl.constexpr(18446744073709551616.0)


@triton.jit
def _operand(
    base, at, stride, rows, cols,
    COMPUTE: tl.constexpr, KIND: tl.constexpr, LINE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    v = widen(load(base, at, stride, rows, cols, KIND, ROWS, COLS), COMPUTE, KIND)
    if (COMPUTE == "float32") or (COMPUTE == "bfloat16"):
        v = magnitude(v)
    return spread(v, KIND, LINE, ROWS, COLS)


@triton.jit
def _image(
    base, at, stride, rows, cols,
    KIND: tl.constexpr, LINE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The float32 image of an integer operand: enough to see how large it is."""
    v = to_float32(load(base, at, stride, rows, cols, KIND, ROWS, COLS), KIND)
    return spread(v, KIND, LINE, ROWS, COLS)


@triton.jit
def _tile(
    self, other, out, self_at, other_at, out_at, self_stride, other_stride, out_stride, out_step, rows, cols,
    COMPUTE: tl.constexpr, SELF: tl.constexpr, OTHER: tl.constexpr, OUT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One tile, unless its magnitudes need the second loop. Returns 1 if they do, else 0."""
    LINE: tl.constexpr = SELF == "line"
    DTYPE: tl.constexpr = out.dtype.element_ty
    FLOAT: tl.constexpr = (COMPUTE == "float32") or (COMPUTE == "bfloat16")
    large = 0
    if COMPUTE == "int64":
        a = load(self, self_at, self_stride, rows, cols, SELF, ROWS, COLS)
        b = load(other, other_at, other_stride, rows, cols, OTHER, ROWS, COLS)
        af = spread(to_float32(a, SELF), SELF, LINE, ROWS, COLS)
        bf = spread(to_float32(b, OTHER), OTHER, LINE, ROWS, COLS)
        large = (largest(tl.abs(af), tl.abs(bf)) >= _INT64_LIMIT).to(tl.int32)
        if large == 0:
            ai = spread(to_int32(a, SELF), SELF, LINE, ROWS, COLS)
            bi = spread(to_int32(b, OTHER), OTHER, LINE, ROWS, COLS)
            g = narrow_int32(gcd_int32(ai, bi, af, bf), DTYPE)
            store(out, out_at, g, out_stride, out_step, rows, cols, OUT, ROWS, COLS)
    else:
        a = _operand(self, self_at, self_stride, rows, cols, COMPUTE, SELF, LINE, ROWS, COLS)
        b = _operand(other, other_at, other_stride, rows, cols, COMPUTE, OTHER, LINE, ROWS, COLS)
        if FLOAT:
            top = largest(a, b)
            large = 1 - (top <= _FLOAT_LIMIT).to(tl.int32)  # 1 for a NaN as well
            if large == 0:
                g = narrow_float(gcd_below_2_23(a, b, top), DTYPE)
                store(out, out_at, g, out_stride, out_step, rows, cols, OUT, ROWS, COLS)
        else:
            if COMPUTE == "int8":
                g = narrow_byte_gcd(gcd_int8(a, b), COMPUTE, DTYPE)
            elif COMPUTE == "uint8":
                g = narrow_byte_gcd(gcd_uint8(a, b), COMPUTE, DTYPE)
            elif COMPUTE == "int16":
                g = narrow_int16(gcd_int16(a, b), DTYPE)
            elif COMPUTE == "int32":
                g = narrow_int32(gcd_int32(a, b, a.to(tl.float32), b.to(tl.float32)), DTYPE)
            else:
                tl.static_assert(COMPUTE == "float16")
                g = narrow_float(gcd_float16(a, b), DTYPE)
            store(out, out_at, g, out_stride, out_step, rows, cols, OUT, ROWS, COLS)
    return large


@triton.jit
def _limbs(
    base, at, stride, rows, cols,
    KIND: tl.constexpr, LINE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Negative balanced limbs of an operand of any integer dtype.

    The words of an int64 are read as int32 pairs. Offsets are counted in words from the base: the frontend does not
    rescale an offset that was added before a pointer is cast to another width.
    """
    if base.dtype.element_ty == tl.int64:
        if KIND == "scalar":
            v = tl.load(base + at)
            low = spread(v.to(tl.int32), KIND, LINE, ROWS, COLS)
            high = spread((v >> 32).to(tl.int32), KIND, LINE, ROWS, COLS)
        else:
            words = base.to(tl.pointer_type(tl.int32), bitcast=True)
            if KIND == "matrix":
                pair = load(words, at * 2, stride * 2, rows, cols * 2, KIND, ROWS, COLS * 2)
                low, high = tl.split(tl.reshape(pair, (ROWS, COLS, 2)))
            elif KIND == "column":
                pair = load(words, at * 2, 0, 1, rows * 2, "line", 1, ROWS * 2)
                low, high = tl.split(tl.reshape(pair, (ROWS, 2)))
                low = spread(low, KIND, LINE, ROWS, COLS)
                high = spread(high, KIND, LINE, ROWS, COLS)
            else:
                pair = load(words, at * 2, 0, 1, cols * 2, "line", 1, COLS * 2)
                low, high = tl.split(tl.reshape(pair, (COLS, 2)))
                if KIND == "row":
                    low = spread(low, KIND, LINE, ROWS, COLS)
                    high = spread(high, KIND, LINE, ROWS, COLS)
        high, low = negative_limbs(low, high)
    else:
        v = to_int32(load(base, at, stride, rows, cols, KIND, ROWS, COLS), KIND)
        low = spread(tl.minimum(v, v * -1), KIND, LINE, ROWS, COLS)
        high = tl.zeros_like(low)
    return high, low


@triton.jit
def _large_tile(
    self, other, out, self_at, other_at, out_at, self_stride, other_stride, out_stride, out_step, rows, cols,
    COMPUTE: tl.constexpr, SELF: tl.constexpr, OTHER: tl.constexpr, OUT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """One tile of the second loop, in PARTS sub-tiles; nothing if the first loop has done it."""
    LINE: tl.constexpr = SELF == "line"
    DTYPE: tl.constexpr = out.dtype.element_ty
    R: tl.constexpr = ROWS if LINE else ROWS // PARTS
    C: tl.constexpr = COLS // PARTS if LINE else COLS
    large = 0
    saturated = 0
    for part in range(PARTS):
        r = rows if LINE else rows - part * R
        c = cols - part * C if LINE else cols
        x_at = further(self_at, self_stride, part, SELF, R, C)
        y_at = further(other_at, other_stride, part, OTHER, R, C)
        if COMPUTE == "int64":
            af = _image(self, x_at, self_stride, r, c, SELF, LINE, R, C)
            bf = _image(other, y_at, other_stride, r, c, OTHER, LINE, R, C)
            large |= (largest(tl.abs(af), tl.abs(bf)) >= _INT64_LIMIT).to(tl.int32)
        else:
            a = _operand(self, x_at, self_stride, r, c, COMPUTE, SELF, LINE, R, C)
            b = _operand(other, y_at, other_stride, r, c, COMPUTE, OTHER, LINE, R, C)
            top = largest(a, b)
            large |= 1 - (top <= _FLOAT_LIMIT).to(tl.int32)
            saturated |= 1 - (top < _TWO_64).to(tl.int32)
    if large > 0:
        for part in range(PARTS):
            r = rows if LINE else rows - part * R
            c = cols - part * C if LINE else cols
            x_at = further(self_at, self_stride, part, SELF, R, C)
            y_at = further(other_at, other_stride, part, OTHER, R, C)
            o_at = further(out_at, out_stride, part, OUT, R, C)
            if COMPUTE == "int64":
                ah, al = _limbs(self, x_at, self_stride, r, c, SELF, LINE, R, C)
                bh, bl = _limbs(other, y_at, other_stride, r, c, OTHER, LINE, R, C)
                low, high = gcd_words(ah, al, bh, bl)
                g = narrow_words(low, high, DTYPE)
            else:
                a = _operand(self, x_at, self_stride, r, c, COMPUTE, SELF, LINE, R, C)
                b = _operand(other, y_at, other_stride, r, c, COMPUTE, OTHER, LINE, R, C)
                g = narrow_float(gcd_any_magnitude(a, b, saturated, COMPUTE == "bfloat16"), DTYPE)
            store(out, o_at, g, out_stride, out_step, r, c, OUT, R, C)


@kernel
def gcd_linear(
    self, other, out, n: tl.int64,
    COMPUTE: tl.constexpr, OTHER: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """out[i] = gcd(self[i], other[i]) for i < n, all dense; other is a "line" like self, or a "scalar"."""
    TWO_LOOPS: tl.constexpr = (COMPUTE == "int64") or ((COMPUTE == "float32") or (COMPUTE == "bfloat16"))
    tiles = tl.cdiv(n, BLOCK).to(tl.int32)
    large = 0
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        at = t.to(tl.int64) * BLOCK
        y_at = at if OTHER == "line" else at * 0
        cols = tl.minimum(n - at, BLOCK).to(tl.int32)
        large |= _tile(self, other, out, at, y_at, at, 0, 0, 0, 1, 1, cols, COMPUTE, "line", OTHER, "line", 1, BLOCK)
    if TWO_LOOPS:
        if large > 0:
            for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
                at = t.to(tl.int64) * BLOCK
                y_at = at if OTHER == "line" else at * 0
                cols = tl.minimum(n - at, BLOCK).to(tl.int32)
                _large_tile(
                    self, other, out, at, y_at, at, 0, 0, 0, 1, 1, cols,
                    COMPUTE, "line", OTHER, "line", 1, BLOCK, PARTS,
                )  # fmt: skip


@triton.jit
def _locate(
    t, row_tiles, col_tiles, self_row, other_row, out_row, out_col,
    n0, n1, n2, n3, n4, n5, self0, self1, self2, self3, self4, self5,
    other0, other1, other2, other3, other4, other5, out0, out1, out2, out3, out4, out5,
    SELF: tl.constexpr, OTHER: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Tile number to first row, first column, and the three offsets of its first element. Columns vary fastest."""
    column = (t % col_tiles).to(tl.int64) * COLS
    t = t // col_tiles
    row = (t % row_tiles).to(tl.int64) * ROWS
    t = t // row_tiles
    i = (t % n5).to(tl.int64)
    t = t // n5
    x = i * self5
    y = i * other5
    o = i * out5
    i = (t % n4).to(tl.int64)
    t = t // n4
    x += i * self4
    y += i * other4
    o += i * out4
    i = (t % n3).to(tl.int64)
    t = t // n3
    x += i * self3
    y += i * other3
    o += i * out3
    i = (t % n2).to(tl.int64)
    t = t // n2
    x += i * self2
    y += i * other2
    o += i * out2
    i = (t % n1).to(tl.int64)
    i0 = (t // n1).to(tl.int64)
    x += i * self1 + i0 * self0 + row * self_row
    y += i * other1 + i0 * other0 + row * other_row
    o += i * out1 + i0 * out0 + row * out_row + column * out_col
    if (SELF == "matrix") or (SELF == "row"):
        x += column
    if (OTHER == "matrix") or (OTHER == "row"):
        y += column
    return row, column, x, y, o


@kernel
def gcd_tiled(
    self, other, out, rows: tl.int64, cols: tl.int64,
    self_row: tl.int64, other_row: tl.int64, out_row: tl.int64, out_col: tl.int64,
    n0: tl.int32, n1: tl.int32, n2: tl.int32, n3: tl.int32, n4: tl.int32, n5: tl.int32,
    self0: tl.int64, self1: tl.int64, self2: tl.int64, self3: tl.int64, self4: tl.int64, self5: tl.int64,
    other0: tl.int64, other1: tl.int64, other2: tl.int64, other3: tl.int64, other4: tl.int64, other5: tl.int64,
    out0: tl.int64, out1: tl.int64, out2: tl.int64, out3: tl.int64, out4: tl.int64, out5: tl.int64,
    COMPUTE: tl.constexpr, SELF: tl.constexpr, OTHER: tl.constexpr, OUT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """gcd over n0 x ... x n5 x rows x cols. Strides count elements; self_row and other_row are 0 for a row or scalar.

    SELF and OTHER are kinds; OUT is "matrix", or "scattered" if out_col is not 1.
    """
    TWO_LOOPS: tl.constexpr = (COMPUTE == "int64") or ((COMPUTE == "float32") or (COMPUTE == "bfloat16"))
    row_tiles = tl.cdiv(rows, ROWS).to(tl.int32)
    col_tiles = tl.cdiv(cols, COLS).to(tl.int32)
    tiles = n0 * n1 * n2 * n3 * n4 * n5 * row_tiles * col_tiles
    large = 0
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, column, x, y, o = _locate(
            t, row_tiles, col_tiles, self_row, other_row, out_row, out_col,
            n0, n1, n2, n3, n4, n5, self0, self1, self2, self3, self4, self5,
            other0, other1, other2, other3, other4, other5, out0, out1, out2, out3, out4, out5,
            SELF, OTHER, ROWS, COLS,
        )  # fmt: skip
        r = tl.minimum(rows - row, ROWS).to(tl.int32)
        c = tl.minimum(cols - column, COLS).to(tl.int32)
        large |= _tile(
            self,
            other,
            out,
            x,
            y,
            o,
            self_row,
            other_row,
            out_row,
            out_col,
            r,
            c,
            COMPUTE,
            SELF,
            OTHER,
            OUT,
            ROWS,
            COLS,
        )
    if TWO_LOOPS:
        if large > 0:
            for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
                row, column, x, y, o = _locate(
                    t, row_tiles, col_tiles, self_row, other_row, out_row, out_col,
                    n0, n1, n2, n3, n4, n5, self0, self1, self2, self3, self4, self5,
                    other0, other1, other2, other3, other4, other5, out0, out1, out2, out3, out4, out5,
                    SELF, OTHER, ROWS, COLS,
                )  # fmt: skip
                r = tl.minimum(rows - row, ROWS).to(tl.int32)
                c = tl.minimum(cols - column, COLS).to(tl.int32)
                _large_tile(
                    self, other, out, x, y, o, self_row, other_row, out_row, out_col, r, c,
                    COMPUTE, SELF, OTHER, OUT, ROWS, COLS, PARTS,
                )  # fmt: skip
