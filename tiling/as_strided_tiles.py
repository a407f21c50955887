"""Every tile an AsStrided kernel is compiled with: the closed set from which plans choose.

A tile is the kernel's constexprs in its own order. Sizes are capacities; what a call uses of them is a run-time
argument. Not all are powers of two: gather blocks exist for the strides 3, 5, 6 and 7 because a gather pays for every
lane of its block, and the span a block may cover is bounded by the unified buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Tile = tuple[int, ...]

OUTER_PLAIN = 2  # outer dimensions a plain kernel decodes
OUTER_DEEP = 7  # and a deep one
INNER_DEEP = 6  # inner dimensions the deep gather decodes

# Elements of the span a gather loads at once, by element width in bytes: 32 KiB, of which two are live, and half of
# that for single bytes, which are also held as two-byte floats.
SPANS = {4: 8192, 2: 16384, 1: 16384}


@dataclass(frozen=True)
class KernelTiles:
    """One compiled family: kernel name, names of its constexprs, element widths in bytes, and its tiles."""

    kernel: str
    names: tuple[str, ...]
    tiles: Mapping[int, tuple[Tile, ...]]

    def legal(self, width: int) -> tuple[Tile, ...]:
        """The tiles for elements of `width` bytes; none if the kernel does not take them."""
        return self.tiles.get(width, ())


# 16 KiB a tile: a DMA of that size spends a sixth of its time on issue, and four cores' worth fill the memory anyway;
# larger ones gain nothing on the device and fall out of the first-level cache under the emulator.

# rows: two tiles = 32 KiB of 192. One row at a time beyond 4 KiB of row; at most 512 bursts to a DMA.
_ROWS_4 = ((1, 4096), (4, 1024), (8, 512), (16, 256), (32, 128), (64, 64), (128, 32), (512, 8))
_ROWS_1 = ((1, 16384), (4, 4096), (8, 2048), (16, 1024), (32, 512), (64, 256), (128, 128), (512, 32))

# slabs: 32 KiB, because the compiler makes an instruction of every slab or row: two tiles = 64 KiB.
_SLABS_4 = ((32, 4, 64), (8, 16, 64), (8, 4, 256), (2, 16, 256))
_SLABS_1 = ((32, 4, 256), (8, 16, 256), (8, 4, 1024), (2, 16, 1024))

# repeat: the spread copy, double-buffered, beside two loaded pieces of a row.
_REPEAT_4 = ((1, 4096), (4, 1024), (16, 256), (128, 32))
_REPEAT_1 = ((1, 16384), (4, 4096), (16, 1024), (128, 128))

# broadcast: the spread copy, double-buffered = 32 KiB; loaded elements take 32 bytes each.
_BROADCAST = {
    8: ((2, 1024), (16, 128), (64, 32)),
    4: ((4, 1024), (16, 256), (128, 32)),
    2: ((4, 2048), (32, 256), (256, 32)),
    1: ((4, 2048), (32, 512), (256, 32)),
}

# transpose: both sides hold 16 elements and 32 bytes or more. Loaded and transposed tile, double-buffered: 64 KiB.
_TRANSPOSE = {
    8: ((32, 32), (16, 16)),
    4: ((64, 64), (32, 32), (128, 16), (16, 128)),
    2: ((64, 64), (32, 32), (128, 16), (16, 128)),
    1: ((128, 128), (32, 32), (128, 32), (32, 128)),
}

# A gather's cost is its block. For 4-byte elements, whose span holds 8192, the exact blocks of strides 3 and 5 to 8;
# narrower elements have twice the span, so that powers of two are nearly exact.
_EXACT = (4096, 2720, 2048, 1632, 1360, 1168, 1024, 512, 128)
_NARROW = (4096, 2720, 2048, 1360, 1024, 512, 128)
_INNER = (4096, 2720, 2048, 1360, 1024, 640, 512)
_COARSE = (4096, 2048, 1024, 512)
_DEEP = (4096, 1024)


def _gather(words: tuple[int, ...], narrow: tuple[int, ...]) -> dict[int, tuple[Tile, ...]]:
    return {width: tuple((span, block) for block in (words if width == 4 else narrow)) for width, span in SPANS.items()}


KERNELS: dict[str, KernelTiles] = {
    entry.kernel: entry
    for entry in (
        KernelTiles("rows", ("ROWS", "COLS"), {4: _ROWS_4, 1: _ROWS_1}),
        KernelTiles("rows_deep", ("ROWS", "COLS"), {4: (_ROWS_4[0], *_ROWS_4[2::2]), 1: (_ROWS_1[0], *_ROWS_1[2::2])}),
        KernelTiles("slabs_deep", ("SLABS", "ROWS", "COLS"), {4: _SLABS_4, 1: _SLABS_1}),
        KernelTiles("repeat", ("ROWS", "COLS"), {4: _REPEAT_4, 1: _REPEAT_1}),
        KernelTiles("repeat_deep", ("ROWS", "COLS"), {4: _REPEAT_4[::2], 1: _REPEAT_1[::2]}),
        KernelTiles("broadcast", ("ROWS", "COLS"), _BROADCAST),
        KernelTiles("broadcast_deep", ("ROWS", "COLS"), {width: (tiles[1],) for width, tiles in _BROADCAST.items()}),
        KernelTiles("transpose", ("DENSE", "LINES"), _TRANSPOSE),
        KernelTiles("transpose_deep", ("DENSE", "LINES"), {width: (tiles[1],) for width, tiles in _TRANSPOSE.items()}),
        KernelTiles("gather", ("SPAN", "BLOCK"), _gather(_EXACT, _NARROW)),
        KernelTiles("gather_inner1", ("SPAN", "BLOCK"), _gather(_INNER, _COARSE)),
        KernelTiles("gather_inner2", ("SPAN", "BLOCK"), _gather(_COARSE, _COARSE)),
        KernelTiles("gather_deep", ("SPAN", "BLOCK"), _gather(_DEEP, _DEEP)),
        # bursts: ITEMS padded to 32 bytes = 32 KiB, double-buffered 64 KiB; WIDTH is 32 bytes in elements.
        KernelTiles(
            "bursts",
            ("ITEMS", "WIDTH", "WORDS"),
            {
                4: ((1024, 8, 1), (128, 8, 1), (1024, 8, 2), (128, 8, 2), (512, 8, 4), (64, 8, 4)),
                2: ((1024, 16, 1), (128, 16, 1)),
                1: ((512, 32, 1), (128, 32, 1)),
            },
        ),
        KernelTiles(
            "bursts_deep",
            ("ITEMS", "WIDTH", "WORDS"),
            {4: ((512, 8, 1), (512, 8, 2), (512, 8, 4)), 2: ((512, 16, 1),), 1: ((512, 32, 1),)},
        ),
        # split: BLOCK * STRIDE elements loaded, twice; half and a quarter of them packed.
        KernelTiles(
            "split",
            ("STRIDE", "BLOCK"),
            {
                4: ((2, 4096), (2, 1024), (2, 512)),
                2: ((2, 8192), (2, 1024), (4, 4096), (4, 1024)),
                1: ((2, 8192), (2, 1024), (4, 4096), (4, 1024)),
            },
        ),
        KernelTiles(
            "split_deep", ("STRIDE", "BLOCK"), {4: ((2, 4096),), 2: ((2, 4096), (4, 4096)), 1: ((2, 4096), (4, 4096))}
        ),
    )
}
FAMILIES = ("rows", "slabs", "repeat", "broadcast", "transpose", "gather", "bursts", "split")


def count() -> int:
    """How many kernels can be compiled in all: kernel x width x tile."""
    return sum(len(tiles) for entry in KERNELS.values() for tiles in entry.tiles.values())
