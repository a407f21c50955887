"""What each AsStrided kernel would do with a view: its arguments, its use of the unified buffer, its modelled cost.

One function per kernel family turns a view, a tile and a number of cores into a candidate, or None where the kernel
cannot serve it. Arguments come in the order of the kernels in ops/kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiling.as_strided_costs import (
    BLOCK_BYTES,
    Cycles,
    Estimate,
    Transfer,
    estimate,
    load_cycles,
    store_cycles,
    vector_cycles,
)
from tiling.as_strided_tiles import KERNELS, Tile
from tiling.as_strided_views import Outer, View, arrange, pieces, row_view
from tiling.layout import Dims, elements
from tiling.platform import Platform

Buffers = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Candidate:
    """One way to serve a call: a compiled kernel, its run-time integers and what it is expected to cost."""

    family: str
    kernel: str
    width: int
    tile: Tile
    args: tuple[int, ...]
    cores: int
    host: Dims
    ub: Buffers
    estimate: Estimate


@dataclass(frozen=True)
class Work:
    """What one tile of a candidate does, for its estimate."""

    tiles: int
    load: Transfer
    store: Transfer
    vector: float = 0.0
    stores: int = 1
    prologue: float = 0.0
    scalar: float = 0.0


def candidate(
    family: str,
    view: View,
    tile: Tile,
    outer: Outer,
    platform: Platform,
    cores: int,
    args: tuple[int, ...],
    work: Work,
    ub: Buffers,
    kernel: str | None = None,
) -> Candidate | None:
    """Assemble a candidate, or None if no such kernel is compiled or it does not fit the unified buffer."""
    kernel = kernel or outer.kernel(family)
    if kernel not in KERNELS or tile not in KERNELS[kernel].legal(view.width):
        return None
    if sum(size for _, size in ub) > platform.ub_bytes or work.tiles >= 2**31:
        return None
    cost = Cycles(
        load_cycles(platform, work.load),
        work.vector,
        work.stores * store_cycles(platform, work.store),
        work.scalar + platform.cost("loop_scalar"),
    )
    launches = elements(outer.host) if outer.host else 1
    estimated = estimate(
        platform,
        cost,
        prologue=work.prologue,
        tiles=work.tiles,
        cores=min(cores, work.tiles),
        launches=launches,
        elements=view.outputs,
        traffic=work.tiles * (work.load.bytes + work.stores * work.store.bytes),
    )
    return Candidate(
        family,
        kernel,
        view.width,
        tile,
        (work.tiles, *args, *outer.args),
        min(cores, work.tiles),
        outer.host,
        ub,
        estimated,
    )


def blocks(count: int, width: int) -> int:
    """Bytes of `count` elements in the unified buffer, where a row starts on a whole block."""
    return -(-count * width // BLOCK_BYTES) * BLOCK_BYTES


def rows(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """The last dimension is dense: blocks of rows, or pieces of one row (ROWS == 1)."""
    view = row_view(view)
    *above, (length, stride) = view.dims
    lines, columns = tile
    count, row_stride = above.pop() if above else (1, 0)
    if stride != 1 or (lines > 1 and (count == 1 or length > 4 * columns)):
        return None
    outer = arrange(above)
    align = BLOCK_BYTES // view.width
    if lines == 1:
        row_step, row_tiles = 1, count
        step, column_tiles = pieces(length, columns, outer.count * count, cores, align)
    else:
        step, column_tiles = pieces(length, columns, cores, cores, align)
        row_step, row_tiles = pieces(count, lines, outer.count * column_tiles, cores, 1)
    # A row longer than its stride leaves no gap to skip: the template falls back to one instruction per row.
    instructions = row_step if row_stride < length else 1
    work = Work(
        outer.count * row_tiles * column_tiles,
        Transfer(instructions, row_step, step * view.width),
        Transfer(1, row_step, step * view.width),
    )
    args = (column_tiles, row_tiles, count, row_stride, length, row_step, step)
    # Loads and stores share the tile; two of them alternate.
    ub = (("2 tiles", 2 * lines * blocks(columns, view.width)),)
    return candidate("rows", view, tile, outer, platform, cores, args, work, ub)


def slabs(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """Few dense rows to a slab: whole slabs, one DMA per slab or per row of slabs."""
    view = row_view(view)
    if len(view.dims) < 3 or view.dims[-1][1] != 1:
        return None
    *above, (count, slab_stride), (lines, row_stride), (length, _) = view.dims
    layers, most_lines, columns = tile
    if lines > most_lines or length > columns:
        return None
    outer = arrange(above, deep=True)
    slab_step, slab_tiles = pieces(count, layers, outer.count, cores, 1)
    bursts = slab_step * lines
    instructions = bursts if row_stride < length else min(slab_step, lines)
    work = Work(
        outer.count * slab_tiles,
        Transfer(instructions, bursts, length * view.width),
        Transfer(min(slab_step, lines), bursts, length * view.width),
    )
    args = (slab_tiles, count, slab_stride, slab_step, lines, row_stride, length)
    ub = (("2 tiles", 2 * layers * most_lines * blocks(columns, view.width)),)
    return candidate("slabs", view, tile, outer, platform, cores, args, work, ub)


def repeat(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """A dimension of stride 0 above dense rows: load a piece of a row once, store it many times."""
    view = row_view(view)
    *above, (length, stride) = view.dims
    zeros = [place for place, (_, step) in enumerate(above) if step == 0]
    if stride != 1 or not zeros:
        return None
    place = max(zeros, key=lambda p: above[p][0])
    lines, columns = tile
    copies = above[place][0]
    inner = math.prod(size for size, _ in above[place + 1 :])
    outer = arrange([*above[:place], *above[place + 1 :]])
    if len(outer.host) > place:  # the host steps over whole outputs of the dimensions below, copies included
        return None
    align = BLOCK_BYTES // view.width
    step, column_tiles = pieces(length, columns, outer.count * copies, cores, align)
    run, runs = pieces(copies, copies, outer.count * column_tiles, cores, lines)
    stores = -(-run // lines)
    spread = vector_cycles(platform, lines * columns, max(view.width, 2))
    if view.width == 1:  # spread as two-byte floats
        spread += vector_cycles(platform, columns, 2, "vconv") + vector_cycles(platform, lines * columns, 2, "vconv")
    work = Work(
        outer.count * runs * column_tiles,
        Transfer(1, 1, step * view.width),
        Transfer(1, min(lines, run), step * view.width),
        vector=spread if lines > 1 else 0.0,
        stores=stores,
        # Each store is issued by the scalar unit, which decodes nothing for it: a quarter of a loop turn.
        scalar=stores * platform.cost("loop_scalar") / 4,
    )
    args = (column_tiles, runs, copies, run, inner, inner * length, length, step)
    ub: Buffers = (("2 rows", 2 * blocks(columns, view.width)),)
    if lines > 1:
        ub = (*ub, ("2 spread", 2 * lines * blocks(columns, view.width)))
        if view.width == 1:
            ub = (*ub, ("as halves", (lines + 1) * blocks(columns, 2)))
    return candidate("repeat", view, tile, outer, platform, cores, args, work, ub)


def broadcast(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """The last dimension has stride 0: one element a row, spread and stored."""
    *above, (length, stride) = view.dims
    if stride != 0 or view.width > 8:
        return None
    lines, columns = tile
    count, row_stride = above.pop() if above else (1, 0)
    outer = arrange(above)
    row_step, row_tiles = pieces(count, lines, outer.count, cores, 1)
    stores = -(-length // columns)
    # Single bytes are spread as two-byte floats and converted; 8-byte elements are filled in row by row.
    spread = vector_cycles(platform, lines * columns, max(view.width, 2))
    if view.width == 1:
        spread += vector_cycles(platform, lines * columns, 2, "vconv")
    elif view.width == 8:
        spread = lines * (vector_cycles(platform, columns, 8) + platform.cost("scalar_access"))
    work = Work(
        outer.count * row_tiles,
        Transfer(1, row_step, view.width),
        Transfer(1, row_step, min(length, columns) * view.width),
        vector=spread,
        stores=stores,
        scalar=stores * platform.cost("loop_scalar") / 4,
    )
    args = (row_tiles, count, row_stride, row_step, length)
    ub: Buffers = (
        ("2 elements", 2 * lines * BLOCK_BYTES),
        ("2 spread", 2 * lines * columns * view.width),
        ("aligned", lines * BLOCK_BYTES),
    )
    if view.width == 1:
        ub = (*ub, ("as halves", lines * (BLOCK_BYTES + 2 * columns)))
    return candidate("broadcast", view, tile, outer, platform, cores, args, work, ub)


# An 8-byte transpose is made of many 4 x 4 ones: eight times the cycles of a 4-byte one (device level of the emulator,
# 1.99 cycles an element against 0.25).
_TRANSPOSE_8_BYTES = 8


def transpose(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """Another dimension than the last is dense: tiles loaded along it and transposed."""
    *above, (lines, line_stride) = view.dims
    dense = [place for place, (_, step) in enumerate(above) if step == 1]
    if line_stride <= 1 or not dense or view.width > 8:
        return None
    place = dense[-1]
    extent = above[place][0]
    below = above[place + 1 :]
    outer = arrange([*above[:place], *below])
    if len(outer.host) > place:
        return None
    most_dense, most_lines = tile
    dense_step, dense_tiles = pieces(extent, most_dense, cores, cores, 8)
    line_step, line_tiles = pieces(lines, most_lines, cores, cores, 8)
    between = math.prod(size for size, _ in below)
    factor = _TRANSPOSE_8_BYTES if view.width == 8 else 1
    work = Work(
        outer.count * dense_tiles * line_tiles,
        Transfer(1, line_step, dense_step * view.width),
        Transfer(1, dense_step, line_step * view.width),
        vector=most_dense * most_lines * platform.cost("transpose_element") * factor,
    )
    gap = between * lines
    args = (dense_tiles, line_tiles, extent, lines, line_stride, gap, between, extent * gap, dense_step, line_step)
    area = most_dense * most_lines * view.width
    # 4 x 4 blocks of 8 bytes pass through 4 KiB of their own.
    ub = (("2 loaded", 2 * area), ("2 transposed", 2 * area), *((("blocks", 4096),) if view.width == 8 else ()))
    return candidate("transpose", view, tile, outer, platform, cores, args, work, ub)
