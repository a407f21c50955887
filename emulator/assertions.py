"""tl.device_assert: a program that finds one false leaves a code in the launch record, and the launch raises."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

_DECLARATION = re.compile(
    r'^ *func\.func private @(triton_assert\w*)\([^)]*\)(?: attributes \{.*?msg = "(.*?)"[^\n]*\})?\n', re.MULTILINE
)
_CALL = re.compile(r"^( *)(?:func\.)?call @(triton_assert\w*)\((%[\w#]+)\) : \(([^)]*)\) -> \(\)$", re.MULTILINE)

CODE_BITS = 16  # low bits of a fault: 1 + which assertion; above: the program


@dataclass(frozen=True)
class Asserted:
    """Linalg IR whose assertions store to a last argument `%fault`, and their messages in the order of the codes."""

    text: str
    messages: tuple[str, ...]


def expand(text: str) -> Asserted:
    """Give every assertion a body. Without assertions the text is unchanged."""
    declared = dict(_DECLARATION.findall(text))
    if not declared:
        return Asserted(text, ())
    signature = re.search(r"func\.func @\w+\((%arg0.*?)\) attributes \{", text, re.DOTALL)
    assert signature is not None
    count = len(re.findall(r"%arg\d+:", signature.group(1)))
    names = list(declared)
    numbers = itertools.count()

    def body(match: re.Match[str]) -> str:
        indent, name, value, kind = match.groups()
        p = f"%assert{next(numbers)}_"
        extents = kind.removeprefix("tensor<").split("x")[:-1] if kind.startswith("tensor") else []
        lines = [f"{p}c0 = arith.constant 0 : index", f"{p}c1 = arith.constant 1 : index"]
        for i, extent in enumerate(extents):
            lines += [
                f"{p}n{i} = arith.constant {extent} : index",
                f"scf.for {p}i{i} = {p}c0 to {p}n{i} step {p}c1 {{",
            ]
        holds = value
        if kind.startswith("tensor"):
            holds = f"{p}holds"
            lines.append(
                f"{holds} = tensor.extract {value}[{', '.join(f'{p}i{i}' for i in range(len(extents)))}] : {kind}"
            )
        lines += [
            f"{p}true = arith.constant true",
            f"{p}fails = arith.xori {holds}, {p}true : i1",
            f"scf.if {p}fails {{",
            f"  {p}plane = arith.muli %arg{count - 3}, %arg{count - 5} : i32",
            f"  {p}row = arith.addi {p}plane, %arg{count - 2} : i32",
            f"  {p}rows = arith.muli {p}row, %arg{count - 4} : i32",
            f"  {p}program = arith.addi {p}rows, %arg{count - 1} : i32",
            f"  {p}wide = arith.extui {p}program : i32 to i64",
            f"  {p}shift = arith.constant {CODE_BITS} : i64",
            f"  {p}high = arith.shli {p}wide, {p}shift : i64",
            f"  {p}low = arith.constant {names.index(name) + 1} : i64",
            f"  {p}code = arith.ori {p}high, {p}low : i64",
            f"  memref.store {p}code, %fault[{p}c0] : memref<?xi64>",
            "}",
            *["}"] * len(extents),
        ]
        return "\n".join(indent + line for line in lines)

    text = _DECLARATION.sub("", _CALL.sub(body, text))
    text = re.sub(
        r"(func\.func @\w+\(%arg0.*?)(\) attributes \{)",
        r"\g<1>, %fault: memref<?xi64>\g<2>",
        text,
        count=1,
        flags=re.DOTALL,
    )
    return Asserted(text, tuple(declared.values()))
