"""Copies that pass through a tile only to leave it: memory to memory at once, if source and destination are disjoint.

A tile that one copy fills and one other copy empties, with nothing in between, is what a copy kernel looks like.
Leaving the tile out halves the traffic. It changes nothing unless the two regions overlap, so that is tested at run
time, per tile; when they do overlap the tile is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from emulator.views import BYTES, MEMREF, element_and_rank, extent

_ALLOC = re.compile(rf"^( *)(%[\w#]+) = memref\.alloc\(\)(?: {{[^}}]*}})? : ({MEMREF})$")
_SUBVIEW = re.compile(rf"^ *(%[\w#]+) = memref\.subview (%[\w#]+)(\[.*\]) : {MEMREF} to ({MEMREF})$")
_COPY = re.compile(rf"^( *)memref\.copy (%[\w#]+), (%[\w#]+) : ({MEMREF}) to ({MEMREF})$")
_HARMLESS = re.compile(r"^ *%[\w#:, ]+ = (?:arith\.|memref\.(?:reinterpret_cast|subview|alloc|dim|cast)\b|affine\.)")


@dataclass(frozen=True)
class _Tile:
    alloc: int
    views: tuple[int, ...]  # lines that make the views of the tile
    fill: int
    empty: int


def apply(text: str) -> str:
    """Forward every tile that qualifies."""
    lines = text.splitlines()
    for number, tile in enumerate(_tiles(lines)):
        fill, empty = _COPY.match(lines[tile.fill]), _COPY.match(lines[tile.empty])
        assert fill is not None
        assert empty is not None
        indent, source, _, source_type, _ = fill.groups()
        target, target_type = empty.group(3), empty.group(5)
        moved = [tile.alloc, *tile.views, tile.fill, tile.empty]
        by_way_of_tile = [lines[line].strip() for line in moved]
        forwarded = [
            *_disjoint(f"%forward{number}_", source, source_type, target, target_type),
            f"scf.if %forward{number}_disjoint {{",
            f"  memref.copy {source}, {target} : {source_type} to {target_type}",
            "} else {",
            *(f"  {line}" for line in by_way_of_tile),
            "}",
        ]
        for line in moved:
            lines[line] = ""
        lines[tile.empty] = "\n".join(indent + line for line in forwarded)
    return "\n".join(lines) + "\n"


def _tiles(lines: list[str]) -> list[_Tile]:
    uses: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for name in set(re.findall(r"%[\w#]+", line)):
            uses.setdefault(name, []).append(number)
    found = []
    for number, line in enumerate(lines):
        alloc = _ALLOC.match(line)
        if alloc and (tile := _tile(lines, uses, number, alloc.group(2))):
            found.append(tile)
    return found


def _tile(lines: list[str], uses: dict[str, list[int]], alloc: int, name: str) -> _Tile | None:
    names, views, windows = {name: ""}, [], []
    for number in uses[name][1:]:
        view = _SUBVIEW.match(lines[number])
        if view and view.group(2) == name:
            names[view.group(1)] = view.group(3)
            views.append(number)
            windows.append(view.group(3))
    copies = sorted({number for known in names for number in uses[known][1:]} - set(views))
    if (
        len(copies) != 2
        or len(uses[name]) != 1 + (len(views) or 2)
        or len(set(windows)) > 1
        or len(views) not in (0, 2)
    ):
        return None
    fill, empty = _COPY.match(lines[copies[0]]), _COPY.match(lines[copies[1]])
    if fill is None or empty is None or fill.group(3) not in names or empty.group(2) not in names:
        return None
    # Both sides must be views of memory with known bounds, and a tile must not be its own source or destination.
    if fill.group(2) in names or empty.group(3) in names or fill.group(1) != empty.group(1):
        return None
    if not all(_HARMLESS.match(line) for line in lines[copies[0] + 1 : copies[1]] if line.strip()):
        return None
    return _Tile(alloc, tuple(views), copies[0], copies[1])


def _disjoint(prefix: str, source: str, source_type: str, target: str, target_type: str) -> list[str]:
    """Lines that set `{prefix}disjoint`: whether two views share no byte."""
    p, lines = prefix, []
    for side, view, view_type in (("s", source, source_type), ("t", target, target_type)):
        q = f"{p}{side}"
        element = element_and_rank(view_type)[0]
        lines += [
            *extent(q, view, view_type),
            f"{q}address = memref.extract_aligned_pointer_as_index {q}base : memref<{element}> -> index",
            f"{q}bytes = arith.constant {BYTES[element]} : index",
            f"{q}lead = arith.muli {q}first, {q}bytes : index",
            f"{q}reach = arith.addi {q}last, {q}c1 : index",
            f"{q}trail = arith.muli {q}reach, {q}bytes : index",
            f"{q}begin = arith.addi {q}address, {q}lead : index",
            f"{q}end = arith.addi {q}address, {q}trail : index",
        ]
    return [
        *lines,
        f"{p}before = arith.cmpi ule, {p}send, {p}tbegin : index",
        f"{p}after = arith.cmpi ule, {p}tend, {p}sbegin : index",
        f"{p}disjoint = arith.ori {p}before, {p}after : i1",
    ]
