"""The documented tiling of AsStrided: its twelve paths, the order in which they are tested, and the core targets.

This reproduces the decisions of the public Ascend C operator as facts. They name a call's path; which kernel serves it
and with what tile is decided from costs, in as_strided.py.

    >>> classify((1000,), (1,), 0, 4).name
    'CONTIGUOUS_SMALL_ALIGNED'
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from tiling.layout import contiguous_strides, span
from tiling.platform import UB_BYTES

BLOCK_BYTES = 32  # a block of the unified buffer, the unit of DMA alignment
RESERVED_UB_BYTES = 1024  # the documented design keeps this much of the unified buffer for itself
COMPACT_MIN_OUTPUTS = 1024
COMPACT_MAX_SPAN = 4096
GROUPED_MAX_OUTPUTS = 50_000
SMALL_ALIGNED_BYTES = (512, 8192)
RANK1_MAX_SPAN = 16_384
SUFFIX_MAX_WORDS = 8192  # 4-byte types keep their suffix this short


class TilingKey(enum.Enum):
    """The documented paths; the values are this project's own, the order that of the documented design."""

    CONTIGUOUS = 0
    STRIDE_1 = 1
    GENERAL_STRIDE = 2
    BROADCAST = 3
    SCALAR = 4
    RANK1_STRIDE = 5
    STRIDE1_ROW_BATCH = 6
    GENERAL_SMALL_SPAN = 7
    RANK1_STRIDE_SPAN = 8
    CONTIGUOUS_SMALL_ALIGNED = 9
    COMPACT_SPAN = 10
    COMPACT_SUFFIX = 11


def classify(
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
    itemsize: int,
    cores: int = 40,
    ub_bytes: int = UB_BYTES,
) -> TilingKey:
    """The documented path of a call: sizes and strides as given, nothing merged.

    itemsize in bytes, offset in elements. `cores` and `ub_bytes` are those of the chip: they decide between the two
    compact paths.
    """
    outputs = math.prod(size)
    if outputs == 0 or not size:
        return TilingKey.SCALAR
    rank = len(size)
    if _is_contiguous(size, stride):
        total = outputs * itemsize
        low, high = SMALL_ALIGNED_BYTES
        aligned = total % BLOCK_BYTES == 0 and offset * itemsize % BLOCK_BYTES == 0
        return TilingKey.CONTIGUOUS_SMALL_ALIGNED if low <= total <= high and aligned else TilingKey.CONTIGUOUS
    reach = span(tuple(zip(size, stride, strict=True)))
    if rank > 1 and outputs > COMPACT_MIN_OUTPUTS and reach <= COMPACT_MAX_SPAN:
        usable = ub_bytes - RESERVED_UB_BYTES
        if reach * itemsize <= usable:
            return _compact(size, stride, itemsize, cores, usable)
    if stride[-1] == 0:
        return TilingKey.BROADCAST
    if stride[-1] == 1:
        batch = rank >= 2 and size[-1] <= 4 and outputs <= 512 and stride[-2] >= size[-1]
        return TilingKey.STRIDE1_ROW_BATCH if batch else TilingKey.STRIDE_1
    if rank == 1:
        return TilingKey.RANK1_STRIDE_SPAN if reach <= RANK1_MAX_SPAN else TilingKey.RANK1_STRIDE
    return TilingKey.GENERAL_SMALL_SPAN if size[-1] <= 8 and outputs <= 1024 else TilingKey.GENERAL_STRIDE


def _is_contiguous(size: Sequence[int], stride: Sequence[int]) -> bool:
    dense = contiguous_strides(size)
    return all(extent == 1 or step == natural for extent, step, natural in zip(size, stride, dense, strict=True))


def _is_grouped(size: Sequence[int], stride: Sequence[int], itemsize: int) -> bool:
    """Rank 2, few outputs, dense rows or a 2-byte type: the documented design packs several rows at a time."""
    return len(size) == 2 and math.prod(size) < GROUPED_MAX_OUTPUTS and (stride[-1] == 1 or itemsize == 2)


def _compact(size: Sequence[int], stride: Sequence[int], itemsize: int, cores: int, usable: int) -> TilingKey:
    if _is_grouped(size, stride, itemsize):
        return TilingKey.COMPACT_SUFFIX
    outputs = math.prod(size)
    wanted = _compact_blocks(size, stride, itemsize, cores)
    suffix = outputs
    for extent in size[:-1]:
        suffix //= extent
        # The whole span and one packed suffix share the unified buffer.
        fits = suffix * itemsize + span(tuple(zip(size, stride, strict=True))) * itemsize <= usable
        if itemsize == 4 and suffix > SUFFIX_MAX_WORDS:
            fits = False
        if fits and outputs // suffix >= wanted:
            return TilingKey.COMPACT_SUFFIX
    return TilingKey.COMPACT_SPAN


def _compact_blocks(size: Sequence[int], stride: Sequence[int], itemsize: int, cores: int) -> int:
    """How many outer blocks a suffix must leave."""
    outputs = math.prod(size)
    chunks = math.ceil(outputs * itemsize / 2048)
    if len(size) == 2 and stride[-1] != 1 and itemsize == 4:
        return min(cores, chunks)
    return min(cores, 8 * chunks) if outputs < GROUPED_MAX_OUTPUTS else cores


def documented_cores(key: TilingKey, size: Sequence[int], stride: Sequence[int], itemsize: int, cores: int = 40) -> int:
    """How many cores the documented design uses for a call on this path, of `cores` there are."""
    outputs = math.prod(size)
    total = outputs * itemsize
    rows = outputs // size[-1] if size and size[-1] else 1
    if key is TilingKey.SCALAR:
        return 1
    if key in (TilingKey.CONTIGUOUS, TilingKey.CONTIGUOUS_SMALL_ALIGNED):
        return min(cores, math.ceil(total / 6144))
    if key in (TilingKey.RANK1_STRIDE, TilingKey.RANK1_STRIDE_SPAN):
        fine = key is TilingKey.RANK1_STRIDE_SPAN and itemsize == 2 and stride[-1] <= 4 and outputs >= 128
        return min(cores, math.ceil(total / (128 if fine else 512)))
    if key in (TilingKey.COMPACT_SPAN, TilingKey.COMPACT_SUFFIX):
        strided_group = itemsize == 2 and stride[-1] != 1 and _is_grouped(size, stride, itemsize)
        return min(cores, math.ceil(total / (6144 if strided_group else 2048)))
    if key in (TilingKey.STRIDE1_ROW_BATCH, TilingKey.GENERAL_SMALL_SPAN):
        return min(cores, math.ceil(rows / 16)) if outputs >= 128 and rows >= 32 else 1
    return min(cores, rows)
