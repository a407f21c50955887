"""For every variant of a kernel, a small call that launches it: the same random bits for whoever runs it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import ops
from ops.variants import Variant
from tiling.as_strided import AsStridedProblem, plan
from tiling.platform import platform

GRID = 2  # programs, of which each has several tiles: both buffers of a pair are used
GUARD = 64  # elements around an output that nobody may write
FILL = 0x5C


@dataclass(frozen=True)
class Call:
    """`run()` launches the variant and returns the output with its guards, as bytes; `expected` is None if unknown.

    A NaN that gcd computes counts as any other NaN: which operand's bits it carries is the host's choice in both
    levels, and no document says what the device's is. Where bits are only moved, they are compared as they are.
    """

    run: Callable[[], torch.Tensor]
    expected: torch.Tensor | None = None


def call_of(variant: Variant) -> Call:
    """A call of a variant. Raises LookupError if no layout known here reaches it."""
    return _gcd_call(variant) if variant.op == "gcd" else _view_call(variant)


# ---- gcd: the kernel itself, since every mix of types is a class of its own

_DTYPES = {
    "*i1": torch.bool,
    "*i8": torch.int8,
    "*u8": torch.uint8,
    "*i16": torch.int16,
    "*i32": torch.int32,
    "*i64": torch.int64,
    "*fp16": torch.float16,
    "*bf16": torch.bfloat16,
    "*fp32": torch.float32,
}


def operand(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Random values in runs: any bits (NaN and infinities included), and magnitudes below several limits."""
    generator = np.random.default_rng(seed)
    raw = torch.from_numpy(generator.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)).view(dtype).clone()
    for index, bits in enumerate((3, 10, 23, 31, 60)):
        run = slice(count * (index + 1) // 8, count * (index + 2) // 8)
        width = 8 * dtype.itemsize - 1
        size = run.stop - run.start
        if dtype.is_floating_point:
            values = torch.from_numpy(np.floor(generator.random(size) * 2.0 ** min(bits, 15 if width == 15 else bits)))
        else:
            limit = 2 ** min(bits, width)
            low = 0 if dtype in (torch.bool, torch.uint8) else 1 - limit
            values = torch.from_numpy(generator.integers(low, limit, size, dtype=np.int64))
        raw[run] = values.to(dtype)
    return raw


def _gcd_call(variant: Variant) -> Call:
    kinds = dict(variant.signature)
    constexprs = dict(variant.constexprs)
    dtypes = [_DTYPES[kinds[name]] for name in ("self", "other", "out")]
    if variant.kernel == "gcd_linear":
        block = int(constexprs["BLOCK"])
        n = 3 * block + block // 3 + 1
        counts = (n, n if constexprs["OTHER"] == "line" else 1, n)
        numbers = [n]
    else:
        counts, numbers = _tiled_numbers(variant)
    x, y = operand(dtypes[0], counts[0], 1), operand(dtypes[1], counts[1], 2)

    def run() -> torch.Tensor:
        out = torch.full(((counts[2] + 2 * GUARD) * dtypes[2].itemsize,), FILL, dtype=torch.uint8)
        inner = out.view(dtypes[2])[GUARD:-GUARD]
        variant.function[(GRID,)](x, y, inner, *numbers, multibuffer=variant.multibuffer, **constexprs)
        if dtypes[2].is_floating_point:
            inner[inner.isnan()] = float("nan")
        return out

    return Call(run)


def _tiled_numbers(variant: Variant) -> tuple[tuple[int, int, int], list[int]]:
    constexprs = dict(variant.constexprs)
    rows, cols = int(constexprs["ROWS"]) + 3, int(constexprs["COLS"]) + 5
    outer = (1, 1, 1, 1, 2, 3)  # n0 .. n5
    step = 2 if constexprs["OUT"] == "scattered" else 1
    shapes = {"matrix": (cols + 7, 1), "row": (0, 1), "column": (1, 0), "scalar": (0, 0)}
    strides = []
    counts = []
    for kind, width in ((constexprs["SELF"], 1), (constexprs["OTHER"], 1), ("matrix", step)):
        row, column = shapes[str(kind)] if width == 1 else ((cols + 7) * step, step)
        plane = (rows - 1) * row + (cols - 1) * column + 1 + 11
        strides.append((row, [0, 0, 0, 0, 3 * plane, plane]))
        counts.append(plane * 6)
    numbers = [rows, cols, strides[0][0], strides[1][0], strides[2][0], step, *outer]
    for _, planes in strides:
        numbers += planes
    return (counts[0], counts[1], counts[2]), numbers


# ---- as_strided: the operator with a plan that names the variant's kernel and tile

_INNER = [
    ((700,), (1,)),
    ((40, 300), (417, 1)),
    ((40, 37), (53, 1)),
    ((50, 300), (0, 1)),
    ((45, 333), (1, 0)),
    ((150, 170), (1, 161)),
    ((150, 40), (1, 161)),
    ((20, 170), (1, 161)),
    ((3000,), (2,)),
    ((3000,), (3,)),
    ((900, 8), (1, 1)),
    ((70, 9, 3), (40, 3, 1)),
    ((70, 9, 3), (60, 5, 1)),
    ((70, 3, 5, 3), (140, 40, 7, 2)),
    ((900,), (150,)),
    ((37, 41), (6001, 149)),
    ((30, 301), (1303, 2)),
    ((3000,), (4,)),
    ((30, 301), (1303, 4)),
    ((6, 301), (0, 1)),
    ((20, 333), (1, 0)),
    ((40, 50), (1, 61)),
    ((300, 2), (150, 1)),
    ((300, 3), (150, 1)),
    ((300, 4), (150, 1)),
    ((9, 100), (1, 0)),
    ((9, 200), (1, 0)),
    ((9, 400), (1, 0)),
    ((6, 20, 60), (2000, 97, 1)),
    ((40, 3, 201), (1001, 307, 1)),
    ((12, 13, 201), (5001, 307, 1)),
    ((4, 20, 250), (9000, 307, 1)),
]
_OUTER: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 2, 2, 2), (2, 2, 1, 2, 3, 2)]


