"""The final HIVM module, line by line, to operations that MLIR lowers to LLVM.

What is left of HIVM after bishengir-compile is addresses in the unified buffer, flags, barriers, and calls of
templates. Each such line becomes calls into the runtime (control.cpp), with its line number announced before it, so
that a report can name the instruction.

    >>> lowered = lower(module.text)
    >>> lowered.name, lowered.types[3]
    ('gcd_kernel', 'memref<?xi16>')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emulator.device.loops import element_loops
from emulator.errors import UnsupportedOperationError
from emulator.toolchain import TO_LLVM

PASSES = (
    "--lower-affine",
    "--canonicalize",
    "--expand-strided-metadata",
    "--lower-affine",
    *TO_LLVM,
)

# The ISA's numbers for the pipes a module may name; the runtime refuses those a vector core does not have.
PIPES = {"PIPE_S": 0, "PIPE_V": 1, "PIPE_M": 2, "PIPE_MTE1": 3, "PIPE_MTE2": 4, "PIPE_MTE3": 5, "PIPE_ALL": 6}

_RUNTIME = {
    "device_at": ("i32", ""),
    "device_element": ("", ""),
    "device_lanes": ("i64", ""),
    "device_ub": ("", "i64"),
    "device_set_mask_norm": ("", ""),
    "hivm_GET_BLOCK_IDX": ("", "i64"),
    "hivm_SET_FLAG_IMM": ("i64, i64, i64", ""),
    "hivm_WAIT_FLAG_IMM": ("i64, i64, i64", ""),
    "hivm_BARRIER": ("i64", ""),
}


@dataclass(frozen=True)
class Lowered:
    """A module in upstream MLIR: its kernel's name, the types of its arguments, the templates it calls."""

    text: str
    name: str
    types: tuple[str, ...]
    roles: tuple[str, ...]  # per argument: what the compiler says it is for, or ""
    templates: tuple[str, ...]


def lower(text: str) -> Lowered:
    """Rewrite a final HIVM module. Raises UnsupportedOperationError naming the first operation that is not known."""
    writer = _Writer(text)
    for number, line in enumerate(text.splitlines(), 1):
        writer.line(number, line)
    return writer.result()


_FUNCTION = re.compile(r"^  func\.func (private )?@(\w+)\((.*)\)(?: -> (\S+))?(?: attributes \{(.*)\})?( \{)?$")
_POINTER = re.compile(r"(%\w+) = hivm\.hir\.pointer_cast\((%[\w#]+)\)(?: \[(.*?)\])? : (memref<.*>)$")
_BITCAST = re.compile(r"(%\w+) = hivm\.hir\.bitcast (%[\w#]+) : (memref<.*>) -> (memref<.*>)$")
_FLAG = re.compile(r"hivm\.hir\.(set|wait)_flag\[<(\w+)>, <(\w+)>, (<EVENT_ID(\d)>|%[\w#]+)\]$")
_BARRIER = re.compile(r"hivm\.hir\.pipe_barrier\[<(\w+)>\]$")
_BLOCK = re.compile(r"(%\w+) = hivm\.hir\.get_block_idx -> i64$")
_CALL = re.compile(r"(?:%[\w:]+ = )?(?:func\.)?call @(\w+)\((.*?)\) : \((.*)\) -> .*$")
_ACCESS = re.compile(r"(?:%\w+ = memref\.load|memref\.store) .* : (memref<.*>)$")


