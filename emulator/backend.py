"""The emulator as a Triton back end: compile stages, launcher and driver of its two levels.

A level is a module with three functions:

    fingerprint() -> str                                    what compiled bytes depend on besides the kernel
    compile_kernel(linalg, metadata, options) -> bytes      Linalg IR to something that load_kernel understands
    load_kernel(blob, types) -> launch(gx, gy, gz, args)    with the Triton types of the run-time arguments

It never touches Triton's own "ascend" back end: that one claims the targets "npu" and "cpu", this one its own names.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends import Backend, backends
from triton.backends.ascend.compiler import AscendBackend, NPUOptions, make_ttir
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler.errors import MLIRCompilationError
from triton.runtime.jit import JITFunction

from emulator import toolchain
from emulator.errors import EmulatorError, UnsupportedOperationError

# Level -> (module, Triton's name for its target)
LEVELS = {
    "linalg": ("emulator.linalg", "ascend_emulator"),
    "device": ("emulator.device", "ascend_emulator_device"),
}
_LEVEL_OF_TARGET = {target: level for level, (_, target) in LEVELS.items()}

Launch = Callable[[int, int, int, Sequence[Any]], None]


def level_module(level: str) -> Any:
    """The module of a level. Raises ValueError for a name that is none."""
    if level not in LEVELS:
        raise ValueError(f"unknown emulator level {level!r}: expected one of {', '.join(LEVELS)}")
    return importlib.import_module(LEVELS[level][0])


class EmulatorBackend(AscendBackend):  # type: ignore[misc]
    """triton-ascend's front end, unchanged, with an emulator level in place of the NPU's code generator."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend in _LEVEL_OF_TARGET

    def __init__(self, target: GPUTarget) -> None:
        BaseBackend.__init__(self, target)
        self.binary_ext = "emulated"

    def parse_options(self, opts: dict[str, Any]) -> NPUOptions:
        return NPUOptions(**{name: opts[name] for name in NPUOptions.__dataclass_fields__ if name in opts})

    def add_stages(self, stages: dict[str, Any], options: NPUOptions) -> None:
        level = _LEVEL_OF_TARGET[self.target.backend]

        def ttadapter(module: Any, metadata: dict[str, Any]) -> str:
            return toolchain.lower_ttir(module, metadata, options, _kernel_name(module))

        def emulated(linalg: str, metadata: dict[str, Any]) -> bytes:
            blob: bytes = level_module(level).compile_kernel(linalg, metadata, options)
            return blob

        stages["ttir"] = lambda module, metadata: make_ttir(module, metadata, options)
        stages["ttadapter"] = ttadapter
        stages["emulated"] = emulated
        if options.force_simt_only:
            raise UnsupportedOperationError("kernel", "compile_mode='simt_only'", level)

    def hash(self) -> str:
        level = _LEVEL_OF_TARGET[self.target.backend]
        return f"{level}-{self.target.arch}-{level_module(level).fingerprint()}"


def _kernel_name(module: Any) -> str:
    text = str(module)
    start = text.find("tt.func public @")
    return text[start + 16 : text.index("(", start)] if start >= 0 else "kernel"


class EmulatorDriver(DriverBase):  # type: ignore[misc]
    """What Triton asks of a driver, for one level."""

    def __init__(self, level: str) -> None:
        level_module(level)
        self.level = level
        self.device = f"emulator:{level}"
        vector_cores(toolchain.default_chip())  # refuses a chip that is none before anything is compiled for it
        self._target = GPUTarget(LEVELS[level][1], toolchain.default_chip(), 0)
        self.utils = _Utilities(level)

    @classmethod
    def is_active(cls) -> bool:
        return False  # exactly one driver may claim to be; the router is set explicitly

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> str:
        return self.device

    def set_current_device(self, device: Any) -> None:
        if device != self.device:
            raise ValueError(f"the emulator's device here is {self.device!r}, not {device!r}")

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        return benchmark

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return _launcher(source)


