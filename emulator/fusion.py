"""Fuses elementwise operations that share inputs or results, and lets loops update their tiles in place.

MLIR's own pass fuses a producer into its only consumer. Here neighbours of one block that run over the same index space
become one `linalg.generic` with several results, constants become scalars, and a result that a loop carries to its next
turn is written over the tile it replaces. Values do not change: every operation of every lane stays as it is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_GENERIC = re.compile(
    r"^ *(%[\w]+)(?::(\d+))? = linalg\.generic \{indexing_maps = \[([^\]]*)\], iterator_types = \[([^\]]*)\]\} "
    r"(?:ins\(([^)]*)\) )?outs\(([^)]*)\) (?:attrs = .*)?\{$"
)
_LOOP = re.compile(r"^ *(?:%[\w]+(?::\d+)? = )?scf\.for .* iter_args\(([^)]*)\) -> \(([^)]*)\)")
_BRANCH = re.compile(r"^ *(%[\w]+)(?::\d+)? = scf\.if ")
_PURE = re.compile(
    r"^ *%[\w#:, ]+ = (?:arith|math|index)\.|^ *%[\w#:, ]+ = (?:tensor\.(?:empty|extract|cast|dim)|"
    r"memref\.(?:reinterpret_cast|subview|cast|dim|alloc)|affine\.\w+)\b"
)
_NAME = re.compile(r"%[A-Za-z_]?[\w]*(?:#\d+)?")
_TENSOR = re.compile(r"tensor<(?:\d+x)+\w+>$")


@dataclass
class _Region:
    """A line that opens a region, the lines and operations inside, and the line that closes it."""

    head: str
    items: list[_Item] = field(default_factory=list)
    tail: str = ""


@dataclass
class _Generic:
    results: list[str]
    maps: list[str]  # of inputs, then outputs
    iterators: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    arguments: list[str]
    body: list[str]
    yields: list[str]
    text: list[str]
    types: list[str] = field(default_factory=list)


_Item = str | _Region | _Generic


def apply(text: str) -> str:
    """Fuse a module after MLIR's own fusion and before bufferisation."""
    lines = iter(text.splitlines())
    maps = dict(re.findall(r"^(#\w+) = (affine_map<.*>)$", text, re.MULTILINE))
    top = _Region("")
    _parse(lines, top, maps)
    _Fuser().block(top.items, {}, {})
    return "\n".join(_print(top.items)) + "\n"


def _parse(lines: Iterator[str], into: _Region, maps: dict[str, str]) -> str | None:
    """Read a region's items; returns the line that closes it."""
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("}"):
            return line
        if not stripped.endswith("{"):
            into.items.append(line)
            continue
        if found := _GENERIC.match(line):
            into.items.append(_generic(line, found, lines, maps))
            continue
        head: str | None = line
        while head is not None and head.strip().endswith("{"):
            region = _Region(head)
            head = _parse(lines, region, maps)
            if head is not None and head.strip().endswith("{"):  # } else {
                into.items.append(region)
            else:
                region.tail = head or ""
                into.items.append(region)
    return None


def _generic(line: str, found: re.Match[str], lines: Iterator[str], maps: dict[str, str]) -> _Item:
    text = [line]
    depth = 1
    for inner in lines:
        text.append(inner)
        depth += inner.count("{") - inner.count("}")
        if depth == 0:
            break
    name, count, map_names, iterators, inputs, outputs = found.groups()
    results = [name] if count is None else [f"{name}#{i}" for i in range(int(count))]
    resolved = [maps.get(part.strip(), part.strip()) for part in re.split(r",\s*(?=#|affine)", map_names)]
    block = text[1].strip()
    body, last = [part.strip() for part in text[2:-2]], text[-2].strip()
    made = _Generic(
        results,
        resolved,
        iterators,
        _operands(inputs or ""),
        _operands(outputs),
        [part.split(":")[0].strip() for part in block[block.index("(") + 1 : block.rindex(")")].split(", ")],
        body,
        [part.strip() for part in last.removeprefix("linalg.yield ").split(" : ")[0].split(",")],
        text,
        [kind for _, kind in _operands(outputs)],
    )
    simple = last.startswith("linalg.yield ") and not any("{" in part for part in body)
    return made if simple else _opaque(text)


def _opaque(text: list[str]) -> _Region:
    return _Region(text[0], list(text[1:-1]), text[-1])