def _layouts() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Sizes and strides of every kind, with outer dimensions that do not merge."""
    for (size, stride), outer in itertools.product(_INNER, _OUTER):
        span = 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
        if math.prod(outer) * math.prod(size) > 60_000 or len(outer) + len(size) > 8:
            continue
        steps: list[int] = []
        step = span + 29
        for extent in reversed(outer):
            steps.insert(0, step)
            step = step * extent + 31
        yield (*outer, *size), (*steps, *stride)


_WIDTHS = {"*i8": (1,), "*fp16": (2,), "*fp32": (4, 8), "*i64": (8,)}
_ELEMENTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _view_call(variant: Variant) -> Call:
    family = variant.kernel.partition("_")[0]
    tile = "x".join(str(value) for _, value in variant.constexprs)
    offset = 3
    for itemsize, (size, stride) in itertools.product(_WIDTHS[dict(variant.signature)["x"]], _layouts()):
        problem = AsStridedProblem(size, stride, offset, itemsize, itemsize)
        try:
            made = plan(problem, platform(), kernel=family, tile=tile, cores=GRID)
        except ValueError:
            continue
        if (made.kernel, made.constexprs) == (variant.kernel, variant.constexprs):
            return _view(made, _ELEMENTS[itemsize], size, stride, offset)
    raise LookupError(f"no layout for {variant.name}")


def _view(made: Any, dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Call:
    count = offset + 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    generator = np.random.default_rng(count)
    x = torch.from_numpy(generator.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)).view(dtype)
    elements = math.prod(size)

    def guarded() -> tuple[torch.Tensor, torch.Tensor]:
        out = torch.full(((elements + 2 * GUARD) * dtype.itemsize,), FILL, dtype=torch.uint8)
        return out, out.view(dtype)[GUARD:-GUARD].view(size)

    def run() -> torch.Tensor:
        out, inner = guarded()
        ops.as_strided(x, size, stride, offset, out=inner, plan=made)
        return out

    expected, inner = guarded()
    inner.copy_(torch.as_strided(x, size, stride, offset))
    return Call(run, expected)