def benchmark(
    kernel_call: Callable[[], Any],
    *,
    warmup: int = 3,
    rep: int = 20,
    quantiles: Sequence[float] | None = None,
    **_: Any,
) -> Any:
    """Time calls on this host's clock, for triton.autotune. Milliseconds: the quantiles asked for, else the median.

    `warmup` and `rep` are numbers of calls. These are times of the emulator, not of an NPU.
    """
    for _call in range(warmup):
        kernel_call()
    times = []
    for _call in range(rep):
        start = time.perf_counter()
        kernel_call()
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    if quantiles is None:
        return times[len(times) // 2]
    return [times[min(len(times) - 1, int(share * len(times)))] for share in quantiles]


def _launcher(source: Any) -> Callable[..., None]:
    """The function that Triton calls at each launch. Arguments that became constants are not passed on."""
    names = list(source.signature)
    constants = {name if isinstance(name, str) else source.fn.arg_names[name] for name in source.constants}
    live = [position for position, name in enumerate(names) if name not in constants]
    types = tuple(source.signature[names[position]] for position in live)
    everything = len(live) == len(names)
    loading = threading.Lock()
    launch: Launch | None = None

    def run(
        gx: int,
        gy: int,
        gz: int,
        stream: Any,
        function: Any,
        packed: Any,
        metadata: Any,
        enter: Any,
        leave: Any,
        *args: Any,
    ) -> None:
        nonlocal launch
        if launch is None:
            with loading:
                if launch is None:
                    launch = function(types)
        if enter is not None:
            enter(metadata)
        launch(gx, gy, gz, args if everything else [args[position] for position in live])
        if leave is not None:
            leave(metadata)

    return run


class _Utilities:
    """The part of a driver that loads binaries and knows the chip."""

    def __init__(self, level: str) -> None:
        self._level = level

    def load_binary(self, name: str, kernel: bytes, shared: int, device: Any) -> tuple[Any, Any, int, int]:
        return object(), functools.partial(level_module(self._level).load_kernel, kernel), 0, 0

    def get_device_properties(self, device: Any) -> dict[str, int]:
        cores = vector_cores(toolchain.default_chip())
        return {"max_shared_mem": 196_608, "num_aicore": cores // 2, "num_vectorcore": cores}

    def get_arch(self) -> str:
        return toolchain.default_chip()


_VECTOR_CORES = {
    40: ("Ascend910B3", "Ascend910B4", "Ascend910_9362", "Ascend910_9372"),
    48: (
        *("Ascend910B1", "Ascend910B2", "Ascend910B2C"),
        *("Ascend910_9381", "Ascend910_9382", "Ascend910_9391", "Ascend910_9392"),
    ),
}


def vector_cores(chip: str) -> int:
    """Vector cores of an Atlas A2/A3 chip. Raises ValueError for another one; the text lists those that are known."""
    for cores, chips in _VECTOR_CORES.items():
        if chip in chips:
            return cores
    known = ", ".join(sorted(name for chips in _VECTOR_CORES.values() for name in chips))
    raise ValueError(f"unknown chip {chip!r} (ASCEND_EMULATOR_CHIP): expected one of {known}")


_compiling: dict[str, threading.Lock] = {}
_guard = threading.RLock()


def _forget_locks() -> None:
    global _compiling, _guard
    _compiling, _guard = {}, threading.RLock()


os.register_at_fork(after_in_child=_forget_locks)  # other threads of the parent may have held them


def register() -> None:
    """Make Triton know this back end, and make the first call of a kernel safe in several threads."""
    with _guard:
        if "ascend_emulator" in backends:
            return
        backends["ascend_emulator"] = Backend(EmulatorBackend, EmulatorDriver)
        original = JITFunction.create_binder

        @functools.wraps(original)
        def create_binder(function: Any, backend: Any) -> None:
            # Triton sets `binder` before the attributes that go with it, and another thread may use them in between:
            # make all of them aside, and publish `binder` last.
            with _guard:
                if function.binder is not None:
                    return
                aside = copy.copy(function)
                original(aside, backend)
                made = {name: value for name, value in vars(aside).items() if vars(function).get(name) is not value}
                binder = made.pop("binder")
                made["compile"] = functools.partial(_compile_once, made["compile"])
                for name, value in made.items():
                    setattr(function, name, value)
                function.binder = binder

        JITFunction.create_binder = create_binder


def _compile_once(compile_kernel: Callable[..., Any], source: Any, target: Any, options: dict[str, Any]) -> Any:
    """Let one thread compile a kernel while those that want the same one wait, and then find it in Triton's cache."""
    if target.backend not in _LEVEL_OF_TARGET:
        return compile_kernel(source, target=target, options=options)
    key = f"{target}-{source.hash()}-{sorted(options.items(), key=str)}"
    with _guard:
        lock = _compiling.setdefault(key, threading.Lock())
    with lock:
        try:
            return compile_kernel(source, target=target, options=options)
        except MLIRCompilationError as error:
            if isinstance(error.__context__, EmulatorError):
                raise error.__context__ from None  # it says more than Triton's summary of it
            raise
