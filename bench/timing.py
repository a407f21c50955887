"""Wall-clock times that can be compared: in phases, one thread against one thread, as quantiles.

Two traps decide the method. Interleaving two libraries call by call is wrong: torch's worker threads spin for a while
after an operator and hold a core that the other library then waits for. So each function runs in blocks of its own with
a pause between blocks. And with two threads a busy neighbour moves a ratio by a factor of three, whereas one thread
against one thread repeats within 10 to 20 %, so that is what criteria are judged on.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}

PAUSE_SECONDS = 0.02  # torch's workers stop spinning well within this

# A call lost its core if the wall clock went this much further than the CPU time; the clocks agree within 1 us.
LOST_SHARE = 0.05
LOST_SECONDS = 5e-6


@dataclass(frozen=True)
class Quantiles:
    """The 20 %, 50 % and 80 % quantile of some times, in microseconds.

    `disturbed` is the share of the calls that lost their core to another process and so count by CPU time.
    """

    p20: float
    p50: float
    p80: float
    disturbed: float = 0.0

    def __str__(self) -> str:
        median, unit = format_us(self.p50).split()
        scale = UNITS[unit]
        low, high = (_three_digits(value / scale) for value in (self.p20, self.p80))
        return f"{median} {unit} ({low}-{high})"


def quantiles(samples: Sequence[float], disturbed: float = 0.0) -> Quantiles | None:
    """Quantiles of times in microseconds, or None if there is nothing that could be a time.

    A profiler that found no rows reports NaN, inf or 0; none of these may become a figure, let alone a speed-up.

        >>> quantiles([3.0, 1.0, 2.0])
        Quantiles(p20=1.0, p50=2.0, p80=3.0, disturbed=0.0)
        >>> quantiles([float("nan"), 1.0]) is None
        True
    """
    if not samples or not all(math.isfinite(sample) and sample > 0 for sample in samples):
        return None
    ordered = sorted(samples)
    last = len(ordered) - 1
    p20, p50, p80 = (ordered[min(last, int(q * len(ordered)))] for q in (0.2, 0.5, 0.8))
    return Quantiles(p20, p50, p80, disturbed)


def ratio(numerator: Quantiles | float | None, denominator: Quantiles | float | None) -> float | None:
    """Quotient of two medians, or None where one of them could not be taken."""
    top, bottom = (value.p50 if isinstance(value, Quantiles) else value for value in (numerator, denominator))
    if top is None or bottom is None:
        return None
    if not (math.isfinite(top) and math.isfinite(bottom) and top > 0 and bottom > 0):
        return None
    return top / bottom


def gigabytes_per_second(moved: int, time_us: Quantiles | float | None) -> float | None:
    """Bandwidth in GB/s (1e9 bytes) of `moved` bytes in a time in microseconds; None where there is no time."""
    value = time_us.p50 if isinstance(time_us, Quantiles) else time_us
    if value is None or not math.isfinite(value) or value <= 0:
        return None
    return moved / value / 1e3


def phases(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 5,
    block_seconds: float = 0.04,
    min_repeats: int = 3,
    max_repeats: int = 2000,
    pause: float = PAUSE_SECONDS,
    budget_seconds: float = 8.0,
    single_thread: bool = False,
    synchronize: Callable[[], object] | None = None,
) -> dict[str, Quantiles | None]:
    """Time each function in blocks of its own, with a pause before each block.

    A block is a first call that is not counted, then calls until `block_seconds` are spent, at least `min_repeats` and
    at most `max_repeats`. A function that has spent `budget_seconds` gets no further call. `synchronize` ends each
    timed call on a device that works asynchronously. `single_thread` promises that the functions use the calling thread
    only: then a call that lost its core counts by CPU time. Whatever a function raises passes through. Times are in
    microseconds.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    disturbed = dict.fromkeys(functions, 0)
    spent = dict.fromkeys(functions, 0.0)
    wait = synchronize or (lambda: None)
    for _ in range(rounds):
        for name, function in functions.items():
            if spent[name] > budget_seconds:
                continue
            time.sleep(pause)
            begin = time.perf_counter()
            function()
            wait()
            end = time.perf_counter() + block_seconds
            for repeat in range(max_repeats):
                on_cpu = time.process_time()
                start = time.perf_counter()
                if (repeat >= min_repeats and start > end) or (repeat > 0 and start - begin > budget_seconds):
                    break
                function()
                wait()
                wall = time.perf_counter() - start
                on_cpu = time.process_time() - on_cpu
                lost = single_thread and wall - on_cpu > LOST_SHARE * wall + LOST_SECONDS
                disturbed[name] += lost
                samples[name].append((on_cpu if lost else wall) * 1e6)
            spent[name] += time.perf_counter() - begin
    return {name: quantiles(values, disturbed[name] / max(1, len(values))) for name, values in samples.items()}


@contextmanager
def thread_count(count: int | None) -> Iterator[None]:
    """Inside, torch and the emulator use `count` threads each; None leaves both at their defaults."""
    if count is None:
        yield
        return
    pools = [torch, *([emulator] if (emulator := _emulator()) is not None else [])]
    before = [pool.get_num_threads() for pool in pools]
    for pool in pools:
        pool.set_num_threads(count)
    try:
        yield
    finally:
        for pool, number in zip(pools, before, strict=True):
            pool.set_num_threads(number)


def _emulator() -> Any:
    """The emulator's thread settings, or None on a machine without the emulator."""
    try:
        return importlib.import_module("emulator.pool")
    except ImportError:
        return None


def format_us(value: float | None) -> str:
    """A time in microseconds with three digits and its unit; n/a for what could not be taken.

    >>> format_us(1234.5), format_us(0.5), format_us(None)
    ('1.23 ms', '0.500 us', 'n/a')
    """
    if value is None or not math.isfinite(value) or value <= 0:
        return "n/a"
    unit = next((unit for unit, scale in UNITS.items() if value / scale < 999.5), "s")
    return f"{_three_digits(value / UNITS[unit])} {unit}"


def _three_digits(value: float) -> str:
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2 if value >= 0.9995 else 3
    return f"{value:.{digits}f}"
