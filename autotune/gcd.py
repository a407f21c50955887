"""Gcd as the tuner sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

import ops
from autotune.operators import Decisions, Operator, same_bits
from ops.gcd_variants import variant_of
from ops.reference import gcd_reference
from tiling import gcd as tiling
from tiling.gcd import GcdPlan, GcdProblem
from tiling.gcd_tiles import linear_tiles, tiled_tiles
from tiling.platform import Platform

FEW_CORES = 8  # beyond, half the cores have never been found to win


def choices(heuristic: GcdPlan, platform: Platform) -> Iterable[Decisions]:
    """Every tile that is compiled for these operands, double-buffered and not; fewer cores for the heuristic's."""
    arrangement = heuristic.arrangement
    compute = heuristic.problem.compute
    tiles = linear_tiles(compute) if arrangement.linear else tiled_tiles(compute, arrangement.kinds)
    for tile in tiles:
        for multibuffer in (True, False):
            yield {"rows": tile.rows, "cols": tile.cols, "parts": tile.parts, "multibuffer": multibuffer}
    # As few cores as need no more rounds over the tiles; and for few tiles, half as many.
    own, cores = heuristic.decisions(), heuristic.grid
    rounds = -(-heuristic.tiles // cores)
    yield {**own, "cores": -(-heuristic.tiles // rounds)}
    if 2 <= cores <= FEW_CORES:
        yield {**own, "cores": cores // 2}


class Scratch:
    """Operands and an output laid out as the problem says. Made-up integers cover their dtype's range."""

    def __init__(self, problem: GcdProblem, device: torch.device) -> None:
        self.problem = problem
        generator = torch.Generator().manual_seed(0)
        # Floats are integers below 2^23, as in most calls (larger ones take another, slower loop), and finite.
        floats = [getattr(torch, name) for name in (problem.self_dtype, problem.other_dtype, problem.compute)]
        bound = min([1 << 23, *(int(torch.finfo(dtype).max) for dtype in floats if dtype.is_floating_point)])
        self.a, self.b = (
            _filled(_strided(problem.shape, stride, dtype, device), bound, generator)
            for stride, dtype in (
                (problem.self_stride, problem.self_dtype),
                (problem.other_stride, problem.other_dtype),
            )
        )
        # An operand without dimensions does not take part in the promotion of dtypes: where they say so, it is one.
        if not any(problem.other_stride) and self._compute() != problem.compute:
            self.b = _flat(self.b)[0]
        if not any(problem.self_stride) and self._compute() != problem.compute:
            self.a = _flat(self.a)[0]
        self.out = _strided(problem.shape, problem.out_stride, problem.out_dtype, device)

    def _compute(self) -> str:
        return str(torch.result_type(self.a, self.b)).removeprefix("torch.")

    def run(self, plan: Any) -> None:
        ops.gcd(self.a, self.b, out=self.out, plan=plan)

    def expected(self, index: torch.Tensor) -> torch.Tensor:
        place = torch.unravel_index(index, self.problem.shape)
        a, b = (operand.cpu()[place] if operand.dim() else operand.cpu() for operand in (self.a, self.b))
        return gcd_reference(a, b, self.out.dtype)

    def same(self, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        equal = same_bits(actual, expected)
        if actual.is_floating_point():
            equal |= actual.isnan() & expected.isnan()
        return equal


def scratch_of(arguments: Sequence[Any], device: torch.device) -> tuple[GcdProblem, Scratch]:
    """What a call asks for, and copies of its operands: their magnitudes decide how long the kernels loop.

    Raises what the operator raises, and ValueError for an empty result.
    """
    a, b, *out = arguments
    problem: GcdProblem = ops.plan_gcd(a, b, *out).problem
    scratch = Scratch(problem, device)
    for own, operand in ((scratch.a, a), (scratch.b, b)):
        flat = _flat(own)
        flat.copy_(operand.as_strided(flat.shape, (1,)))
    return problem, scratch


def _strided(shape: Sequence[int], stride: Sequence[int], dtype: str, device: torch.device) -> torch.Tensor:
    span = sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1
    return torch.empty(span, dtype=getattr(torch, dtype), device=device).as_strided(shape, stride)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Everything from a tensor's first element to its last one in memory."""
    span = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.as_strided((span,), (1,))


def _filled(tensor: torch.Tensor, bound: int, generator: torch.Generator) -> torch.Tensor:
    flat = _flat(tensor)
    count, dtype = flat.numel(), flat.dtype
    if dtype == torch.bool:
        values = torch.randint(0, 2, (count,), generator=generator, device="cpu").bool()
    elif dtype.is_floating_point:
        values = torch.randint(-bound, bound, (count,), generator=generator, device="cpu").to(dtype)
    else:
        values = torch.randint(
            0, 256, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8, device="cpu"
        ).view(dtype)
    flat.copy_(values)
    return tensor


OPERATOR = Operator("gcd", tiling.plan, choices, Scratch, scratch_of, variant_of)
