"""LLVM IR to an object for a CPU, and an object to a callable address, both through llvmlite.

The object is an ordinary relocatable ELF file, so that it can be stored and loaded by another process.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import re
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.errors import EmulatorError, MissingToolError

if TYPE_CHECKING:
    import llvmlite.binding as llvm

SLOT = 8  # bytes of one field of a launch record

_engines: list[Any] = []  # code stays mapped as long as its engine lives
_lock = threading.Lock()  # LLVM's global state is not meant for several threads


@dataclass(frozen=True)
class Target:
    """A CPU to compile for: LLVM's triple, CPU name and feature string."""

    triple: str
    cpu: str
    features: str


@functools.cache
def binding() -> Any:
    """llvmlite, initialised. Raises MissingToolError without it."""
    try:
        import llvmlite.binding
    except ImportError:
        raise MissingToolError("llvmlite") from None
    llvmlite.binding.initialize_all_targets()
    llvmlite.binding.initialize_all_asmprinters()
    return llvmlite.binding


@functools.cache
def host() -> Target:
    """This machine's CPU."""
    llvm = binding()
    # Features that are off need no mention, and newer LLVMs than libtriton's know names that others do not.
    features = [name for name in llvm.get_host_cpu_features().flatten().split(",") if name.startswith("+")]
    triple = llvm.get_process_triple()
    if triple.startswith("x86_64"):
        features.append("+prefer-no-gather")  # gather instructions are slower than scalar loads where it matters here
    return Target(triple, llvm.get_host_cpu_name(), ",".join(features))


def _machine(target: Target, level: int = 3) -> llvm.TargetMachine:
    llvm = binding()
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(cpu=target.cpu, features=target.features, opt=level, jit=True)


@dataclass(frozen=True)
class Object:
    """A relocatable object: its bytes, the symbols it needs from elsewhere, and the stack that one call may take."""

    code: bytes
    externals: tuple[str, ...]
    stack_bytes: int


def emit(text: str, entry: str, target: Target, level: int = 3) -> Object:
    """Optimise LLVM IR for a CPU and emit an object in which only `entry` is visible. `level` is that of -O."""
    llvm = binding()
    with _lock:
        machine = _machine(target, level)
        module = llvm.parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        for function in module.functions:
            if not function.is_declaration and function.name != entry:
                function.linkage = "internal"
        tuning = llvm.create_pipeline_tuning_options(speed_level=level)
        tuning.loop_vectorization = True
        tuning.slp_vectorization = True
        tuning.loop_interleaving = True
        tuning.loop_unrolling = True
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
        code = machine.emit_object(module)
        return Object(code, undefined_symbols(code), _stack_bytes(str(module)))


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    name = ctypes.util.find_library("m")
    return (ctypes.CDLL(None), *([ctypes.CDLL(name)] if name else []))


def _address(name: str) -> int | None:
    """Where a symbol is, among what LLVM was told of and the libraries of this process."""
    known = binding().address_of_symbol(name)
    if known:
        return int(known)
    for library in _libraries():
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return None


def unresolved(externals: Sequence[str]) -> tuple[str, ...]:
    """Those of the symbols that this process cannot supply. LLVM's loader would end the process over one."""
    return tuple(name for name in externals if _address(name) is None)


def load(code: bytes, entry: str) -> int:
    """Map an object into this process; returns the address of its entry."""
    llvm = binding()
    externals = undefined_symbols(code)
    missing = unresolved(externals)
    if missing:
        raise EmulatorError(f"a compiled object needs {', '.join(missing)}, which this process does not have")
    with _lock:
        for name in externals:
            llvm.add_symbol(name, _address(name))
        empty = llvm.parse_assembly("")
        empty.triple = host().triple
        engine = llvm.create_mcjit_compiler(empty, _machine(host()))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(entry)
        _engines.append(engine)
    if not address:
        raise EmulatorError(f"no symbol {entry} in a compiled object")
    return int(address)


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Names that a 64-bit little-endian relocatable ELF object expects from elsewhere."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise EmulatorError("the emulator loads 64-bit little-endian ELF objects only")
    (sections_at,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [struct.unpack_from("<IIQQQQII", code, sections_at + entry_size * i) for i in range(count)]
    found = set()
    for _name, kind, _flags, _address, offset, size, link, _info in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for at in range(offset + 24, offset + size, 24):  # the first symbol is the null one
            name, _info, _other, section = struct.unpack_from("<IBBH", code, at)
            if section == 0:
                found.add(code[names + name : code.index(b"\0", names + name)].decode())
    return tuple(sorted(found - {"", "_GLOBAL_OFFSET_TABLE_"}))


def _stack_bytes(text: str) -> int:
    """Bytes of all stack slots of a module: what one call of its entry takes at most, but for spills."""
    sizes = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
    total = 0
    for kind, count in re.findall(r"= alloca (\[.*?\]|\w+)(?:, i\d+ (\d+))?", text):
        size = int(count or 1)
        for extent in re.findall(r"(\d+) x ", kind):
            size *= int(extent)
        total += size * sizes.get(re.sub(r"[\[\]]|\d+ x ", "", kind), 16)
    return total


def _forget_locks() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_locks)  # another thread of the parent may have held it


def function(address: int) -> Any:
    """The entry as a Python callable (record, chunk, limit) that gives up the interpreter lock while it runs."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