def _operands(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    names, kinds = text.split(" : ", 1)
    types = re.findall(r"(?:tensor|memref|vector)<[^<>]*(?:<[^<>]*>[^<>]*)*>|[\w]+", kinds)
    return list(zip([name.strip() for name in names.split(",")], types, strict=True))


def _identity(rank: int) -> str:
    dims = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({dims}) -> ({dims})>"


def _print(items: list[_Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str):
            yield item
        elif isinstance(item, _Generic):
            yield from item.text
        else:
            yield item.head
            yield from _print(item.items)
            if item.tail:
                yield item.tail


def _mentions(items: list[_Item]) -> set[str]:
    """Every name in these items, results of operations with several of them also by their common name."""
    found: set[str] = set()
    for line in _print(items):
        found.update(_NAME.findall(line))
    return found


class _Fuser:
    def __init__(self) -> None:
        self.numbers = itertools.count()

    def block(self, items: list[_Item], splats: dict[str, str], carried: dict[str, str]) -> None:
        """Fuse the items of one block in place. `carried` maps what the block yields to the tile it will replace."""
        splats = dict(splats)
        branches: set[str] = set()  # results of branches: which buffer they are in is known at run time only
        done: list[_Item] = []
        group = _Group(self)
        for position, item in enumerate(items):
            rest = items[position:]
            if isinstance(item, _Generic) and (scalar := _splat(item)):
                splats[item.results[0]] = splats.get(scalar, scalar)
                done.append(item)
                continue
            if isinstance(item, _Generic) and (domain := _domain(item)):
                if not group.accepts(item, domain):
                    done += group.emit(rest, carried, branches)
                    group = _Group(self)
                group.add(item, domain, splats)
                continue
            names = _mentions([item])
            if group.members and (not _is_pure(item) or group.produces(names)):
                done += group.emit(rest, carried, branches)
                group = _Group(self)
            if isinstance(item, _Region):
                if found := _BRANCH.match(item.head):
                    branches.add(found.group(1))
                self.block(item.items, splats, _carried(item))
            done.append(item)
        done += group.emit([], carried, branches)
        items[:] = done


def _is_pure(item: _Item) -> bool:
    return isinstance(item, str) and (_PURE.match(item) is not None or not item.strip())


def _splat(item: _Generic) -> str | None:
    """The scalar that fills the result of this operation, if it does nothing else."""
    if item.body or len(item.results) != 1 or "reduction" in item.iterators or not _TENSOR.match(item.types[0]):
        return None
    value = item.yields[0]
    if value in item.arguments:
        place = item.arguments.index(value)
        if place >= len(item.inputs) or item.inputs[place][1].startswith("tensor"):
            return None
        return item.inputs[place][0]
    return value


def _domain(item: _Generic) -> str | None:
    """Shape of the index space, for an operation that can be fused."""
    if "reduction" in item.iterators or not all(_TENSOR.match(kind) for kind in item.types):
        return None
    shapes = {kind.removeprefix("tensor<").rsplit("x", 1)[0] for kind in item.types}
    rank = item.iterators.count("parallel")
    outputs = item.maps[len(item.inputs) :]
    unread = item.arguments[len(item.inputs) :]
    used = {name for line in [*item.body, *item.yields] for name in _NAME.findall(line)}
    if len(shapes) != 1 or any(part != _identity(rank) for part in outputs) or used & set(unread):
        return None
    return shapes.pop()


def _carried(region: _Region) -> dict[str, str]:
    """What a loop yields -> the loop argument that it becomes."""
    found = _LOOP.match(region.head)
    last = region.items[-1] if region.items else ""
    if found is None or not isinstance(last, str) or not last.strip().startswith("scf.yield "):
        return {}
    arguments = [part.split("=")[0].strip() for part in found.group(1).split(",")]
    kinds = [part.strip() for part in re.split(r",\s*(?![^<]*>)", found.group(2))]
    yielded = [part.strip() for part in last.strip().removeprefix("scf.yield ").split(" : ")[0].split(",")]
    places: dict[str, str] = {}
    for argument, kind, value in zip(arguments, kinds, yielded, strict=True):
        if _TENSOR.match(kind):
            places.setdefault(value, argument)
    return places


class _Group:
    """Operations of one index space that become one."""

    def __init__(self, fuser: _Fuser) -> None:
        self.fuser = fuser
        self.members: list[_Generic] = []
        self.domain = ""
        self.rank = 0
        self.values: dict[str, str] = {}  # result -> the value inside the fused body
        self.kinds: dict[str, str] = {}
        self.inputs: dict[tuple[str, str], tuple[str, str]] = {}  # (operand, map) -> (type, name inside)
        self.body: list[str] = []

    def produces(self, names: set[str]) -> bool:
        return bool(names & set(self.values)) or bool(names & {name.split("#")[0] for name in self.values})

    def accepts(self, item: _Generic, domain: str) -> bool:
        if not self.members:
            return True
        identity = _identity(item.iterators.count("parallel"))
        inside = {name for line in item.body for name in _NAME.findall(line)}
        return (
            domain == self.domain
            and not self.produces(inside)  # a tensor.extract from a result of the group
            and all(
                kind_map == identity or name not in self.values
                for (name, _), kind_map in zip(item.inputs, item.maps, strict=False)
            )
        )

    def add(self, item: _Generic, domain: str, splats: dict[str, str]) -> None:
        self.members.append(item)
        self.domain, self.rank = domain, item.iterators.count("parallel")
        number = next(self.fuser.numbers)
        renamed: dict[str, str] = {}
        for (name, kind), argument, kind_map in zip(item.inputs, item.arguments, item.maps, strict=False):
            if name in self.values:
                renamed[argument] = self.values[name]
            elif name in splats:
                renamed[argument] = splats[name]
            elif not kind.startswith("tensor"):
                renamed[argument] = name  # a scalar operand
            else:
                _, renamed[argument] = self.inputs.setdefault(
                    (name, kind_map), (kind, f"%fused{number}_in{len(self.inputs)}")
                )
        for line in item.body:
            result = line.split(" = ")[0]
            renamed[result] = f"%fused{number}_{result[1:]}"
            self.body.append(_NAME.sub(lambda match: renamed.get(match.group(0), match.group(0)), line))
        for result, value, kind in zip(item.results, item.yields, item.types, strict=True):
            self.values[result] = renamed.get(value, value)
            self.kinds[result] = kind

    def emit(self, rest: list[_Item], carried: dict[str, str], branches: set[str]) -> list[_Item]:
        """The fused operation, with the results that anything after it mentions."""
        if not self.members:
            return []
        if len(self.members) == 1 and len(self.members[0].results) > 1:
            return [self.members[0]]
        later = _mentions(rest)
        kept = [name for name in self.values if name in later]
        if not kept:
            return []
        if any(name.split("#")[0] in branches for name, _ in self.inputs):
            # Such an input may be the very tile that would be replaced, and LLVM's test for overlap would then choose
            # the scalar loop.
            carried = {}
        identity = _identity(self.rank)
        number = next(self.fuser.numbers)
        lines: list[str] = []
        outputs = []
        for place, name in enumerate(kept):
            target = carried.get(name)
            if target is None or target in later - {name}:
                target = f"%fused{number}_empty{place}"
                lines.append(f"{target} = tensor.empty() : {self.kinds[name]}")
            outputs.append(target)
        inputs = [(operand, kind, inner, kind_map) for (operand, kind_map), (kind, inner) in self.inputs.items()]
        maps = ", ".join([*(kind_map for *_, kind_map in inputs), *[identity] * len(kept)])
        parallel = ", ".join(['"parallel"'] * self.rank)
        kinds = [self.kinds[name] for name in kept]
        ins = ""
        if inputs:
            ins = f"ins({', '.join(i[0] for i in inputs)} : {', '.join(i[1] for i in inputs)}) "
        arguments = [f"{inner}: {_element(kind)}" for _, kind, inner, _ in inputs]
        arguments += [f"%fused{number}_out{place}: {_element(kind)}" for place, kind in enumerate(kinds)]
        result = kept[0] if len(kept) == 1 else f"%fused{number}"
        left = result if len(kept) == 1 else f"{result}:{len(kept)}"
        lines += [
            f"{left} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{parallel}]}} "
            f"{ins}outs({', '.join(outputs)} : {', '.join(kinds)}) {{",
            f"^bb0({', '.join(arguments)}):",
            *self.body,
            f"linalg.yield {', '.join(self.values[name] for name in kept)} : {', '.join(map(_element, kinds))}",
            f"}} -> {kinds[0]}" if len(kept) == 1 else f"}} -> ({', '.join(kinds)})",
        ]
        if len(kept) > 1:
            # The names that the rest of the text uses: casts to the same type, which the next pass folds.
            lines += [f"{name} = tensor.cast {result}#{i} : {kinds[i]} to {kinds[i]}" for i, name in enumerate(kept)]
        return list(lines)


def _element(kind: str) -> str:
    return kind.rstrip(">").rsplit("x", 1)[1]
