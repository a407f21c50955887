"""The speed lines of as_strided on the model: cycles per output element and core, the slowest of MTE2, vector and MTE3.

    python -m bench as-strided-speed --model-only

The compiled kernels run at the device level of the emulator, which counts their DMA instructions, bursts, bytes and
vector instructions. The counts become cycles by the constants of the platform for short bursts and gathers (`burst`,
`gather_lane`, `mte2_issue`, ...), most of them guesses: the figures compare kernels, no NPU was timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table

import ops
from emulator import cycles
from ops import device
from tiling.as_strided import AsStridedPlan
from tiling.as_strided_costs import Transfer, load_cycles, store_cycles
from tiling.platform import Platform


@dataclass(frozen=True)
class Line:
    """One view of float32 and the most cycles per element and core that it may take."""

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    limit: float


LINES = (
    Line("contiguous", (65_536,), (1,), 5, 0.10),
    Line("rows of 1000", (640, 1000), (1500, 1), 3, 0.08),
    Line("stride 2", (400_000,), (2,), 3, 0.6),
    Line("stride 3", (400_000,), (3,), 1, 1.3),
    Line("stride 7", (400_000,), (7,), 1, 1.3),
    Line("transpose 256x256", (256, 256), (1, 256), 0, 0.31),
    Line("broadcast rows of 1000", (640, 1000), (3, 0), 0, 0.05),
    Line("stride-0 outer rows of 1000", (640, 1000), (0, 1), 5, 0.06),
    Line("sliding window of 8", (3000, 8), (1, 1), 0, 2.6),
    Line("diagonal of 513", (4000,), (513,), 0, 8.5),
)


@dataclass(frozen=True)
class Figure:
    """Cycles per output element and core of each pipe, and what served it."""

    line: Line
    plan: AsStridedPlan
    mte2: float
    vector: float
    mte3: float

    @property
    def slowest(self) -> float:
        """What the line is held against."""
        return max(self.mte2, self.vector, self.mte3)

    @property
    def met(self) -> bool:
        """Compared as the line is written: to two decimals."""
        return round(self.slowest, 2) <= self.line.limit


def figure(line: Line, platform: Platform) -> Figure:
    """Run one line's kernel at the device level and count."""
    reach = line.offset + 1 + sum((extent - 1) * step for extent, step in zip(line.size, line.stride, strict=True))
    source = torch.zeros(reach)
    with cycles.record(platform.costs, cores=platform.vector_cores) as report:
        ops.as_strided(source, line.size, line.stride, line.offset)
    plan = ops.plan_as_strided(source, line.size, line.stride, line.offset)
    assert plan is not None
    counted = report.detail
    elements = plan.problem.elements
    loaded = _transfer(counted.loads, counted.load_bursts, counted.loaded)
    stored = _transfer(counted.stores, counted.store_bursts, counted.stored)
    return Figure(
        line,
        plan,
        load_cycles(platform, loaded) / elements,
        _vector(counted.pipes["V"], counted.by_class, plan, platform) / elements,
        store_cycles(platform, stored) / elements,
    )


def _transfer(instructions: float, bursts: float, moved: float) -> Transfer:
    return Transfer(instructions, bursts, moved / bursts) if bursts else Transfer(0, 0, 0)


def _vector(cycles_counted: float, by_class: Mapping[str, float], plan: AsStridedPlan, platform: Platform) -> float:
    """Vector cycles with the platform's cost of a gather lane and of a transposed element in place of per-repeat ones,
    which nobody has checked for these two instructions."""
    tiles = plan.args[0]
    sizes = dict(plan.constexprs)
    if plan.family == "transpose":
        area = tiles * sizes["DENSE"] * sizes["LINES"]
        return cycles_counted - by_class.get("vnchwconv", 0.0) + area * platform.cost("transpose_element")
    if plan.family in ("gather", "bursts"):
        lanes = sizes["BLOCK"] if plan.family == "gather" else sizes["ITEMS"] * sizes["WORDS"]
        return cycles_counted - by_class.get("vgather", 0.0) + tiles * lanes * platform.cost("gather_lane")
    return cycles_counted


def figures() -> list[Figure]:
    """All lines on the platform of the emulated chip."""
    platform = device.platform_of(torch.device("cpu"))
    return [figure(line, platform) for line in LINES]


def report(console: Any) -> bool:
    """Print the modelled lines; returns whether every one is met."""
    table = Table(title="as_strided float32, modelled cycles per output element and core (no NPU was timed)")
    for column in ("view", "kernel", "tile", "cores", "MTE2", "vector", "MTE3", "slowest", "at most", ""):
        table.add_column(column, justify="left" if column in ("view", "kernel", "tile", "") else "right")
    found = figures()
    for each in found:
        table.add_row(
            each.line.name,
            each.plan.kernel,
            each.plan.tile,
            str(each.plan.cores),
            *(f"{value:.2f}" for value in (each.mte2, each.vector, each.mte3, each.slowest, each.line.limit)),
            "met" if each.met else "MISSED",
        )
    console.print(table)
    guesses = ", ".join(
        f"{name} {cost.value:g} ({cost.low:g}-{cost.high:g} {cost.unit})"
        for name in ("burst", "gather_lane", "transpose_element", "mte2_issue", "mte3_issue")
        for cost in [device.platform_of(torch.device("cpu")).costs[name]]
    )
    console.print(f"They rest on guesses: {guesses}.")
    return all(each.met for each in found)


def main() -> int:
    """Print the modelled lines; 1 if one is missed."""
    from bench.console import make_console

    return 0 if report(make_console()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
