"""The gcd kernels that plans reach, by classes rather than as a product.

Layout variants: every compute dtype with every operand layout and tile, one dtype throughout. Cast variants: every load
cast, every cast of a 0-d operand and every store cast once, in the linear kernel and the largest tile that the planner
gives such a call. Casts are separable from the body: any other mix is made of parts that are here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import torch

from ops.gcd_checks import COMPUTE, LOADED, STORED
from ops.gcd_launch import kernel_of, pointer_dtypes
from ops.variants import Variant, signature_of
from tiling.gcd import GcdPlan, GcdProblem, plan
from tiling.gcd_layout import MATRIX, PAIRS, SCATTERED
from tiling.gcd_tiles import Tile, linear_tiles, tiled_tiles
from tiling.platform import platform

TYPES: dict[torch.dtype, str] = {
    torch.bool: "*i1",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
}

_MANY = 1 << 24  # elements of a call that gets the largest tile


def variants() -> list[Variant]:
    """Every variant, layouts first.

    The quick ones: the largest tile of each compute dtype in two layouts, some casts.
    """
    found: dict[str, Variant] = {}
    for variant in itertools.chain(_layouts(), _casts()):
        found.setdefault(variant.name, variant)
    return list(found.values())


def variant_of(made: GcdPlan, quick: bool = False) -> Variant:
    """The variant a plan compiles."""
    types = (TYPES[dtype] for dtype in pointer_dtypes(made))
    signature = signature_of(kernel_of(made), dict(zip(("self", "other", "out"), types, strict=True)))
    return Variant("gcd", made.kernel, signature, made.constexprs, made.multibuffer, quick)


def _layouts() -> Iterator[Variant]:
    for compute in COMPUTE.values():
        for place, tile in enumerate(linear_tiles(compute)):
            yield variant_of(_linear(compute, compute, compute, tile=tile), quick=place == 0)
        for tile in (linear_tiles(compute)[0], linear_tiles(compute)[-1]):
            yield variant_of(_linear(compute, compute, compute, scalar=True, tile=tile))
        for first, second in PAIRS:
            for tile in tiled_tiles(compute, (first, second, MATRIX)):
                quick = (first, second, tile.cols) == ("matrix", "row", 256)
                yield variant_of(_tiled(compute, first, second, MATRIX, tile), quick)
        yield variant_of(
            _tiled(compute, MATRIX, MATRIX, SCATTERED, tiled_tiles(compute, (MATRIX, MATRIX, SCATTERED))[0])
        )


def _casts() -> Iterator[Variant]:
    for loaded, compute, scalar in _promotions():
        quick = not scalar and compute in (torch.int64, torch.float32) and loaded in (torch.int8, torch.float16)
        names = LOADED[loaded], COMPUTE[compute]
        yield variant_of(_linear(names[1], names[0], names[1], scalar=scalar), quick)
    for compute in COMPUTE:
        for stored in STORED:
            quick = (compute, stored) in ((torch.int32, torch.int8), (torch.float32, torch.int64))
            yield variant_of(_linear(COMPUTE[compute], COMPUTE[compute], STORED[stored]), quick)


@cache
def _promotions() -> tuple[tuple[torch.dtype, torch.dtype, bool], ...]:
    """(loaded dtype, compute dtype, whether it is a scalar operand) for every promotion that casts."""
    found = set()
    for first, second, scalar in itertools.product(LOADED, LOADED, (False, True)):
        other = torch.empty(() if scalar else 1, dtype=second)
        compute = torch.result_type(torch.empty(1, dtype=first), other)
        if compute in COMPUTE:
            found |= {(first, compute, False), (second, compute, scalar)}
            # A dense operand broadcast from one element is promoted as a tensor, and loaded as a scalar.
            if not scalar:
                found.add((second, compute, True))
    return tuple(sorted((cast for cast in found if cast[0] is not cast[1]), key=str))


def _linear(compute: str, other: str, out: str, *, scalar: bool = False, tile: Tile | None = None) -> GcdPlan:
    problem = GcdProblem(compute, other, compute, out, (_MANY,), (1,), (0 if scalar else 1,), (1,))
    decisions = {} if tile is None else {"rows": tile.rows, "cols": tile.cols, "parts": tile.parts}
    return plan(problem, platform(), **decisions)


def _tiled(compute: str, first: str, second: str, out: str, tile: Tile) -> GcdPlan:
    # Row strides of 3000 and a column step of 2 keep dims from merging.
    strides = {"matrix": (3000, 1), "row": (0, 1), "column": (1, 0), "scalar": (0, 0)}
    out_stride = (6000, 2) if out == SCATTERED else (3001, 1)
    problem = GcdProblem(compute, compute, compute, compute, (2999, 2999), strides[first], strides[second], out_stride)
    return plan(problem, platform(), rows=tile.rows, cols=tile.cols, parts=tile.parts)
