"""What a candidate is judged by: time on a device, modelled cycles, or the emulator's wall clock.

device   an NPU: time of all kernels of a call, from the profiler, with the L2 cleared before every call
model    cycles of the device-level model, in microseconds of the modelled chip, with the band of its constants
host     wall clock of the emulator: what a test on this machine costs, and nothing about an NPU
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from autotune.operators import Scratch
from ops import device as devices


@dataclass(frozen=True)
class Figure:
    """What one candidate costs: microseconds of one call, and the range `low..high` that they may lie in.

    For `device` and `host` the range holds the middle of the samples (20 to 80 %), for `model` the band of the
    constants. `noise` is the relative difference below which two figures are the same. `host_microseconds` is the
    Python and launch time of a call, where it was taken. `detail` holds what else is worth a column, such as the cycles
    of each pipe.
    """

    microseconds: float
    low: float
    high: float
    noise: float
    host_microseconds: float | None = None
    detail: Mapping[str, float] = field(default_factory=dict)


class Measure:
    """One way to judge plans. `name` goes into the store, `device` is where the scratch data must live."""

    name: str
    device: torch.device

    def describe(self) -> str:
        """What the figures were taken on, for a table's head."""
        return devices.describe(self.device)

    def run(self, scratch: Scratch, plan: Any) -> bool:
        """Run a plan once, for its output to be checked. Returns whether all of the output was computed.

        The model samples the programs of large grids; what it leaves out keeps the bytes the output had before.
        """
        scratch.run(plan)
        devices.synchronize(self.device)
        return True

    def figures(self, scratch: Scratch, plans: Sequence[Any]) -> list[Figure | str]:
        """A figure for each plan, or the reason why there is none. Every plan has been through `run` and is right."""
        raise NotImplementedError
