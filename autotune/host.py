"""The wall clock of the emulator: how long a call takes on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from autotune.measure import Figure, Measure
from autotune.operators import Scratch
from ops import device as devices

ROUNDS = 5
SAMPLE_SECONDS = 0.01  # a sample repeats the call until it lasts this long: the clock and the scheduler are coarser


class HostMeasure(Measure):
    """Median of a few samples a plan, taken in rounds over all plans, so that a slow moment hits none of them alone."""

    name = "host"

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def describe(self) -> str:
        return devices.describe(self.device) + ", wall clock"

    def figures(self, scratch: Scratch, plans: Sequence[Any]) -> list[Figure | str]:
        calls = [lambda plan=plan: scratch.run(plan) for plan in plans]
        repeats = [_repeats(call) for call in calls]
        samples: list[list[float]] = [[] for _ in plans]
        for _ in range(ROUNDS):
            for call, repeat, kept in zip(calls, repeats, samples, strict=True):
                kept.append(_seconds(call, repeat) / repeat * 1e6)
        return [_figure(kept) for kept in samples]


def _seconds(call: Callable[[], None], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return time.perf_counter() - start


def _repeats(call: Callable[[], None]) -> int:
    once = _seconds(call, 1)
    return max(1, min(1000, round(SAMPLE_SECONDS / max(once, 1e-7))))


def _figure(samples: Sequence[float]) -> Figure:
    return quantiles(samples, host=statistics.median(samples))


def quantiles(samples: Sequence[float], *, host: float | None, floor: float = 0.02) -> Figure:
    """Median of samples in microseconds, with their 20 and 80 % quantiles; the noise is half the distance of these."""
    ordered = sorted(samples)
    middle = statistics.median(ordered)
    low, high = ordered[len(ordered) // 5], ordered[-1 - len(ordered) // 5]
    return Figure(middle, low, high, max(floor, (high - low) / 2 / middle), host)
