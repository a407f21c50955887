"""The documented classification, held to hand-checked cases on both sides of every threshold."""

from __future__ import annotations

import pytest

from tiling.as_strided import AsStridedProblem, plan
from tiling.as_strided_keys import TilingKey, classify, documented_cores
from tiling.platform import platform

K = TilingKey

# (size, stride, offset, itemsize, key); the comment gives the arithmetic that decides.
CASES = [
    # contiguous: 512..8192 bytes, both total and offset whole 32-byte blocks
    ((128,), (1,), 0, 4, K.CONTIGUOUS_SMALL_ALIGNED),  # 512 bytes
    ((120,), (1,), 0, 4, K.CONTIGUOUS),  # 480 bytes
    ((2048,), (1,), 0, 4, K.CONTIGUOUS_SMALL_ALIGNED),  # 8192 bytes
    ((2056,), (1,), 0, 4, K.CONTIGUOUS),  # 8224 bytes
    ((130,), (1,), 0, 4, K.CONTIGUOUS),  # 520 bytes are no whole blocks
    ((1024,), (1,), 8, 4, K.CONTIGUOUS_SMALL_ALIGNED),  # offset 32 bytes
    ((1024,), (1,), 4, 4, K.CONTIGUOUS),  # offset 16 bytes
    ((16, 32), (32, 1), 0, 2, K.CONTIGUOUS_SMALL_ALIGNED),
    ((1, 128, 1), (7, 1, 9), 0, 4, K.CONTIGUOUS_SMALL_ALIGNED),  # strides of size-1 dimensions do not count
    ((100_000,), (1,), 3, 1, K.CONTIGUOUS),
    ((1,), (0,), 0, 4, K.CONTIGUOUS),
    # compact: rank over 1, more than 1024 outputs, span of at most 4096 elements
    ((41, 25), (26, 1), 0, 4, K.COMPACT_SUFFIX),  # 1025 outputs, span 1065, grouped rows
    ((32, 32), (33, 1), 0, 4, K.STRIDE_1),  # 1024 outputs
    ((2, 600), (3496, 1), 0, 4, K.COMPACT_SUFFIX),  # span 4096
    ((2, 600), (3497, 1), 0, 4, K.STRIDE_1),  # span 4097
    ((64, 32), (1, 64), 0, 4, K.COMPACT_SUFFIX),  # 4 chunks wanted, 64 blocks of 32
    ((2, 1024), (1, 2), 0, 4, K.COMPACT_SPAN),  # 4 chunks wanted, 2 blocks
    ((4, 512), (1, 4), 0, 4, K.COMPACT_SUFFIX),  # 4 wanted, 4 blocks
    ((2, 1024), (1, 2), 0, 2, K.COMPACT_SUFFIX),  # 2-byte rank 2 is grouped whatever its stride
    ((2, 1024), (1, 2), 0, 1, K.COMPACT_SPAN),  # 8 * 1 wanted, 2 blocks
    ((8, 256), (1, 8), 0, 1, K.COMPACT_SUFFIX),  # 8 wanted, 8 blocks
    ((7, 300), (1, 7), 0, 1, K.COMPACT_SPAN),  # 2100 bytes are 2 chunks: 16 wanted, 7 blocks
    ((49, 1000), (1, 1), 0, 4, K.COMPACT_SUFFIX),  # 49,000 outputs: grouped
    ((39, 2000), (1, 1), 0, 4, K.COMPACT_SPAN),  # 78,000 outputs: 40 wanted, 39 blocks
    ((40, 2000), (1, 1), 0, 4, K.COMPACT_SUFFIX),  # 40 blocks
    ((50, 8192), (1, 0), 0, 4, K.COMPACT_SUFFIX),  # a suffix of 8192 four-byte elements
    ((50, 8193), (1, 0), 0, 4, K.COMPACT_SPAN),  # 8193 are too many
    ((50, 8193), (1, 0), 0, 8, K.COMPACT_SUFFIX),  # not for other widths
    ((4, 10, 50), (1, 4, 40), 0, 4, K.COMPACT_SUFFIX),  # 2000 outputs: 8 * 4 = 32 wanted, 40 blocks of 50
    ((2, 3, 500), (1, 2, 6), 0, 4, K.COMPACT_SPAN),  # 3000 outputs: 40 wanted, 6 blocks
    # last stride 0
    ((32, 32), (1, 0), 0, 4, K.BROADCAST),  # 1024 outputs
    ((33, 32), (1, 0), 0, 4, K.COMPACT_SUFFIX),  # 1056
    ((5000, 2), (1, 0), 0, 4, K.BROADCAST),  # span 5000
    ((100,), (0,), 0, 4, K.BROADCAST),
    ((100_000,), (0,), 0, 4, K.BROADCAST),
    # last stride 1
    ((100, 3), (5, 1), 0, 4, K.STRIDE1_ROW_BATCH),
    ((128, 4), (5, 1), 0, 4, K.STRIDE1_ROW_BATCH),  # 512 outputs
    ((129, 4), (5, 1), 0, 4, K.STRIDE_1),  # 516
    ((100, 5), (6, 1), 0, 4, K.STRIDE_1),  # rows of 5
    ((100, 3), (2, 1), 0, 4, K.STRIDE_1),  # rows overlap
    ((2, 50, 3), (500, 3, 1), 0, 4, K.STRIDE1_ROW_BATCH),
    ((100, 1000), (1003, 1), 0, 4, K.STRIDE_1),
    # rank 1
    ((100,), (3,), 0, 4, K.RANK1_STRIDE_SPAN),
    ((2000,), (2,), 0, 4, K.RANK1_STRIDE_SPAN),  # compact needs rank 2
    ((2,), (16_383,), 0, 4, K.RANK1_STRIDE_SPAN),  # span 16,384
    ((2,), (16_384,), 0, 4, K.RANK1_STRIDE),
    ((1000,), (1001,), 0, 1, K.RANK1_STRIDE),
    ((8193,), (2,), 7, 2, K.RANK1_STRIDE),  # span 16,385
    ((8192,), (2,), 7, 2, K.RANK1_STRIDE_SPAN),  # span 16,383
    # the rest
    ((100, 8), (30, 3), 0, 4, K.GENERAL_SMALL_SPAN),
    ((5, 6), (7, 2), 3, 8, K.GENERAL_SMALL_SPAN),
    ((128, 8), (100, 3), 0, 4, K.GENERAL_SMALL_SPAN),  # 1024 outputs
    ((129, 8), (100, 3), 0, 4, K.GENERAL_STRIDE),  # 1032, span 12,822
    ((100, 9), (100, 3), 0, 4, K.GENERAL_STRIDE),  # rows of 9
    ((256, 256), (1, 256), 0, 4, K.GENERAL_STRIDE),
    # empty, and the rank the documented design refuses
    ((0,), (1,), 0, 4, K.SCALAR),
    ((3, 0), (1, 1), 99, 4, K.SCALAR),
    ((), (), 0, 4, K.SCALAR),
]


