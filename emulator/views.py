"""Small pieces of MLIR text about views of memory, shared by the steps that rewrite it."""

from __future__ import annotations

import re

MEMREF = r"memref<[^<>]*(?:<[^<>]*>[^<>]*)*>"
BYTES = {"i1": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}


def element_and_rank(view_type: str) -> tuple[str, int]:
    """Element type and rank of a memref type.

    >>> element_and_rank("memref<4x?xf32, strided<[?, 1], offset: ?>>")
    ('f32', 2)
    """
    *extents, element = re.split(r"[,>]", view_type.removeprefix("memref<"), maxsplit=1)[0].split("x")
    return element, len(extents)


def extent(prefix: str, view: str, view_type: str) -> list[str]:
    """Lines that compute, for a view, its `offset`, `size{i}`, `stride{i}`, and its `first` and `last` element.

    All are named with the prefix; `first` and `last` count from the start of the buffer that the view belongs to.
    """
    element, rank = element_and_rank(view_type)
    p = prefix
    names = [f"{p}base", f"{p}offset", *(f"{p}size{i}" for i in range(rank)), *(f"{p}stride{i}" for i in range(rank))]
    lines = [
        f"{', '.join(names)} = memref.extract_strided_metadata {view} : {view_type} "
        f"-> memref<{element}>, {', '.join(['index'] * (1 + 2 * rank))}",
        f"{p}c0 = arith.constant 0 : index",
        f"{p}c1 = arith.constant 1 : index",
    ]
    first = last = f"{p}offset"
    for i in range(rank):
        next_first = f"{p}first{'' if i == rank - 1 else i}"
        next_last = f"{p}last{'' if i == rank - 1 else i}"
        lines += [
            f"{p}steps{i} = arith.subi {p}size{i}, {p}c1 : index",
            f"{p}span{i} = arith.muli {p}steps{i}, {p}stride{i} : index",
            f"{p}down{i} = arith.minsi {p}span{i}, {p}c0 : index",
            f"{p}up{i} = arith.maxsi {p}span{i}, {p}c0 : index",
            f"{next_first} = arith.addi {first}, {p}down{i} : index",
            f"{next_last} = arith.addi {last}, {p}up{i} : index",
        ]
        first, last = next_first, next_last
    return lines
