"""Bodies for the private functions that triton-ascend leaves in its Linalg IR: gather, sort, cumsum, cumprod, flip.

On the device these are templates; here each call is replaced by loops or a `linalg.generic` over the same tensors. It
is done after elementwise fusion: before it, the arithmetic that computes a gather's indices would be fused into the
gather and repeated for every tile.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

_CALL = re.compile(
    r"^( *)(%[\w#]+) = (?:func\.)?call @triton_(gather|sort|cumsum|cumprod|flip)(?:_\d+)?\(([^)]*)\) : "
    r"\(([^)]*)\) -> (tensor<[^>]*>)$",
    re.MULTILINE,
)
_DECLARATION = re.compile(
    r"^ *func\.func private @triton_(?:gather|sort|cumsum|cumprod|flip)(?:_\d+)?\(.*\n", re.MULTILINE
)


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    element: str

    @classmethod
    def parse(cls, text: str) -> _Tensor:
        *extents, element = text.removeprefix("tensor<").removesuffix(">").split("x")
        return cls(tuple(int(extent) for extent in extents), element)

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.element])}>"

    @property
    def is_float(self) -> bool:
        return self.element.startswith(("f", "bf"))


def expand(text: str) -> str:
    """Replace every call of a private helper by its body. Names the helper in a ValueError if the form is unknown."""
    if "@triton_" not in text:
        return text
    constants = dict(re.findall(r"(%[\w-]+) = arith\.constant (-?\d+|true|false)(?: : \w+)?$", text, re.MULTILINE))
    counter = itertools.count()

    def body(match: re.Match[str]) -> str:
        indent, result, kind, operands, _types, returned = match.groups()
        names = [name.strip() for name in operands.split(",")]
        types = re.findall(r"tensor<[^>]*>|\w+", match.group(5))
        prefix = f"%special{next(counter)}_"
        source = _Tensor.parse(types[0])
        if kind == "gather":
            axis = _constant(constants, names[2], kind)
            lines = _gather(prefix, result, names, source, _Tensor.parse(types[1]), _Tensor.parse(returned), axis)
        else:
            axis = _constant(constants, names[1], kind) % len(source.shape)
            loops = _Loops(prefix, source, axis)
            if kind == "sort":
                lines = loops.sort(result, names[0], names[2])
            elif kind == "flip":
                lines = loops.flip(result, names[0])
            else:
                lines = loops.scan(result, names[0], kind, _constant(constants, names[2], kind) == 1)
        return "\n".join(indent + line for line in lines)

    return _DECLARATION.sub("", _CALL.sub(body, text))


def _constant(constants: dict[str, str], name: str, kind: str) -> int:
    if name not in constants:
        raise ValueError(f"tl.{kind} with an axis or direction that is not constant")
    value = constants[name]
    return {"true": 1, "false": 0}[value] if value in ("true", "false") else int(value)


def _gather(
    prefix: str, result: str, names: list[str], source: _Tensor, index: _Tensor, returned: _Tensor, axis: int
) -> list[str]:
    dims = ", ".join(f"d{i}" for i in range(len(index.shape)))
    identity = f"affine_map<({dims}) -> ({dims})>"
    positions = [f"{prefix}p{i}" for i in range(len(index.shape))]
    parallel = ", ".join(['"parallel"'] * len(index.shape))
    # An index outside the source is undefined on the device; here it must at least stay inside the buffer.
    last = source.shape[axis] - 1
    lines = [
        f"{prefix}empty = tensor.empty() : {returned}",
        f"{prefix}last = arith.constant {last} : {index.element}",
        f"{result} = linalg.generic {{indexing_maps = [{identity}, {identity}], "
        f"iterator_types = [{parallel}]}} "
        f"ins({names[1]} : {index}) outs({prefix}empty : {returned}) {{",
        f"^bb0({prefix}i: {index.element}, {prefix}o: {returned.element}):",
    ]
    lines += [f"  {p} = linalg.index {i} : index" for i, p in enumerate(positions) if i != axis]
    lines += [
        f"  {prefix}in = arith.minui {prefix}i, {prefix}last : {index.element}",
        f"  {positions[axis]} = arith.index_castui {prefix}in : {index.element} to index",
        f"  {prefix}v = tensor.extract {names[0]}[{', '.join(positions)}] : {source}",
        f"  linalg.yield {prefix}v : {returned.element}",
        f"}} -> {returned}",
    ]
    return lines


class _Loops:
    """Loops over all positions of a tensor but one axis, carrying a result tensor along."""

    def __init__(self, prefix: str, tensor: _Tensor, axis: int) -> None:
        self.prefix = prefix
        self.tensor = tensor
        self.axis = axis
        self.extent = tensor.shape[axis]
        self.outer = [i for i in range(len(tensor.shape)) if i != axis]

    def at(self, position: str) -> str:
        """Index list with `position` along the axis."""
        return ", ".join(position if i == self.axis else f"{self.prefix}d{i}" for i in range(len(self.tensor.shape)))

    def nest(self, result: str, start: str, inner: list[str]) -> list[str]:
        """The outer loops around `inner`, which turns the tensor `{prefix}in` into `{prefix}out`."""
        p, t = self.prefix, self.tensor
        head = [f"{p}c0 = arith.constant 0 : index", f"{p}c1 = arith.constant 1 : index"]
        head += [f"{p}n{i} = arith.constant {extent} : index" for i, extent in enumerate(t.shape)]
        carried = start
        lines: list[str] = []
        for depth, i in enumerate(self.outer):
            name = result if depth == 0 else f"{p}r{depth}"
            lines.append(
                f"{'  ' * depth}{name} = scf.for {p}d{i} = {p}c0 to {p}n{i} step {p}c1 "
                f"iter_args({p}t{depth} = {carried}) -> ({t}) {{"
            )
            carried = f"{p}t{depth}"
        depth = len(self.outer)
        last = result if depth == 0 else f"{p}last"
        lines += ["  " * depth + line.replace("{in}", carried).replace("{out}", last) for line in inner]
        for depth in reversed(range(len(self.outer))):
            yielded = last if depth == len(self.outer) - 1 else f"{p}r{depth + 1}"
            lines += [f"{'  ' * depth}  scf.yield {yielded} : {t}", f"{'  ' * depth}}}"]
        return head + lines

    def scan(self, result: str, source: str, kind: str, reverse: bool) -> list[str]:
        p, t, element = self.prefix, self.tensor, self.tensor.element
        identity = {"cumsum": "0", "cumprod": "1"}[kind] + (".0" if t.is_float else "")
        combine = {"cumsum": "add", "cumprod": "mul"}[kind] + ("f" if t.is_float else "i")
        position = f"arith.subi {p}end, {p}j" if reverse else f"arith.addi {p}j, {p}c0"
        inner = [
            f"{p}f:2 = scf.for {p}j = {p}c0 to {p}n{self.axis} step {p}c1 "
            f"iter_args({p}acc = {p}id, {p}w = {{in}}) -> ({element}, {t}) {{",
            f"  {p}k = {position} : index",
            f"  {p}v = tensor.extract {source}[{self.at(f'{p}k')}] : {t}",
            f"  {p}s = arith.{combine} {p}acc, {p}v : {element}",
            f"  {p}u = tensor.insert {p}s into {p}w[{self.at(f'{p}k')}] : {t}",
            f"  scf.yield {p}s, {p}u : {element}, {t}",
            "}",
            f"{{out}} = tensor.cast {p}f#1 : {t} to {t}",
        ]
        return [
            f"{p}e = tensor.empty() : {t}",
            f"{p}id = arith.constant {identity} : {element}",
            f"{p}end = arith.constant {self.extent - 1} : index",
            *self.nest(result, f"{p}e", inner),
        ]

    def flip(self, result: str, source: str) -> list[str]:
        p, t = self.prefix, self.tensor
        inner = [
            f"{{out}} = scf.for {p}j = {p}c0 to {p}n{self.axis} step {p}c1 iter_args({p}w = {{in}}) -> ({t}) {{",
            f"  {p}k = arith.subi {p}end, {p}j : index",
            f"  {p}v = tensor.extract {source}[{self.at(f'{p}k')}] : {t}",
            f"  {p}u = tensor.insert {p}v into {p}w[{self.at(f'{p}j')}] : {t}",
            f"  scf.yield {p}u : {t}",
            "}",
        ]
        return [
            f"{p}e = tensor.empty() : {t}",
            f"{p}end = arith.constant {self.extent - 1} : index",
            *self.nest(result, f"{p}e", inner),
        ]

    def sort(self, result: str, source: str, descending: str) -> list[str]:
        """Insertion by compare and swap: quadratic, and enough for tiles. A NaN counts as larger than any number."""
        p, t, element = self.prefix, self.tensor, self.tensor.element
        inner = [
            f"{{out}} = scf.for {p}i = {p}c1 to {p}n{self.axis} step {p}c1 iter_args({p}w = {{in}}) -> ({t}) {{",
            f"  {p}q = scf.for {p}j = {p}c0 to {p}i step {p}c1 iter_args({p}z = {p}w) -> ({t}) {{",
            f"    {p}x = tensor.extract {p}z[{self.at(f'{p}j')}] : {t}",
            f"    {p}y = tensor.extract {p}z[{self.at(f'{p}i')}] : {t}",
            *(f"    {line}" for line in self._less("up", "y", "x") + self._less("down", "x", "y")),
            f"    {p}swap = arith.select {descending}, {p}down, {p}up : i1",
            f"    {p}lo = arith.select {p}swap, {p}y, {p}x : {element}",
            f"    {p}hi = arith.select {p}swap, {p}x, {p}y : {element}",
            f"    {p}z1 = tensor.insert {p}lo into {p}z[{self.at(f'{p}j')}] : {t}",
            f"    {p}z2 = tensor.insert {p}hi into {p}z1[{self.at(f'{p}i')}] : {t}",
            f"    scf.yield {p}z2 : {t}",
            "  }",
            f"  scf.yield {p}q : {t}",
            "}",
        ]
        return self.nest(result, source, inner)

    def _less(self, name: str, a: str, b: str) -> list[str]:
        p, element = self.prefix, self.tensor.element
        if not self.tensor.is_float:
            return [f"{p}{name} = arith.cmpi slt, {p}{a}, {p}{b} : {element}"]
        return [
            f"{p}{name}0 = arith.cmpf olt, {p}{a}, {p}{b} : {element}",
            f"{p}{name}1 = arith.cmpf ord, {p}{a}, {p}{a} : {element}",
            f"{p}{name}2 = arith.cmpf uno, {p}{b}, {p}{b} : {element}",
            f"{p}{name}3 = arith.andi {p}{name}1, {p}{name}2 : i1",
            f"{p}{name} = arith.ori {p}{name}0, {p}{name}3 : i1",
        ]
