"""Casts to integers as the device does them.

A float becomes a 32-bit integer first, saturating, and an 8- or 16-bit result keeps its low bits, unless the cast is
marked `overflow_mode = "saturate"`: then it saturates at the result's own limits, and so does a marked narrowing of an
integer. The marks come as separate operations.
"""

from __future__ import annotations

import itertools
import re

_MARK = re.compile(r'^ *annotation\.mark (%[\w#]+) \{.*overflow_mode = "(\w+)"')
_CAST = re.compile(r"^( *)(%[\w#]+) = arith\.(fptosi|fptoui|trunci) (%[\w#]+) : (.*) to (.*)$")


def apply(text: str) -> str:
    """Write out the casts of a kernel and drop the marks."""
    lines = text.splitlines()
    defined: dict[str, int] = {}
    saturating: set[int] = set()
    for number, line in enumerate(lines):
        if found := _CAST.match(line):
            defined[found.group(2)] = number
        elif (found := _MARK.match(line)) and found.group(2) == "saturate" and found.group(1) in defined:
            saturating.add(defined[found.group(1)])
    numbers = itertools.count()
    out: list[str] = []
    for number, line in enumerate(lines):
        if "annotation.mark" in line:
            continue
        found = _CAST.match(line)
        if found is None:
            out.append(line)
            continue
        indent, result, operation, value, source, target = found.groups()
        prefix = f"%cast{next(numbers)}_"
        width = _width(target)
        if operation == "trunci" and number in saturating:
            new = _clamp(prefix, result, value, source, target)
        elif operation != "trunci" and width in (8, 16) and number not in saturating:
            wide = re.sub(r"i\d+(>?)$", r"i32\1", target)
            new = [
                f"{prefix}wide = arith.fptosi {value} : {source} to {wide}",
                f"{result} = arith.trunci {prefix}wide : {wide} to {target}",
            ]
        else:
            new = [line.strip()]
        out += [indent + part for part in new]
    return "\n".join(out) + "\n"


def _width(kind: str) -> int:
    found = re.search(r"i(\d+)>?$", kind)
    return int(found.group(1)) if found else 0


def _clamp(prefix: str, result: str, value: str, source: str, target: str) -> list[str]:
    limit = 2 ** (_width(target) - 1)

    def constant(number: int) -> str:
        return f"dense<{number}> : {source}" if source.startswith("tensor") else f"{number} : {source}"

    return [
        f"{prefix}low = arith.constant {constant(-limit)}",
        f"{prefix}high = arith.constant {constant(limit - 1)}",
        f"{prefix}above = arith.maxsi {value}, {prefix}low : {source}",
        f"{prefix}inside = arith.minsi {prefix}above, {prefix}high : {source}",
        f"{result} = arith.trunci {prefix}inside : {source} to {target}",
    ]
