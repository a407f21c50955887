"""Speed lines: the limit, the figure beside it, and what was not measured is not met."""

from __future__ import annotations

from bench import cases, criteria
from bench.criteria import Criterion, Times
from bench.timing import Quantiles


def at(value: float) -> Quantiles:
    return Quantiles(value, value, value)


RATIO = Criterion("gcd/int32/x", "gcd", 0.25)
ABSOLUTE = Criterion("gcd/int32/y", "warm", 40.0, absolute=True)


def test_ratio_is_one_thread_against_one_thread() -> None:
    times = Times(at(12_000), at(60_000), at(9_000), at(30_000))
    assert criteria.verdict(RATIO, times) == (
        "gcd: 0.20 = 12.0 ms / 60.0 ms, at most 0.25 of the built-in: met (default threads 0.30)",
        True,
    )
    assert criteria.verdict(RATIO, Times(at(20), at(60)))[1] is False


def test_absolute_line() -> None:
    assert criteria.verdict(ABSOLUTE, Times(project=at(40.0), project_default=at(50.0))) == (
        "warm: 40.0 us, at most 40.0 us: met (default threads 50.0 us)",
        True,
    )
    assert criteria.verdict(ABSOLUTE, Times(project=at(40.1)))[1] is False


def test_what_was_not_measured_is_not_met() -> None:
    assert criteria.verdict(RATIO, Times(project=at(1.0))) == ("gcd: n/a (at most 0.25 of the built-in)", None)
    assert criteria.verdicts((RATIO, ABSOLUTE), {"gcd/int32/x": Times()})[1] is False
    assert criteria.verdicts((RATIO,), {}) == ([], True)


def test_the_three_lines_name_cases_of_the_compare_list() -> None:
    ids = {case.id for case in cases.compare_cases()}
    assert [line.case in ids for line in criteria.COMPARE] == [True, True, True]
    assert [line.limit for line in criteria.COMPARE] == [0.25, 2.0, 40.0]
