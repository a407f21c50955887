"""Runs Triton-Ascend kernels on the host, on tensors in its memory, where there is no NPU.

    >>> import emulator
    >>> emulator.install()
    >>> kernel[grid](x, y, n, BLOCK=1024)    # x and y are CPU tensors

Two levels: "linalg" compiles triton-ascend's Linalg IR to native code; "device" runs the final module of the Ascend
compiler with the vendor's own templates, and checks it. Environment: ASCEND_EMULATOR_LEVEL, ASCEND_EMULATOR_THREADS,
ASCEND_EMULATOR_CHIP (by default Ascend910B3). Nothing measured here is a time of an NPU.
"""

from emulator.errors import (
    EmulatorError,
    KernelAssertionError,
    MissingToolError,
    ToolError,
    UnsupportedOperationError,
)
from emulator.pool import get_num_threads, set_num_threads
from emulator.toolchain import require_triton_ascend

require_triton_ascend()

from emulator.router import default_level, install, route, uninstall  # noqa: E402 - imports triton-ascend

__all__ = [
    "EmulatorError",
    "KernelAssertionError",
    "MissingToolError",
    "ToolError",
    "UnsupportedOperationError",
    "default_level",
    "get_num_threads",
    "install",
    "route",
    "set_num_threads",
    "uninstall",
]
