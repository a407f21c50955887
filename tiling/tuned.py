"""Stored tunings: their schema, key and path, and the look-up that `ops` does for a call it has no plan for yet.

`autotune.store` writes; this module only reads, so it imports nothing heavier than `platformdirs`. There is one JSON
file per chip and toolchain, in the user's cache directory or in the one that `ASCEND_OPS_TUNED_DIR` names:

    {"schema": 1, "chip": "Ascend910B3", "toolchain": "triton-ascend 3.2.0, ascendnpu-ir 1.2.0",
     "entries": {"gcd|model|40|1f0c...|...": {"op": "gcd", "measure": "model", "decisions": {"block": 4096}, ...}},
     "failed": {"gcd|1f0c...|...": "the unified buffer overflows"}}

How an operator uses it, in full (`generation` first, so that a change in between is not missed):

    now = tuned.generation()
    if now != self.generation:                      # about 0.1 us a call
        self.plans.clear(); self.generation = now
    plan = self.plans.get(problem)
    if plan is None:
        plan = tuned.resolve("gcd", problem, platform, tiling.gcd.plan) or tiling.gcd.plan(problem, platform)

The files are looked at once a second at most, so a running process follows a tuning made by another one within a
second; `reload()` follows it at once.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tiling.aside import Identity, identity, set_aside_if_free, warn_unusable
from tiling.platform import Platform
from tiling.versions import source_hash, toolchain

SCHEMA = 1
DIRECTORY_VARIABLE = "ASCEND_OPS_TUNED_DIR"

# In order of preference. "host" is the wall clock of the emulator: it says nothing about an NPU, so it is no default.
MEASURES = ("device", "model")

SECONDS_BETWEEN_LOOKS = 1.0

# How many size classes (powers of two of the element count) away a tuning of the same pattern may still serve. Further
# away the number of tiles per core is a different one, and with it the reason why the tile won.
REACH = 2

# Decisions that follow from the size: a neighbour's are left to the planner.
OWN = frozenset({"cores"})

# A neighbour's decisions do not serve where the planner expects them to be this much slower than its own: a tile that
# won on many tiles a core loses on one.
DOUBT = 1.25


class Problem(Protocol):
    """What a problem offers to be looked up: an exact key, its pattern (all but sizes) and its output elements."""

    def key(self) -> str: ...
    def pattern(self) -> str: ...
    @property
    def elements(self) -> int: ...


PlanT = TypeVar("PlanT")
PlanFunction = Callable[..., PlanT]
Resolver = Callable[[str, Any, Platform, PlanFunction[Any]], Any]


@dataclass(frozen=True)
class Entry:
    """One stored tuning.

    `problem`, `pattern` and `elements` are the problem's `key()`, `pattern()` and `elements`; `source` is
    `source_hash(op)` at the time; `profile` the cost profile (a model entry made with other costs is not used).
    `microseconds` is the winner's figure with its band `low..high`, `heuristic_microseconds` that of the heuristic,
    which `confirmed` says is the winner.
    """

    op: str
    measure: str
    problem: str
    pattern: str
    elements: int
    cores: int
    source: str
    profile: str
    decisions: Mapping[str, int | bool | str]
    microseconds: float
    low: float
    high: float
    heuristic_microseconds: float
    confirmed: bool
    device: str
    written: str

    @property
    def key(self) -> str:
        """The entry's name in the file. Chip and toolchain are those of the file."""
        return "|".join((self.op, self.measure, str(self.cores), self.source, self.problem))

    def to_json(self) -> dict[str, Any]:
        """Plain data, as stored."""
        return asdict(self) | {"decisions": dict(self.decisions)}

    @classmethod
    def from_json(cls, data: Any) -> Entry:
        """The entry stored as `data`. Raises ValueError when a field is missing, unknown or of another type."""
        if not isinstance(data, dict) or set(data) != {f.name for f in fields(cls)}:
            raise ValueError("an entry does not have the fields of this schema")
        for name, value in data.items():
            if not isinstance(value, _FIELD_TYPES[name]) or (isinstance(value, bool) and name != "confirmed"):
                raise ValueError(f"field {name!r} of an entry is a {type(value).__name__}")
        if not all(isinstance(value, (int, str)) for value in data["decisions"].values()):
            raise ValueError("a decision is neither a number, a truth value nor a word")
        return cls(**data)


_FIELD_TYPES: dict[str, Any] = {
    **dict.fromkeys(("op", "measure", "problem", "pattern", "source", "profile", "device", "written"), str),
    **dict.fromkeys(("elements", "cores"), int),
    **dict.fromkeys(("microseconds", "low", "high", "heuristic_microseconds"), (int, float)),
    "decisions": dict,
    "confirmed": bool,
}


