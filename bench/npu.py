"""Figures that only a device can give: time of all kernels of a call, and which kernels those were."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from autotune.device import kernels_by_call
from bench.timing import Quantiles, quantiles


@dataclass(frozen=True)
class DeviceTime:
    """Kernel time of a call summed over its kernels (None if it could not be taken), their names, its warnings."""

    time: Quantiles | None
    kernels: tuple[str, ...]
    warned: tuple[str, ...]


def device_time(call: Callable[[], object], device: torch.device) -> DeviceTime:
    """Profile some calls, each with a cold L2 cache, and sum the kernels of each.

    A call may start no kernel (a fallback to the CPU), one, or several (AsStrided + Transpose): a reader that takes
    one row a call is wrong for all but the second.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls = kernels_by_call(call, device)
    sums = [sum(duration for _, duration in kernels) for kernels in calls]
    names = tuple(name for name, _ in calls[-1]) if calls else ()
    return DeviceTime(quantiles(sums), names, tuple(str(item.message) for item in caught))
