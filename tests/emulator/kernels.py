"""Kernels that the emulator's tests run. Triton reads a kernel's source, so they live in a file."""

import triton
import triton.language as tl
from triton.language.extra.ascend import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=mask, other=-float("inf"))
    exponentials = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + offsets, exponentials / tl.sum(exponentials, axis=0), mask=mask)


@triton.jit
def gather_rows(table, index, out, n, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, COLUMNS)
    mask = offsets < n
    rows = tl.load(index + offsets, mask=mask, other=0)
    values = tl.load(table + rows[:, None] * COLUMNS + columns[None, :], mask=(mask & (rows >= 0))[:, None], other=0)
    tl.store(out + offsets[:, None] * COLUMNS + columns[None, :], values, mask=mask[:, None])


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    values = tl.load(x + offsets, mask=mask, other=0)
    tl.atomic_add(counts + values % BINS, tl.full((BLOCK,), 1, tl.int32), mask=mask)


@triton.jit
def exchange(slots, seen, work, turns, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    values = tl.load(work + tl.arange(0, BLOCK))
    for _ in range(turns):
        values = values * 0.5 + 0.25
    tl.store(seen + program, tl.atomic_xchg(slots, program + tl.max(values).to(tl.int32)))


@triton.jit
def gather_masked(x, index, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    lanes = tl.load(index + offsets, mask=mask, other=0)
    values = tl.load(x + lanes, mask=(lanes >= 0) & mask, other=-1.0)
    tl.store(out + offsets, values, mask=mask)


@triton.jit
def gather_masked_without_other(x, index, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    lanes = tl.load(index + offsets, mask=mask)
    tl.store(out + offsets, tl.load(x + lanes, mask=mask), mask=mask)


@triton.jit
def scatter_masked(x, index, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    lanes = tl.load(index + offsets, mask=mask, other=0)
    tl.store(out + lanes, tl.load(x + offsets, mask=mask, other=0), mask=(lanes >= 0) & mask)


@triton.jit
def copy_even_lanes(x, out, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offsets % 2 == 0) & (offsets < stride)
    tl.store(out + offsets, tl.load(x + offsets, mask=mask, other=0), mask=mask)


@triton.jit
def load_scalar_masked(x, position, out):
    index = tl.load(position)
    value = tl.load(x + index, mask=index < 4, other=7)
    tl.store(out, value)


@triton.jit
def divide(x, y, quotient, remainder, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    tl.store(quotient + offsets, a // b)
    tl.store(remainder + offsets, a % b)


@triton.jit
def divide_scalar(x, y, out):
    a = tl.load(x)
    b = tl.load(y)
    tl.store(out, a // b)
    tl.store(out + 1, a % b)


@triton.jit
def shift(x, y, left, right, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    tl.store(left + offsets, a << b)
    tl.store(right + offsets, a >> b)


@triton.jit
def shift_constant(x, left, right, BLOCK: tl.constexpr, BY: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    tl.store(left + offsets, a << BY)
    tl.store(right + offsets, a >> BY)


@triton.jit
def cast(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets).to(out.dtype.element_ty))


@triton.jit
def gather_tile(x, index, out, SOURCE: tl.constexpr, LANES: tl.constexpr):
    values = tl.load(x + tl.arange(0, SOURCE))
    lanes = tl.load(index + tl.arange(0, LANES))
    tl.store(out + tl.arange(0, LANES), tl.gather(values, lanes, 0))


@triton.jit
def gather_tile_2d(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    offsets = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + offsets, tl.gather(tl.load(x + offsets), tl.load(index + offsets), AXIS))


@triton.jit
def sort_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DESCENDING: tl.constexpr):
    offsets = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + offsets, tl.sort(tl.load(x + offsets), 1, DESCENDING))


@triton.jit
def sort_vector(x, out, LANES: tl.constexpr, DESCENDING: tl.constexpr):
    offsets = tl.arange(0, LANES)
    tl.store(out + offsets, tl.sort(tl.load(x + offsets), 0, DESCENDING))


@triton.jit
def scan_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    offsets = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets), AXIS, reverse=REVERSE))


@triton.jit
def scan_vector(x, out, LANES: tl.constexpr):
    offsets = tl.arange(0, LANES)
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets), 0))


@triton.jit
def multiply_scan(x, out, LANES: tl.constexpr):
    offsets = tl.arange(0, LANES)
    tl.store(out + offsets, tl.cumprod(tl.load(x + offsets), 0))


@triton.jit
def round_half_away(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, libdevice.round(tl.load(x + offsets)))


