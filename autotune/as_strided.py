"""AsStrided as the tuner sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy
import torch

import ops
from autotune.operators import Decisions, Operator, same_bits
from ops.as_strided import ELEMENT, KERNELS
from ops.reference import as_strided_reference
from ops.variants import Variant, signature_of
from tiling import as_strided as tiling
from tiling.as_strided import AsStridedPlan, AsStridedProblem
from tiling.platform import Platform

# Elements are only moved, so any type of the width does.
_DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}

BEST_OF_FAMILY = 3  # tiles of one kernel family that are tried: the estimate ranks them well, but not exactly
WORTH_TRYING = 8.0  # times the best estimate; its least certain constants (burst, gather lane) may be off by this much
FEW_CORES = 8  # beyond, half the cores have never been found to win
MOST = 12  # kernels and tiles in all; each costs a compilation


def choices(heuristic: AsStridedPlan, platform: Platform) -> Iterable[Decisions]:
    """The best tiles of every kernel family that can serve the problem, and other numbers of cores for the best two."""
    found = tiling.choices(heuristic.problem, platform)
    limit = WORTH_TRYING * found[0].cycles.total
    kept: list[AsStridedPlan] = []
    for plan in found:
        family = [other for other in kept if other.family == plan.family]
        if plan.cycles.total <= limit and len(family) < BEST_OF_FAMILY:
            kept.append(plan)
    for plan in kept[:MOST]:
        yield plan.decisions()
    seen = {(plan.kernel, plan.grid, plan.args) for plan in kept}
    for best in kept[:2]:
        fewer = (1, best.grid // 2) if best.grid <= FEW_CORES else ()
        for cores in (*fewer, 2 * best.grid, platform.vector_cores):
            if not 1 <= cores <= platform.vector_cores:
                continue
            try:
                plan = tiling.plan(best.problem, platform, **{**best.decisions(), "cores": cores})
            except ValueError:
                continue  # cut for so many cores, the tile no longer serves
            if (plan.kernel, plan.grid, plan.args) not in seen:  # more cores than tiles change nothing
                seen.add((plan.kernel, plan.grid, plan.args))
                yield plan.decisions()


class Scratch:
    """A storage of random bytes for a problem, and an output of the alignment that the problem was planned for."""

    def __init__(self, problem: AsStridedProblem, device: torch.device) -> None:
        self.problem = problem
        dtype = _DTYPES[problem.itemsize]
        span = sum((size - 1) * stride for size, stride in zip(problem.size, problem.stride, strict=True)) + 1
        generator = numpy.random.default_rng(0)
        content = generator.integers(0, 256, (problem.offset + span) * problem.itemsize, dtype=numpy.uint8)
        self.x = torch.from_numpy(content).view(dtype).to(device)
        # Fresh memory is aligned to more than any problem asks for, so the output is what is moved off it.
        first = (problem.offset * problem.itemsize) & 15
        shift = problem.alignment // problem.itemsize if (first or 16) & -(first or 16) > problem.alignment else 0
        self.whole = torch.empty(problem.elements + shift, dtype=dtype, device=device)
        self.out = self.whole[shift:].view(problem.size)

    def run(self, plan: Any) -> None:
        ops.as_strided(self.x, self.problem.size, self.problem.stride, self.problem.offset, out=self.out, plan=plan)

    def expected(self, index: torch.Tensor) -> torch.Tensor:
        problem = self.problem
        whole = as_strided_reference(self.x.cpu().numpy(), problem.size, problem.stride, problem.offset)
        return torch.from_numpy(whole.reshape(-1))[index]

    def same(self, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        return same_bits(actual, expected)


def scratch_of(arguments: Sequence[Any], device: torch.device) -> tuple[AsStridedProblem, Scratch]:
    """What a call asks for. Its data does not matter to the time, so none of it is used.

    Raises what the operator raises, and ValueError for an empty result.
    """
    *call, out = arguments if isinstance(arguments[-1], torch.Tensor) and len(arguments) > 3 else (*arguments, None)
    plan = ops.plan_as_strided(*call, out=out)
    if plan is None:
        raise ValueError("an empty result needs no plan: there is nothing to tune")
    return plan.problem, Scratch(plan.problem, device)


_POINTERS = {torch.int8: "*i8", torch.float16: "*fp16", torch.float32: "*fp32", torch.int64: "*i64"}


def variant(plan: AsStridedPlan) -> Variant:
    """What the compiler is given for a plan."""
    signature = signature_of(KERNELS[plan.kernel], dict.fromkeys("xy", _POINTERS[ELEMENT[plan.width]]))
    return Variant("as_strided", plan.kernel, signature, plan.constexprs, plan.multibuffer, quick=False)


OPERATOR = Operator("as_strided", tiling.plan, choices, Scratch, scratch_of, variant)
