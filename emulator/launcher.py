"""A launch: arguments packed into one record, programs handed out to the calling thread and, if it pays, to helpers."""

from __future__ import annotations

import ctypes
import resource
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from emulator import assertions, native, pool
from emulator.errors import EmulatorError, KernelAssertionError

# A hand-over to another thread costs about 50 us; below this much work the calling thread keeps all of it.
WORTH_SHARING_SECONDS = 200e-6
# The calling thread comes back to Python this often, so that Ctrl-C is heard during a long grid.
SLICE_SECONDS = 20e-3

_FORMATS = {
    "i1": "?7x",
    "i8": "b7x",
    "u8": "B7x",
    "i16": "h6x",
    "u16": "H6x",
    "i32": "i4x",
    "u32": "I4x",
    "i64": "q",
    "u64": "Q",
    "fp32": "f4x",
    "f32": "f4x",
    "fp64": "d",
    "f64": "d",
}

_ITEM_BYTES = {
    "i1": 1,
    "i8": 1,
    "u8": 1,
    "fp8e4nv": 1,
    "fp8e5": 1,
    "i16": 2,
    "u16": 2,
    "fp16": 2,
    "bf16": 2,
    "i32": 4,
    "u32": 4,
    "fp32": 4,
    "i64": 8,
    "u64": 8,
    "fp64": 8,
}