@triton.jit
def arithmetic(x, y, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    tl.store(out + offsets, a + b)
    tl.store(out + BLOCK + offsets, a - b)
    tl.store(out + 2 * BLOCK + offsets, a * b)
    tl.store(out + 3 * BLOCK + offsets, (a / b).to(a.dtype))
    tl.store(out + 4 * BLOCK + offsets, a * b + a)
    tl.store(out + 5 * BLOCK + offsets, tl.maximum(a, b))


@triton.jit
def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    columns = tl.arange(0, N)[None, :]
    inner = tl.arange(0, K)
    product = tl.dot(tl.load(a + rows * K + inner[None, :]), tl.load(b + inner[:, None] * N + columns))
    tl.store(c + rows * N + columns, product)


@triton.jit
def program_ids(out):
    x = tl.program_id(0)
    y = tl.program_id(1)
    z = tl.program_id(2)
    place = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    tl.store(out + place, x * 10000 + y * 100 + z)


@triton.jit
def checked(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.device_assert(values >= 0, "values must not be negative")
    tl.store(out + offsets, values)


@triton.jit
def spin(x, turns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    for _ in range(turns):
        values = values * 1.0001 + 0.5
    tl.store(x + offsets, values)


@triton.jit
def show(x, BLOCK: tl.constexpr):
    tl.device_print("x", tl.load(x + tl.arange(0, BLOCK)))


@triton.jit
def crashes_front_end(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    lanes = tl.load(x + offsets, mask=offsets < n, other=0).to(tl.int32)
    # triton-adapter-opt 3.2.0 aborts: no default for lanes that are masked and not padded
    values = tl.load(x + lanes, mask=lanes > 0, care_padding=False)
    tl.store(out + offsets, values, mask=lanes > 0)


@triton.jit
def move(source, target, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(target + offsets, tl.load(source + offsets, mask=mask, care_padding=False), mask=mask)


@triton.jit
def move_rows(source, target, rows, stride, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    place = row[:, None] * stride + column[None, :]
    mask = (row < rows)[:, None]
    tl.store(target + place, tl.load(source + place, mask=mask, care_padding=False), mask=mask)


@triton.jit
def fibonacci(x, y, out, turns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    for _ in range(turns):
        a, b = b, a + b
    tl.store(out + offsets, a)
    tl.store(out + BLOCK + offsets, b)


@triton.jit
def euclid(x, y, out, turns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    first = a
    for _ in range(turns):
        q = libdevice.round(a / (b + 0.25))
        a = a - q * b
        q = libdevice.round(b / (a + 0.25))
        b = b - q * a
    tl.store(out + offsets, a + first)
    tl.store(out + BLOCK + offsets, b)


@triton.jit
def branch_in_loop(x, y, out, turns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(turns):
        u = b
        if turn % 2 == 1:
            u = b * 0.5
        d = u + a
        a = a - 1.0
        b = a * 3.0
        total += d - b
    tl.store(out + offsets, total)
    tl.store(out + BLOCK + offsets, b)


@triton.jit
def centre_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    place = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    values = tl.load(x + place)
    doubled = values * 2
    sums = tl.sum(doubled, axis=1)
    shifted = doubled - sums[:, None]
    tl.store(out + place, shifted * values + tl.max(shifted, axis=0)[None, :])


@triton.jit
def running_maximum(x, out, rows, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    best = tl.full((COLUMNS,), -1, tl.int32)
    where = tl.zeros((COLUMNS,), tl.int32)
    for row in range(rows):
        values = tl.load(x + row * COLUMNS + columns)
        better = values > best
        best = tl.where(better, values, best)
        where = tl.where(better, row, where)
    tl.store(out + columns, best)
    tl.store(out + COLUMNS + columns, where)


@triton.jit
def spread(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    place = row[:, None] * columns + column[None, :]
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    if AXIS == 0:
        values = tl.load(x + row, mask=row < rows, care_padding=False)[:, None]
    else:
        values = tl.load(x + column, mask=column < columns, care_padding=False)[None, :]
    tl.store(out + place, tl.broadcast_to(values, (ROWS, COLUMNS)), mask=mask)


@triton.jit
def spread_twice(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    place = row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tile = tl.broadcast_to(tl.load(x + row)[:, None], (ROWS, COLUMNS))
    tl.store(out + place, tile)
    tl.store(out + ROWS * COLUMNS + place, tile + 1)


@triton.jit
def cast_saturating(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.cast(tl.load(x + offsets), out.dtype.element_ty, overflow_mode="saturate"))


@triton.jit
def tangents(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.store(out + offsets, libdevice.tanh(values))
    tl.store(out + BLOCK + offsets, libdevice.log1p(values))
    tl.store(out + 2 * BLOCK + offsets, libdevice.reciprocal(values))
    tl.store(out + 3 * BLOCK + offsets, libdevice.relu(values))
    tl.store(out + 4 * BLOCK + offsets, libdevice.pow(values, values))


@triton.jit
def power(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.store(out + offsets, libdevice.pow(values, values))


@triton.jit
def exp(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.exp(tl.load(x + offsets)))


@triton.jit
def memcpy(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))


@triton.jit
def many_large_tiles(x, out, BLOCK: tl.constexpr, TILES: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tile in tl.static_range(TILES):
        # each sum needs its own tile in memory
        total += tl.cumsum(tl.load(x + tile + offsets), 0)
    tl.store(out + offsets, total)


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) * 3, mask=mask)


@triton.jit
def gather_two(x, y, index, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    lanes = tl.load(index + offsets, mask=mask, other=0)
    first = tl.load(x + lanes, mask=lanes >= 0, other=-1.0)
    second = tl.load(y + lanes, mask=lanes >= 0, other=-2)
    tl.store(out + offsets, first + second.to(tl.float32), mask=mask)


@triton.jit
def store_scalars(out, a: tl.int8, b: tl.int16, c: tl.int32, d: tl.int64, e, f: tl.uint64):
    tl.store(out, a.to(tl.int64))
    tl.store(out + 1, b.to(tl.int64))
    tl.store(out + 2, c.to(tl.int64))
    tl.store(out + 3, d)
    tl.store(out + 4, (e * 4).to(tl.int64))
    tl.store(out + 5, f.to(tl.int64))


@triton.jit
def restore_lanes(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    old = tl.load(out + offsets)
    tl.store(out + offsets, tl.load(x + offsets))
    tl.store(out + offsets, tl.where(offsets % 3 == 0, 7.0, old))
