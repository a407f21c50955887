"""What a stored tuning is valid for: the tools of this installation, and the source of an operator."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


@cache
def toolchain() -> str:
    """triton-ascend and every compiler of this installation, by version: what a tuning is valid for."""
    from importlib.metadata import PackageNotFoundError, version

    parts = []
    for distribution in ("triton-ascend", "ascendnpu-ir"):
        with suppress(PackageNotFoundError):
            parts.append(f"{distribution} {version(distribution)}")
    binary = shutil.which("bishengir-compile") or os.environ.get("TRITON_NPU_COMPILER_PATH")
    if binary:
        parts.append(_cann_version(Path(binary).resolve()))
    return ", ".join(parts) or "no compiler"


def _cann_version(binary: Path) -> str:
    """The version CANN notes in a version.info above its compiler; without one, the binary's size and date."""
    for folder in binary.parents:
        note = folder / "version.info"
        if note.is_file():
            found = re.search(r"(?m)^\s*Version\s*=\s*(\S+)", note.read_text(errors="replace"))
            if found:
                return f"cann {found[1]}"
    if not binary.exists():
        return "compiler missing"
    stat = binary.stat()
    return f"compiler {stat.st_size}-{stat.st_mtime_ns}"


@cache
def source_hash(op: str) -> str:
    """Hash of the files a plan of `op` and its kernels are made from: an edited kernel makes its old tunings void."""
    digest = hashlib.sha256()
    shared = ("tiling/layout.py", "ops/kernels/intrinsics.py", "ops/kernels/signature.py")
    names = (f"tiling/{op}*.py", f"ops/kernels/{op}*.py", *shared)
    for file in sorted(file for name in names for file in _ROOT.glob(name)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
