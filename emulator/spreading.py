"""Broadcasts that fill a tile only to be copied out of it: written to their destination at once.

The small tile that is broadcast is memory of the kernel's own, so it cannot overlap the destination, and leaving the
large one out halves the stores of a copy kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from emulator.views import MEMREF, element_and_rank

_ALLOC = re.compile(rf"^( *)(%[\w#]+) = memref\.alloc\(\)(?: {{[^}}]*}})? : ({MEMREF})$")
_FILL = re.compile(
    rf"^( *)linalg\.generic (\{{indexing_maps = .*?\}}) ins\((%[\w#]+) : ({MEMREF})\) outs\((%[\w#]+) : {MEMREF}\) {{$"
)
_SUBVIEW = re.compile(
    rf"^ *(%[\w#]+) = memref\.subview (%[\w#]+)\[([^\]]*)\] \[([^\]]*)\] \[([^\]]*)\] : .* to {MEMREF}$"
)
_COPY = re.compile(rf"^( *)memref\.copy (%[\w#]+), (%[\w#]+) : ({MEMREF}) to ({MEMREF})$")
_MAPS = re.compile(r"indexing_maps = \[(#\w+), (#\w+)\]")


@dataclass(frozen=True)
class _Spread:
    """One broadcast into a tile: where it happens and what is broadcast along which axes of the tile."""

    lines: range
    maps: str
    source: str
    source_type: str
    axes: tuple[int, ...]


def apply(text: str) -> str:
    """Take every tile out that is filled by one broadcast and otherwise only copied from."""
    lines = text.splitlines()
    axes = {
        name: tuple(int(axis) for axis in re.findall(r"d(\d+)", results))
        for name, results in re.findall(r"^(#\w+) = affine_map<\([^)]*\) -> \(([^)]*)\)>$", text, re.MULTILINE)
    }
    uses: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for name in set(re.findall(r"%[\w#]+", line)):
            uses.setdefault(name, []).append(number)
    for number, line in enumerate(list(lines)):
        alloc = _ALLOC.match(line)
        if alloc is None:
            continue
        spread = _spread(lines, uses, axes, alloc.group(2), alloc.group(1))
        if spread is not None:
            _take_out(lines, uses, number, alloc.group(2), spread)
    return "\n".join(lines) + "\n"


def _spread(
    lines: list[str], uses: dict[str, list[int]], axes: dict[str, tuple[int, ...]], tile: str, indent: str
) -> _Spread | None:
    """The broadcast that fills a tile, if the tile qualifies."""
    fills = [number for number in uses[tile] if _FILL.match(lines[number])]
    if len(fills) != 1:
        return None
    at = fills[0]
    fill = _FILL.match(lines[at])
    maps = _MAPS.search(lines[at])
    if fill is None or maps is None or fill.group(5) != tile or fill.group(1) != indent or maps.group(2) not in axes:
        return None
    body = [line.strip() for line in lines[at + 1 : at + 4]]
    argument = re.match(r"\^bb0\((%\w+): ", body[0])
    if argument is None or not body[1].startswith(f"linalg.yield {argument.group(1)} :") or body[2] != "}":
        return None
    source, source_type = fill.group(3), fill.group(4)
    outer = axes[maps.group(2)]
    made = [number for number in uses[source] if (found := _ALLOC.match(lines[number])) and found.group(2) == source]
    # The source must be this block's own tile and stay as it is from here on.
    if outer != tuple(range(len(outer))) or len(made) != 1 or max(uses[source]) > at:
        return None
    if not lines[made[0]].startswith(indent + "%") or "strided" in source_type:
        return None
    return _Spread(range(at, at + 4), fill.group(2), source, source_type, axes[maps.group(1)])


def _take_out(lines: list[str], uses: dict[str, list[int]], alloc: int, tile: str, spread: _Spread) -> None:
    windows: dict[str, tuple[list[str], int]] = {tile: ([], alloc)}
    copies: list[int] = []
    for number in uses[tile]:
        if number == alloc or number == spread.lines[0]:
            continue
        view = _SUBVIEW.match(lines[number])
        if view and view.group(2) == tile:
            offsets, sizes, steps = ([part.strip() for part in view.group(i).split(",")] for i in (3, 4, 5))
            if set(offsets) != {"0"} or set(steps) != {"1"}:
                return
            windows[view.group(1)] = (sizes, number)
            copies += [use for use in uses[view.group(1)] if use != number]
        else:
            copies.append(number)
    found = [_COPY.match(lines[number]) for number in copies]
    if not all(copy and copy.group(2) in windows and copy.group(3) not in windows for copy in found):
        return
    for number, copy in zip(copies, found, strict=True):
        assert copy is not None
        indent, window, target, _, target_type = copy.groups()
        lines[number] = "\n".join(
            indent + line for line in _write(spread, number, windows[window][0], target, target_type)
        )
    for number in [*spread.lines, *(at for _, at in windows.values())]:
        lines[number] = ""


def _write(spread: _Spread, number: int, sizes: list[str], target: str, target_type: str) -> list[str]:
    """The broadcast, to a window of the same extents elsewhere."""
    element, rank = element_and_rank(spread.source_type)
    source, source_type, lines = spread.source, spread.source_type, []
    if sizes:
        extents = [int(part) for part in spread.source_type.removeprefix("memref<").rstrip(">").split("x")[:-1]]
        strides = [1]
        for extent in reversed(extents[1:]):
            strides.insert(0, strides[0] * extent)
        window = [sizes[axis] for axis in spread.axes]
        shown = ["?" if part.startswith("%") else part for part in window]
        source = f"%spread{number}"
        source_type = f"memref<{'x'.join([*shown, element])}, strided<[{', '.join(map(str, strides))}]>>"
        lines.append(
            f"{source} = memref.subview {spread.source}[{', '.join(['0'] * rank)}] [{', '.join(window)}] "
            f"[{', '.join(['1'] * rank)}] : {spread.source_type} to {source_type}"
        )
    return [
        *lines,
        f"linalg.generic {spread.maps} ins({source} : {source_type}) outs({target} : {target_type}) {{",
        f"^bb0(%in: {element}, %out: {element}):",
        f"  linalg.yield %in : {element}",
        "}",
    ]
