"""The fit of `bench calibrate`, tested on a chip whose constants are known because they were made up."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from bench.probe_list import NOT_REACHED
from emulator import replay
from tiling.platform import Cost, Platform, platform

LIMIT = 0.05
SPREAD = (0.6, 1.6)  # factors on the table's values


def invented(base: Platform, seed: int) -> dict[str, Cost]:
    """The cost table with every constant multiplied by a random factor; head and tail of an instruction by the same."""
    generator = random.Random(seed)
    factors = {name: generator.uniform(*SPREAD) for name in sorted({_leader(name) for name in base.costs})}
    return {name: replace(cost, value=cost.value * factors[_leader(name)]) for name, cost in base.costs.items()}


def _leader(name: str) -> str:
    return name.replace(".tail", ".head")


def reached(name: str) -> bool:
    """Whether some probe executes what the constant belongs to."""
    return name.partition(".")[0] not in NOT_REACHED


def recovery(found: Mapping[str, float], hidden: Mapping[str, Cost]) -> dict[str, float]:
    """Relative error of every constant of the cycle model that the probes reach."""
    names = [name for name in replay.names() if reached(name) and hidden[name].value > 0]
    return {name: found[name] / hidden[name].value - 1.0 for name in names}


def run(seed: int, console: Console) -> bool:
    """Invent constants, fit them, print them beside what was found; whether all are within the limit."""
    from bench import calibrate

    base = platform()
    hidden = invented(base, seed)
    found = calibrate.calibrate(calibrate.ModelClock(hidden), base, console)
    errors = recovery(found.fit.values, hidden)
    for name, value in calibrate.planner_constants(found, base).items():
        source, part = calibrate.PLANNER.get(name, ("dma_bytes_per_cycle", 1.0))
        errors[f"{name} (planner)"] = value / (hidden[source].value * part) - 1.0
    table = Table(header_style="bold")
    table.add_column("constant")
    for heading in ("start", "invented", "found", "off by"):
        table.add_column(heading, justify="right")
    for name, error in errors.items():
        if name in hidden:
            values = (base.cost(name), hidden[name].value, found.fit.values[name])
            table.add_row(name, *(f"{value:.4g}" for value in values), f"{error:+.2%}")
    console.print(table)
    worst = max(errors, key=lambda name: abs(errors[name]))
    met = abs(errors[worst]) <= LIMIT
    console.print(
        f"{len(errors)} constants, the worst is {worst} by {errors[worst]:+.2%} (at most {LIMIT:.0%}): "
        f"{'met' if met else 'MISSED'}; not reached by any kernel: {', '.join(NOT_REACHED)}",
        markup=False,
    )
    return met
