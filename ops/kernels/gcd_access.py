"""Loads and stores of one tile of gcd, by the kind of each operand (see gcd.py)."""

from __future__ import annotations

import triton
import triton.language as tl

from .gcd_casts import truth


@triton.jit
def _load_elements(base, at, stride, rows, cols, KIND: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    if KIND == "line":
        return tl.load(base + at + c, mask=c < cols, other=0)
    elif KIND == "matrix":
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        return tl.load(base + at + r[:, None] * stride + c[None, :], mask=mask, other=0)
    elif KIND == "row":
        return tl.load(base + at + c, mask=c < cols, other=0)
    elif KIND == "column":
        return tl.load(base + at + r, mask=r < rows, other=0)
    else:
        tl.static_assert(KIND == "scalar")
        return tl.load(base + at)


@triton.jit
def load(base, at, stride, rows, cols, KIND: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """What exists of one operand's tile, in the operand's own shape; missing lanes are 0, whose gcd is 0.

    Rows and columns come as one dimension: casts and magnitudes are taken there, before `spread`. A bool comes as
    `truth`: torch takes any byte but 0 as 1.
    """
    if base.dtype.element_ty == tl.int1:
        octets = base.to(tl.pointer_type(tl.uint8), bitcast=True)
        return truth(_load_elements(octets, at, stride, rows, cols, KIND, ROWS, COLS), KIND)
    else:
        return _load_elements(base, at, stride, rows, cols, KIND, ROWS, COLS)


@triton.jit
def spread(v, KIND: tl.constexpr, LINE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A value in its own shape to the shape of the tile."""
    if (KIND == "line") or (KIND == "matrix"):
        return v
    elif KIND == "row":
        return tl.broadcast_to(v[None, :], (ROWS, COLS))
    elif KIND == "column":
        return tl.broadcast_to(v[:, None], (ROWS, COLS))
    elif LINE:
        return tl.broadcast_to(v, (COLS,))
    else:
        return tl.broadcast_to(v, (ROWS, COLS))


@triton.jit
def store(base, at, value, stride, step, rows, cols, OUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Stores what exists of a tile; kind "scattered" has elements `step` apart in a row."""
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    if OUT == "line":
        tl.store(base + at + c, value, mask=c < cols)
    else:
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        if OUT == "matrix":
            tl.store(base + at + r[:, None] * stride + c[None, :], value, mask=mask)
        else:
            tl.static_assert(OUT == "scattered")
            # Each element is spread over 32 bytes of UB and the first copy stored: DMA takes 32-byte steps in UB. Left
            # to itself the compiler would keep that spacing through the whole arithmetic.
            LANES: tl.constexpr = 256 // value.dtype.primitive_bitwidth
            lane = tl.arange(0, LANES)[None, None, :]
            wide = tl.broadcast_to(value[:, :, None], (ROWS, COLS, LANES))
            r = r[:, None, None]
            c = c[None, :, None]
            mask = (r < rows) & (c < cols) & (lane < 1)
            tl.store(base + at + r * stride + c * step + lane, wide, mask=mask)


@triton.jit
def further(at, stride, part, KIND: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Offset of sub-tile `part`: COLS further along a line, ROWS further down a matrix or a column."""
    if KIND == "line":
        return at + part * COLS
    elif KIND == "column":
        return at + part * ROWS
    elif (KIND == "row") or (KIND == "scalar"):
        return at
    else:
        return at + part * ROWS * stride
