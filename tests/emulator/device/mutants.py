"""Final HIVM modules with one thing broken, as a faulty back end would break it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A broken module. `harmless` says why the break cannot change anything, if it cannot."""

    kind: str
    line: int
    text: str
    harmless: str = ""


@dataclass(frozen=True)
class Memory:
    """An operand of a call that is memory: the pointer_casts (their lines) it may stand for, and its subview's line."""

    buffers: frozenset[int]
    subview: int | None


@dataclass(frozen=True)
class Call:
    """A call of a template."""

    line: int
    name: str
    values: tuple[str, ...]
    memory: tuple[Memory, ...]

    def roles(self) -> tuple[tuple[Memory, ...], tuple[Memory, ...]]:
        """Operands the template reads, and those it writes (result and scratch, which it orders itself)."""
        read = next((count for pattern, count in _READS if re.match(pattern, self.name)), None)
        return (self.memory, self.memory) if read is None else (self.memory[:read], self.memory[read:])


class Source:
    """A module as lines, with its calls and buffers.

    `executed` has the lines (from 0) of calls, flags and barriers that the test's data reach: breaking others shows
    nothing about the checks.
    """

    def __init__(self, text: str, executed: frozenset[int] | None = None) -> None:
        self.lines = text.split("\n")
        self.executed = frozenset(range(len(self.lines))) if executed is None else executed
        self.address: dict[int, int] = {}  # line of a pointer_cast -> address
        self.size: dict[int, int] = {}
        self.calls: list[Call] = []
        # Names are unique in their block only, so operands are looked up while reading.
        constants: dict[str, int] = {}
        known: dict[str, Memory] = {}
        nothing = Memory(frozenset(), None)
        for at, line in enumerate(self.lines):
            code = line.strip()
            if found := re.match(r"(%\w+) = arith\.constant (-?\d+) : i64", code):
                constants[found[1]] = int(found[2])
            elif found := re.match(r"(%\w+) = hivm\.hir\.pointer_cast\((%\w+)\).* : memref<([^,>]+)", code):
                known[found[1]] = Memory(frozenset({at}), None)
                self.address[at] = constants[found[2]]
                self.size[at] = _bytes(found[3])
            elif found := re.match(r"(%\w+) = arith\.select %\w+, (%\w+), (%\w+) : memref", code):
                pair = [known.get(value, nothing).buffers for value in found.groups()[1:]]
                known[found[1]] = Memory(pair[0] | pair[1] if all(pair) else frozenset(), None)
            elif found := re.match(r"(%\w+) = (memref\.\w+|hivm\.hir\.bitcast) (%[\w#]+)", code):
                source = known.get(found[3], nothing)
                cut = found[2] == "memref.subview" and re.search(r"\] \[%\w+", code)
                known[found[1]] = Memory(source.buffers, at if cut else source.subview)
            elif found := re.search(r"call @(\w+)\((.*?)\) : \((.*)\) -> ", code):
                values = tuple(value.strip() for value in found[2].split(","))
                plain = re.sub(r"memref<.*?(?:<[^<>]*>[^<>]*)*>(?=, |$)", "memref", found[3])
                kinds = plain.split(", ")
                memory = [
                    known.get(value, nothing) for value, kind in zip(values, kinds, strict=True) if kind == "memref"
                ]
                if at in self.executed:
                    self.calls.append(Call(at, found[1], values, tuple(memory)))

    def synchronisation(self, text: str) -> Iterator[tuple[int, str]]:
        """Executed lines with this text in them."""
        return ((at, line) for at, line in enumerate(self.lines) if text in line and at in self.executed)

    def used(self) -> list[int]:
        """Buffers that executed calls read or give results in; scratch that a template may leave alone is not among."""
        found: dict[int, None] = {}
        for call in self.calls:
            reads, writes = call.roles()
            for one in (*reads, *writes[:1]):
                found.update(dict.fromkeys(sorted(one.buffers)))
        return list(found)

    def addresses(self, operands: Iterable[Memory]) -> frozenset[int]:
        """Addresses of some operands; all there are if one of them is the result of a loop or branch."""
        found: set[int] = set()
        for operand in operands:
            found |= {self.address[buffer] for buffer in operand.buffers or self.address}
        return frozenset(found)

    def without(self, *lines: int) -> str:
        return "\n".join(line for at, line in enumerate(self.lines) if at not in lines)

    def replaced(self, at: int, *lines: str) -> str:
        return "\n".join([*self.lines[:at], *lines, *self.lines[at + 1 :]])

    def moved(self, buffer: int, to: int) -> str:
        """A buffer put at another address."""
        line = re.sub(r"pointer_cast\(%\w+\)", "pointer_cast(%mutant)", self.lines[buffer])
        return self.replaced(buffer, f"    %mutant = arith.constant {to} : i64", line)


