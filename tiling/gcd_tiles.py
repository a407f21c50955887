"""Tiles of gcd: which there are, what they need in UB, and what they cost.

>>> linear_tiles("int32")[0]
Tile(rows=1, cols=4928, parts=1)
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from tiling.gcd_layout import COLUMN, LINE, MATRIX, ROW, SCALAR, SCATTERED, Kinds
from tiling.platform import Platform

# Bytes of every dtype the kernels load or store. Unsigned ones beyond uint8 are only stored, as the bits of the signed
# one.
BYTES = MappingProxyType(
    {
        "bool": 1,
        "int8": 1,
        "uint8": 1,
        "int16": 2,
        "uint16": 2,
        "float16": 2,
        "bfloat16": 2,
        "int32": 4,
        "uint32": 4,
        "float32": 4,
        "int64": 8,
        "uint64": 8,
    }
)
COMPUTE = ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32")
TWO_LOOPS = ("int64", "bfloat16", "float32")


@dataclass(frozen=True)
class Tile:
    """rows x cols elements; `parts` sub-tiles where magnitudes are large."""

    rows: int
    cols: int
    parts: int = 1

    @property
    def area(self) -> int:
        """Elements."""
        return self.rows * self.cols


# Linear tiles, largest first: the largest that keeps double buffering with one dtype throughout (found by compiling;
# int8 would keep it up to 24576, but from 19712 on loads share UB with arithmetic and wait for it: 0.62 cycles, not
# 0.59), a half and a quarter of it for balance among cores and for mixed dtypes, and a small one of 512 words (256
# words a core is the documented minimum) for small problems. Multiples of 64 elements, so that chunks of every out
# dtype end on 16 words.
_LINEAR = MappingProxyType(
    {
        "int8": (Tile(1, 19648), Tile(1, 9792), Tile(1, 4864), Tile(1, 2048)),
        "uint8": (Tile(1, 22528), Tile(1, 11264), Tile(1, 5632), Tile(1, 2048)),
        "int16": (Tile(1, 15040), Tile(1, 7488), Tile(1, 3712), Tile(1, 1024)),
        "float16": (Tile(1, 11264), Tile(1, 5632), Tile(1, 2816), Tile(1, 1024)),
        "int32": (Tile(1, 4928), Tile(1, 2432), Tile(1, 1216), Tile(1, 512)),
        "float32": (Tile(1, 6144, 3), Tile(1, 3072, 2), Tile(1, 1536), Tile(1, 512)),
        "bfloat16": (Tile(1, 6144, 3), Tile(1, 3072, 2), Tile(1, 1536), Tile(1, 512)),
        "int64": (Tile(1, 2048), Tile(1, 1024), Tile(1, 512), Tile(1, 256)),
    }
)

# Columns of the wide, medium and narrow tile of gcd_tiled; rows fill the largest linear tile. And a small one.
_COLUMNS = (2048, 256, 32)
_SMALL = Tile(8, 64)
# Where a matrix meets a scalar, or a row a column, the medium and the small tile do.
_ALL_SHAPES = ((MATRIX, MATRIX), (MATRIX, ROW), (MATRIX, COLUMN))
# A scattered out takes 32 bytes of UB for every element (the smallest burst): 1024 elements of 32 bytes are 32 KiB a
# buffer.
_SCATTERED = Tile(8, 128)


def linear_tiles(compute: str) -> tuple[Tile, ...]:
    """Tiles of gcd_linear, largest first."""
    return _LINEAR[compute]


def tiled_tiles(compute: str, kinds: Kinds) -> tuple[Tile, ...]:
    """Tiles of gcd_tiled for these operand kinds, largest first."""
    if kinds[2] == SCATTERED:
        return (_SCATTERED,)
    largest = _LINEAR[compute][0]
    shapes = []
    for cols in _COLUMNS if kinds[:2] in _ALL_SHAPES else _COLUMNS[1:2]:
        area = largest.cols if cols >= 256 else largest.cols * 15 // 16  # short rows leave gaps in the compiler's plan
        rows = area // cols // largest.parts * largest.parts
        # A column of single bytes must have an even number of them (tests/findings/test_odd_byte_fill.py), whatever the
        # compute dtype; one row is always whole and never filled. Three rows in three parts have no even neighbour.
        if COLUMN in kinds and rows > 1 and rows % 2:
            rows = rows - 1 if largest.parts == 1 else 0
        if rows:
            shapes.append(Tile(rows, cols, largest.parts))
    return (*shapes, _SMALL)


# Bytes per element that stay in UB beside double-buffered loads and stores: arithmetic temporaries after the compiler
# has reused buffers. What the largest double-buffered tile of one dtype leaves: 196608 / cols - 2 * (in + in + out).
_TEMPORARIES = MappingProxyType(
    {
        "int8": 4.0,
        "uint8": 2.7,
        "int16": 1.0,
        "float16": 5.4,
        "int32": 15.8,
        "float32": 8.0,
        "bfloat16": 14.0,
        "int64": 48.0,
    }
)
# Bytes per element of an operand in the dtype its arithmetic wants; a cast operand or result needs it besides its
# buffer.
_WORKING = MappingProxyType(
    {"int8": 2, "uint8": 2, "int16": 2, "float16": 4, "int32": 4, "float32": 4, "bfloat16": 4, "int64": 8}
)


def ub_budget(platform: Platform) -> int:
    """Bytes a tile may need by `ub_items`:

    all of UB, because the compiler's own planner decides, and a test asks it.
    """
    return platform.ub_bytes


def ub_items(
    compute: str, self_dtype: str, other_dtype: str, out_dtype: str, kinds: Kinds, tile: Tile, multibuffer: bool
) -> tuple[tuple[str, int], ...]:
    """UB bytes by buffer. Dtypes in kernel order. An estimate: buffers are reused across their lifetimes."""
    buffers = 2 if multibuffer else 1
    items = []
    for name, dtype, kind in (("self", self_dtype, kinds[0]), ("other", other_dtype, kinds[1])):
        loaded = {LINE: tile.area, MATRIX: tile.area, ROW: tile.cols, COLUMN: tile.rows, SCALAR: 0}[kind]
        items.append((f"{name} x{buffers}", buffers * loaded * BYTES[dtype]))
        if dtype == "bool":
            items.append((f"{name} as 0 or 1", loaded * 2))  # float16
        if dtype != compute:
            items.append((f"{name} cast", tile.area * _WORKING[compute]))
    stored = 32 if kinds[2] == SCATTERED else BYTES[out_dtype]
    items.append((f"out x{buffers}", buffers * tile.area * stored))
    if out_dtype != compute:
        items.append(("out cast", tile.area * _WORKING[compute]))
    items.append(("temporaries", int(tile.area * _TEMPORARIES[compute])))
    return tuple(items)


# Vector cycles of one tile: slope per element, and per tile (heads, tails, barriers, scalars). Lines through what the
# cycle model of the device level gives for the four linear tiles, for the largest magnitudes of integers and for floats
# up to 2^23.
_VECTOR = MappingProxyType(
    {
        "int8": (0.58, 900),
        "uint8": (0.62, 1330),
        "int16": (1.41, 2580),
        "float16": (2.37, 2080),
        "int32": (5.0, 4350),
        "float32": (3.45, 2920),
        "bfloat16": (3.53, 3020),
        "int64": (25.7, 20200),
    }
)


def cycles(compute: str, kinds: Kinds, tile: Tile, rows: int, platform: Platform, multibuffer: bool) -> float:
    """Modelled cycles of one tile of which `rows` rows exist: the slowest of loads, arithmetic and stores.

    Arithmetic runs over the whole tile whatever exists of it; loads and stores pay one burst a row.
    """
    slope, start = _VECTOR[compute]
    vector = slope * tile.area + start
    size = BYTES[compute] * rows * tile.cols
    bursts = rows * platform.cost("burst")
    loads = sum(
        platform.cost("dma_latency") + size / platform.cost("gm_to_ub") + bursts
        for kind in kinds[:2]
        if kind in (LINE, MATRIX)
    )
    stores = platform.cost("dma_latency") + size / platform.cost("ub_to_gm") + bursts
    if kinds[2] == SCATTERED:
        stores += rows * tile.cols * platform.cost("burst")
    index = platform.cost("loop_scalar")
    return index + (max(vector, loads, stores) if multibuffer else vector + loads + stores)
