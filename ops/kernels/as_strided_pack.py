"""AsStrided kernels that pack scattered elements: gather, bursts, split.

Built like those in as_strided.py: a persistent loop over tiles, plain and `_deep` versions by the number of outer
dimensions. `tl.gather` takes float and int8 tensors only, so 2- and 4-byte elements come as float16 and float32, and
8- and 16-byte ones as pairs and quads of float32. Values are moved, never computed with: NaN payloads survive.
"""

import triton
import triton.language as tl

from ops.kernels.as_strided import outer_offset
from ops.kernels.intrinsics import load_unfilled
from ops.kernels.signature import kernel


@triton.jit
def _quotient(value, divisor):
    # Both are below 2^13, where this float quotient is never within half a unit in 2^13 of the next integer.
    return ((value.to(tl.float32) + 0.5) / divisor.to(tl.float32)).to(tl.int32)


@triton.jit
def lanes_flat(major, BLOCK: tl.constexpr):
    """Where in the span each lane of a block lies, if one dimension is packed."""
    return tl.arange(0, BLOCK) * major


@triton.jit
def lanes_inner1(major, m0, t0, BLOCK: tl.constexpr):
    """The same with one dimension of size m0 and stride t0 below."""
    lane = tl.arange(0, BLOCK)
    d0 = _quotient(lane, m0)
    return (lane - d0 * m0) * t0 + d0 * major


@triton.jit
def lanes_inner2(major, m0, t0, m1, t1, BLOCK: tl.constexpr):
    """The same with two dimensions below, sizes m and strides t, fastest first."""
    lane = tl.arange(0, BLOCK)
    d0 = _quotient(lane, m0)
    d1 = _quotient(d0, m1)
    return (lane - d0 * m0) * t0 + (d0 - d1 * m1) * t1 + d1 * major


@triton.jit
def lanes_inner6(major, m0, t0, m1, t1, m2, t2, m3, t3, m4, t4, m5, t5, BLOCK: tl.constexpr):
    """The same with six dimensions below."""
    lane = tl.arange(0, BLOCK)
    d0 = _quotient(lane, m0)
    d1 = _quotient(d0, m1)
    d2 = _quotient(d1, m2)
    d3 = _quotient(d2, m3)
    d4 = _quotient(d3, m4)
    d5 = _quotient(d4, m5)
    low = (lane - d0 * m0) * t0 + (d0 - d1 * m1) * t1 + (d1 - d2 * m2) * t2
    return low + (d2 - d3 * m3) * t3 + (d3 - d4 * m4) * t4 + (d4 - d5 * m5) * t5 + d5 * major


# fmt: off
# gather: `step` indices of one dimension (`count`, `major`) with `inner` elements below each. Their span of the input
# is one DMA, one vector gather packs it, the result is one DMA. The lane table is the same for every tile.

