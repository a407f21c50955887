"""A small operator to tune, whose kernel is a line of torch, and a measure with a table of costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from autotune import operators
from autotune.check import blank
from autotune.measure import Figure, Measure
from tiling.platform import Platform

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class DoubleProblem:
    """out = 2 * x over `size` int32 elements."""

    size: int

    def key(self) -> str:
        return f"int32[{self.size}]"

    def pattern(self) -> str:
        return "int32"

    @property
    def elements(self) -> int:
        return self.size


@dataclass(frozen=True)
class DoublePlan:
    problem: DoubleProblem
    block: int
    kernel: str = "double"
    multibuffer: bool = True

    @property
    def constexprs(self) -> tuple[tuple[str, int], ...]:
        return (("BLOCK", self.block),)

    def decisions(self) -> dict[str, int | bool | str]:
        return {"block": self.block}


def plan_double(problem: DoubleProblem, platform: Platform, block: int = 64) -> DoublePlan:
    if block > 1024:
        raise ValueError(f"block {block} does not fit the unified buffer")
    return DoublePlan(problem, block)


class DoubleScratch:
    """Computes on the host; `wrong` and `raising` name the blocks that misbehave, `runs` the blocks that ran."""

    def __init__(self, x: torch.Tensor, faults: Faults) -> None:
        self.x = x
        self.out = torch.empty_like(x)
        self.faults = faults

    def run(self, plan: DoublePlan) -> None:
        self.faults.runs.append(plan.block)
        if plan.block in self.faults.raising:
            raise RuntimeError(f"launch with block {plan.block} failed")
        torch.mul(self.x, 2, out=self.out)
        if plan.block in self.faults.wrong:
            self.out[-1] += 1
        if plan.block in self.faults.idle:
            blank(self.out)

    def expected(self, index: torch.Tensor) -> torch.Tensor:
        return self.x[index] * 2

    def same(self, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        return operators.same_bits(actual, expected)


@dataclass
class Faults:
    wrong: set[int] = field(default_factory=set)
    raising: set[int] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)
    runs: list[int] = field(default_factory=list)
    scratches: list[DoubleScratch] = field(default_factory=list)


def double(faults: Faults) -> operators.Operator:
    """The operator as the tuner sees it."""

    def scratch(problem: DoubleProblem, device: torch.device) -> DoubleScratch:
        made = DoubleScratch(torch.arange(problem.size, dtype=torch.int32, device=device), faults)
        faults.scratches.append(made)
        return made

    def scratch_of(tensors: Sequence[torch.Tensor], device: torch.device) -> tuple[DoubleProblem, DoubleScratch]:
        made = DoubleScratch(tensors[0].to(device, copy=True), faults)
        faults.scratches.append(made)
        return DoubleProblem(tensors[0].numel()), made

    return operators.Operator(
        name="double",
        plan=plan_double,
        choices=lambda heuristic, platform: [{"block": block} for block in (32, 64, 128, 256, 2048)],
        scratch=scratch,
        scratch_of=scratch_of,
    )


class TableMeasure(Measure):
    """Made-up costs of plans; None is no figure."""

    def __init__(self, costs: Callable[[Any], float | None], name: str = "model", noise: float = 0.01) -> None:
        self.name = name
        self.device = torch.device("cpu")
        self.costs = costs
        self.noise = noise
        self.complete = True

    def run(self, scratch: Any, plan: DoublePlan) -> bool:
        super().run(scratch, plan)
        return self.complete

    def figures(self, scratch: Any, plans: Sequence[DoublePlan]) -> list[Figure | str]:
        found: list[Figure | str] = []
        for plan in plans:
            cost = self.costs(plan)
            found.append("no figure" if cost is None else Figure(cost, cost * 0.9, cost * 1.2, self.noise))
        return found
