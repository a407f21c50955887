"""The linalg level: a kernel's Linalg IR compiled to native code for this CPU."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator import (
    assertions,
    casts,
    forwarding,
    fusion,
    guards,
    libdevice,
    linalg_ir,
    llvm_ir,
    native,
    pool,
    special,
    spreading,
    toolchain,
    views,
)
from emulator.errors import ToolError, UnsupportedOperationError
from emulator.launcher import Launcher


@functools.cache
def _own_sources() -> str:
    modules = (
        assertions,
        casts,
        forwarding,
        fusion,
        guards,
        libdevice,
        linalg_ir,
        llvm_ir,
        native,
        special,
        spreading,
        views,
    )
    files = sorted([__file__, *(str(module.__file__) for module in modules)])
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def fingerprint() -> str:
    """What the compiled bytes depend on besides the kernel: this level's own code, tool versions and the host CPU."""
    versions, target = sorted(toolchain.versions().items()), native.host()
    return f"linalg-{_own_sources()}-{versions}-{target.triple}-{target.cpu}-{target.features}"


def compile_kernel(linalg: str, metadata: dict[str, Any], options: Any) -> bytes:
    """Compile one kernel for this host. `metadata` gets what triton-ascend reads off the Linalg IR."""
    text, _ = toolchain.split_metadata(linalg, metadata)
    return build(text, metadata["kernel_name"], native.host())


def build(text: str, kernel: str, target: native.Target) -> bytes:
    """Linalg IR to a loadable kernel for a CPU: a JSON header, a zero byte and an ELF object."""
    made, lowered = _object(text, kernel, target, linalg_ir.STACK_LIMIT_BYTES)
    if made.stack_bytes > pool.STACK_BYTES // 2:
        made, lowered = _object(text, kernel, target, 0)
    if target == native.host():
        missing = native.unresolved(made.externals)
        if missing:
            raise UnsupportedOperationError(
                kernel, f"external functions ({', '.join(missing)})", "linalg", toolchain.save_failed(kernel, text)
            )
    header = {
        "kernel": kernel,
        "arguments": len(lowered.types),
        "guarded": lowered.guarded,
        "assertions": lowered.assertions,
        "in_order": lowered.atomic,
        "stack_bytes": made.stack_bytes,
    }
    return json.dumps(header).encode() + b"\0" + made.code


def _object(text: str, kernel: str, target: native.Target, stack_limit: int) -> tuple[native.Object, linalg_ir.Lowered]:
    lowered = linalg_ir.lower(
        text,
        kernel,
        lambda source, passes: toolchain.optimise(kernel, "bishengir-opt", source, passes),
        stack_limit,
    )
    loop = llvm_ir.grid_loop(lowered.name, lowered.types, lowered.guarded, bool(lowered.assertions))
    return native.emit(
        llvm_ir.rewrite(libdevice.define(to_llvm(lowered.text, kernel))) + loop, llvm_ir.ENTRY, target
    ), lowered


def to_llvm(text: str, kernel: str) -> str:
    """LLVM dialect to LLVM IR, un-optimised, with the translator that Triton itself uses."""
    from triton._C.libtriton import ir, llvm

    with tempfile.TemporaryDirectory(prefix="ascend-emulator-") as folder:
        path = Path(folder, "kernel.mlir")
        path.write_text(text)
        context = ir.context()
        ir.load_dialects(context)
        try:
            module = ir.parse_mlir_module(str(path), context)
            translated = llvm.to_module(module, llvm.context())
        except RuntimeError as error:
            raise ToolError(kernel, "LLVM translation", str(error), toolchain.save_failed(kernel, text)) from None
        finally:
            context.disable_multithreading()
    if translated is None:
        message = "an operation has no translation to LLVM IR"
        raise ToolError(kernel, "LLVM translation", message, toolchain.save_failed(kernel, text))
    return str(translated)


def load_kernel(blob: bytes, types: Sequence[str]) -> Launcher:
    """Load a compiled kernel whose run-time arguments have these Triton types."""
    end = blob.index(b"\0")
    header = json.loads(blob[:end])
    if header.pop("arguments") != len(types):
        raise AssertionError(f"kernel {header['kernel']!r} was compiled for other arguments than {types}")
    address = native.load(blob[end + 1 :], llvm_ir.ENTRY)
    return Launcher(address=address, types=types, **header)
