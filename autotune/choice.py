"""Which measure a name stands for: `auto` is `device` when there is an NPU, else `model`."""

from __future__ import annotations

import torch

from autotune.device import DeviceMeasure
from autotune.host import HostMeasure
from autotune.measure import Measure
from autotune.model import ModelMeasure
from ops import device as devices
from tiling.platform import Platform


def choose(measure: str, platform: Platform | None) -> Measure:
    """The measure of a name, for a platform (by default that of the device it runs on).

    Raises ValueError for an unknown name, RuntimeError when what it needs is not there (an NPU; the emulator).
    """
    if measure == "auto":
        npu = devices.npu() is not None
        same_chip = npu and (platform is None or devices.chip_of(devices.default_device()) == platform.chip)
        measure = "device" if same_chip else "model"
    if measure == "device":
        return DeviceMeasure()
    if measure == "model":
        return ModelMeasure(platform or devices.platform_of(torch.device("cpu")))
    if measure == "host":
        return HostMeasure()
    raise ValueError(f"unknown measure {measure!r}: expected 'auto', 'device', 'model' or 'host'")
