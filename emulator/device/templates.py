"""The vendor's template library, from the bitcode in the ascendnpu-ir wheel to text that a host LLVM accepts.

A final HIVM module calls templates such as `vadd_1d_float`; they are ordinary LLVM functions over `llvm.hivm.*`
intrinsics. The cleaned text is derived once per wheel version and kept in the user's cache.

    >>> linked = link(["_mlir_ciface_vadd_1d_float"])
    >>> "hivm_VADD_f32" in linked.reaches
    True
"""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator import native, toolchain
from emulator.errors import EmulatorError

BITCODE = "meta_op.aiv.c220.bc"  # vector core of the 910B and 910_93 families
_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "bfloat": 2, "float": 4, "double": 8}
_SCALAR = "|".join(_SIZES)
_LOAD = re.compile(rf"^(\s+%\S+ = load (?:volatile )?({_SCALAR}), ptr addrspace\(([16])\) ([^,\n]+)[^\n]*)$", re.M)
_STORE = re.compile(rf"^(\s+store (?:volatile )?({_SCALAR}) [^\n]+?, ptr addrspace\(([16])\) ([^,\n]+)[^\n]*)$", re.M)
_SPACE = {"1": "device_scalar_gm", "6": "device_scalar_ub"}


@dataclass(frozen=True)
class Linked:
    """Text of the templates that some roots reach, what they refer to that is undefined, and the roots not there.

    `reaches` has the intrinsics (`hivm_...`) and the runtime's calls for scalar accesses (`device_scalar_...`).
    """

    text: str
    reaches: tuple[str, ...]
    missing: tuple[str, ...]


def link(roots: Iterable[str]) -> Linked:
    """The templates named by `roots` and everything they call, as one piece of LLVM text."""
    library = _library()
    wanted = list(roots)
    missing = tuple(sorted(root for root in wanted if root not in library.functions))
    reached: dict[str, None] = {}
    pending = [root for root in wanted if root in library.functions]
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached[name] = None
        pending += [called for called in library.functions[name]["refers"] if called in library.functions]
    refers = sorted({other for name in reached for other in library.functions[name]["refers"]} - set(reached))
    parts = [
        *library.types,
        *(library.globals[name] for name in refers if name in library.globals),
        *(library.declarations[name] for name in refers if name in library.declarations),
        *(library.body(name) for name in reached),
    ]
    return Linked("\n".join(parts) + "\n", tuple(refers), missing)


def names() -> list[str]:
    """Every template there is, by the name under which `link` finds it."""
    return [name for name in _library().functions if name.startswith("_mlir_ciface_")]


def declaration(symbol: str) -> str:
    """How an intrinsic is declared, by its symbol in the runtime. Raises KeyError if no template calls it."""
    return _library().declarations[symbol]


def version() -> str:
    """What the cleaned text depends on: the wheel, the bitcode in it, and this file."""
    return _library().key


@dataclass(frozen=True)
class _Library:
    key: str
    text: mmap.mmap
    functions: dict[str, Any]
    declarations: dict[str, str]
    globals: dict[str, str]
    types: list[str]

    def body(self, name: str) -> str:
        start, length = self.functions[name]["at"]
        return self.text[start : start + length].decode()


@functools.cache
def _library() -> _Library:
    bitcode = (toolchain.vendor_dir() / "lib" / BITCODE).read_bytes()
    parts = (toolchain.versions()["ascendnpu-ir"], hashlib.sha256(bitcode).hexdigest(), Path(__file__).read_text())
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
    folder = toolchain.cache_dir() / "templates"
    text, index = folder / f"{key}.ll", folder / f"{key}.json"
    if not index.exists():
        content, listing = _clean(str(native.binding().parse_bitcode(bitcode)))
        toolchain.write_atomically(text, content)
        toolchain.write_atomically(index, json.dumps(listing))
    listing = json.loads(index.read_text())
    with text.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return _Library(key, mapped, listing["functions"], listing["declarations"], listing["globals"], listing["types"])


def _clean(module: str) -> tuple[bytes, dict[str, Any]]:
    """Split the library into functions that stand alone, free of what only the vendor's compiler knows."""
    functions: dict[str, Any] = {}
    pieces: list[bytes] = []
    at = 0
    for found in re.finditer(r"^define [^\n]*?@([\w.$]+)\(.*?^\}", module, re.M | re.S):
        text = _host(_internal(found.group(0)))
        data = (text + "\n").encode()
        refers = sorted(set(re.findall(r"@([\w.$]+)", text)) - {found.group(1)})
        functions[found.group(1)] = {"at": (at, len(data)), "refers": refers}
        pieces.append(data)
        at += len(data)
    if not functions:
        raise EmulatorError(f"no functions in {BITCODE}: this version of ascendnpu-ir is not understood")
    declarations = {}
    for found in re.finditer(r"^declare [^\n]*?@([\w.$]+)\([^\n]*", module, re.M):
        text = _host(found.group(0) + "\n").strip()
        declarations[text.split("@", 1)[1].split("(", 1)[0]] = text
    for name in _SPACE.values():
        declarations[name] = f"declare void @{name}(ptr, i64, i64)"
    variables = {
        found.group(1): _host(found.group(0))
        for found in re.finditer(r"^@([\w.$]+) = [^\n]*", module, re.M)
        if not found.group(1).startswith("llvm.")
    }
    # Templates read through a null scratch pointer and ignore what they got. Harmless on the core, a fault here.
    variables["device_null"] = "@device_null = internal global [4096 x i8] zeroinitializer"
    types = re.findall(r"^%[\w.\":]+ = type [^\n]*", module, re.M)
    return b"".join(pieces), {
        "functions": functions,
        "declarations": declarations,
        "globals": variables,
        "types": types,
    }


def _internal(function: str) -> str:
    linkage = r"\b(?:weak_odr|linkonce_odr|dso_local|internal|noundef|zeroext|signext|weak|linkonce|private)\b ?"
    head, rest = function.split("@", 1)
    return "define internal " + re.sub(linkage, "", head.removeprefix("define ")) + "@" + rest


def _host(text: str) -> str:
    text = re.sub(r", ![\w.]+ ![\w]+", "", text)  # metadata
    text = re.sub(r" #\d+(?=[ ,\n])|#\d+$", "", text, flags=re.M)  # attribute groups name the vendor's target
    text = _LOAD.sub(_watch(write=False), text)
    text = _STORE.sub(_watch(write=True), text)
    text = re.sub(r" addrspace\(\d+\)", "", text)
    text = text.replace("ptr noundef null", "ptr noundef @device_null")
    text = text.replace("addrspacecast", "bitcast")
    text = re.sub(r"@llvm\.hivm\.([\w.]+)", lambda m: "@hivm_" + m.group(1).replace(".", "_"), text)
    text = re.sub(r"@llvm\.(memcpy|memmove)\.[\w.]+", r"@llvm.\1.p0.p0.i64", text)
    text = re.sub(r"@llvm\.memset\.[\w.]+", "@llvm.memset.p0.i64", text)
    return re.sub(r" comdat(\(\$[\w.]+\))?", "", text)


def _watch(*, write: bool) -> Callable[[re.Match[str]], str]:
    def call(found: re.Match[str]) -> str:
        line, kind, space, pointer = found.groups()
        name = _SPACE[space]
        return f"  call void @{name}(ptr {pointer}, i64 {_SIZES[kind]}, i64 {int(write)})\n{line}"

    return call