_soft_limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
_MAIN_STACK_BYTES = 4 << 20 if _soft_limit == resource.RLIM_INFINITY else min(4 << 20, _soft_limit // 2)
_THREAD_STACK_BYTES = 1 << 18  # other threads may have been made with a small stack


class Launcher:
    """A loaded kernel. Called with the grid's extents and the kernel's run-time arguments, it runs the grid."""

    def __init__(
        self,
        kernel: str,
        address: int,
        types: Sequence[str],
        guarded: Sequence[int],
        assertions: Sequence[str],
        in_order: bool,
        stack_bytes: int,
    ) -> None:
        """`types` are Triton's ("*fp32", "i64"), `guarded` the arguments whose storage bounds the kernel wants.

        `assertions` are the messages of its assertions, `in_order` keeps all programs on one thread, one after another.
        """
        self._kernel = kernel
        self._types = tuple(types)
        self._pointers = tuple(place for place, kind in enumerate(types) if kind.startswith("*"))
        record = "".join("Q" if kind.startswith("*") else self._format(kind) for kind in types)
        self._guarded = tuple((position, _ITEM_BYTES[types[position].lstrip("*k")]) for position in guarded)
        self._record = struct.Struct(f"<{record}i4xi4xi4x{'qq' * len(guarded)}qqq")
        self._counter_at = self._record.size - 2 * native.SLOT
        self._assertions = tuple(assertions)
        self._pack = self._record.pack_into
        self._run = native.function(address)
        self._in_order = in_order
        self._stack_bytes = stack_bytes
        self._free: list[tuple[Any, int]] = []  # records not in use: pop and append are atomic

    def _format(self, kind: str) -> str:
        try:
            return _FORMATS[kind]
        except KeyError:
            raise EmulatorError(f"kernel {self._kernel!r}: an argument of type {kind} cannot be passed") from None

    def __call__(self, gx: int, gy: int, gz: int, args: Sequence[Any]) -> None:
        total = gx * gy * gz
        if total <= 0:
            return
        try:
            record = self._free.pop()
        except IndexError:
            buffer = ctypes.create_string_buffer(self._record.size)
            record = (buffer, ctypes.addressof(buffer))
        values = list(args)
        try:
            for place in self._pointers:
                values[place] = values[place].data_ptr() or self._no_address(args[place])
        except AttributeError:
            for place in self._pointers:
                values[place] = self._address(args[place])
        bounds: list[int] = []
        if self._guarded:
            bounds = [bound for at, size in self._guarded for bound in _storage(args[at], values[at], size)]
        try:
            self._pack(record[0], 0, *values, gx, gy, gz, *bounds, total, 0, 0)
        except struct.error as error:
            raise EmulatorError(
                f"kernel {self._kernel!r}: arguments {args} do not fit {self._types}: {error}"
            ) from None
        if self._stack_bytes > _THREAD_STACK_BYTES and self._needs_stack():
            job = pool.submit(lambda: self._grid(record, total), 1)
            pool.wait([job], withdraw=False, stop=lambda: self._stop(record, total))
        elif total == 1:
            self._run(record[1], 1, 1)
        else:
            self._grid(record, total)
        if self._assertions:
            self._check(record[0], gy, gz)
        self._free.append(record)

    def _address(self, argument: Any) -> int:
        if argument is None:
            return 0
        if hasattr(argument, "data_ptr"):
            return int(argument.data_ptr()) or self._no_address(argument)
        return int(argument)

    def _no_address(self, argument: Any) -> int:
        if getattr(argument, "is_meta", False) and argument.numel():
            raise EmulatorError(f"kernel {self._kernel!r}: a tensor on the meta device has no memory to run on")
        return 0

    def _check(self, buffer: Any, gy: int, gz: int) -> None:
        fault = ctypes.c_int64.from_buffer(buffer, self._counter_at + native.SLOT).value
        if fault:
            program, code = fault >> assertions.CODE_BITS, fault & ((1 << assertions.CODE_BITS) - 1)
            place = (program // (gy * gz), program // gz % gy, program % gz)
            raise KernelAssertionError(self._kernel, self._assertions[code - 1], place)

    def _needs_stack(self) -> bool:
        on_main = threading.get_ident() == threading.main_thread().ident
        return self._stack_bytes > (_MAIN_STACK_BYTES if on_main else _THREAD_STACK_BYTES)

    def _grid(self, record: tuple[Any, int], total: int) -> None:
        """Run growing batches here for as long as what is left looks short, then share the rest."""
        run, address, clock = self._run, record[1], time.perf_counter
        done, batch = 0, 1
        while done < total:
            start = clock()
            run(address, batch, batch)
            each = (clock() - start) / batch
            done += batch
            if each * (total - done) > WORTH_SHARING_SECONDS:
                self._share(record, total, each)
                return
            batch = min(total - done, 4 * done)

    def _stop(self, record: tuple[Any, int], total: int) -> None:
        ctypes.c_int64.from_buffer(record[0], self._counter_at).value = total

    def _share(self, record: tuple[Any, int], total: int, each: float) -> None:
        run, address = self._run, record[1]
        counter = ctypes.c_int64.from_buffer(record[0], self._counter_at)
        fault = ctypes.c_int64.from_buffer(record[0], self._counter_at + native.SLOT)
        left = total - counter.value
        threads = 1 if self._in_order else min(pool.get_num_threads(), left)
        chunk = max(1, min(left // (8 * threads), int(SLICE_SECONDS / each)))
        limit = max(chunk, int(SLICE_SECONDS / each))
        jobs = [pool.submit(lambda: run(address, chunk, total), threads - 1) for _ in range(threads - 1)]
        try:
            while counter.value < total and not fault.value:
                run(address, chunk, limit)
        finally:
            counter.value = total  # after an interrupt or a fault nobody takes another program
            pool.wait(jobs)


def _storage(argument: Any, address: int, item_bytes: int) -> tuple[int, int]:
    """First element of the storage relative to the address, and the one behind the last; all memory if unknown."""
    if hasattr(argument, "gm_range"):
        low, high = argument.gm_range()
    elif hasattr(argument, "untyped_storage"):
        storage = argument.untyped_storage()
        low = storage.data_ptr()
        high = low + storage.nbytes()
    else:
        return -(1 << 60), 1 << 60
    return -((address - low) // item_bytes), (high - address) // item_bytes
