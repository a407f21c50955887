"""What a bug report needs: versions, chip, compiler, caches and the variables that change behaviour."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import platform as host
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import platformdirs
import torch

PACKAGES = (
    "ascend-triton-ops",
    "torch",
    "torch-npu",
    "triton-ascend",
    "triton",
    "ascendnpu-ir",
    "llvmlite",
    "numpy",
    "rich",
    "matplotlib",
    "filelock",
)

# Variables that change what is run, where it is cached or how it is measured.
VARIABLE_PREFIXES = ("ASCEND_", "TRITON_", "TORCH_", "OMP_", "CANN_", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the text")


def run(args: Any) -> int:
    """Print the environment; always 0."""
    found = describe()
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    width = max(len(name) for section in found.values() for name in section)
    for title, section in found.items():
        print(title)
        for name, value in section.items():
            print(f"  {name:<{width}}  {value}")
    return 0


def version_of(package: str) -> str | None:
    """Installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def versions() -> dict[str, str]:
    """Versions that belong beside a figure: Python and every installed package of PACKAGES."""
    found = {name: version for name in PACKAGES if (version := version_of(name)) is not None}
    return {"python": host.python_version(), **found}


def one_line() -> str:
    """The versions that matter most, for a table's header."""
    found = versions()
    names = ("torch", "torch-npu", "triton-ascend", "ascendnpu-ir")
    return ", ".join(f"{name} {found[name]}" for name in names if name in found)


def describe() -> dict[str, dict[str, str]]:
    """Everything `bench env` prints, by section; values are text."""
    device, cache = _device()
    return {
        "host": {
            "system": f"{host.system()} {host.release()} {host.machine()}",
            "processor": _processor(),
            "cores usable": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
            "memory": _memory(),
            "python": f"{host.python_version()} ({sys.executable})",
            "C++ compiler": _first_line([shutil.which("c++") or shutil.which("g++") or "", "--version"]),
        },
        "device": device,
        "packages": {name: version_of(name) or "not installed" for name in PACKAGES},
        "triton": {
            "back ends": ", ".join(_triton_backends()) or "none found",
            "bishengir-compile": _bishengir(),
        },
        "caches": {
            "project": cache,
            "triton": os.environ.get("TRITON_CACHE_DIR", str(Path.home() / ".triton" / "cache")),
        },
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLE_PREFIXES)}
        or {"none": "of " + " ".join(VARIABLE_PREFIXES)},
        "source": {"commit": _commit(), "torch threads": str(torch.get_num_threads())},
    }


def _device() -> tuple[dict[str, str], str]:
    """The device section and the project's cache directory; a broken installation is reported, not raised."""
    try:
        from ops import device as devices
        from tiling import tuned
    except ImportError as error:
        return {"runs on": f"nothing: {error}", "CANN": _cann()}, "unknown"
    device = devices.default_device()
    platform = devices.platform_of(device)
    section = {
        "runs on": devices.describe(device),
        "plans for": f"{platform.chip}: {platform.vector_cores} vector cores, {platform.ub_bytes} bytes of UB",
        "cost profile": platform.profile,
        "profile file": _file(devices.profile_path(platform.chip)),
        "stored tunings": _file(tuned.path(platform.chip)),
        "CANN": _cann(),
    }
    return section, str(platformdirs.user_cache_dir(devices.APPLICATION))


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return host.processor() or "unknown"


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return f"{pages / 2**30:.1f} GiB" if pages else "unknown"


def _first_line(command: list[str]) -> str:
    """First line that a tool prints, or why there is none."""
    if not command[0]:
        return "not found"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else f"{command[0]} printed nothing"


def _triton_backends() -> list[str]:
    try:
        found = importlib.util.find_spec("triton")
    except ModuleNotFoundError:
        return []
    if found is None or not found.submodule_search_locations:
        return []
    folder = Path(next(iter(found.submodule_search_locations))) / "backends"
    return sorted(item.name for item in folder.iterdir() if (item / "compiler.py").exists()) if folder.exists() else []


def _bishengir() -> str:
    spec = importlib.util.find_spec("ascendnpuir")
    if spec is not None and spec.submodule_search_locations:
        tool = Path(next(iter(spec.submodule_search_locations))) / "bin" / "bishengir-compile"
        if tool.exists():
            return f"ascendnpu-ir {version_of('ascendnpu-ir')}"
    return shutil.which("bishengir-compile") or "not found"


def _cann() -> str:
    home = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return "ASCEND_TOOLKIT_HOME is not set"
    for path in sorted(Path(home).glob("**/ascend_toolkit_install.info"))[:1]:
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("version="):
                return f"{line.partition('=')[2]} ({home})"
    return home


def _file(path: Path) -> str:
    return str(path) if path.exists() else f"{path} (not there)"


def _commit() -> str:
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return "not a git checkout"
    return _first_line(["git", "-C", str(root), "describe", "--always", "--dirty"])
