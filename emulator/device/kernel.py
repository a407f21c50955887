"""A kernel at the device level: its final HIVM module linked with the vendor's templates, run with every check on.

>>> kernel = load(module.text)
>>> kernel.run((40,), [x, y, out, n], [range_of_x, range_of_y, range_of_out])
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import math
import re
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emulator import llvm_ir, native, pool, toolchain
from emulator.device import loops, lowering, runtime, templates
from emulator.errors import EmulatorError, UnsupportedOperationError
from emulator.linalg import to_llvm

SYSTEM_ARGUMENTS = 3  # ffts base, lock, workspace: nothing here uses them, and touching them is reported
GRID_ARGUMENTS = 3
POISON = 0xAB


@dataclass(frozen=True)
class Finding:
    """One report of the checks: which check, where (program, line of the HIVM module), and what happened."""

    check: str
    kernel: str
    program: int
    line: int
    instruction: str
    message: str

    def __str__(self) -> str:
        return (
            f"{self.check}: kernel {self.kernel!r}, program {self.program}, module line {self.line} "
            f"({self.instruction}): {self.message}"
        )


class DeviceCheckError(EmulatorError):
    """The checks of the device level found something; `findings` holds all of it, the first ones in the text."""

    def __init__(self, findings: list[Finding]) -> None:
        shown = "\n".join(str(finding) for finding in findings[:4])
        more = f"\n... and {len(findings) - 4} more" if len(findings) > 4 else ""
        super().__init__(shown + more)
        self.findings = findings


@dataclass(frozen=True)
class Options:
    """How a launch runs. The defaults are the device as documented, with all checks.

    `division`: "exact", or an error of one unit in the last place: "random", "away", "toward" zero. `f16_saturates`,
    `int_saturates`, `flush_subnormals`: the other settings of the control register, see SEMANTICS.md. `fill` is the
    byte the unified buffer holds before a program.
    """

    checks: bool = True
    division: str = "exact"
    f16_saturates: bool = False
    int_saturates: bool = False
    flush_subnormals: bool = False
    fill: int = POISON

    def assumptions(self) -> runtime.Assumptions:
        division = ("exact", "random", "away", "toward").index(self.division)
        return runtime.Assumptions(
            division, self.f16_saturates, self.int_saturates, self.flush_subnormals, self.fill & 0xFF
        )


_DEFAULT = Options()
_options: ContextVar[Options] = ContextVar("device_options", default=_DEFAULT)


@contextlib.contextmanager
def options(**changed: Any) -> Iterator[Options]:
    """Run the launches inside with other options.

    >>> with options(division="random", checks=False):
    ...     kernel[grid](x, y, out, n)
    """
    token = _options.set(replace(_options.get(), **changed))
    try:
        yield _options.get()
    finally:
        _options.reset(token)


@dataclass(frozen=True)
class Stream:
    """The steps one program took, for the cycle model."""

    program: int
    events: bytes

    def __len__(self) -> int:
        return len(self.events) // ctypes.sizeof(runtime.Event)


class _Memref(ctypes.Structure):
    _fields_ = [
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("stride", ctypes.c_int64),
    ]


_SCALARS: dict[str, Any] = {
    "i1": ctypes.c_int8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "index": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. `types` are those of its arguments without the compiler's own and the grid."""

    name: str
    text: str
    types: tuple[str, ...]
    templates: tuple[str, ...]
    intrinsics: tuple[str, ...]
    ub_bytes: int
    address: int

    @property
    def atomic(self) -> bool:
        """Whether programs update memory that others read, so that they run one after another here."""
        return any("atomic" in template for template in self.templates)

    def instruction(self, line: int) -> str:
        """What stands in a line of the module, short enough for a message."""
        lines = self.text.splitlines()
        if not 1 <= line <= len(lines):
            return "start of the kernel"
        text = re.sub(r" : \(?memref.*$", "", lines[line - 1].strip())
        return text.replace("func.call ", "")[:120]

    def run(
        self,
        grid: Sequence[int],
        arguments: Sequence[Any],
        gm: Sequence[tuple[int, int]],
        *,
        programs: Sequence[int] | None = None,
        record: bool = False,
    ) -> list[Stream]:
        """Run the programs of a grid (all, or those named). Returns their steps if asked to record them.

        `arguments` are addresses for tensors and numbers for the rest; `gm` are the address ranges that may be
        touched. Raises DeviceCheckError with everything the checks found.
        """
        if len(arguments) != len(self.types):
            raise TypeError(f"kernel {self.name!r} takes {len(self.types)} arguments, got {len(arguments)}")
        sizes = (*grid, 1, 1, 1)[:3]
        chosen = list(programs) if programs is not None else list(range(math.prod(sizes)))
        if not chosen:
            return []
        library = runtime.load().library
        slots, alive = self._slots(arguments, sizes)
        ranges = (runtime.Range * max(1, len(gm)))(*(runtime.Range(low, high) for low, high in gm))
        ids = (ctypes.c_int64 * len(chosen))(*chosen)
        settings = _options.get()
        launch = runtime.Launch(
            ranges, len(gm), ids, len(chosen), self.ub_bytes, settings.checks, record, settings.assumptions(), 0, 0
        )
        threads = 1 if self.atomic else min(pool.get_num_threads(), len(chosen))
        cores = [_take(self.ub_bytes) for _ in range(threads)]
        for core in cores:
            library.device_begin(core)

        run = functools.partial(library.device_run, ctypes.byref(launch))
        jobs = [
            pool.submit(functools.partial(run, core, self.address, slots, len(chosen)), threads - 1)
            for core in cores[1:]
        ]
        try:
            while run(cores[0], self.address, slots, 1):  # back in Python after every program, so that Ctrl-C is heard
                pass
        finally:
            launch.stopped = 1
            for job in jobs:
                _wait(job)
        findings = [finding for core in cores for finding in self._findings(library, core)]
        streams = [stream for core in cores for stream in _streams(library, core)] if record else []
        for core in cores:
            _give_back(self.ub_bytes, core)
        del alive
        if findings:
            raise DeviceCheckError(sorted(findings, key=lambda finding: finding.program))
        return sorted(streams, key=lambda stream: stream.program)

    def _slots(self, arguments: Sequence[Any], grid: Sequence[int]) -> tuple[Any, list[Any]]:
        kinds = ["i64", "memref", "memref", *self.types, *["i32"] * GRID_ARGUMENTS]
        values = [0, 0, 0, *arguments, *grid]
        slots = (ctypes.c_int64 * len(kinds))()
        alive: list[Any] = []
        for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
            at = ctypes.addressof(slots) + 8 * index
            if kind.startswith("memref"):
                descriptor = _Memref(value, value, 0, 1 << 40, 1)
                alive.append(descriptor)
                slots[index] = ctypes.addressof(descriptor)
            elif kind in _SCALARS:
                _SCALARS[kind].from_address(at).value = value
            else:
                raise UnsupportedOperationError(self.name, f"an argument of type {kind}", "device")
        return slots, alive

    def _findings(self, library: Any, core: int) -> list[Finding]:
        found = []
        for index in range(library.device_report_count(core)):
            report = library.device_report(core, index).contents
            found.append(
                Finding(
                    report.check.decode(),
                    self.name,
                    report.program,
                    report.line,
                    self.instruction(report.line),
                    report.text.decode(),
                )
            )
        return found


