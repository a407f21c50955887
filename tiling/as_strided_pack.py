"""What the packing kernels (gather, bursts, split) would do with a view. The counterpart of as_strided_kernels.py."""

from __future__ import annotations

from tiling.as_strided_costs import Transfer, gather_cycles, lane_table_cycles, vector_cycles
from tiling.as_strided_kernels import Buffers, Candidate, Work, blocks, candidate
from tiling.as_strided_tiles import INNER_DEEP, Tile
from tiling.as_strided_views import View, arrange, pieces
from tiling.layout import Dims, elements, span
from tiling.platform import Platform

# Beyond this many elements of span per output nearly all that is fetched is dropped: memory that all cores share is
# then worth more than the cycles of one, and a burst per element moves less.
_SPARSEST = 64


def _halves(width: int, *lengths: int) -> Buffers:
    """Buffers of two-byte floats as which the vector unit handles single bytes, one for each length."""
    return (("as halves", sum(blocks(length, 2) for length in lengths)),) if width == 1 else ()


def gather(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """A block of outputs whose span is loaded whole and packed by a vector gather."""
    view = view.narrow(4)
    most_span, block = tile
    above, (count, major), inner = _cut(view.dims, most_span, block)
    lanes = elements(inner) if inner else 1
    reach = span(inner) if inner else 1
    if lanes > block or reach > most_span:
        return None
    outer = arrange(above, deep=len(inner) > 2)
    levels = INNER_DEEP if outer.deep else len(inner)
    kernel = "gather_deep" if outer.deep else f"gather_inner{levels}" if levels else "gather"
    most = min(block // lanes, (most_span - reach) // major + 1 if major else count)
    step, count_tiles = pieces(count, most, outer.count, cores, 1)
    covered = reach + (step - 1) * major
    if covered > _SPARSEST * step * lanes:
        return None
    work = Work(
        outer.count * count_tiles,
        Transfer(1, 1, covered * view.width),
        Transfer(1, 1, step * lanes * view.width),
        vector=gather_cycles(platform, block, most_span, view.width),
        prologue=lane_table_cycles(platform, block, levels),
    )
    args: tuple[int, ...] = (count_tiles, count, major if count > 1 else 0, step)
    if kernel != "gather":
        padded = [*reversed(inner), *[(1, 0)] * (levels - len(inner))]
        args = (*args, lanes, reach, *[value for dim in padded for value in dim])
    ub: Buffers = (
        ("2 spans", 2 * blocks(most_span, view.width)),
        ("2 packed", 2 * blocks(block, view.width)),
        *_halves(view.width, most_span, block),
    )
    # Lane numbers and byte offsets, and two more for every level while they are built; where not all of those fit, the
    # compiler lets some share.
    tables = min(2 + 2 * levels, (platform.ub_bytes - sum(size for _, size in ub)) // blocks(block, 4))
    ub = (*ub, (f"{tables} lane tables", tables * blocks(block, 4)))
    return candidate("gather", view, tile, outer, platform, cores, args, work, ub, kernel)


def _cut(dims: Dims, most_span: int, block: int) -> tuple[Dims, tuple[int, ...], Dims]:
    """Dimensions above, at and below the one a gather steps over: as many below as a block holds."""
    place = len(dims) - 1
    while place > 0 and len(dims) - place <= INNER_DEEP:
        below = dims[place:]
        if elements(below) > block or span(below) > most_span:
            break
        place -= 1
    return dims[:place], dims[place], dims[place + 1 :]


def bursts(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """Sparse elements: one padded burst each, the padding dropped by a gather."""
    items, width, words = tile
    if view.width > 4:
        if view.width != 4 * words:
            return None
        view = View(tuple((size, stride * words) for size, stride in view.dims), 4, view.outputs)
        *above, (count, major) = view.dims
    elif words > 1:
        *above, last = view.dims
        if last != (words, 1) or not above:
            return None
        count, major = above.pop()
    else:
        *above, (count, major) = view.dims
    outer = arrange(above)
    step, count_tiles = pieces(count, items, outer.count, cores, 32 // view.width)
    work = Work(
        outer.count * count_tiles,
        Transfer(1, step, words * view.width),
        Transfer(1, 1, step * words * view.width),
        vector=gather_cycles(platform, items * words, items * width, view.width),
        prologue=vector_cycles(platform, items * words, 4) * 3,
    )
    args = (count_tiles, count, major, step)
    lanes = items * words
    ub = (
        ("2 padded", 2 * items * 32),
        ("2 packed", 2 * blocks(lanes, view.width)),
        # Pairs and quads take two more tables to compute which.
        ("lane tables", (2 if words == 1 else 4) * blocks(lanes, 4)),
        *_halves(view.width, items * width),
    )
    return candidate("bursts", view, tile, outer, platform, cores, args, work, ub)


def split(view: View, tile: Tile, platform: Platform, cores: int) -> Candidate | None:
    """Stride 2, or 4 for 1- and 2-byte elements: the vector unit's pattern instruction, halving."""
    *above, (count, stride) = view.dims
    wanted, block = tile
    if stride != wanted or view.width > 4:
        return None
    outer = arrange(above)
    step, count_tiles = pieces(count, block, outer.count, cores, 32 // view.width)
    held = max(view.width, 2)  # single bytes are halved as two-byte floats
    halving = vector_cycles(platform, block * stride, held, "vreducev2")
    if stride == 4:
        halving += vector_cycles(platform, block * 2, held, "vreducev2")
    if view.width == 1:
        halving += vector_cycles(platform, block * stride, 2, "vconv") + vector_cycles(platform, block, 2, "vconv")
    work = Work(
        outer.count * count_tiles,
        Transfer(1, 1, ((step - 1) * stride + 1) * view.width),
        Transfer(1, 1, step * view.width),
        vector=halving,
    )
    args = (count_tiles, count, step)
    # What is halved, and for stride 4 the half again; single bytes as halves on the way.
    steps = [block * stride // 2] if stride == 2 else [block * 2, block]
    packed = 2 * blocks(block if view.width == 1 else steps[0], view.width)
    ub = (
        ("2 spans", 2 * blocks(block * stride, view.width)),
        ("2 packed", packed),
        *_halves(view.width, block * stride, *steps, *steps[:-1]),
    )
    return candidate("split", view, tile, outer, platform, cores, args, work, ub)