@pytest.mark.parametrize(("size", "stride", "offset", "itemsize", "key"), CASES)
def test_classify(size, stride, offset, itemsize, key):
    assert classify(size, stride, offset, itemsize) is key


def test_every_key_has_several_cases():
    for key in TilingKey:
        assert sum(case[-1] is key for case in CASES) >= 3, key


def test_more_cores_want_more_blocks():
    assert classify((40, 2000), (1, 1), 0, 4, cores=48) is K.COMPACT_SPAN
    assert classify((48, 2000), (1, 1), 0, 4, cores=48) is K.COMPACT_SUFFIX


def test_the_span_has_to_fit_the_unified_buffer():
    # 4096 elements of 4 bytes and the kilobyte the documented design keeps free.
    assert classify((2, 600), (3496, 1), 0, 4, ub_bytes=16_384 + 1024) is K.COMPACT_SUFFIX
    assert classify((2, 600), (3496, 1), 0, 4, ub_bytes=16_384 + 1023) is K.STRIDE_1


@pytest.mark.parametrize(
    ("size", "stride", "itemsize", "cores"),
    [
        ((6144,), (1,), 1, 1),
        ((6145,), (1,), 1, 2),
        ((10**6,), (1,), 4, 40),
        ((128,), (3,), 4, 1),  # 512 bytes
        ((129,), (3,), 4, 2),
        ((128,), (4,), 2, 2),  # 256 bytes, 128 to a core: 2-byte, stride up to 4, 128 outputs
        ((127,), (4,), 2, 1),  # 254 bytes, 512 to a core
        ((128,), (5,), 2, 1),
        ((2, 600), (3496, 1), 4, 3),  # compact: 4800 bytes, 2048 to a core
        ((2, 1024), (1, 2), 2, 1),  # grouped strided 2-byte: 4096 bytes, 6144 to a core
        ((2, 1024), (1, 2), 1, 1),  # compact: 2048 bytes
        ((100, 3), (5, 1), 4, 7),  # 100 rows, 16 to a core
        ((31, 4), (5, 1), 4, 1),  # 31 rows
        ((32, 4), (5, 1), 4, 2),  # 128 outputs and 32 rows
        ((42, 3), (5, 1), 4, 1),  # 126 outputs
        ((100, 8), (30, 3), 4, 7),
        ((100, 1000), (1003, 1), 4, 40),
        ((7, 1000), (1003, 1), 4, 7),  # one row to a core
        ((0,), (1,), 4, 1),
    ],
)
def test_documented_cores(size, stride, itemsize, cores):
    key = classify(size, stride, 0, itemsize)
    assert documented_cores(key, size, stride, itemsize) == cores


@pytest.mark.parametrize(("size", "stride", "offset", "itemsize", "key"), [c for c in CASES if 0 not in c[0]])
def test_a_plan_carries_its_path(size, stride, offset, itemsize, key):
    problem = AsStridedProblem(size, stride, offset, itemsize)
    assert plan(problem, platform()).path is key
