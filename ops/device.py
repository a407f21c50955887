"""The one file that knows devices: chip, platform, stream, guard, synchronisation and the kernel profiler.

A tensor lives either on an NPU (torch_npu) or on the CPU, where the emulator stands in for a chip. Everything else in
this project asks here.

    >>> platform_of(torch.device("cpu")).chip
    'Ascend910B3'
"""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import platformdirs
import torch

from tiling import tuned
from tiling.platform import DEFAULT_CHIP, MEASURED, Cost, Platform, platform

APPLICATION = "ascend-triton-ops"


def npu() -> ModuleType | None:
    """`torch.npu` if torch_npu can be imported and sees a device, else None. Tests replace this function."""
    return _npu()


@functools.cache
def _npu() -> ModuleType | None:
    try:
        import torch_npu  # noqa: F401 - importing it registers torch.npu
    except ImportError:
        return None
    module: ModuleType = getattr(torch, "npu")  # noqa: B009 - torch has it only after torch_npu
    return module if module.is_available() else None


def _require_npu() -> Any:
    module = npu()
    if module is None:
        raise RuntimeError(
            "a tensor on an NPU needs torch_npu and a visible device: install ascend-triton-ops[npu] and check npu-smi"
        )
    return module


def default_device() -> torch.device:
    """The NPU if there is one, else the CPU (where the emulator serves)."""
    return torch.device("npu", _require_npu().current_device()) if npu() is not None else torch.device("cpu")


def is_served(device: torch.device) -> bool:
    """Whether this project's kernels run on tensors of `device`: an NPU, or the CPU through the emulator."""
    return device.type in ("npu", "cpu")


def chip_of(device: torch.device) -> str:
    """Name of the chip, for instance 'Ascend910B3'; on the CPU the one the emulator stands in for.

    ASCEND_EMULATOR_CHIP chooses the emulated chip.
    """
    if device.type == "npu":
        name: str = _require_npu().get_device_name(device.index or 0)
        return name if name.startswith("Ascend") else "Ascend" + name
    return os.environ.get("ASCEND_EMULATOR_CHIP", DEFAULT_CHIP)


def platform_of(device: torch.device) -> Platform:
    """The platform of a device, with constants calibrated on that chip if a profile is stored (bench calibrate)."""
    return _platform_of(chip_of(device), profile_path(chip_of(device)) if device.type == "npu" else None)


@functools.cache
def _platform_of(chip: str, profile: Path | None) -> Platform:
    base = platform(chip)
    return base if profile is None else load_profile(base, profile)


def profile_path(chip: str) -> Path:
    """Where the calibrated constants of a chip are stored. ASCEND_OPS_PROFILE names another file."""
    override = os.environ.get("ASCEND_OPS_PROFILE")
    if override:
        return Path(override)
    return Path(platformdirs.user_cache_dir(APPLICATION)) / "profiles" / f"{chip}.json"


def load_profile(base: Platform, path: Path) -> Platform:
    """`base` with the constants stored at `path`; `base` itself, after one warning, if the file cannot be used."""
    try:
        stored = json.loads(path.read_text())
        if stored["chip"] != base.chip:
            raise ValueError(f"it was measured on {stored['chip']}, not on {base.chip}")
        costs = {name: Cost(**fields) for name, fields in stored["costs"].items()}
        return base.with_costs(costs, profile=f"{path.name}@{path.stat().st_mtime_ns}")
    except FileNotFoundError:
        return base
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"calibrated profile {path} is ignored: {error}", stacklevel=2)
        return base


def store_profile(base: Platform, measured: dict[str, float]) -> Path:
    """Write constants measured on `base.chip` and make this process use them. Returns the path written."""
    path = profile_path(base.chip)
    path.parent.mkdir(parents=True, exist_ok=True)
    costs = {}
    for name, value in measured.items():
        known = base.costs[name]
        costs[name] = Cost(value, known.unit, "bench calibrate", MEASURED, value, value).__dict__
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".json", delete=False) as file:
        json.dump({"chip": base.chip, "costs": costs}, file, indent=1)
    os.replace(file.name, path)
    _platform_of.cache_clear()
    tuned.reload()  # operators keep plans, made with the costs there were
    return path


def stream_of(device: torch.device) -> int:
    """Raw handle of the current stream of an NPU; 0 on the CPU."""
    if device.type != "npu":
        return 0
    handle: int = _require_npu().current_stream(device).npu_stream
    return handle


def guard(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make `device` the current one inside a with block."""
    return contextlib.nullcontext() if device.type != "npu" else _require_npu().device(device)


def synchronize(device: torch.device) -> None:
    """Wait until everything queued on the device has run."""
    if device.type == "npu":
        _require_npu().synchronize(device)


def refuse_capture(device: torch.device) -> None:
    """Raise RuntimeError while the current NPU stream captures a graph, which would freeze one call's tiling."""
    module = _require_npu()
    capturing = getattr(module, "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        raise RuntimeError(
            "ascend-triton-ops does not support NPU graph capture: call the operator outside torch.npu.graph()"
        )


def describe(device: torch.device) -> str:
    """One line that names what a time was taken on."""
    if device.type == "npu":
        return f"{chip_of(device)} (npu:{device.index or 0})"
    return f"emulator of {chip_of(device)} on this host's CPU, not an NPU"


def clear_l2(device: torch.device) -> None:
    """Overwrite the NPU's L2 cache, so that the next kernel starts cold. Nothing to do on the CPU."""
    if device.type == "npu":
        # 192 MiB is the L2 size of the A2/A3 chips; writing that much evicts everything else.
        torch.empty(192 * 1024 * 1024 // 4, dtype=torch.int32, device=device).zero_()


def profile_kernels(run: Callable[[], object], device: torch.device) -> list[tuple[str, float]]:
    """Names and device microseconds of all kernels one call of `run` started on an NPU, in order.

    Read from torch_npu's profiler. An empty list means that no kernel ran on the device (for instance a fallback to
    the CPU). Raises RuntimeError on a CPU.
    """
    if device.type != "npu":
        raise RuntimeError("the kernel profiler needs an NPU; on a CPU use the model or host measure")
    _require_npu()
    import torch_npu

    with tempfile.TemporaryDirectory() as folder:
        experimental = torch_npu.profiler._ExperimentalConfig(
            profiler_level=torch_npu.profiler.ProfilerLevel.Level1, export_type=[torch_npu.profiler.ExportType.Text]
        )
        with torch_npu.profiler.profile(
            activities=[torch_npu.profiler.ProfilerActivity.NPU],
            on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder),
            experimental_config=experimental,
        ):
            run()
            synchronize(device)
        return read_kernel_details(Path(folder))


def read_kernel_details(folder: Path) -> list[tuple[str, float]]:
    """Kernels in the kernel_details.csv that torch_npu's profiler left below `folder`; several files are joined."""
    kernels = []
    for path in sorted(folder.rglob("kernel_details.csv")):
        with path.open(newline="") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: float(row["Start Time(us)"]))
        kernels += [(row["Name"], float(row["Duration(us)"])) for row in rows]
    return kernels
