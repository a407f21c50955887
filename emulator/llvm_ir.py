"""Rewrites on the text of un-optimised LLVM IR: the device's arithmetic where a host's differs, and the grid loop.

Named temporaries do not disturb LLVM's numbering of values, so inserting lines is enough.
"""

from __future__ import annotations

import itertools
import re
import struct

from emulator.native import SLOT

SCALARS = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f32": "float", "f64": "double"}


def rewrite(text: str) -> str:
    """Saturating conversions, total division and shifts, exact conversions to half, loops left as loops."""
    counter = itertools.count()
    declarations: set[str] = set()
    lines = []
    for line in text.splitlines():
        found = _INSTRUCTION.match(line)
        if found is None:
            lines.append(line)
            continue
        indent, result, opcode, rest = found.groups()
        temporary = _Temporaries(next(counter))
        if opcode in ("fptosi", "fptoui"):
            new = _float_to_int(result, opcode, rest, temporary, declarations)
        elif opcode in ("sitofp", "uitofp"):
            new = _int_to_float(result, opcode, rest, temporary)
        elif opcode in ("sdiv", "udiv", "srem", "urem"):
            new = _divide(result, opcode, rest, temporary)
        else:
            new = _shift(result, opcode, rest, temporary)
        lines += [indent + part for part in new]
    body = "\n".join([*lines, *sorted(declarations)]) + "\n"
    body = hoist_stack_slots(body)
    # Row copies are short: a call of memcpy costs more than the loop, and the vectoriser does the rest.
    return re.sub(r"^(define [^\n{]*?)( ?!dbg ![0-9]+)? \{$", r'\1 "no-builtins" {', body, flags=re.MULTILINE)


def hoist_stack_slots(text: str) -> str:
    """Every stack slot of constant size in its function's first block: inside a loop it would grow the stack at each
    turn.

    A slot is made from a buffer that does not leave the turn it was made in, so that all turns can share it. Numbered
    values and blocks get names first: LLVM wants numbers in textual order.
    """
    text = re.sub(r"%(\d+)\b", r"%v\1", text)
    text = re.sub(r"^(\d+):", r"v\1:", text, flags=re.MULTILINE)
    lines: list[str] = []
    entry = 0
    for line in text.splitlines():
        if line.startswith("define "):
            # The first block has the number after the arguments', and a phi may name it.
            lines += [line, f"v{len(re.findall(r'%v[0-9]+', line))}:"]
            entry = len(lines)
        elif re.match(r" *%\S+ = alloca [^,]+(, i64 \d+)?(, align \d+)?$", line):
            lines.insert(entry, line)
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


_INSTRUCTION = re.compile(r"^( *)(%[\w.]+) = (fptosi|fptoui|sitofp|uitofp|sdiv|udiv|srem|urem|shl|lshr|ashr) (.*)$")


class _Temporaries:
    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, name: str) -> str:
        return f"%rw{self.number}{name}"


