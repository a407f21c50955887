"""Keeps masked-off lanes from touching memory that is not theirs.

The front end turns a load whose mask is no simple bound into a load of every lane followed by a select, and a store
into the same for the old contents, a select, and a store of every lane. The device's memory system forgives the lanes
outside; a host's does not. So such loads first test the address against the tensor's storage and read 0 outside it, and
such stores write the lanes that the mask names and no others.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from emulator.views import MEMREF, element_and_rank, extent

_CAST = re.compile(rf"^ *(%[\w#]+) = memref\.reinterpret_cast %arg(\d+) to offset: \[([^\]]*)\], .* to ({MEMREF})$")
_LOAD = re.compile(r"^( *)(%[\w#]+) = memref\.load (%[\w#]+)\[[^\]]*\] : memref<1x(\w+), .*>$")
_SUBVIEW = re.compile(rf"^ *(%[\w#]+) = memref\.subview (%[\w#]+)\[.* to ({MEMREF})$")
_COPY = re.compile(rf"^( *)memref\.copy (%[\w#]+), (%[\w#]+) : ({MEMREF}) to ({MEMREF})$")
_TO_TENSOR = re.compile(r"^ *(%[\w#]+) = bufferization\.to_tensor (%[\w#]+) ")
_SELECT = re.compile(
    r"^ *(%[\w#]+) = arith\.select (%[\w#]+), (%[\w#]+), (%[\w#]+).* : tensor<[\dx]+xi1>, (tensor<.*>)$"
)
_STORE = re.compile(
    r"^( *)bufferization\.materialize_in_destination (%[\w#]+) in writable (%[\w#]+) : "
    r"\((tensor<[^>]*>), (.*)\) -> \(\)$"
)
_LOOP_END = re.compile(r"^ *\} \{ExtractedLoadOrStore")


@dataclass(frozen=True)
class Guarded:
    """Linalg IR with guards, and the positions of the run-time arguments whose storage bounds it expects.

    For each of them two `index` arguments follow the kernel's own: the first element of the storage, relative to the
    pointer, and the one behind the last.
    """

    text: str
    arguments: tuple[int, ...]


def apply(text: str) -> Guarded:
    """Guard the discrete and masked accesses of a kernel."""
    return _Rewriter(text).run()


class _Rewriter:
    """Goes through the lines once. Names are reused in sibling regions: what a name means is what it meant last."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.numbers = itertools.count()
        self.roots: dict[str, int] = {}  # view of an argument -> the argument's number
        self.types: dict[str, str] = {}
        self.copied: dict[str, str] = {}  # buffer -> the view of an argument that it was copied from
        self.sources: dict[str, str] = {}  # tensor -> the same
        self.selects: dict[str, tuple[str, str, str]] = {}  # result -> mask, value where set, value elsewhere
        self.guarded: set[int] = set()

    def run(self) -> Guarded:
        discrete = self._discrete_lines()
        out = []
        for number, line in enumerate(self.lines):
            new = [line]
            if found := _CAST.match(line):
                self._name(found.group(1), int(found.group(2)), found.group(4))
            elif (found := _SUBVIEW.match(line)) and found.group(2) in self.roots:
                self._name(found.group(1), self.roots[found.group(2)], found.group(3))
            elif found := _TO_TENSOR.match(line):
                self.sources[found.group(1)] = self.copied.get(found.group(2), "")
            elif found := _SELECT.match(line):
                self.selects[found.group(1)] = (found.group(2), found.group(3), found.group(4))
            elif found := _LOAD.match(line):
                new = self._load(line, *found.groups())
            elif found := _COPY.match(line):
                indent, source, target, source_type, target_type = found.groups()
                self.copied[target] = source
                if source in self.roots and (number in discrete or self._selected(number, target)):
                    new = self._copy(line, indent, source, target, source_type, target_type)
            elif found := _STORE.match(line):
                if self._keeps_old_lanes(found.group(2), found.group(3)):
                    new = self._store(*found.groups())
                self.sources.clear()  # what was read before this is no longer what is there
            elif "GenericAtomic" in line or "memref.store" in line:
                self.sources.clear()
            out += new
        arguments = sorted(self.guarded)
        text = "\n".join(out) + "\n"
        if arguments:
            bounds = "".join(f", %low{number}: index, %high{number}: index" for number in arguments)
            text = re.sub(r"(func\.func @\w+\(%arg0.*?)(\) attributes \{)", rf"\g<1>{bounds}\g<2>", text, count=1)
        return Guarded(text, tuple(number - 2 for number in arguments))

    def _name(self, view: str, root: int, view_type: str) -> None:
        self.roots[view], self.types[view] = root, view_type
        # Whatever was copied from the view that had this name before was not copied from this one.
        self.copied = {buffer: source for buffer, source in self.copied.items() if source != view}
        self.sources = {tensor: source for tensor, source in self.sources.items() if source != view}

    def _selected(self, copy: int, buffer: str) -> bool:
        """Whether the tensor read from a buffer after this copy is one side of a select."""
        tensor = ""
        for line in self.lines[copy + 1 :]:
            if not tensor and (found := _TO_TENSOR.match(line)) and found.group(2) == buffer:
                tensor = found.group(1)
            elif (found := _SELECT.match(line)) and tensor in found.groups()[2:4]:
                return True
            elif tensor and line.strip().startswith((f"{tensor} = ", f"{buffer} = ")):
                return False
        return False

    def _discrete_lines(self) -> set[int]:
        """Numbers of the lines inside loops over single lanes or rows."""
        inside: set[int] = set()
        opened: list[int] = []
        for number, line in enumerate(self.lines):
            stripped = line.strip()
            if stripped.startswith("}"):
                start = opened.pop() if opened else 0
                if _LOOP_END.match(line):
                    inside.update(range(start, number))
            if stripped.endswith("{"):
                opened.append(number)
        return inside

    def _keeps_old_lanes(self, value: str, target: str) -> bool:
        select = self.selects.get(value)
        return select is not None and target in self.roots and self.sources.get(select[2]) == target

    def _bounds(self, view: str) -> tuple[int, str, str]:
        number = self.roots[view]
        self.guarded.add(number)
        return number, f"%low{number}", f"%high{number}"

    def _load(self, line: str, indent: str, result: str, view: str, element: str) -> list[str]:
        if view not in self.roots or "offset: ?" not in self.types[view]:
            return [line]
        _, low, high = self._bounds(view)
        p = f"%guard{next(self.numbers)}_"
        load = line.strip().replace(f"{result} = ", f"{p}value = ", 1)
        body = [
            f"{p}base, {p}offset, {p}size, {p}stride = memref.extract_strided_metadata {view} : {self.types[view]} "
            f"-> memref<{element}>, index, index, index",
            *_inside(p, f"{p}offset", f"{p}offset", low, high),
            f"{result} = scf.if {p}inside -> ({element}) {{",
            f"  {load}",
            f"  scf.yield {p}value : {element}",
            "} else {",
            f"  {p}none = arith.constant {_zero(element)} : {element}",
            f"  scf.yield {p}none : {element}",
            "}",
        ]
        return [indent + part for part in body]

    def _copy(self, line: str, indent: str, source: str, target: str, source_type: str, target_type: str) -> list[str]:
        """Copy whole if all of the source is inside its storage, else element by element."""
        number, low, high = self._bounds(source)
        p = f"%guard{next(self.numbers)}_"
        element, rank = element_and_rank(source_type)
        body = [
            *extent(p, source, source_type),
            *_inside(p, f"{p}first", f"{p}last", low, high),
            f"scf.if {p}inside {{",
            f"  {line.strip()}",
            "} else {",
        ]
        place = f"{p}offset"
        inner: list[str] = []
        for i in range(rank):
            inner += [
                f"scf.for {p}i{i} = {p}c0 to {p}size{i} step {p}c1 {{",
                f"  {p}step{i} = arith.muli {p}i{i}, {p}stride{i} : index",
                f"  {p}place{i} = arith.addi {place}, {p}step{i} : index",
            ]
            place = f"{p}place{i}"
        q = f"{p}lane_"
        indices = ", ".join(f"{p}i{i}" for i in range(rank))
        inner += [
            *_inside(q, place, place, low, high),
            f"{q}value = scf.if {q}inside -> ({element}) {{",
            f"  {q}read = memref.load %arg{number}[{place}] : memref<?x{element}>",
            f"  scf.yield {q}read : {element}",
            "} else {",
            f"  {q}none = arith.constant {_zero(element)} : {element}",
            f"  scf.yield {q}none : {element}",
            "}",
            f"memref.store {q}value, {target}[{indices}] : {target_type}",
            *["}"] * rank,
            "}",
        ]
        return [indent + part for part in body + inner]

    def _store(self, indent: str, value: str, target: str, tensor: str, target_type: str) -> list[str]:
        """Write the lanes that the mask of the select names."""
        mask, new, _ = self.selects[value]
        p = f"%guard{next(self.numbers)}_"
        *extents, _ = tensor.removeprefix("tensor<").rstrip(">").split("x")
        indices = ", ".join(f"{p}i{i}" for i in range(len(extents)))
        body = [f"{p}c0 = arith.constant 0 : index", f"{p}c1 = arith.constant 1 : index"]
        for i, size in enumerate(extents):
            body += [
                f"{p}n{i} = arith.constant {size} : index",
                f"scf.for {p}i{i} = {p}c0 to {p}n{i} step {p}c1 {{",
            ]
        body += [
            f"{p}on = tensor.extract {mask}[{indices}] : tensor<{'x'.join(extents)}xi1>",
            f"scf.if {p}on {{",
            f"  {p}new = tensor.extract {new}[{indices}] : {tensor}",
            f"  memref.store {p}new, {target}[{indices}] : {target_type}",
            "}",
            *["}"] * len(extents),
        ]
        return [indent + part for part in body]


def _inside(prefix: str, first: str, last: str, low: str, high: str) -> list[str]:
    return [
        f"{prefix}above = arith.cmpi sge, {first}, {low} : index",
        f"{prefix}below = arith.cmpi slt, {last}, {high} : index",
        f"{prefix}inside = arith.andi {prefix}above, {prefix}below : i1",
    ]


def _zero(element: str) -> str:
    if element == "i1":
        return "false"
    return "0.0" if element.startswith(("f", "bf")) else "0"