def _wait(job: pool.Job) -> None:
    """Wait for a helper even through Ctrl-C: it works on memory that the caller may free as soon as we return."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            job.finish()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
    if job.error is not None:
        raise job.error


def _streams(library: Any, core: int) -> Iterator[Stream]:
    length, program = ctypes.c_uint64(), ctypes.c_int64()
    for index in range(library.device_stream_count(core)):
        start = library.device_stream(core, index, ctypes.byref(length), ctypes.byref(program))
        yield Stream(program.value, ctypes.string_at(start, length.value * ctypes.sizeof(runtime.Event)))


# Cores are kept between launches: a new one costs as much as a small kernel.
_idle: dict[int, list[int]] = {}
_idle_lock = threading.Lock()


def _take(ub_bytes: int) -> int:
    with _idle_lock:
        waiting = _idle.setdefault(ub_bytes, [])
        if waiting:
            return waiting.pop()
    made: int | None = runtime.load().library.device_core_new(ub_bytes)
    if not made:
        raise MemoryError("no memory for an emulated core")
    return made


def _give_back(ub_bytes: int, core: int) -> None:
    with _idle_lock:
        _idle[ub_bytes].append(core)


@functools.lru_cache(maxsize=512)
def load(text: str) -> Kernel:
    """The kernel of a final HIVM module, compiled for this host unless the user's cache has it.

    Raises UnsupportedOperationError naming an operation or intrinsic that the device level does not know.
    """
    parts = (templates.version(), toolchain.versions(), native.host(), _own_sources(), text)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    folder = toolchain.cache_dir() / "device"
    code, facts = folder / f"{key}.o", folder / f"{key}.json"
    if not facts.exists():
        made, listing = _compile(text)
        toolchain.write_atomically(code, made)
        toolchain.write_atomically(facts, json.dumps(listing))
    listing = json.loads(facts.read_text())
    library = runtime.load()
    unknown = [name for name in listing["externals"] if _runtime_name(name) and not library.has(name)]
    if unknown:
        operation = "the intrinsic " + ", ".join(unknown)
        raise UnsupportedOperationError(listing["name"], operation.replace("hivm_", "llvm.hivm."), "device")
    absent = native.unresolved(tuple(listing["externals"]))
    if absent:
        raise UnsupportedOperationError(listing["name"], ", ".join(absent), "device")
    return Kernel(
        listing["name"],
        text,
        tuple(listing["types"]),
        tuple(listing["templates"]),
        tuple(name for name in listing["externals"] if name.startswith("hivm_")),
        _ub_bytes(text),
        native.load(code.read_bytes(), "device_entry"),
    )


def _runtime_name(symbol: str) -> bool:
    return symbol.startswith(("hivm_", "device_"))


@functools.cache
def _own_sources() -> str:
    modules = (module.__file__ or "" for module in (lowering, loops, native))
    return "".join(Path(file).read_text() for file in (__file__, *modules))


def _ub_bytes(text: str) -> int:
    found = re.search(r'"UB_SIZE", (\d+) : i32', text)
    if found is None:
        raise EmulatorError("the module does not say how large the unified buffer is")
    return int(found.group(1)) // 8  # the attribute counts bits


def _compile(text: str) -> tuple[bytes, dict[str, Any]]:
    lowered = lowering.lower(text)
    name, types = lowered.name, lowered.types
    if (
        not all(kind.startswith("memref") for kind in types[1:SYSTEM_ARGUMENTS])
        or types[-GRID_ARGUMENTS:] != ("i32",) * 3
    ):
        raise UnsupportedOperationError(name, f"arguments {', '.join(types)}", "device")
    upstream = toolchain.optimise(name, "lowering of the HIVM module", lowered.text, lowering.PASSES)
    body = lowering.watch_scalars(llvm_ir.rewrite(to_llvm(upstream, name)))
    linked = templates.link([f"_mlir_ciface_{template}" for template in lowered.templates])
    if linked.missing:
        wanted = ", ".join(root.removeprefix("_mlir_ciface_") for root in linked.missing)
        raise UnsupportedOperationError(name, f"the template {wanted}", "device")
    whole = _merge(body, linked.text) + lowering.entry(name, types)
    # The time goes into the intrinsics, which are compiled elsewhere: optimising what calls them does not pay.
    emitted = native.emit(whole, "device_entry", native.host(), level=0)
    if native.unresolved([name for name in emitted.externals if not _runtime_name(name)]):
        # A template may call what the vendor's library lacks in a branch its constants rule out; optimising drops it.
        emitted = native.emit(whole, "device_entry", native.host())
    listing = {
        "name": name,
        "types": types[SYSTEM_ARGUMENTS:-GRID_ARGUMENTS],
        "templates": lowered.templates,
        "externals": emitted.externals,
    }
    return emitted.code, listing


def _merge(body: str, library: str) -> str:
    """One module: the templates' definitions replace the body's declarations, and each name is declared once."""
    defined = set(re.findall(r"^define [^\n]*?@([\w.$]+)\(", body + library, re.M))
    seen: set[str] = set()
    lines = []
    for line in f"{body}\n{library}".splitlines():
        declared = re.match(r"declare .*?@([\w.$]+)\(", line)
        if declared is not None:
            if declared.group(1) in defined or declared.group(1) in seen:
                continue
            seen.add(declared.group(1))
        lines.append(line)
    return "\n".join(lines) + "\n"
