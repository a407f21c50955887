"""Figures that only a device can give: time of all kernels of a call, and which kernels those were."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.timing import Quantiles, quantiles
from ops import device as devices

REPEATS = 5  # each starts the profiler anew, which takes longer than most calls


@dataclass(frozen=True)
class DeviceTime:
    """Kernel time of a call summed over its kernels (None if it could not be taken), their names, its warnings."""

    time: Quantiles | None
    kernels: tuple[str, ...]
    warned: tuple[str, ...]


def device_time(call: Callable[[], object], device: torch.device, repeats: int = REPEATS) -> DeviceTime:
    """Profile a call `repeats` times with a cold L2 cache and sum the kernels of each time.

    A call may start no kernel (a fallback to the CPU), one, or several (AsStrided + Transpose): a reader that takes
    one row a call is wrong for all but the second.
    """
    sums: list[float] = []
    kernels: tuple[str, ...] = ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
        devices.synchronize(device)
        for _ in range(repeats):
            devices.clear_l2(device)
            devices.synchronize(device)
            rows = devices.profile_kernels(call, device)
            sums.append(sum(duration for _, duration in rows))
            kernels = tuple(name for name, _ in rows)
    return DeviceTime(quantiles(sums), kernels, tuple(str(item.message) for item in caught))
