"""Time on an NPU: the kernels of a call, summed, from the profiler; host time apart."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from autotune.host import quantiles
from autotune.measure import Figure, Measure
from autotune.operators import Scratch
from ops import device as devices

WARM_UP = 3
CALLS = 10
ROUNDS = 3


class DeviceMeasure(Measure):
    """Sums the kernels of each call. A call may start none (a fallback to the CPU), one or several.

    The L2 is overwritten before every call, else whoever runs second on the same data wins; plans are taken in rounds.
    """

    name = "device"

    def __init__(self, device: torch.device | None = None) -> None:
        if device is None and devices.npu() is None:
            raise RuntimeError("the device measure needs an NPU (torch_npu and a visible device)")
        self.device = device or devices.default_device()

    def figures(self, scratch: Scratch, plans: Sequence[Any]) -> list[Figure | str]:
        samples: list[list[float]] = [[] for _ in plans]
        hosts: list[list[float]] = [[] for _ in plans]
        for _ in range(ROUNDS):
            for plan, kept, host in zip(plans, samples, hosts, strict=True):

                def call(plan: Any = plan) -> None:
                    scratch.run(plan)

                kept += call_times(call, self.device, CALLS)
                host.append(host_microseconds(call, self.device))
        return [_figure(kept, statistics.median(host)) for kept, host in zip(samples, hosts, strict=True)]


def _figure(samples: Sequence[float], host: float) -> Figure | str:
    good = [sample for sample in samples if math.isfinite(sample) and sample > 0]
    if len(good) < len(samples) / 2 or not good:
        return "the profiler reported no kernel time on the device"
    return quantiles(good, host=host, floor=0.01)


def call_times(call: Callable[[], object], device: torch.device, calls: int = CALLS) -> list[float]:
    """Device microseconds of each of `calls` calls, each with a cold L2: all its kernels, summed.

    0 for a call that started no kernel on the device.
    """
    return [sum(time for _, time in kernels) for kernels in kernels_by_call(call, device, calls)]


def kernels_by_call(
    call: Callable[[], object], device: torch.device, calls: int = CALLS
) -> list[list[tuple[str, float]]]:
    """Names and device microseconds of the kernels of each of `calls` calls, the L2 cleared before each.

    Starting the profiler takes seconds, so all calls share one profile if the clearings in it show where each begins;
    otherwise (a runtime that clears by something that is not a kernel) each call has its own.
    """
    for _ in range(WARM_UP):
        call()
    clearing = [name for name, _ in devices.profile_kernels(lambda: devices.clear_l2(device), device)]

    def run() -> None:
        for _ in range(calls):
            devices.clear_l2(device)
            call()

    groups = split_at(devices.profile_kernels(run, device), clearing, calls)
    return groups if groups is not None else [_alone(call, device) for _ in range(calls)]


def _alone(call: Callable[[], object], device: torch.device) -> list[tuple[str, float]]:
    devices.clear_l2(device)
    devices.synchronize(device)
    return devices.profile_kernels(call, device)


def split_at(
    kernels: Sequence[tuple[str, float]], clearing: Sequence[str], calls: int
) -> list[list[tuple[str, float]]] | None:
    """Cut a profile into calls, each of which begins with the kernels named in `clearing`, which are left out.

    None when there is nothing to cut at, or when the cuts do not give `calls` calls.
    """
    groups: list[list[tuple[str, float]]] = []
    at = 0
    while clearing and at < len(kernels):
        if [name for name, _ in kernels[at : at + len(clearing)]] == list(clearing):
            groups.append([])
            at += len(clearing)
        elif groups:
            groups[-1].append(kernels[at])
            at += 1
        else:
            return None
    return groups if len(groups) == calls else None


def host_microseconds(call: Callable[[], object], device: torch.device, calls: int = CALLS) -> float:
    """Microseconds the host spends in one call (Python, plan look-up, launch), without waiting for the device."""
    devices.synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    spent = time.perf_counter() - start
    devices.synchronize(device)
    return spent / calls * 1e6
