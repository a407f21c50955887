"""Kernels that are made of little but one thing: a vector instruction, a transfer, a scalar access.

Each does its thing `turns` times, so that two runs differ by nothing else. Compiled for an NPU they are what
`bench calibrate` times; run at the device level they tell its fit what one turn consists of.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["turns"])
def vector_chain(x, y, out, turns: tl.int32, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """A chain of dependent vector instructions on a tile that stays in the unified buffer."""
    index = tl.arange(0, BLOCK)
    a = tl.load(x + index)
    b = tl.load(y + index)
    for _ in range(turns):
        if KIND == "add":
            a = a + b
        elif KIND == "sub":
            a = a - b
        elif KIND == "mul":
            a = a * b
        elif KIND == "div":
            a = tl.math.div_rn(a, b)
        elif KIND == "max":
            a = tl.maximum(a, b)
        elif KIND == "min":
            a = tl.minimum(a, b)
        elif KIND == "max scalar":
            a = tl.maximum(a, 3)
        elif KIND == "min scalar":
            a = tl.minimum(a, 3)
        elif KIND == "add scalar":
            a = a + 3
        elif KIND == "mul scalar":
            a = a * 3
        elif KIND == "abs":
            a = tl.abs(a)
        elif KIND == "exp":
            a = tl.exp(a)
        elif KIND == "log":
            a = tl.log(a)
        elif KIND == "sqrt":
            a = tl.sqrt(a)
        elif KIND == "reciprocal root":
            a = tl.rsqrt(a)
        elif KIND == "and":
            a = a & b
        elif KIND == "or":
            a = a | b
        elif KIND == "not":
            a = ~a
        elif KIND == "shift":
            a = a << 3
        elif KIND == "cast":
            a = a.to(tl.int32).to(tl.float32)
        elif KIND == "select":
            a = tl.where(a > b, a, b)
        elif KIND == "two compares":
            a = tl.where((a > b) & (a > 1.0), a, b)
        elif KIND == "largest":
            a = a + tl.max(a)
        elif KIND == "gather":
            a = tl.gather(a, index, 0)
        elif KIND == "swap":
            a, b = b, a
    tl.store(out + index, a)
    tl.store(out + BLOCK + index, b)


@triton.jit(do_not_specialize=["turns"])
def pack_chain(x, out, turns: tl.int32, KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Instructions that move elements about within a tile."""
    cell = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    a = tl.load(x + cell)
    if KIND == "transpose":
        turned = tl.zeros((COLUMNS, ROWS), tl.float32)
        for _ in range(turns):
            a = a + 1.0
            turned = turned + tl.trans(a)
        tl.store(out + tl.arange(0, COLUMNS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :], turned)
    elif KIND == "largest of rows":
        largest = tl.zeros((ROWS,), tl.float32)
        for _ in range(turns):
            a = a + 1.0
            largest = largest + tl.max(a, 1)
        tl.store(out + tl.arange(0, ROWS), largest)
    elif KIND == "join":
        pairs = tl.zeros((ROWS, COLUMNS, 2), tl.float32)
        for _ in range(turns):
            a = a + 1.0
            pairs = pairs + tl.join(a, a)
        tl.store(out + tl.arange(0, 2 * ROWS * COLUMNS), tl.reshape(pairs, (2 * ROWS * COLUMNS,)))
    else:
        halves = tl.zeros((ROWS * COLUMNS // 2,), tl.float32)
        for _ in range(turns):
            a = a + 1.0
            left, _right = tl.split(tl.reshape(a, (ROWS * COLUMNS // 2, 2)))
            halves = halves + left
        tl.store(out + tl.arange(0, ROWS * COLUMNS // 2), halves)


@triton.jit(do_not_specialize=["turns", "pitch"])
def copy_chain(x, out, turns: tl.int32, pitch: tl.int64, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Tiles of ROWS bursts of COLUMNS elements, in and out again; `pitch` elements from row to row."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    for turn in range(turns):
        tile = tl.load(x + turn % 2 + row * pitch + column)
        tl.store(out + row * pitch + column, tile)


@triton.jit(do_not_specialize=["turns"])
def store_many(x, out, turns: tl.int32, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """COUNT stores of the same tile a turn, which wait for nothing."""
    index = tl.arange(0, BLOCK)
    tile = tl.load(x + index)
    for _ in range(turns):
        for part in tl.static_range(COUNT):
            tl.store(out + part * BLOCK + index, tile)


@triton.jit(do_not_specialize=["turns"])
def load_many(x, out, turns: tl.int32, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """COUNT loads a turn, all on their way before the first is waited for."""
    index = tl.arange(0, BLOCK)
    total = tl.load(x + index)
    for turn in range(turns):
        start = x + (turn % 2) * BLOCK + index
        a = tl.load(start + 1 * BLOCK)
        b = tl.load(start + 2 * BLOCK)
        if COUNT > 2:
            c = tl.load(start + 3 * BLOCK)
            d = tl.load(start + 4 * BLOCK)
        if COUNT > 4:
            e = tl.load(start + 5 * BLOCK)
            f = tl.load(start + 6 * BLOCK)
            g = tl.load(start + 7 * BLOCK)
            h = tl.load(start + 8 * BLOCK)
        total = total + a + b
        if COUNT > 2:
            total = total + c + d
        if COUNT > 4:
            total = total + e + f + g + h
    tl.store(out + index, total)


@triton.jit(do_not_specialize=["turns"])
def scalar_chain(x, out, turns: tl.int32, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Work of the scalar unit: reading global memory, or (a remainder, which has no vector form) the unified buffer."""
    index = tl.arange(0, BLOCK)
    tile = tl.load(x + index)
    total = 0
    for turn in range(turns):
        if KIND == "global":
            total += tl.load(x + turn % BLOCK)
        else:
            tile = tile % (turn + 3)
    tl.store(out + index, tile + total)