def _hex(value: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


def _float_to_int(result: str, opcode: str, rest: str, t: _Temporaries, declarations: set[str]) -> list[str]:
    """Toward zero, saturating, NaN to 0, as the device's casts to 32 and 64 bits; for narrower ones see casts.py.

    Compare and select vectorise where llvm.fptosi.sat does not; the largest value is chosen by its own comparison when
    it is no float.
    """
    found = re.match(r"(half|bfloat|float|double) (\S+) to i(\d+)$", rest)
    if found is None:
        return [f"{result} = {opcode} {rest}"]
    kind, value, width = found.group(1), found.group(2), int(found.group(3))
    lines = []
    if kind == "double" or width == 1:
        name = f"llvm.{opcode.replace('to', 'to')}.sat.i{width}.{_SUFFIX[kind]}"
        declarations.add(f"declare i{width} @{name}({kind})")
        return [f"{result} = call i{width} @{name}({kind} {value})"]
    if kind != "float":
        lines.append(f"{t('x')} = fpext {kind} {value} to float")
        value = t("x")
    signed = opcode == "fptosi"
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    wide = "i32" if width <= 16 or (width == 32 and signed) else "i64"
    exact = high <= 2**24
    limit = float(high) if exact else float(high + 1) * (1 - 2.0**-24)  # the largest float below 2^n
    convert = "fptoui" if width == 64 and not signed else "fptosi"
    lines += [
        f"{t('n')} = fcmp uno float {value}, {value}",
        f"{t('c')} = fcmp ogt float {value}, {_hex(low)}",
        f"{t('a')} = select i1 {t('c')}, float {value}, float {_hex(low)}",
        f"{t('d')} = fcmp olt float {t('a')}, {_hex(limit)}",
        f"{t('b')} = select i1 {t('d')}, float {t('a')}, float {_hex(limit)}",
        f"{t('i')} = {convert} float {t('b')} to {wide}",
    ]
    converted = t("i")
    if not exact:
        largest = -1 if width == 64 and not signed else high
        lines += [
            f"{t('g')} = fcmp oge float {value}, {_hex(high + 1)}",
            f"{t('h')} = select i1 {t('g')}, {wide} {largest}, {wide} {converted}",
        ]
        converted = t("h")
    if wide != f"i{width}":
        lines.append(f"{t('t')} = trunc {wide} {converted} to i{width}")
        converted = t("t")
    return [*lines, f"{result} = select i1 {t('n')}, i{width} 0, i{width} {converted}"]


_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def _int_to_float(result: str, opcode: str, rest: str, t: _Temporaries) -> list[str]:
    """Integers reach half and bfloat by way of float, as on the device and in torch."""
    found = re.match(r"(?:nneg )?(i\d+) (\S+) to (half|bfloat)$", rest)
    if found is None:
        return [f"{result} = {opcode} {rest}"]
    source, value, kind = found.groups()
    return [
        f"{t('f')} = {opcode} {source} {value} to float",
        f"{result} = fptrunc float {t('f')} to {kind}",
    ]


def _divide(result: str, opcode: str, rest: str, t: _Temporaries) -> list[str]:
    """Division that never traps: INT_MIN / -1 wraps to INT_MIN and leaves no remainder, and 0 may divide.

    The device's templates give -1 for x % 0. Up to 32 bits they divide by way of float32, so that x / 0 is an infinity
    cast to 32 bits and cut to the width; 64 bits go through the scalar unit, whose answer is taken to be 0.
    """
    found = re.match(r"(?:exact )?i(\d+) (\S+), (\S+)$", rest)
    if found is None:
        return [f"{result} = {opcode} {rest}"]
    width, a, b = int(found.group(1)), found.group(2), found.group(3)
    if re.fullmatch(r"-?\d+", b) and int(b) not in (0, -1):
        return [f"{result} = {opcode} {rest}"]
    signed = opcode[0] == "s"
    lines = [f"{t('z')} = icmp eq i{width} {b}, 0"]
    trap = t("z")
    if signed:
        lines += [
            f"{t('m')} = icmp eq i{width} {a}, {-(2 ** (width - 1))}",
            f"{t('o')} = icmp eq i{width} {b}, -1",
            f"{t('w')} = and i1 {t('m')}, {t('o')}",
            f"{t('t')} = or i1 {t('z')}, {t('w')}",
        ]
        trap = t("t")
    if opcode.endswith("rem"):
        by_zero = "-1"
    elif width > 32:
        by_zero = "0"
    else:
        by_zero = t("f")
        above, below = (2**31 - 1, -(2**31)) if width == 32 else (-1, 0)
        lines += [
            f"{t('p')} = icmp {'sgt' if signed else 'ugt'} i{width} {a}, 0",
            f"{t('l')} = icmp slt i{width} {a}, 0" if signed else f"{t('l')} = icmp ult i{width} {a}, 0",
            f"{t('e')} = select i1 {t('l')}, i{width} {below}, i{width} 0",
            f"{by_zero} = select i1 {t('p')}, i{width} {above}, i{width} {t('e')}",
        ]
    return [
        *lines,
        f"{t('b')} = select i1 {trap}, i{width} 1, i{width} {b}",
        f"{t('q')} = {opcode} i{width} {a}, {t('b')}",
        f"{result} = select i1 {t('z')}, i{width} {by_zero}, i{width} {t('q')}",
    ]


def _shift(result: str, opcode: str, rest: str, t: _Temporaries) -> list[str]:
    """A shift by the width or more moves every bit out; an arithmetic one leaves the sign."""
    found = re.match(r"((?:(?:nuw|nsw|exact) )*)i(\d+) (\S+), (\S+)$", rest)
    if found is None:
        return [f"{result} = {opcode} {rest}"]
    width, a, b = int(found.group(2)), found.group(3), found.group(4)
    if re.fullmatch(r"\d+", b) and int(b) < width:
        return [f"{result} = {opcode} {rest}"]
    shifted = f"{opcode} i{width} {a}"
    lines = [f"{t('z')} = icmp uge i{width} {b}, {width}"]
    if opcode == "ashr":
        return [
            *lines,
            f"{t('b')} = select i1 {t('z')}, i{width} {width - 1}, i{width} {b}",
            f"{result} = {shifted}, {t('b')}",
        ]
    return [
        *lines,
        f"{t('b')} = select i1 {t('z')}, i{width} 0, i{width} {b}",
        f"{t('s')} = {shifted}, {t('b')}",
        f"{result} = select i1 {t('z')}, i{width} 0, i{width} {t('s')}",
    ]


ENTRY = "emulator_run"


def grid_loop(kernel: str, types: tuple[str, ...], guarded: tuple[int, ...] = (), asserts: bool = False) -> str:
    """The native entry of a kernel: `emulator_run(record, chunk, limit)`.

    The record holds one 8-byte slot per argument, the grid's three extents, the storage bounds of the guarded arguments
    (two each), the number of programs, the counter of programs handed out, and the fault slot. The entry takes `chunk`
    programs at a time from the counter until none is left or it has taken `limit`, so that several threads can share
    one record, and stops at a fault. The last axis of the grid runs fastest, as on the device.
    """
    lines = [f"define void @{ENTRY}(ptr %record, i64 %chunk, i64 %limit) {{", "entry:"]
    workspace = "ptr null, ptr null, i64 0, i64 0, i64 1"
    arguments = []
    bounds = ["i64"] * (2 * len(guarded))
    fields = [*types, "i32", "i32", "i32", *bounds, "i64"]
    for number, kind in enumerate(fields):
        lines.append(f"  %p{number} = getelementptr i8, ptr %record, i64 {SLOT * number}")
        if kind.startswith("memref"):
            lines.append(f"  %a{number} = load ptr, ptr %p{number}")
            # The extent only has to be large: nothing in a kernel reads it.
            arguments.append(f"ptr %a{number}, ptr %a{number}, i64 0, i64 {1 << 40}, i64 1")
        elif kind == "i1":
            lines += [f"  %b{number} = load i8, ptr %p{number}", f"  %a{number} = trunc i8 %b{number} to i1"]
            arguments.append(f"i1 %a{number}")
        else:
            lines.append(f"  %a{number} = load {SCALARS[kind]}, ptr %p{number}")
            arguments.append(f"{SCALARS[kind]} %a{number}")
    y, z = f"%a{len(types) + 1}", f"%a{len(types) + 2}"
    total = f"%a{len(fields) - 1}"
    own, limits = arguments[: len(types) + 3], arguments[len(types) + 3 : -1]
    fault = ["ptr %fault, ptr %fault, i64 0, i64 1, i64 1"] if asserts else []
    passed = ", ".join([workspace, workspace, *own, "i32 %x, i32 %y, i32 %z", *limits, *fault])
    stop = ["  %more = and i1 %unfinished, %sound"] if asserts else ["  %more = or i1 %unfinished, false"]
    check = ["  %code = load volatile i64, ptr %fault", "  %sound = icmp eq i64 %code, 0"] if asserts else []
    lines += [
        f"  %counter = getelementptr i8, ptr %record, i64 {SLOT * len(fields)}",
        f"  %fault = getelementptr i8, ptr %record, i64 {SLOT * (len(fields) + 1)}",
        "  br label %take",
        "take:",
        "  %left = phi i64 [ %limit, %entry ], [ %remaining, %taken ]",
        "  %from = atomicrmw add ptr %counter, i64 %chunk seq_cst",
        f"  %some = icmp slt i64 %from, {total}",
        "  br i1 %some, label %work, label %exit",
        "work:",
        "  %end = add i64 %from, %chunk",
        f"  %whole = icmp slt i64 %end, {total}",
        f"  %to = select i1 %whole, i64 %end, i64 {total}",
        "  br label %program",
        "program:",
        "  %index = phi i64 [ %from, %work ], [ %next, %program ]",
        "  %id = trunc i64 %index to i32",
        f"  %z = urem i32 %id, {z}",
        f"  %plane = udiv i32 %id, {z}",
        f"  %y = urem i32 %plane, {y}",
        f"  %x = udiv i32 %plane, {y}",
        f"  call void @{kernel}({passed})",
        "  %next = add i64 %index, 1",
        "  %unfinished = icmp slt i64 %next, %to",
        *check,
        *stop,
        "  br i1 %more, label %program, label %taken",
        "taken:",
        "  %remaining = sub i64 %left, %chunk",
        "  %room = icmp sgt i64 %remaining, 0",
        "  %again = and i1 %room, %sound" if asserts else "  %again = or i1 %room, false",
        "  br i1 %again, label %take, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"