# --- where tunings are, and what they are valid for ------------------------------------------------------------------


def directory() -> Path:
    """Where the files of tunings are: `ASCEND_OPS_TUNED_DIR`, else the user's cache directory."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("ascend-triton-ops") / "tuned"


def path(chip: str) -> Path:
    """The file that holds the tunings of a chip under this toolchain."""
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", toolchain())
    return directory() / f"{chip}-{slug}.json"


# --- reading one file -------------------------------------------------------------------------------------------------


class UnusableStoreError(ValueError):
    """A file that is not a store of this schema, chip and toolchain; the text says why."""


@dataclass
class Document:
    """What one file holds: entries by key, and the candidates that failed, with the reason, by `autotune`'s own key."""

    entries: dict[str, Entry] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self, chip: str) -> dict[str, Any]:
        """Plain data, as stored for a chip under this toolchain."""
        entries = {key: entry.to_json() for key, entry in sorted(self.entries.items())}
        return {"schema": SCHEMA, "chip": chip, "toolchain": toolchain(), "entries": entries, "failed": self.failed}

    @classmethod
    def from_json(cls, data: Any, chip: str) -> Document:
        """The document stored as `data`. Raises UnusableStoreError when it is not one for this chip and toolchain."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else type(data).__name__
            raise UnusableStoreError(f"schema {found!r}, and this version reads {SCHEMA}")
        for name, expected in (("chip", chip), ("toolchain", toolchain())):
            if data.get(name) != expected:
                raise UnusableStoreError(f"made for {name} {data.get(name)!r}, not {expected!r}")
        entries, failed = data.get("entries"), data.get("failed")
        if not isinstance(entries, dict) or not isinstance(failed, dict):
            raise UnusableStoreError("no entries")
        made = [Entry.from_json(item) for item in entries.values()]
        return cls({entry.key: entry for entry in made}, {key: str(reason) for key, reason in failed.items()})


def read(file: Path, chip: str) -> Document:
    """What a file holds; nothing when there is no file.

    Raises UnusableStoreError for a truncated, corrupt or foreign file, OSError for one that cannot be read.
    """
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return Document()
    try:
        return Document.from_json(json.loads(text), chip)
    except (ValueError, RecursionError) as error:
        raise UnusableStoreError(str(error) or "nested too deep") from None


# --- what this process knows ------------------------------------------------------------------------------------------


@dataclass
class _Book:
    """The tunings of one chip, as last read, and the version of the file they came from."""

    chip: str
    file: Path | None = None
    seen: Identity | None = None
    exact: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    alike: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)

    def look(self) -> bool:
        """Stat the file, and read it if it is another one than before. Returns whether it was."""
        file = path(self.chip)
        seen = identity(file)
        if (file, seen) == (self.file, self.seen):
            return False
        self.file, self.seen = file, seen
        self.exact, self.alike = {}, {}
        try:
            entries = read(file, self.chip).entries
        except (UnusableStoreError, OSError) as error:
            kept = set_aside_if_free(file, seen)
            if kept:
                self.seen = None
            warn_unusable(file, error, kept)
            return True
        for entry in entries.values():
            self.exact.setdefault((entry.op, entry.problem), []).append(entry)
            self.alike.setdefault((entry.op, entry.pattern), []).append(entry)
        return True


class _State:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.books: dict[str, _Book] = {}
        self.generation = 0
        self.next_look = 0.0
        self.resolver: Resolver | None = None
        self.unfit: set[str] = set()

    def look(self) -> None:
        with self.lock:
            self.next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
            changed = [book.look() for book in self.books.values()]
            self.generation += any(changed)

    def book(self, chip: str) -> _Book:
        if chip not in self.books:
            with self.lock:
                book = self.books.get(chip) or _Book(chip)
                book.look()
                self.books[chip] = book
        return self.books[chip]


_state = _State()
_inside = threading.local()


def _renew_lock() -> None:
    _state.lock = threading.RLock()


# A fork while another thread reads would leave the child a lock that nobody releases.
os.register_at_fork(after_in_child=_renew_lock)


def generation() -> int:
    """A number that changes whenever `resolve` may answer differently than before.

    Whoever keeps plans keeps this number beside them and drops them when it has changed. About 0.1 us; at most one stat
    per file a second.
    """
    if time.monotonic() >= _state.next_look:
        _state.look()
    return _state.generation


def reload() -> None:
    """Look at the stored tunings now rather than within a second, and have every kept plan decided anew."""
    with _state.lock:
        for book in _state.books.values():
            book.file = None
        _state.unfit.clear()
        _state.generation += 1
        _state.look()


def set_resolver(resolver: Resolver | None) -> Resolver | None:
    """Let `resolver(op, problem, platform, plan_function)` answer for problems that have no exact entry; None ends it.

    It returns a plan, or None to leave the decision to the nearest tuning and then to the heuristic. It is not asked
    about calls made while it runs in the same thread. Returns the resolver there was.
    """
    with _state.lock:
        before, _state.resolver = _state.resolver, resolver
        _state.generation += 1
    return before


@contextmanager
def unresolved() -> Iterator[None]:
    """Within it, in this thread, the resolver is not asked: for code that makes plans in order to tune."""
    before = getattr(_inside, "resolver", False)
    _inside.resolver = True
    try:
        yield
    finally:
        _inside.resolver = before


def find(op: str, problem: Problem, platform: Platform, measures: tuple[str, ...] = MEASURES) -> Iterator[Entry]:
    """The tunings that may serve a problem, best first: its own, then those of its pattern by nearness in size.

    Among equals the order of `measures` decides, so that a figure taken on a device wins over a modelled one.
    """
    book = _state.book(platform.chip)
    own = book.exact.get((op, problem.key()), ())
    yield from sorted(_valid(own, op, platform, measures), key=lambda entry: measures.index(entry.measure))
    alike = book.alike.get((op, problem.pattern()), ())
    if not alike:
        return
    size = problem.elements.bit_length()
    near = [entry for entry in alike if abs(entry.elements.bit_length() - size) <= REACH and entry not in own]

    def distance(entry: Entry) -> tuple[int, int, int, str]:
        classes = abs(entry.elements.bit_length() - size)
        return classes, measures.index(entry.measure), abs(entry.elements - problem.elements), entry.problem

    yield from sorted(_valid(near, op, platform, measures), key=distance)


def _valid(entries: Any, op: str, platform: Platform, measures: tuple[str, ...]) -> list[Entry]:
    return [
        entry
        for entry in entries
        if entry.measure in measures
        and entry.cores == platform.vector_cores
        and entry.source == source_hash(op)
        and (entry.measure == "device" or entry.profile == platform.profile)
    ]


def resolve(op: str, problem: Problem, platform: Platform, plan_function: PlanFunction[PlanT]) -> PlanT | None:
    """The tuned plan of a problem, or None when the heuristic is to decide.

    `plan_function(problem, platform, **decisions)` is the operator's planner: it makes the plan from stored decisions
    and raises ValueError when they do not suit this problem (they may come from a neighbour in size). Order: the
    problem's own tuning, the resolver if one is set, the nearest size class of the same pattern within REACH classes. A
    neighbour whose tuning confirmed the heuristic leaves the decision to it.

        plan = resolve("gcd", problem, platform, tiling.gcd.plan) or tiling.gcd.plan(problem, platform)

    Never raises for anything found in a file: an entry of the problem itself that no longer suits warns once.
    """
    generation()
    key = problem.key()
    asked = _state.resolver is None or getattr(_inside, "resolver", False)
    for entry in find(op, problem, platform):
        own = entry.problem == key
        if not own and not asked:
            asked = True
            plan = _ask(op, problem, platform, plan_function)
            if plan is not None:
                return plan
        if not own and entry.confirmed:
            return None
        decisions = {name: value for name, value in entry.decisions.items() if own or name not in OWN}
        try:
            plan = plan_function(problem, platform, **decisions)
            if own or _cycles(plan) <= DOUBT * _cycles(plan_function(problem, platform)):
                return _explained(plan, entry)
        except (ValueError, TypeError) as error:
            if own and entry.key not in _state.unfit:
                _state.unfit.add(entry.key)
                warnings.warn(f"a stored tuning of {op} does not suit {key}: {error}", RuntimeWarning, stacklevel=2)
    return None if asked else _ask(op, problem, platform, plan_function)


def _cycles(plan: object) -> float:
    """What the planner expects a plan to cost; 0 for a plan that does not say."""
    cycles = getattr(plan, "cycles", 0.0)
    return float(getattr(cycles, "total", cycles))


def _explained(plan: PlanT, entry: Entry) -> PlanT:
    """The plan, saying that it was tuned where it would say why the heuristic chose it."""
    if not is_dataclass(plan) or isinstance(plan, type) or "reason" not in {f.name for f in fields(plan)}:
        return plan
    reason = (
        f"tuned on {entry.problem} by {entry.measure} ({entry.device}): {entry.microseconds:.4g} us, "
        f"the heuristic {entry.heuristic_microseconds:.4g} us"
    )
    return replace(plan, reason=reason)


def _ask(op: str, problem: Problem, platform: Platform, plan_function: PlanFunction[PlanT]) -> PlanT | None:
    if _state.resolver is None:
        return None
    with unresolved():
        return _state.resolver(op, problem, platform, plan_function)
