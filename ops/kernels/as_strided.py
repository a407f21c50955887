"""AsStrided kernels that move whole rows: rows, slabs, repeat, broadcast, transpose.

Every kernel copies `tiles` tiles in one persistent loop. A tile belongs to one combination of the outer dimensions,
which the scalar unit turns into an offset: up to two of them in the plain kernels, up to seven in those named `_deep`
(fewer arguments launch faster). Elements are only moved, never computed with, so a view of any type of the same width
is a bit copy. Tile sizes are capacities of the unified buffer; how much of a tile is used is a run-time argument.

Masks are `index < bound` joined by `&`: anything else becomes a scalar loop or an unmasked store.
Lanes beyond a mask are never stored, so loads leave them unfilled.
"""

import triton
import triton.language as tl

from ops.kernels.intrinsics import load_unfilled
from ops.kernels.signature import kernel


@triton.jit
def outer_offset(o, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6):
    """Input offset of outer index `o` over seven dimensions, fastest first; the compiler folds those of size 1."""
    d0 = o // n0
    d1 = d0 // n1
    d2 = d1 // n2
    d3 = d2 // n3
    d4 = d3 // n4
    d5 = d4 // n5
    low = (o - d0 * n0) * s0 + (d0 - d1 * n1) * s1 + (d1 - d2 * n2) * s2
    return low + (d2 - d3 * n3) * s3 + (d3 - d4 * n4) * s4 + (d4 - d5 * n5) * s5 + d5 * s6


# fmt: off
# rows: the last dimension is dense. A tile is a piece of one row (ROWS == 1) or a block of rows: one DMA each way,
# one burst per row.

@triton.jit
def _rows(x, y, tiles, column_tiles, row_tiles, rows, row_stride, length, row_step, step,
          n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ROWS: tl.constexpr, COLS: tl.constexpr):
    lines = tl.arange(0, ROWS)
    columns = tl.arange(0, COLS)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        q = t // column_tiles
        c0 = (t - q * column_tiles).to(tl.int64) * step
        o = q // row_tiles
        r0 = (q - o * row_tiles).to(tl.int64) * row_step
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        source = x + (offset + r0 * row_stride + c0)
        target = y + ((o.to(tl.int64) * rows + r0) * length + c0)
        width = tl.minimum(length - c0, step).to(tl.int32)
        if ROWS == 1:
            values = load_unfilled(source + columns, mask=columns < width)
            tl.store(target + columns, values, mask=columns < width)
        else:
            mask = (lines[:, None] < tl.minimum(rows - r0, row_step).to(tl.int32)) & (columns[None, :] < width)
            values = load_unfilled(source + lines[:, None] * row_stride + columns[None, :], mask=mask)
            tl.store(target + lines[:, None] * length + columns[None, :], values, mask=mask)


@kernel
def rows(x, y, tiles: tl.int32, column_tiles: tl.int32, row_tiles: tl.int32, rows: tl.int64, row_stride: tl.int64,
         length: tl.int64, row_step: tl.int32, step: tl.int32, n0: tl.int64, s0: tl.int64, s1: tl.int64,
         ROWS: tl.constexpr, COLS: tl.constexpr):
    _rows(x, y, tiles, column_tiles, row_tiles, rows, row_stride, length, row_step, step,
          n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, ROWS, COLS)


@kernel
def rows_deep(x, y, tiles: tl.int32, column_tiles: tl.int32, row_tiles: tl.int32, rows: tl.int64, row_stride: tl.int64,
              length: tl.int64, row_step: tl.int32, step: tl.int32, n0: tl.int64, s0: tl.int64, n1: tl.int64,
              s1: tl.int64, n2: tl.int64, s2: tl.int64, n3: tl.int64, s3: tl.int64, n4: tl.int64, s4: tl.int64,
              n5: tl.int64, s5: tl.int64, s6: tl.int64, ROWS: tl.constexpr, COLS: tl.constexpr):
    _rows(x, y, tiles, column_tiles, row_tiles, rows, row_stride, length, row_step, step,
          n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ROWS, COLS)


# slabs: few short rows to a slab, many slabs. A tile is whole slabs; the compiler makes one DMA per slab or per row,
# whichever are fewer, without a turn of the tile loop for each.

