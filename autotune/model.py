"""Modelled time: the compiled kernel's instructions at the device level of the emulator, priced by the cost table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autotune.measure import Figure, Measure
from autotune.operators import Scratch
from tiling.platform import Platform

# Up to this many output elements every program runs, so that the whole output is checked. Beyond, the programs of a
# launch are taken to be like a few of them, among which are the first and the last: as many as make about so many
# elements, because a million take the emulator seconds.
WHOLE = 1 << 18
WHOLE_OF_SEVERAL = 1 << 21  # the same for calls of several launches, which cannot be sampled one by one

# The same kernel on other data, or with other programs sampled, moves a figure by about this much.
NOISE = 0.015


class ModelMeasure(Measure):
    """Cycles of the launches of a call at the clock of the platform, with the band of the unmeasured constants.

    A call's launches follow one another; each after the first also waits for the host, as long as a launch takes.
    """

    name = "model"

    def __init__(self, platform: Platform) -> None:
        self.device = torch.device("cpu")
        self.platform = platform
        self._figures: dict[Any, Figure] = {}

    def describe(self) -> str:
        platform = self.platform
        return f"cycle model of {platform.chip} ({platform.vector_cores} vector cores, {platform.profile} costs)"

    def run(self, scratch: Scratch, plan: Any) -> bool:
        from emulator import route

        elements = plan.problem.elements
        report = self._record(scratch, plan, elements > WHOLE)
        complete: bool = report.complete
        if not complete and len(report.launches) > 1:
            # A later launch reads what an earlier one was sampled for: neither its output nor its loops are the call's.
            if elements <= WHOLE_OF_SEVERAL:
                report = self._record(scratch, plan, sample=False)
            else:
                with route("linalg"):
                    scratch.run(plan)
            complete = True
        launch = self.platform.costs["launch"]
        waits = len(report.launches) - 1
        # The schedule is not monotone in every constant: all at their slow end may even be a little faster.
        low, *_, high = sorted((report.microseconds, *report.band))
        self._figures[plan] = Figure(
            report.microseconds + waits * launch.value,
            low + waits * launch.low,
            high + waits * launch.high,
            NOISE,
            detail=report.shares,
        )
        return complete

    def _record(self, scratch: Scratch, plan: Any, sample: bool) -> Any:
        from emulator import cycles

        platform = self.platform
        programs = max(2, WHOLE * platform.vector_cores // plan.problem.elements) if sample else None
        with cycles.record(platform.costs, cores=platform.vector_cores, sample=programs) as report:
            scratch.run(plan)
        return report

    def figures(self, scratch: Scratch, plans: Sequence[Any]) -> list[Figure | str]:
        return [self._figures.pop(plan, "not run before it was to be measured") for plan in plans]
