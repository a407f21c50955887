"""Cycles of one program: its recorded steps replayed on four pipes, with the constants of a cost table.

A stream says what ran (which instruction, how many repeats, bursts, flags), not how long it took, so one run of a
kernel serves every set of constants: the band over their plausible ranges costs replays, not runs. The model itself is
in device/pipes.cpp.

    >>> stream = steps(vector("vadd", 64), barrier("V"))
    >>> replay(stream, values(costs)).pipes["V"]
    152.0
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from emulator.device import runtime

PIPES = ("S", "V", "MTE2", "MTE3")
_PARTS = ("head", "slope", "tail")
_VECTOR, _DMA, _SET, _WAIT, _BARRIER = 0, 1, 5, 6, 7  # core.h's Kind


class Cost(Protocol):
    """What is read of a constant: its value, the range it may plausibly lie in, and whether anybody measured it."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def measured(self) -> bool: ...


Costs = Mapping[str, Cost]


@functools.cache
def classes() -> tuple[str, ...]:
    """The classes of vector instructions that the table prices, each with a head, a slope and a tail."""
    return tuple(name for name in _listed() if name in _vector_names())


@functools.cache
def names() -> tuple[str, ...]:
    """Every constant the model reads, in its order."""
    vector_names = _vector_names()
    expanded = [
        full
        for name in _listed()
        for full in ([f"{name}.{part}" for part in _PARTS] if name in vector_names else [name])
    ]
    if len(expanded) != runtime.load().library.device_cost_count():
        raise AssertionError("the names and the structure of the costs in pipes.cpp differ")
    return tuple(expanded)


def _listed() -> list[str]:
    listed: bytes = runtime.load().library.device_cost_names()
    return listed.decode().split()


def _vector_names() -> frozenset[str]:
    # n names with three constants and m with one: n + m names, 3 n + m constants
    listed = _listed()
    count = (runtime.load().library.device_cost_count() - len(listed)) // (len(_PARTS) - 1)
    return frozenset(listed[:count])


def values(costs: Costs, changed: Mapping[str, float] | None = None) -> tuple[float, ...]:
    """The constants in the model's order, some of them replaced. Raises KeyError naming one the table lacks."""
    changed = changed or {}
    missing = [name for name in names() if name not in costs]
    if missing:
        raise KeyError(f"the cost table has no {', '.join(missing)}")
    return tuple(changed[name] if name in changed else costs[name].value for name in names())


@dataclass(frozen=True)
class Cycles:
    """What a replay gives, in cycles: the whole program, how long each pipe worked, and the bytes that were moved."""

    total: float
    pipes: Mapping[str, float]
    loaded: float
    stored: float
    by_class: Mapping[str, float]
    loads: float
    stores: float
    load_bursts: float
    store_bursts: float
    scalar_ub: float
    scalar_gm: float


@functools.lru_cache(maxsize=4096)
def replay(stream: bytes, constants: tuple[float, ...]) -> Cycles:
    """Cycles of a stream under these constants (`values`)."""
    library = runtime.load().library
    given = (ctypes.c_double * len(constants))(*constants)
    out = (ctypes.c_double * library.device_result_count())()
    library.device_replay(stream, len(stream) // ctypes.sizeof(runtime.Event), given, out, None, 0)
    total, s, v, mte2, mte3, loaded, stored, *rest = out
    count = len(classes())
    by_class = {name: spent for name, spent in zip(classes(), rest[:count], strict=True) if spent}
    loads, stores, load_bursts, store_bursts, scalar_ub, scalar_gm = rest[count:]
    pipes = dict(zip(PIPES, (s, v, mte2, mte3), strict=True))
    return Cycles(
        total, pipes, loaded, stored, by_class, loads, stores, load_bursts, store_bursts, scalar_ub, scalar_gm
    )


@dataclass(frozen=True)
class Slice:
    """One step on a pipe, in cycles from the start of the program. `line` is the line of the HIVM module."""

    pipe: str
    name: str
    line: int
    start: float
    duration: float


def timeline(stream: bytes, constants: tuple[float, ...]) -> list[Slice]:
    """Every step of a stream with the time it took, in the order of issue."""
    library = runtime.load().library
    count = len(stream) // ctypes.sizeof(runtime.Event)
    given = (ctypes.c_double * len(constants))(*constants)
    out = (ctypes.c_double * library.device_result_count())()
    room = (runtime.Slice * max(1, count))()
    written = library.device_replay(stream, count, given, out, room, count)
    return [Slice(PIPES[one.pipe], one.name.decode(), one.line, one.start, one.duration) for one in room[:written]]


# ---- streams by hand, for checks against published figures of single instructions


@functools.cache
def _label(name: str) -> ctypes.c_char_p:
    return ctypes.c_char_p(name.encode())  # cached, so that the text outlives the stream


def _event(kind: int, name: str, pipe: int, detail: int = 0, extra: int = 0, amount: int = 1, size: int = 0) -> bytes:
    return bytes(runtime.Event(kind, pipe, detail, extra, 0, amount, size, _label(name).value))


def vector(name: str, repeats: int) -> bytes:
    """A vector instruction of a class, such as "vadd"."""
    return _event(_VECTOR, name, PIPES.index("V"), classes().index(name), amount=repeats)


def dma(pipe: str, bursts: int, size: int) -> bytes:
    """A DMA of so many bursts of `size` bytes: "MTE2" from global memory, "MTE3" to it."""
    return _event(_DMA, "dma", PIPES.index(pipe), amount=bursts, size=size)


def flag(source: str, target: str, event: int = 0) -> bytes:
    """`target` waits for what `source` has been given."""
    a, b = PIPES.index(source), PIPES.index(target)
    return _event(_SET, "set_flag", a, b, event) + _event(_WAIT, "wait_flag", a, b, event)


def barrier(pipe: str) -> bytes:
    """What a pipe was given is complete."""
    return _event(_BARRIER, "pipe_barrier", PIPES.index(pipe))


def steps(*parts: bytes | Iterable[bytes]) -> bytes:
    """One stream of several steps."""
    return b"".join(part if isinstance(part, bytes) else b"".join(part) for part in parts)


def corners(costs: Costs, used: Sequence[str] | None = None) -> tuple[dict[str, float], dict[str, float]]:
    """All unmeasured constants at the fast end of their ranges, and all at the slow end."""
    fast: dict[str, float] = {}
    slow: dict[str, float] = {}
    for name in used if used is not None else names():
        cost = costs[name]
        if cost.measured:
            continue
        ends = (cost.high, cost.low) if name in RATES else (cost.low, cost.high)
        fast[name], slow[name] = ends
    return fast, slow


# Constants that are speeds: more of them is less time.
RATES = frozenset({"dma_bytes_per_cycle"})