class _Writer:
    def __init__(self, text: str) -> None:
        self.kernel = _entry_name(text)
        self.element_lines = [range(loop.line, loop.end + 1) for loop in element_loops(text)]
        self.out: list[str] = []
        self.runtime: set[str] = set()
        self.templates: dict[str, None] = {}
        self.types: tuple[str, ...] = ()
        self.roles: tuple[str, ...] = ()
        self.skipping = False
        self.temporaries = 0

    def result(self) -> Lowered:
        declarations = [_declaration(name) for name in sorted(self.runtime)]
        at = self.out.index("module {") + 1
        text = "\n".join([*self.out[:at], *declarations, *self.out[at:]]) + "\n"
        return Lowered(text, self.kernel, self.types, self.roles, tuple(self.templates))

    def line(self, number: int, line: str) -> None:
        if self.skipping:
            self.skipping = line != "  }"
            return
        if line.startswith("module"):
            self.out.append("module {")
            return
        if (found := _FUNCTION.match(line)) is not None:
            self.function(*found.groups())
            return
        line = re.sub(r", #hivm\.address_space<\w+>", "", line)
        line = re.sub(r" \{(?:hivm|hacc|tt|llvm)\.[^{}]*\}(?=$| :)", "", line)
        self.operation(number, line, line.strip())

    def function(
        self,
        private: str | None,
        name: str,
        arguments: str,
        result: str | None,
        attributes: str | None,
        body: str | None,
    ) -> None:
        if "host_func_type" in (attributes or ""):
            self.skipping = body is not None
            return
        returns = f" -> {result}" if result else ""
        parts = _split(re.sub(r", #hivm\.address_space<\w+>", "", arguments))
        if private:
            self.out.append(
                f"  func.func private @{name}({', '.join(_bare(part) for part in parts)}){returns}"
                " attributes {llvm.emit_c_interface}"
            )
            return
        if name != self.kernel:
            raise UnsupportedOperationError(self.kernel, f"a second device function, {name}", "device")
        self.types = tuple(_bare(part).split(": ", 1)[1] for part in parts)
        self.roles = tuple(
            role.group(1) if (role := re.search(r"hacc\.arg_type<(\w+)>", part)) else "" for part in parts
        )
        self.out.append(
            f"  func.func @{name}({', '.join(_bare(part) for part in parts)}){returns}"
            " attributes {llvm.emit_c_interface} {"
        )
        self.emit(f"%device_base = func.call @{self.use('device_ub')}() : () -> i64")

    def operation(self, number: int, line: str, code: str) -> None:
        if (found := _POINTER.match(code)) is not None:
            result, address, dynamic, kind = found.groups()
            pointer = self.value(f"arith.addi %device_base, {address} : i64")
            self.descriptor(result, pointer, _split(dynamic or ""), kind)
        elif (found := _BITCAST.match(code)) is not None:
            self.bitcast(*found.groups())
        elif (found := _FLAG.match(code)) is not None:
            what, source, target, event, number_text = found.groups()
            self.at(number)
            last = self.constant(int(number_text)) if number_text else event
            self.call(f"hivm_{what.upper()}_FLAG_IMM", self.pipe(source), self.pipe(target), last)
        elif (found := _BARRIER.match(code)) is not None:
            self.at(number)
            self.call("hivm_BARRIER", self.pipe(found.group(1)))
        elif (found := _BLOCK.match(code)) is not None:
            self.emit(f"{found.group(1)} = func.call @{self.use('hivm_GET_BLOCK_IDX')}() : () -> i64")
        elif code == "hivm.hir.set_mask_norm":
            self.at(number)
            self.call("device_set_mask_norm")
        elif "hivm.hir." in code:
            operation = re.search(r"hivm\.hir\.\w+", code)
            raise UnsupportedOperationError(self.kernel, operation.group(0) if operation else code, "device")
        elif (found := _CALL.match(code)) is not None:
            self.template(number, line, *found.groups())
        elif (found := _ACCESS.match(code)) is not None:
            if re.search(r"xi1[,>]", found.group(1)):
                raise UnsupportedOperationError(self.kernel, "a scalar access to a packed i1 buffer", "device")
            self.at(number)
            if any(number in lines for lines in self.element_lines):
                self.call("device_element")
            self.out.append(line)
        else:
            self.out.append(line)

    def template(self, number: int, line: str, name: str, operands: str, kinds: str) -> None:
        self.templates[name] = None
        self.at(number)
        compares = name.startswith("vcmp_") and "_1d_" in name
        if compares:  # compare.cpp says what for
            zero = self.value("arith.constant 0 : index")
            first, kind = _split(operands)[0], _split(kinds)[0]
            length = self.value(f"memref.dim {first}, {zero} : {kind}")
            self.call("device_lanes", self.value(f"arith.index_cast {length} : index to i64"))
        self.out.append(line)
        if compares:
            self.call("device_lanes", self.constant(-1))

    def bitcast(self, result: str, source: str, source_kind: str, kind: str) -> None:
        """The same bytes under another element type."""
        if "?" in kind or "strided" in kind or "strided" in source_kind:
            raise UnsupportedOperationError(self.kernel, f"hivm.hir.bitcast of {source_kind}", "device")
        index = self.value(f"memref.extract_aligned_pointer_as_index {source} : {source_kind} -> index")
        self.descriptor(result, self.value(f"arith.index_cast {index} : index to i64"), [], kind)

    def descriptor(self, result: str, address: str, dynamic: list[str], kind: str) -> None:
        """A memref of this type at an address. Its two pointers are the same: the templates mix them up."""
        shape = re.match(r"memref<((?:[\d?]+x)*)", kind)
        extents = shape.group(1).split("x")[:-1] if shape else []
        rank = len(extents)
        arrays = f", array<{rank} x i64>, array<{rank} x i64>" if rank else ""
        struct = f"!llvm.struct<(ptr, ptr, i64{arrays})>"
        pending = iter(dynamic)
        sizes = []
        for extent in extents:
            dynamic_size = extent == "?"
            cast = (
                f"arith.index_cast {next(pending)} : index to i64" if dynamic_size else f"arith.constant {extent} : i64"
            )
            sizes.append(self.value(cast))
        stride = self.constant(1)
        strides: list[str] = []
        for size in reversed(sizes):
            strides.insert(0, stride)
            stride = self.value(f"arith.muli {stride}, {size} : i64")
        pointer = self.value(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        fields = [(pointer, "0"), (pointer, "1"), (self.constant(0), "2")]
        fields += [(size, f"3, {axis}") for axis, size in enumerate(sizes)]
        fields += [(value, f"4, {axis}") for axis, value in enumerate(strides)]
        built = self.value(f"llvm.mlir.undef : {struct}")
        for value, place in fields:
            built = self.value(f"llvm.insertvalue {value}, {built}[{place}] : {struct}")
        self.emit(f"{result} = builtin.unrealized_conversion_cast {built} : {struct} to {kind}")

    # ---- pieces of text

    def emit(self, code: str) -> None:
        self.out.append("    " + code)

    def value(self, code: str) -> str:
        self.temporaries += 1
        name = f"%device_{self.temporaries}"
        self.emit(f"{name} = {code}")
        return name

    def constant(self, number: int) -> str:
        return self.value(f"arith.constant {number} : i64")

    def pipe(self, name: str) -> str:
        if name not in PIPES:
            raise UnsupportedOperationError(self.kernel, name, "device")
        return self.constant(PIPES[name])

    def at(self, number: int) -> None:
        line = self.value(f"arith.constant {number} : i32")
        self.call("device_at", line)

    def use(self, name: str) -> str:
        self.runtime.add(name)
        return name

    def call(self, name: str, *operands: str) -> None:
        self.emit(f"func.call @{self.use(name)}({', '.join(operands)}) : ({_RUNTIME[name][0]}) -> ()")


def _declaration(name: str) -> str:
    takes, gives = _RUNTIME[name]
    return f"  func.func private @{name}({takes})" + (f" -> {gives}" if gives else "")


def _entry_name(text: str) -> str:
    found = re.search(r"^  func\.func @(\w+)\([^\n]*hacc\.entry", text, re.M)
    if found is None:
        candidates = re.finditer(r"^  func\.func @(\w+)\(([^\n]*)", text, re.M)
        names = [one.group(1) for one in candidates if "host_func_type" not in one.group(2)]
        if len(names) != 1:
            raise UnsupportedOperationError("kernel", f"a module with {len(names)} device functions", "device")
        return names[0]
    return found.group(1)


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside brackets of any kind."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in "])}" or (character == ">" and text[at - 1] != "-"):
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _bare(argument: str) -> str:
    """An argument without its attributes."""
    return re.sub(r" \{.*\}$", "", argument)