@triton.jit
def _slabs(x, y, tiles, slab_tiles, slabs, slab_stride, slab_step, rows, row_stride, length,
           n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6,
           SLABS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    layers = tl.arange(0, SLABS)[:, None, None]
    lines = tl.arange(0, ROWS)[None, :, None]
    columns = tl.arange(0, COLS)[None, None, :]
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        o = t // slab_tiles
        l0 = (t - o * slab_tiles).to(tl.int64) * slab_step
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        source = x + (offset + l0 * slab_stride)
        target = y + (o.to(tl.int64) * slabs + l0) * rows * length
        mask = ((layers < tl.minimum(slabs - l0, slab_step).to(tl.int32)) & (lines < rows)) & (columns < length)
        values = load_unfilled(source + layers * slab_stride + lines * row_stride + columns, mask=mask)
        tl.store(target + (layers * rows + lines) * length + columns, values, mask=mask)


@kernel
def slabs(x, y, tiles: tl.int32, slab_tiles: tl.int32, slabs: tl.int64, slab_stride: tl.int64, slab_step: tl.int32,
          rows: tl.int32, row_stride: tl.int64, length: tl.int32, n0: tl.int64, s0: tl.int64, s1: tl.int64,
          SLABS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    _slabs(x, y, tiles, slab_tiles, slabs, slab_stride, slab_step, rows, row_stride, length,
           n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, SLABS, ROWS, COLS)


@kernel
def slabs_deep(x, y, tiles: tl.int32, slab_tiles: tl.int32, slabs: tl.int64, slab_stride: tl.int64, slab_step: tl.int32,
               rows: tl.int32, row_stride: tl.int64, length: tl.int32, n0: tl.int64, s0: tl.int64, n1: tl.int64,
               s1: tl.int64, n2: tl.int64, s2: tl.int64, n3: tl.int64, s3: tl.int64, n4: tl.int64, s4: tl.int64,
               n5: tl.int64, s5: tl.int64, s6: tl.int64,
               SLABS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    _slabs(x, y, tiles, slab_tiles, slabs, slab_stride, slab_step, rows, row_stride, length,
           n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, SLABS, ROWS, COLS)


# repeat: a dimension of stride 0 above dense rows. A piece of a row is loaded once, spread over ROWS lines in the
# unified buffer and stored until `copies` lines, `gap` apart in the output, are written. `inner` rows lie between two
# copies. A tile is one piece of a row and one run of at most `run` copies.

@triton.jit
def _repeat(x, y, tiles, column_tiles, runs, copies, run, inner, gap, length, step,
            n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ROWS: tl.constexpr, COLS: tl.constexpr):
    lines = tl.arange(0, ROWS)
    columns = tl.arange(0, COLS)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        q = t // column_tiles
        c0 = (t - q * column_tiles).to(tl.int64) * step
        o = (q // runs).to(tl.int64)
        first = (q - o * runs) * run
        last = tl.minimum(first + run, copies)
        width = tl.minimum(length - c0, step).to(tl.int32)
        offset = outer_offset(o, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        values = load_unfilled(x + (offset + c0) + columns, mask=columns < width)
        spread = tl.broadcast_to(values[None, :], (ROWS, COLS))
        block = o // inner
        target = y + (block * copies * gap + (o - block * inner) * length + c0)
        for r in range(first, last, ROWS):
            mask = (lines[:, None] < (last - r).to(tl.int32)) & (columns[None, :] < width)
            tl.store(target + r * gap + lines[:, None] * gap + columns[None, :], spread, mask=mask)


@kernel
def repeat(x, y, tiles: tl.int32, column_tiles: tl.int32, runs: tl.int64, copies: tl.int64, run: tl.int64,
           inner: tl.int64, gap: tl.int64, length: tl.int64, step: tl.int32, n0: tl.int64, s0: tl.int64, s1: tl.int64,
           ROWS: tl.constexpr, COLS: tl.constexpr):
    _repeat(x, y, tiles, column_tiles, runs, copies, run, inner, gap, length, step,
            n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, ROWS, COLS)


@kernel
def repeat_deep(x, y, tiles: tl.int32, column_tiles: tl.int32, runs: tl.int64, copies: tl.int64, run: tl.int64,
                inner: tl.int64, gap: tl.int64, length: tl.int64, step: tl.int32, n0: tl.int64, s0: tl.int64,
                n1: tl.int64, s1: tl.int64, n2: tl.int64, s2: tl.int64, n3: tl.int64, s3: tl.int64, n4: tl.int64,
                s4: tl.int64, n5: tl.int64, s5: tl.int64, s6: tl.int64, ROWS: tl.constexpr, COLS: tl.constexpr):
    _repeat(x, y, tiles, column_tiles, runs, copies, run, inner, gap, length, step,
            n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ROWS, COLS)


# broadcast: the last dimension has stride 0. One element per row is loaded, spread over COLS columns and stored until
# the rows are `length` long.

@triton.jit
def _broadcast(x, y, tiles, row_tiles, rows, row_stride, row_step, length,
               n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ROWS: tl.constexpr, COLS: tl.constexpr):
    lines = tl.arange(0, ROWS)
    columns = tl.arange(0, COLS)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        o = t // row_tiles
        r0 = (t - o * row_tiles).to(tl.int64) * row_step
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        height = tl.minimum(rows - r0, row_step).to(tl.int32)
        source = x + (offset + r0 * row_stride)
        values = load_unfilled(source + lines * row_stride, mask=lines < height)
        spread = tl.broadcast_to(values[:, None], (ROWS, COLS))
        target = y + (o.to(tl.int64) * rows + r0) * length
        for c0 in range(0, length, COLS):
            mask = (lines[:, None] < height) & (columns[None, :] < tl.minimum(length - c0, COLS).to(tl.int32))
            tl.store(target + c0 + lines[:, None] * length + columns[None, :], spread, mask=mask)


@kernel
def broadcast(x, y, tiles: tl.int32, row_tiles: tl.int32, rows: tl.int64, row_stride: tl.int64, row_step: tl.int32,
              length: tl.int64, n0: tl.int64, s0: tl.int64, s1: tl.int64, ROWS: tl.constexpr, COLS: tl.constexpr):
    _broadcast(x, y, tiles, row_tiles, rows, row_stride, row_step, length,
               n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, ROWS, COLS)


@kernel
def broadcast_deep(x, y, tiles: tl.int32, row_tiles: tl.int32, rows: tl.int64, row_stride: tl.int64, row_step: tl.int32,
                   length: tl.int64, n0: tl.int64, s0: tl.int64, n1: tl.int64, s1: tl.int64, n2: tl.int64, s2: tl.int64,
                   n3: tl.int64, s3: tl.int64, n4: tl.int64, s4: tl.int64, n5: tl.int64, s5: tl.int64, s6: tl.int64,
                   ROWS: tl.constexpr, COLS: tl.constexpr):
    _broadcast(x, y, tiles, row_tiles, rows, row_stride, row_step, length,
               n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ROWS, COLS)


# transpose: another dimension than the last is dense. A tile of `height` strided lines is loaded along the dense
# dimension, transposed in the unified buffer and stored along the last one. `line_stride` is the input stride of the
# last dimension, `dense_gap` the output stride of the dense one, `between` the product of the sizes of the dimensions
# between the two, `block` the output stride of the dimensions above the dense one.

@triton.jit
def _transpose(x, y, tiles, dense_tiles, line_tiles, dense, lines, line_stride, dense_gap, between, block,
               dense_step, line_step, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6,
               DENSE: tl.constexpr, LINES: tl.constexpr):
    across = tl.arange(0, DENSE)
    down = tl.arange(0, LINES)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        q = t // line_tiles
        l0 = (t - q * line_tiles).to(tl.int64) * line_step
        o = q // dense_tiles
        d0 = (q - o * dense_tiles).to(tl.int64) * dense_step
        width = tl.minimum(dense - d0, dense_step).to(tl.int32)
        height = tl.minimum(lines - l0, line_step).to(tl.int32)
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        source = x + (offset + d0 + l0 * line_stride)
        values = load_unfilled(source + down[:, None] * line_stride + across[None, :],
                               mask=(down[:, None] < height) & (across[None, :] < width))
        above = o.to(tl.int64) // between
        target = y + (above * block + (o - above * between) * lines + d0 * dense_gap + l0)
        tl.store(target + across[:, None] * dense_gap + down[None, :], tl.trans(values),
                 mask=(across[:, None] < width) & (down[None, :] < height))


@kernel
def transpose(x, y, tiles: tl.int32, dense_tiles: tl.int32, line_tiles: tl.int32, dense: tl.int64, lines: tl.int64,
              line_stride: tl.int64, dense_gap: tl.int64, between: tl.int64, block: tl.int64, dense_step: tl.int32,
              line_step: tl.int32, n0: tl.int64, s0: tl.int64, s1: tl.int64, DENSE: tl.constexpr, LINES: tl.constexpr):
    _transpose(x, y, tiles, dense_tiles, line_tiles, dense, lines, line_stride, dense_gap, between, block,
               dense_step, line_step, n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, DENSE, LINES)


@kernel
def transpose_deep(x, y, tiles: tl.int32, dense_tiles: tl.int32, line_tiles: tl.int32, dense: tl.int64, lines: tl.int64,
                   line_stride: tl.int64, dense_gap: tl.int64, between: tl.int64, block: tl.int64, dense_step: tl.int32,
                   line_step: tl.int32, n0: tl.int64, s0: tl.int64, n1: tl.int64, s1: tl.int64, n2: tl.int64,
                   s2: tl.int64, n3: tl.int64, s3: tl.int64, n4: tl.int64, s4: tl.int64, n5: tl.int64, s5: tl.int64,
                   s6: tl.int64, DENSE: tl.constexpr, LINES: tl.constexpr):
    _transpose(x, y, tiles, dense_tiles, line_tiles, dense, lines, line_stride, dense_gap, between, block,
               dense_step, line_step, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, DENSE, LINES)
