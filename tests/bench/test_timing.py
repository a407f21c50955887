"""Phases, quantiles, ratios: what may and may not become a figure."""

from __future__ import annotations

import math

import pytest
import torch

from bench import timing
from bench.timing import Quantiles


def test_quantiles_of_known_samples() -> None:
    assert timing.quantiles([float(value) for value in range(1, 11)]) == Quantiles(3.0, 6.0, 9.0)
    assert timing.quantiles([7.0]) == Quantiles(7.0, 7.0, 7.0)


@pytest.mark.parametrize("bad", [[], [math.nan], [math.inf, 1.0], [0.0, 1.0], [-1.0]])
def test_what_is_no_time_gives_no_quantiles(bad: list[float]) -> None:
    assert timing.quantiles(bad) is None


@pytest.mark.parametrize("bad", [None, 0.0, math.nan, math.inf, -1.0])
def test_no_ratio_and_no_bandwidth_from_what_is_no_time(bad: float | None) -> None:
    assert timing.ratio(1.0, bad) is None
    assert timing.ratio(bad, 1.0) is None
    assert timing.gigabytes_per_second(100, bad) is None


def test_ratio_and_bandwidth() -> None:
    assert timing.ratio(Quantiles(1, 2, 3), 8.0) == 0.25
    assert timing.gigabytes_per_second(8_000_000, 1000.0) == 8.0


def test_phases_run_in_blocks_with_an_uncounted_first_call() -> None:
    order: list[str] = []
    waited: list[int] = []
    taken = timing.phases(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")},
        rounds=2,
        block_seconds=0.0,
        min_repeats=3,
        pause=0.0,
        synchronize=lambda: waited.append(1),
    )
    # Each block: one warm call, then three that count; a block of one, then a block of the other.
    assert order == (["a"] * 4 + ["b"] * 4) * 2
    assert len(waited) == len(order)
    assert all(taken.values())


def test_phases_stop_a_slow_function_at_its_budget() -> None:
    calls: list[int] = []

    def slow() -> None:
        calls.append(1)
        import time

        time.sleep(0.02)

    timing.phases({"slow": slow}, rounds=50, block_seconds=0.0, min_repeats=1, pause=0.0, budget_seconds=0.05)
    assert len(calls) < 20
    calls.clear()
    taken = timing.phases({"slow": slow}, rounds=3, min_repeats=50, pause=0.0, budget_seconds=0.01)
    assert len(calls) == 2
    assert taken["slow"] is not None


def test_a_call_that_lost_its_core_counts_by_cpu_time() -> None:
    """Sleeping is what a preempted call looks like: the wall clock goes on, the CPU time does not."""
    import time

    def work() -> None:
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass

    def preempted() -> None:
        work()
        time.sleep(0.02)

    options = {"rounds": 2, "block_seconds": 0.0, "min_repeats": 3, "pause": 0.0}
    taken = timing.phases({"preempted": preempted}, single_thread=True, **options)["preempted"]  # type: ignore[arg-type]
    assert taken is not None
    assert taken.disturbed == 1.0
    assert 2000 <= taken.p50 < 10_000
    taken = timing.phases({"preempted": preempted}, **options)["preempted"]  # type: ignore[arg-type]
    assert taken is not None
    assert taken.disturbed == 0.0
    assert taken.p50 > 20_000


def test_phases_pass_errors_through() -> None:
    def broken() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        timing.phases({"x": broken}, pause=0.0)


def test_thread_count_is_restored_also_after_an_error() -> None:
    before = torch.get_num_threads()

    def fail_inside() -> None:
        with timing.thread_count(1):
            assert torch.get_num_threads() == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234, "0.123 us"),
        (1.0, "1.00 us"),
        (12.34, "12.3 us"),
        (999.0, "999 us"),
        (999.7, "1.00 ms"),
        (1e6, "1.00 s"),
        (5e9, "5000 s"),
        (None, "n/a"),
        (math.nan, "n/a"),
        (0.0, "n/a"),
    ],
)
def test_format_us(value: float | None, text: str) -> None:
    assert timing.format_us(value) == text


def test_quantiles_are_shown_in_the_unit_of_the_median() -> None:
    assert str(Quantiles(900.0, 1100.0, 2000.0)) == "1.10 ms (0.900-2.00)"