_KINDS = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "bfloat": 2, "float": 4, "double": 8}
_LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "index": "i64"}
_SCALAR = "|".join(_KINDS)
_LOAD = re.compile(rf"^(\s+%\S+ = load ({_SCALAR}), ptr (%[\w.]+)[^\n]*)$", re.M)
_STORE = re.compile(rf"^(\s+store ({_SCALAR}) [^,\n]+, ptr (%[\w.]+)[^\n]*)$", re.M)


def watch_scalars(text: str) -> str:
    """Announce every scalar load and store of the kernel's own body to the runtime."""

    def call(write: int) -> Callable[[re.Match[str]], str]:
        def replace(found: re.Match[str]) -> str:
            line, kind, pointer = found.groups()
            return f"  call void @device_scalar(ptr {pointer}, i64 {_KINDS[kind]}, i64 {write})\n{line}"

        return replace

    text = _LOAD.sub(call(0), text)
    text = _STORE.sub(call(1), text)
    return text + "\ndeclare void @device_scalar(ptr, i64, i64)\n"


def entry(name: str, types: Iterable[str]) -> str:
    """`device_entry(ptr)`: takes one 8-byte slot per argument, so that every kernel is called alike."""
    lines, passed = [], []
    for index, kind in enumerate(types):
        scalar = "ptr" if kind.startswith("memref") else _LLVM.get(kind, kind)
        lines.append(f"  %p{index} = getelementptr i64, ptr %slots, i64 {index}")
        lines.append(f"  %a{index} = load {scalar}, ptr %p{index}")
        passed.append(f"{scalar} %a{index}")
    body = "\n".join(lines)
    return (
        f"define void @device_entry(ptr %slots) {{\n{body}\n"
        f"  call void @_mlir_ciface_{name}({', '.join(passed)})\n  ret void\n}}\n"
    )
