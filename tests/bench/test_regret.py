"""The regret table and its limits."""

from __future__ import annotations

import pytest
from rich.console import Console

from bench import regret
from bench.results import Row


def rows_of(case: str, value: float, heuristic: float = 10.0) -> list[Row]:
    common = {"op": "gcd", "case": case, "dtype": "int8", "unit": "us"}
    timed = {**common, "metric": "modelled time"}
    fastest = heuristic / (1 + value)
    return [
        Row(**timed, provider="candidate", p50=fastest, plan="k(block=1)"),
        Row(**timed, provider="heuristic", p50=heuristic, plan="k(block=2)"),
        Row(**timed, provider="candidate", plan="k(block=3)", note="not legal", ok=False),
        Row(**timed, provider="fastest", p50=fastest, plan="k(block=1)"),
        Row(**{**common, "unit": "fraction"}, metric="regret", provider="heuristic", p50=value, note="number 2 of 2"),
    ]


@pytest.mark.parametrize(
    ("values", "met"),
    [([0.0, 0.05, 0.25], True), ([0.0, 0.0, 0.26], False), ([0.06, 0.06, 0.0], False), ([], False)],
)
def test_verdict(values: list[float], met: bool) -> None:
    rows = [row for i, value in enumerate(values) for row in rows_of(f"case {i}", value)]
    text, kept = regret.verdict(rows)
    assert kept is met
    assert ("met" in text) is met


def test_table_shows_candidates_rank_and_regret() -> None:
    console = Console(width=200, record=True)
    assert regret.report(rows_of("one", 0.25, heuristic=12.5), console) is False
    printed = console.export_text()
    for wanted in ("gcd one", "2 of 3", "12.5 us", "10.0 us", "number 2 of 2", "25.0%", "k(block=1)"):
        assert wanted in printed
