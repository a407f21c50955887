"""Which Triton driver serves a tensor, and the launch itself.

`kernel[grid](...)` costs Triton about 10 us and half a microsecond more per argument beyond five. The kernels of this
project specialise on nothing but their constexprs and pointer types (integer arguments carry a width and are in
`do_not_specialize`), so one compiled kernel serves every call of a signature, and is kept and run directly.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import threading
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from ops import device as devices
from ops import forking
from tiling import tuned

Constexprs = tuple[tuple[str, int | bool | str], ...]


class Pointer:
    """Bytes of a tensor's storage seen as elements of another dtype, as a kernel argument.

    `address` is where the kernel starts counting, `low..high` the bytes of storage that exist around it.
    The owner is kept alive until the launch has been queued.
    """

    __slots__ = ("address", "dtype", "high", "low", "owner")

    def __init__(self, address: int, dtype: torch.dtype, low: int, high: int, owner: object) -> None:
        self.address = address
        self.dtype = dtype
        self.low = low
        self.high = high
        self.owner = owner

    def data_ptr(self) -> int:
        """The address handed to the kernel."""
        return self.address

    def gm_range(self) -> tuple[int, int]:
        """First and one-past-last address a kernel may touch through this pointer."""
        return self.low, self.high


def storage_pointer(tensor: torch.Tensor, dtype: torch.dtype) -> Pointer:
    """The start of a tensor's storage, whatever the tensor's own offset, seen as `dtype`."""
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return Pointer(start, dtype, start, start + storage.nbytes(), tensor)


def data_pointer(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Pointer:
    """The tensor's first element, seen as `dtype` (default: its own)."""
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return Pointer(tensor.data_ptr(), dtype or tensor.dtype, start, start + storage.nbytes(), tensor)


_compiled: dict[tuple[Any, ...], Any] = {}
_locks: dict[tuple[Any, ...], threading.Lock] = {}
_locks_lock = threading.Lock()


def launch(
    kernel: Any,
    grid: int,
    args: Sequence[Any],
    constexprs: Constexprs,
    *,
    multibuffer: bool,
    device: torch.device,
) -> None:
    """Run `kernel` as `grid` programs on the current stream of `device`.

    args: tensors, Pointers and ints in the kernel's order, constexprs excepted. `multibuffer` asks the compiler for
    double buffering. Raises RuntimeError if the device is not served, and whatever the compiler raises.
    """
    if device.type == "npu":
        _launch_npu(kernel, grid, args, constexprs, multibuffer, device)
        return
    level = _emulator().default_level()
    key = _key(kernel, args, constexprs, multibuffer, level)
    compiled = _compiled.get(key)
    if compiled is None or _hooked(compiled):
        _first(key, kernel, grid, args, constexprs, multibuffer, device)
        return
    compiled.run(grid, 1, 1, 0, compiled.function, compiled.packed_metadata, None, None, None, *args)


def precompile(
    kernel: Any, args: Sequence[Any], constexprs: Constexprs, *, multibuffer: bool, device: torch.device
) -> None:
    """Compile `kernel` for these arguments without running it. Pointers may be plain torch dtypes, ints any value."""
    place = _place(device)
    with forking.no_fork(), _route(device), devices.guard(device), _lock((kernel, constexprs, multibuffer, place)):
        kernel.warmup(*args, grid=(1,), multibuffer=multibuffer, **dict(constexprs))


def _launch_npu(
    kernel: Any, grid: int, args: Sequence[Any], constexprs: Constexprs, multibuffer: bool, device: torch.device
) -> None:
    with devices.guard(device):  # which stream is asked about depends on the current device
        devices.refuse_capture(device)
        key = _key(kernel, args, constexprs, multibuffer, device)
        compiled = _compiled.get(key)
        if compiled is None or _hooked(compiled):
            _first(key, kernel, grid, args, constexprs, multibuffer, device)
            return
        stream = devices.stream_of(device)
        compiled.run(grid, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None, *args)


def _key(
    kernel: Any, args: Sequence[Any], constexprs: Constexprs, multibuffer: bool, place: object
) -> tuple[object, ...]:
    return (kernel, constexprs, multibuffer, place, *[arg.dtype for arg in args if not isinstance(arg, int)])


def _hooked(compiled: Any) -> bool:
    """Profilers hang hooks on CompiledKernel; those need Triton's own launch, with its metadata."""
    return type(compiled).launch_enter_hook is not None or type(compiled).launch_exit_hook is not None


def _first(
    key: tuple[Any, ...],
    kernel: Any,
    grid: int,
    args: Sequence[Any],
    constexprs: Constexprs,
    multibuffer: bool,
    device: torch.device,
) -> None:
    # Triton compiles outside any lock of its own: 96 concurrent first calls would compile 96 times.
    with forking.no_fork(), _lock(key), _route(device), devices.guard(device):
        _compiled[key] = kernel[(grid,)](*args, multibuffer=multibuffer, **dict(constexprs))


def _lock(key: tuple[Any, ...]) -> threading.Lock:
    with _locks_lock:
        return _locks.setdefault(key, threading.Lock())


def _place(device: torch.device) -> object:
    return device if device.type == "npu" else _emulator().default_level()


def _route(device: torch.device) -> Any:
    """Context in which Triton's launches go to the driver of `device`."""
    if device.type == "cpu":
        return _emulator().route()
    if device.type == "npu":
        return contextlib.nullcontext()
    raise RuntimeError(f"no Ascend kernel runs on a tensor on {device.type!r}: expected 'npu' or 'cpu'")


_emulator_module: ModuleType | None = None


def _emulator() -> Any:
    """The emulator, imported when the first CPU tensor arrives: an NPU's path pays nothing for it."""
    global _emulator_module
    if _emulator_module is None:
        with forking.no_fork():
            _emulator_module = importlib.import_module("emulator")
    return _emulator_module


def forget() -> None:
    """Drop every kept kernel. For tests that change the compiler's surroundings."""
    _compiled.clear()


def _tune_on_first_use(op: str, problem: Any, platform: Any, plan_function: Any) -> Any:
    """The resolver of ASCEND_OPS_AUTOTUNE=1: imports `autotune` when the first plan is wanted, and hands over to it."""
    try:
        resolver = importlib.import_module("autotune.tuner").resolver()
    except ImportError as error:
        warnings.warn(
            f"{AUTOTUNE_VARIABLE}=1 has no effect: {error} (install ascend-triton-ops[autotune])",
            RuntimeWarning,
            stacklevel=2,
        )
        tuned.set_resolver(None)
        return None
    tuned.set_resolver(resolver)
    return resolver(op, problem, platform, plan_function)


def _parse_in_turn() -> None:
    """Let one thread at a time into Triton's parser: before Python 3.11.9, two in ast.parse give a SystemError."""
    original = JITFunction.parse
    parsing = threading.Lock()

    @functools.wraps(original)
    def parse(function: Any) -> Any:
        with parsing:
            return original(function)

    JITFunction.parse = parse


_parse_in_turn()

AUTOTUNE_VARIABLE = "ASCEND_OPS_AUTOTUNE"
if os.environ.get(AUTOTUNE_VARIABLE) == "1":
    tuned.set_resolver(_tune_on_first_use)
