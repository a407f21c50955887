"""What the emulator raises."""

from __future__ import annotations

EXTRA = "ascend-triton-ops[emulator]"


class EmulatorError(RuntimeError):
    """Base of what goes wrong between a kernel's source and its run on the host."""


class MissingToolError(EmulatorError, ImportError):
    """A package that the emulator needs is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"CPU tensors run on the emulator, which needs {package!r}, not found here: pip install '{EXTRA}' "
            "(or use tensors on an NPU)"
        )
        self.package = package


class ToolError(EmulatorError):
    """A stage of the compilation failed.

    `kernel` and `stage` say where, `message` is what the tool said, `saved` the file with the IR that it was given.
    """

    def __init__(self, kernel: str, stage: str, message: str, saved: str) -> None:
        super().__init__(
            f"kernel {kernel!r}: stage {stage} failed: {message.strip() or '(no message)'}\nIR saved in {saved}"
        )
        self.kernel = kernel
        self.stage = stage
        self.message = message
        self.saved = saved


class UnsupportedOperationError(EmulatorError, NotImplementedError):
    """The kernel uses an operation that the emulator cannot run at this level."""

    def __init__(self, kernel: str, operation: str, level: str, saved: str | None = None) -> None:
        super().__init__(
            f"kernel {kernel!r} uses {operation}, which the emulator does not run at the {level} level"
            + (f"\nIR saved in {saved}" if saved else "")
        )
        self.kernel = kernel
        self.operation = operation
        self.level = level


class KernelAssertionError(EmulatorError, AssertionError):
    """A tl.device_assert did not hold in one program of a grid. The programs that had not begun were not run."""

    def __init__(self, kernel: str, message: str, program: tuple[int, int, int]) -> None:
        super().__init__(f"kernel {kernel!r}, program {program}: {message or 'assertion failed'}")
        self.kernel = kernel
        self.message = message
        self.program = program
