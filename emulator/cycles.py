"""Modelled cycles of launches at the device level. Nothing here was measured on an NPU.

Every instruction's cost comes from its real operands while the kernel runs; pipes S, V, MTE2 and MTE3 work in order
and meet at flags and barriers. The constants are the caller's, each with the range it may plausibly lie in; those that
nobody measured make the figure a band.

    >>> with record(platform.costs, cores=platform.vector_cores) as report:
    ...     ops.gcd(x, y)
    >>> report.microseconds, report.band, report.bound
    (52.1, (38.0, 77.9), 'V')

Launch overhead is not part of a figure, and caches and the locality of addresses are not modelled.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emulator import replay
from emulator.device import recording
from emulator.device.kernel import Kernel, Stream
from emulator.replay import PIPES, Costs, Cycles
from emulator.router import route

_OTHER = ("clock", "hbm_bandwidth", "hbm_efficiency")

# A point is shown only where one constant nobody measured moves the figure by less than this, either way.
POINT_WITHIN = 0.25
# Below this share no pipe is busy enough to be what limits a kernel: it waits for latencies.
BUSY = 0.5


@dataclass(frozen=True)
class Sensitivity:
    """How far the plausible range of one constant (or of one instruction's constants) moves the figure, in us."""

    name: str
    low: float
    high: float

    @property
    def spread(self) -> float:
        return self.high - self.low


@dataclass(frozen=True)
class Launch:
    """One launch: its kernel, how many programs it has, and the steps of those that ran."""

    kernel: Kernel
    programs: int
    streams: tuple[Stream, ...] = field(repr=False)

    def stands_for(self) -> list[int]:
        """How many programs each stream stands for: its own, and those up to the next one that ran.

        The last program is always among those that ran, and often has a shorter tile: it stands for itself alone.
        """
        ids = [stream.program for stream in self.streams]
        return [end - start for start, end in itertools.pairwise([0, *ids[1:], self.programs])]

    def cycles(self, constants: tuple[float, ...]) -> list[float]:
        """Cycles of every program, in order."""
        return [
            replay.replay(stream.events, constants).total
            for stream, count in zip(self.streams, self.stands_for(), strict=True)
            for _ in range(count)
        ]

    def total(self, constants: tuple[float, ...]) -> Cycles:
        """Everything summed over the programs."""
        counts: Counter[bytes] = Counter()
        for stream, count in zip(self.streams, self.stands_for(), strict=True):
            counts[stream.events] += count
        found = [(replay.replay(events, constants), count) for events, count in counts.items()]

        def summed(name: str) -> float:
            return float(sum(getattr(one, name) * count for one, count in found))

        pipes = {pipe: sum(one.pipes[pipe] * count for one, count in found) for pipe in PIPES}
        by_class: dict[str, float] = {}
        for one, count in found:
            for name, spent in one.by_class.items():
                by_class[name] = by_class.get(name, 0.0) + spent * count
        rest = ("loads", "stores", "load_bursts", "store_bursts", "scalar_ub", "scalar_gm")
        return Cycles(
            summed("total"), pipes, summed("loaded"), summed("stored"), by_class, *(summed(name) for name in rest)
        )


@dataclass
class Report:
    """The launches of one `record`, and what the model says of them.

    `costs` is the table, `cores` the vector cores that share the programs.
    """

    costs: Costs
    cores: int
    sample: int | None = None
    launches: list[Launch] = field(default_factory=list)

    # ---- recording.Recorder

    def choose(self, total: int) -> Sequence[int] | None:
        if self.sample is None or total <= self.sample:
            return None
        last = total - 1
        steps = max(1, self.sample - 1)
        return sorted({round(index * last / steps) for index in range(self.sample)})

    def add(self, kernel: Kernel, total: int, streams: Sequence[Stream]) -> None:
        self.launches.append(Launch(kernel, total, tuple(streams)))

    # ---- figures

    @property
    def complete(self) -> bool:
        """Whether every program ran, so that the output is whole."""
        return all(len(launch.streams) == launch.programs for launch in self.launches)

    @property
    def microseconds(self) -> float:
        """Time of the launches one after another, without launch overhead."""
        return self.time()

    def time(self, changed: Mapping[str, float] | None = None) -> float:
        """The same with some constants replaced."""
        constants = replay.values(self.costs, changed)
        return sum(max(self._makespan(launch, constants), self._floor(launch)) for launch in self.launches)

    @property
    def band(self) -> tuple[float, float]:
        """Microseconds with every unmeasured constant at the fast end of its range, and with all at the slow end.

        The figure itself is always inside: handing programs to the first free core is not monotone in their lengths.
        """
        fast, slow = replay.corners(self.costs)
        ends = sorted((self.time(fast), self.time(), self.time(slow)))
        return ends[0], ends[-1]

    @property
    def floor(self) -> float:
        """Microseconds the memory needs for the bytes that are moved, whatever the cores do."""
        return sum(self._floor(launch) for launch in self.launches)

    @property
    def program_cycles(self) -> float:
        """Cycles of all programs together: divided by elements, the cycles per element per core."""
        return self._total().total

    @property
    def pipes(self) -> dict[str, float]:
        """Cycles each pipe was busy, over all programs."""
        return dict(self._total().pipes)

    @property
    def shares(self) -> dict[str, float]:
        """The part of the programs' time that each pipe was busy."""
        total = self._total()
        return {pipe: spent / total.total if total.total else 0.0 for pipe, spent in total.pipes.items()}

    @property
    def bytes_moved(self) -> float:
        """Bytes between global memory and the unified buffers; a burst moves 32 at least."""
        total = self._total()
        return total.loaded + total.stored

    @property
    def detail(self) -> Cycles:
        """All that was counted, over all launches and programs."""
        return self._total()

    @property
    def bound(self) -> str:
        """What limits the launches: the busiest pipe, "HBM", or "latency" when no pipe is busy half of the time."""
        if self.floor and self.floor >= 0.999 * self.microseconds:
            return "HBM"
        pipe, share = max(self.shares.items(), key=lambda item: item[1])
        return pipe if share >= BUSY else "latency"

    def sensitivities(self) -> list[Sensitivity]:
        """What each unmeasured constant alone could change, the largest first."""
        groups: dict[str, list[str]] = {}
        used = set(self._total().by_class)
        for name in replay.names():
            group = name.partition(".")[0]
            if not self.costs[name].measured and (group in used or group not in replay.classes()):
                groups.setdefault(group, []).append(name)
        found = []
        for group, members in groups.items():
            fast, slow = replay.corners(self.costs, members)
            low, high = sorted((self.time(fast), self.time(slow)))
            found.append(Sensitivity(group, low, high))
        return sorted(found, key=lambda one: -one.spread)

    @property
    def guesses(self) -> list[str]:
        """Unmeasured constants that alone move the figure too far for a point to mean anything."""
        now = self.microseconds
        return [
            one.name
            for one in self.sensitivities()
            if one.high > now * (1 + POINT_WITHIN) or one.low < now * (1 - POINT_WITHIN)
        ]

    def figure(self) -> str:
        """The time as text: a point, or the band and the guesses it rests on."""
        guesses = self.guesses
        if not guesses:
            return f"{self.microseconds:.1f} us"
        low, high = self.band
        return f"{low:.1f}-{high:.1f} us ({', '.join(guesses)})"

    # ---- parts

    def _total(self) -> Cycles:
        constants = replay.values(self.costs)
        parts = [launch.total(constants) for launch in self.launches]
        by_class: dict[str, float] = {}
        for name, spent in itertools.chain.from_iterable(part.by_class.items() for part in parts):
            by_class[name] = by_class.get(name, 0.0) + spent
        pipes = {pipe: sum(part.pipes[pipe] for part in parts) for pipe in PIPES}
        names = ("loads", "stores", "load_bursts", "store_bursts", "scalar_ub", "scalar_gm")
        rest = [sum(getattr(part, name) for part in parts) for name in names]
        total, loaded, stored = (sum(getattr(part, name) for part in parts) for name in ("total", "loaded", "stored"))
        return Cycles(total, pipes, loaded, stored, by_class, *rest)

    def _makespan(self, launch: Launch, constants: tuple[float, ...]) -> float:
        """Programs in order, each to the first free core; in microseconds."""
        free = [0.0] * min(self.cores, launch.programs)
        for cycles in launch.cycles(constants):
            heapq.heappush(free, heapq.heappop(free) + cycles)
        return max(free) / (self.costs["clock"].value * 1e3)

    def _floor(self, launch: Launch) -> float:
        moved = launch.total(replay.values(self.costs))
        speed = self.costs["hbm_bandwidth"].value * self.costs["hbm_efficiency"].value  # GB/s
        return (moved.loaded + moved.stored) / (speed * 1e3)


def names() -> tuple[str, ...]:
    """Every constant that the model reads."""
    return (*replay.names(), *_OTHER)


@contextlib.contextmanager
def record(costs: Costs, *, cores: int, sample: int | None = None) -> Iterator[Report]:
    """Run the launches inside at the device level, and model their cycles.

    `costs` is a cost table: name to value, plausible range and whether it was measured. `cores` share the programs of
    a launch. With `sample`, only so many programs of each launch run, evenly spread, and the rest is taken to be like
    them: then the launches do not compute all of their output (`report.complete`).

    Raises KeyError if the table lacks a constant.
    """
    missing = [name for name in names() if name not in costs]
    if missing:
        raise KeyError(f"the cost table has no {', '.join(missing)}")
    report = Report(costs, cores, sample)
    token = recording.current.set(report)
    try:
        with route("device"):
            yield report
    finally:
        recording.current.reset(token)