# How many of its buffers a template reads; the rest it writes.
_READS = (
    (r"vsel_vv_", 3),
    (r"vsel_(vs|sv)_", 2),
    (r"vsel_ss_|vcmps|vcast_|vabs_|vnot_|v\w+_(vs|sv)_|broadcast_last|broadcast_first|transpose", 1),
    (r"broadcast_scalar|arange", 0),
    (r"v|gather", 2),
)


def _bytes(shape: str) -> int:
    *extents, element = shape.split("x")
    total = int(re.sub(r"\D", "", element))
    for extent in extents:
        total *= int(extent)
    return -(-total // 8)


def barrier(source: Source) -> Iterator[Mutant]:
    """A dropped barrier of the vector pipe."""
    for at, _ in source.synchronisation("pipe_barrier[<PIPE_V>]"):
        yield Mutant("dropped barrier", at + 1, source.without(at), _orders_nothing(source, at))


def _orders_nothing(source: Source, at: int) -> str:
    """Why a barrier is redundant, if it is: nothing written before it is read before the next one.

    A barrier is needed between a vector write and a vector read of the same bytes; the pipe itself keeps the rest in
    order (SEMANTICS.md). At the end of a block, everything that the module's vector calls touch counts.
    """
    calls = {call.line: call.roles() for call in source.calls if call.name[:4] not in _DMA}
    everywhere = [source.addresses(one for roles in calls.values() for one in roles[role]) for role in (0, 1)]

    def side(step: int, role: int) -> frozenset[int]:
        found: frozenset[int] = frozenset()
        position = at + step
        while "pipe_barrier[<PIPE_V>]" not in (line := source.lines[position]):
            if re.search(r"[{}]\s*$|\} \{|scf\.|return", line):
                return everywhere[role]
            if position in calls:
                found |= source.addresses(calls[position][role])
            position += step
        return found

    if side(-1, 1) & side(1, 0):
        return ""
    return "nothing written before it is read after it"


_DMA = ("load", "stor")


def flag_pair(source: Source) -> Iterator[Mutant]:
    """A set_flag and the wait for it, both dropped."""
    for at, line in source.synchronisation("set_flag["):
        if found := re.search(r"set_flag\[(<\w+>, <\w+>, <\w+>)\]", line):
            indent = len(line) - len(line.lstrip())
            for later in range(at + 1, len(source.lines)):
                other = source.lines[later]
                if other.strip() and len(other) - len(other.lstrip()) < indent:
                    break
                if f"wait_flag[{found[1]}]" in other:
                    yield Mutant("dropped flag pair", at + 1, source.without(at, later))
                    break


def direction(source: Source) -> Iterator[Mutant]:
    """Every flag from one pipe to another dropped."""
    for pair in sorted(set(re.findall(r"set_flag\[(<\w+>, <\w+>)", "\n".join(source.lines)))):
        gone = [at for at, line in enumerate(source.lines) if f"_flag[{pair}" in line]
        if source.executed.isdisjoint(gone):
            continue
        yield Mutant(f"dropped all flags {pair}", gone[0] + 1, source.without(*gone))


def lone_set(source: Source) -> Iterator[Mutant]:
    """A set_flag dropped: somebody waits for ever."""
    for at, _ in source.synchronisation("set_flag["):
        yield Mutant("dropped set", at + 1, source.without(at))


def lone_wait(source: Source) -> Iterator[Mutant]:
    """A wait_flag dropped."""
    for at, _ in source.synchronisation("wait_flag["):
        yield Mutant("dropped wait", at + 1, source.without(at))


def late_wait(source: Source) -> Iterator[Mutant]:
    """A wait moved behind the call it protects: one that shares a buffer with the call before the matching set."""
    calls = {call.line: source.addresses(call.memory) for call in source.calls}
    for at, line in source.synchronisation("wait_flag["):
        found = re.search(r"wait_flag(\[.*\])", line)
        if not found:
            continue
        sets = [k for k in range(at) if f"set_flag{found[1]}" in source.lines[k]]
        before = [k for k in calls if sets and k < sets[-1]]
        for later in range(at + 1, min(at + 8, len(source.lines))):
            if re.search(r"[{}]\s*$", source.lines[later]):
                break
            if later in calls:
                if before and calls[before[-1]] & calls[later]:
                    rest = source.lines[at + 1 : later + 1]
                    text = "\n".join([*source.lines[:at], *rest, line, *source.lines[later + 1 :]])
                    yield Mutant("late wait", at + 1, text)
                break


def overlapping(source: Source) -> Iterator[Mutant]:
    """The result of a call put half over its first operand."""
    for call in source.calls:
        if not call.name.startswith(("vcast_", "vabs_", "vadd", "vsub", "vmul", "vdiv", "vmax_", "vmin_")):
            continue
        reads, writes = call.roles()
        if not reads[0].buffers or not writes[0].buffers:
            continue
        first, result = min(reads[0].buffers), min(writes[0].buffers)
        if source.address[result] != source.address[first]:
            shift = max(32, source.size[first] // 64 * 32)
            yield Mutant("overlapping buffers", call.line + 1, source.moved(result, source.address[first] + shift))


def unaligned(source: Source) -> Iterator[Mutant]:
    """A buffer put 8 bytes further."""
    for buffer in source.used():
        yield Mutant("unaligned buffer", buffer + 1, source.moved(buffer, source.address[buffer] + 8))


def beyond(source: Source) -> Iterator[Mutant]:
    """A buffer put over the end of the unified buffer."""
    for buffer in source.used():
        if source.size[buffer] > 32:
            yield Mutant("buffer beyond the end", buffer + 1, source.moved(buffer, 196_608 - 32))


def one_buffer(source: Source) -> Iterator[Mutant]:
    """Double buffering with one buffer."""
    loaded = {buffer for call in source.calls if call.name.startswith("load") for buffer in call.memory[-1].buffers}
    waits = any("<PIPE_V>, <PIPE_S>" in line for _, line in source.synchronisation("wait_flag["))
    for at, line in enumerate(source.lines):
        if found := re.match(r"(\s+%\w+ = arith\.select %\w+, )(%\w+), (%\w+)( : memref.*)$", line):
            pair = {k for k, other in enumerate(source.lines) if re.match(rf"\s+({found[2]}|{found[3]}) = hivm", other)}
            if pair.isdisjoint(source.used()):
                continue
            harmless = (
                "the scalar unit waits for the vector pipe before it loads again" if waits and pair & loaded else ""
            )
            broken = source.replaced(at, f"{found[1]}{found[2]}, {found[2]}{found[4]}")
            yield Mutant("one buffer for two", at + 1, broken, harmless)


def short_transfer(source: Source) -> Iterator[Mutant]:
    """A DMA of one element, or one row, less."""
    for call in source.calls:
        views = [one.subview for one in call.memory]
        if not call.name.startswith(("load_gm", "store_ubuf")) or len(views) < 2 or None in views[:2]:
            continue
        pair = [view for view in views[:2] if view is not None]
        sizes = {re.findall(r"\] \[(%\w+)", source.lines[view])[0] for view in pair}
        if len(sizes) != 1:
            continue
        (size,) = sizes
        lines = list(source.lines)
        for view in pair:
            lines[view] = lines[view].replace(f"] [{size}", "] [%short", 1)
        lines[min(pair) : min(pair)] = [
            "    %mutant = arith.constant 1 : index",
            f"    %short = arith.subi {size}, %mutant : index",
        ]
        yield Mutant("short DMA", call.line + 1, "\n".join(lines))


def shifted_address(source: Source) -> Iterator[Mutant]:
    """Global memory read or written one element further."""
    last = max(source.executed)
    for at, line in enumerate(source.lines):
        following = next((call.line for call in source.calls if call.line > at), last)
        if following - at > 12 or not any(following - 12 < call.line for call in source.calls):
            continue
        if found := re.search(r"reinterpret_cast %arg\d+ to offset: \[(%\w+)\]", line):
            yield Mutant(
                "shifted address",
                at + 1,
                source.replaced(
                    at,
                    "    %mutant = arith.constant 1 : index",
                    f"    %shifted = arith.addi {found[1]}, %mutant : index",
                    line.replace(f"offset: [{found[1]}]", "offset: [%shifted]"),
                ),
            )


def cast_mode(source: Source) -> Iterator[Mutant]:
    """A rounding mode exchanged for another."""
    integral: frozenset[int] = frozenset()  # buffers of the last rounding
    for call in source.calls:
        rounds = call.name.startswith("vcast_float_to_float")
        harmless = "" if rounds or integral.isdisjoint(call.memory[0].buffers) else "its operand is rounded already"
        integral = call.memory[-1].buffers if rounds else frozenset()
        if re.match(r"vcast_float_to_(float|int\w+)_\dd_with_mode", call.name):
            given = call.values[-1]
            old = next(line for line in source.lines if line.strip().startswith(f"{given} = arith.constant"))
            mode = int(re.findall(r"constant (\d+)", old)[0])
            lines = list(source.lines)
            lines[call.line] = lines[call.line].replace(f"{given})", "%mutant)", 1)
            lines[call.line : call.line] = [f"    %mutant = arith.constant {3 if mode != 3 else 2} : i32"]
            yield Mutant("wrong cast mode", call.line + 1, "\n".join(lines), harmless)


_OTHER = {"vadd_": "vsub_", "vsub_": "vadd_", "vmul_": "vadd_", "vmax_": "vmin_", "vmin_": "vmax_"}


def operation(source: Source) -> Iterator[Mutant]:
    """Another operation of the same shape."""
    for call, following in itertools.pairwise(source.calls):
        if "reduce" in following.name:  # the largest operand bounds the steps, and the smaller one does so, too
            continue
        for old, new in _OTHER.items():
            if call.name.startswith(old):
                other = call.name.replace(old, new, 1)
                lines = list(source.lines)
                lines[call.line] = lines[call.line].replace(f"@{call.name}(", f"@{other}(")
                declared = next(k for k, line in enumerate(lines) if f"func.func private @{call.name}(" in line)
                if not any(f"func.func private @{other}(" in line for line in lines):
                    lines[declared:declared] = [lines[declared].replace(f"@{call.name}(", f"@{other}(")]
                yield Mutant("wrong operation", call.line + 1, "\n".join(lines))


GENERATORS: tuple[Callable[[Source], Iterator[Mutant]], ...] = (
    barrier,
    flag_pair,
    direction,
    lone_set,
    lone_wait,
    late_wait,
    overlapping,
    unaligned,
    beyond,
    one_buffer,
    short_transfer,
    shifted_address,
    cast_mode,
    operation,
)


def mutants(text: str, per_kind: int, executed: frozenset[int] | None = None) -> list[Mutant]:
    """At most `per_kind` mutants of each kind, spread over the lines of the module that are executed."""
    source = Source(text, executed)
    chosen = []
    for generate in GENERATORS:
        found = list(generate(source))
        count = min(per_kind, len(found))
        chosen += [found[index * len(found) // count] for index in range(count)]
    return chosen
