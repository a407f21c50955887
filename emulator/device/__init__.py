"""The device level: the code that goes to the NPU, run and checked on the host.

bishengir-compile's final HIVM module (unified buffer planned, flags injected, vendor templates called) is linked with
the vendor's own template library; only the vector core's intrinsics have host implementations. SEMANTICS.md says what
each of them means and where that comes from.

    >>> with emulator.route("device"):
    ...     kernel[grid](x, y, n, BLOCK=1024)    # raises DeviceCheckError if a check finds something

The checks while it runs: bounds and alignment in the unified buffer, bytes used that were never written, global memory
outside the tensors passed in, flags set and waited for in pairs, and accesses of different pipes that nothing orders.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from emulator import toolchain
from emulator.device import recording
from emulator.device.kernel import DeviceCheckError, Finding, Kernel, Options, load, options
from emulator.errors import EmulatorError

__all__ = [
    "DeviceCheckError",
    "Finding",
    "Kernel",
    "Options",
    "UnifiedBufferOverflowError",
    "compile_kernel",
    "fingerprint",
    "load",
    "load_kernel",
    "options",
]


class UnifiedBufferOverflowError(EmulatorError):
    """A kernel's tiles do not fit the unified buffer."""

    def __init__(self, kernel: str, needed: int) -> None:
        super().__init__(f"kernel {kernel!r} needs {needed} bytes of unified buffer, more than there is: smaller tiles")


def fingerprint() -> str:
    """What compiled kernels depend on besides their source: the tool versions and the chip they are compiled for."""
    return f"device-{toolchain.default_chip()}-{sorted(toolchain.versions().items())}"


def compile_kernel(linalg: str, metadata: dict[str, Any], options: Any) -> bytes:
    """Compile Linalg IR to the final HIVM module. What is kept is the module; the host's code is cached apart."""
    text, _ = toolchain.split_metadata(linalg, metadata)
    module = toolchain.compile_hivm(text, multibuffer=options.multibuffer)
    if module.overflow:
        raise UnifiedBufferOverflowError(metadata["kernel_name"], module.ub_bytes)
    return json.dumps({"kernel": metadata["kernel_name"], "hivm": module.text}).encode()


def load_kernel(blob: bytes, types: Sequence[str]) -> Launcher:
    """A callable (gx, gy, gz, arguments) for a compiled kernel whose run-time arguments have these Triton types."""
    return Launcher(load(json.loads(blob)["hivm"]), types)


class Launcher:
    """Runs a kernel on tensors: turns arguments into addresses, and says which memory they allow it to touch."""

    def __init__(self, kernel: Kernel, types: Sequence[str]) -> None:
        self.kernel = kernel
        self._pointers = tuple(kind.startswith("*") for kind in types)

    def __call__(self, gx: int, gy: int, gz: int, args: Sequence[Any]) -> None:
        values: list[Any] = []
        ranges: list[tuple[int, int]] = []
        for pointer, argument in zip(self._pointers, args, strict=True):
            if pointer and hasattr(argument, "data_ptr"):
                values.append(argument.data_ptr())
                ranges.append(memory_of(argument))
            else:
                values.append(0 if argument is None else argument)
        recorder = recording.current.get()
        if recorder is None:
            self.kernel.run((gx, gy, gz), values, ranges)
            return
        total = gx * gy * gz
        programs = recorder.choose(total)
        streams = self.kernel.run((gx, gy, gz), values, ranges, programs=programs, record=True)
        recorder.add(self.kernel, total, streams)


def memory_of(argument: Any) -> tuple[int, int]:
    """First and one-past-last address that a kernel may touch through a pointer argument: the whole storage."""
    if hasattr(argument, "gm_range"):
        low, high = argument.gm_range()
        return low, high
    storage = argument.untyped_storage()
    start = storage.data_ptr()
    return start, start + storage.nbytes()
