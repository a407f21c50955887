"""Programs of single intrinsics, run by the device level: what the templates do, written out by hand."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from emulator import native
from emulator.device import Kernel, runtime, templates

UB_BYTES = 196_608
S, V, M, MTE1, MTE2, MTE3, ALL = range(7)
COUNT_BIT = 56


@dataclass(frozen=True)
class Ub:
    """An address in the unified buffer."""

    offset: int


@dataclass(frozen=True)
class Gm:
    """An address in one of the tensors passed to `run`."""

    tensor: int
    offset: int = 0


def binary(repeats: int, blocks: tuple[int, int, int] = (1, 1, 1), strides: tuple[int, int, int] = (8, 8, 8)) -> int:
    """Configuration of an instruction with two sources: result, first and second operand."""
    word = repeats << 56
    for place, value in enumerate((*blocks, *strides)):
        word |= value << (8 * place)
    return word


def unary(repeats: int, blocks: tuple[int, int] = (1, 1), strides: tuple[int, int] = (8, 8)) -> int:
    """Configuration of an instruction with one source: result and operand."""
    return repeats << 56 | blocks[0] | blocks[1] << 16 | (strides[0] & 255) << 32 | strides[1] << 40


def bursts(count: int, size: int) -> int:
    """Shape of a DMA."""
    return count << 4 | size << 16


class Program:
    """A list of calls. Line n of a report is the n-th call."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.code: list[str] = []
        self.used: dict[str, str] = {"device_at": "declare void @device_at(i32)"}
        self.values = 0

    def call(self, name: str, *arguments: Any) -> Program:
        """One intrinsic, by its name without `llvm.hivm.`; the declaration says how the arguments travel."""
        symbol = "hivm_" + name.replace(".", "_")
        declaration = templates.declaration(symbol)
        kinds = re.findall(r"(ptr|i64|half|float|bfloat)(?= |,|\))", declaration.split("(", 1)[1])
        self.used[symbol] = declaration
        self.shown.append(f"{name}{arguments}")
        given = [self._argument(kind, value) for kind, value in zip(kinds, arguments, strict=True)]
        self.code.append(f"  call void @device_at(i32 {len(self.shown)})")
        result = "" if declaration.startswith("declare void") else f"%r{len(self.shown)} = "
        returns = declaration.split()[1]
        self.code.append(f"  {result}call {returns} @{symbol}({', '.join(given)})")
        return self

    def flag(self, source: int, target: int, event: int = 0) -> Program:
        """`target` waits for what `source` was given."""
        return self.call("SET.FLAG.IMM", source, target, event).call("WAIT.FLAG.IMM", source, target, event)

    def load(self, to: int, tensor: int, size: int, offset: int = 0) -> Program:
        return self.call("MOV.OUT.TO.UB.ALIGN.b8.V220", Ub(to), Gm(tensor, offset), bursts(1, size), 0)

    def store(self, tensor: int, source: int, size: int, offset: int = 0) -> Program:
        return self.call("MOV.UB.TO.OUT.ALIGN.b8.V220", Gm(tensor, offset), Ub(source), bursts(1, size), 0)

    def count(self, lanes: int) -> Program:
        """Count mode with so many elements."""
        return self.call("SET.CTRL", 1 << 48 | 1 << COUNT_BIT).call("MOVEMASK", 0, lanes)

    def norm(self, low: int = -1, high: int = -1) -> Program:
        """Norm mode with a mask."""
        return self.call("SET.CTRL", 1 << 48).call("MOVEMASK", 0, low).call("MOVEMASK", 1, high)

    def gather(self, name: str, to: Ub, offsets: Ub, source: Ub) -> Program:
        """A gather: the configuration is the low half of the source's address."""
        self.values += 1
        number = self.values
        self.code += [
            f"  %v{number} = add i64 %base, {source.offset}",
            f"  %p{number} = and i64 %v{number}, 4294967295",
        ]
        return self.call(name, to, offsets, f"%p{number}")

    def block_addresses(self, register: int, index: int, first: Ub, second: Ub) -> Program:
        """Two addresses into a VA register."""
        names = []
        for one in (first, second):
            self.values += 1
            self.code.append(f"  %v{self.values} = add i64 %base, {one.offset}")
            names.append(f"%v{self.values}")
        return self.call("MOVEVA", register, index, *names)

    def _argument(self, kind: str, value: Any) -> str:
        if isinstance(value, Ub):
            self.values += 1
            self.code.append(f"  %v{self.values} = add i64 %base, {value.offset}")
            self.code.append(f"  %p{self.values} = inttoptr i64 %v{self.values} to ptr")
            return f"ptr %p{self.values}"
        if isinstance(value, Gm):
            self.values += 1
            self.code.append(f"  %p{self.values} = getelementptr i8, ptr %gm{value.tensor}, i64 {value.offset}")
            return f"ptr %p{self.values}"
        if kind == "float":
            return f"float 0x{struct.unpack('<Q', struct.pack('<d', np.float32(value)))[0]:016X}"
        if kind == "half":
            return f"half 0xH{np.float16(value).view(np.uint16):04X}"
        return f"i64 {value}"

    def run(self, *tensors: torch.Tensor) -> None:
        """Run as the one program of a grid. Raises DeviceCheckError."""
        runtime.load()
        head = ["define void @device_entry(ptr %slots) {", "  %base = call i64 @device_ub()"]
        for index in range(len(tensors)):
            head.append(f"  %s{index} = getelementptr i64, ptr %slots, i64 {3 + index}")
            head.append(f"  %d{index} = load ptr, ptr %s{index}")
            head.append(f"  %a{index} = getelementptr i64, ptr %d{index}, i64 1")
            head.append(f"  %gm{index} = load ptr, ptr %a{index}")
        declarations = ["declare i64 @device_ub()", *self.used.values()]
        text = "\n".join([*declarations, *head, *self.code, "  ret void", "}"]) + "\n"
        code = native.emit(text, "device_entry", native.host(), level=0).code
        kernel = Kernel(
            "by_hand",
            "\n".join(self.shown),
            ("memref<?xi8>",) * len(tensors),
            (),
            (),
            UB_BYTES,
            native.load(code, "device_entry"),
        )
        spans = [(one.data_ptr(), one.data_ptr() + one.numel() * one.element_size()) for one in tensors]
        kernel.run((1,), [start for start, _ in spans], spans)