@triton.jit
def _gather(x, y, lanes, tiles, count_tiles, count, major, step, inner, inner_span,
            n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, SPAN: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    place = tl.arange(0, SPAN)
    # Lanes beyond the block would point outside the buffer; they are not stored, but the hardware reads them.
    lanes = tl.minimum(lanes, SPAN - 1)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        o = t // count_tiles
        k0 = (t - o * count_tiles).to(tl.int64) * step
        used = tl.minimum(count - k0, step).to(tl.int32)
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        source = x + (offset + k0 * major)
        values = load_unfilled(source + place, mask=place < (used - 1) * major + inner_span)
        target = y + (o.to(tl.int64) * count + k0) * inner
        tl.store(target + lane, tl.gather(values, lanes, 0), mask=lane < used * inner)


@kernel
def gather(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, major: tl.int32, step: tl.int32,
           n0: tl.int64, s0: tl.int64, s1: tl.int64, SPAN: tl.constexpr, BLOCK: tl.constexpr):
    _gather(x, y, lanes_flat(major, BLOCK), tiles, count_tiles, count, major, step, 1, 1,
            n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, SPAN, BLOCK)


@kernel
def gather_inner1(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, major: tl.int32, step: tl.int32,
                  inner: tl.int32, inner_span: tl.int32, m0: tl.int32, t0: tl.int32,
                  n0: tl.int64, s0: tl.int64, s1: tl.int64, SPAN: tl.constexpr, BLOCK: tl.constexpr):
    _gather(x, y, lanes_inner1(major, m0, t0, BLOCK), tiles, count_tiles, count, major, step, inner,
            inner_span, n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, SPAN, BLOCK)


@kernel
def gather_inner2(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, major: tl.int32, step: tl.int32,
                  inner: tl.int32, inner_span: tl.int32, m0: tl.int32, t0: tl.int32, m1: tl.int32, t1: tl.int32,
                  n0: tl.int64, s0: tl.int64, s1: tl.int64, SPAN: tl.constexpr, BLOCK: tl.constexpr):
    _gather(x, y, lanes_inner2(major, m0, t0, m1, t1, BLOCK), tiles, count_tiles, count, major, step, inner,
            inner_span, n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, SPAN, BLOCK)


@kernel
def gather_deep(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, major: tl.int32, step: tl.int32,
                inner: tl.int32, inner_span: tl.int32, m0: tl.int32, t0: tl.int32, m1: tl.int32, t1: tl.int32,
                m2: tl.int32, t2: tl.int32, m3: tl.int32, t3: tl.int32, m4: tl.int32, t4: tl.int32, m5: tl.int32,
                t5: tl.int32, n0: tl.int64, s0: tl.int64, n1: tl.int64, s1: tl.int64, n2: tl.int64, s2: tl.int64,
                n3: tl.int64, s3: tl.int64, n4: tl.int64, s4: tl.int64, n5: tl.int64, s5: tl.int64, s6: tl.int64,
                SPAN: tl.constexpr, BLOCK: tl.constexpr):
    _gather(x, y, lanes_inner6(major, m0, t0, m1, t1, m2, t2, m3, t3, m4, t4, m5, t5, BLOCK), tiles, count_tiles,
            count, major, step, inner, inner_span,
            n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, SPAN, BLOCK)


# bursts: sparse elements. One DMA brings ITEMS of them, each padded to the 32 bytes (WIDTH words) a burst occupies in
# the unified buffer; one gather drops the padding. An element is WORDS words.

@triton.jit
def _bursts(x, y, tiles, count_tiles, count, major, step, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6,
            ITEMS: tl.constexpr, WIDTH: tl.constexpr, WORDS: tl.constexpr):
    item = tl.arange(0, ITEMS)
    word = tl.arange(0, WIDTH)
    lane = tl.arange(0, ITEMS * WORDS)
    if WORDS == 1:
        lanes = lane * WIDTH
    elif WORDS == 2:
        lanes = (lane >> 1) * WIDTH + (lane & 1)
    else:
        lanes = (lane >> 2) * WIDTH + (lane & 3)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        o = t // count_tiles
        k0 = (t - o * count_tiles).to(tl.int64) * step
        used = tl.minimum(count - k0, step).to(tl.int32)
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        source = x + (offset + k0 * major)
        values = load_unfilled(source + item[:, None] * major + word[None, :],
                               mask=(item[:, None] < used) & (word[None, :] < WORDS))
        packed = tl.gather(tl.reshape(values, (ITEMS * WIDTH,)), lanes, 0)
        tl.store(y + (o.to(tl.int64) * count + k0) * WORDS + lane, packed, mask=lane < used * WORDS)


@kernel
def bursts(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, major: tl.int64, step: tl.int32,
           n0: tl.int64, s0: tl.int64, s1: tl.int64, ITEMS: tl.constexpr, WIDTH: tl.constexpr, WORDS: tl.constexpr):
    _bursts(x, y, tiles, count_tiles, count, major, step,
            n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, ITEMS, WIDTH, WORDS)


@kernel
def bursts_deep(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, major: tl.int64, step: tl.int32,
                n0: tl.int64, s0: tl.int64, n1: tl.int64, s1: tl.int64, n2: tl.int64, s2: tl.int64, n3: tl.int64,
                s3: tl.int64, n4: tl.int64, s4: tl.int64, n5: tl.int64, s5: tl.int64, s6: tl.int64,
                ITEMS: tl.constexpr, WIDTH: tl.constexpr, WORDS: tl.constexpr):
    _bursts(x, y, tiles, count_tiles, count, major, step,
            n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, ITEMS, WIDTH, WORDS)


# split: the last dimension has stride 2 or 4. The span is one DMA; `tl.split` halves it once or twice with the vector
# unit's own pattern instruction, cheaper than a gather lane per element. A pair is never a masked narrow row: the
# reshape is consumed by the split itself, which the compiler recognises.

@triton.jit
def _split(x, y, tiles, count_tiles, count, step, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6,
           STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    place = tl.arange(0, BLOCK * STRIDE)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        o = t // count_tiles
        k0 = (t - o * count_tiles).to(tl.int64) * step
        used = tl.minimum(count - k0, step).to(tl.int32)
        offset = outer_offset(o.to(tl.int64), n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6)
        source = x + (offset + k0 * STRIDE)
        values = load_unfilled(source + place, mask=place < (used - 1) * STRIDE + 1)
        kept, _ = tl.split(tl.reshape(values, (BLOCK * STRIDE // 2, 2)))
        if STRIDE == 4:
            kept, _ = tl.split(tl.reshape(kept, (BLOCK, 2)))
        tl.store(y + (o.to(tl.int64) * count + k0) + lane, kept, mask=lane < used)


@kernel
def split(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, step: tl.int32,
          n0: tl.int64, s0: tl.int64, s1: tl.int64, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    _split(x, y, tiles, count_tiles, count, step, n0, s0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, s1, STRIDE, BLOCK)


@kernel
def split_deep(x, y, tiles: tl.int32, count_tiles: tl.int32, count: tl.int64, step: tl.int32,
               n0: tl.int64, s0: tl.int64, n1: tl.int64, s1: tl.int64, n2: tl.int64, s2: tl.int64, n3: tl.int64,
               s3: tl.int64, n4: tl.int64, s4: tl.int64, n5: tl.int64, s5: tl.int64, s6: tl.int64,
               STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    _split(x, y, tiles, count_tiles, count, step, n0, s0, n1, s1, n2, s2, n3, s3, n4, s4, n5, s5, s6, STRIDE, BLOCK)
