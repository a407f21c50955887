"""How far the heuristic's plans are from the best candidate: the table of `bench sweep --regret`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.results import Row
from bench.timing import format_us

MEDIAN_LIMIT = 0.05
WORST_LIMIT = 0.25


def by_case(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Rows grouped by operator, dtype and case, in the order they come."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.op, row.dtype, row.case), []).append(row)
    return groups


def regrets(rows: Iterable[Row]) -> list[float]:
    """The regret of every case that has one: 0.05 means that the heuristic takes 5 % longer than the best candidate."""
    return [row.p50 for row in rows if row.metric == "regret" and row.p50 is not None]


def table(rows: Iterable[Row]) -> Table:
    """One line a case: candidates, the heuristic's and the fastest plan with their times, rank and regret."""
    shown = Table(header_style="bold")
    for heading in ("case", "dtype"):
        shown.add_column(heading, overflow="fold")
    for heading in ("candidates", "heuristic", "fastest", "rank", "regret"):
        shown.add_column(heading, justify="right")
    shown.add_column("fastest plan", overflow="fold")
    for (op, dtype, case), group in by_case(rows).items():
        tried = [row for row in group if row.provider in ("heuristic", "candidate") and row.metric != "regret"]
        heuristic = next((row for row in tried if row.provider == "heuristic"), None)
        fastest = next((row for row in group if row.provider == "fastest"), None)
        regret = next((row for row in group if row.metric == "regret"), None)
        if heuristic is None:
            continue
        same = fastest is not None and fastest.plan == heuristic.plan
        shown.add_row(
            f"{op} {case}",
            dtype,
            f"{sum(row.p50 is not None for row in tried)} of {len(tried)}",
            format_us(heuristic.p50),
            format_us(fastest.p50 if fastest else None),
            regret.note if regret else "n/a",
            "n/a" if regret is None or regret.p50 is None else f"{regret.p50:.1%}",
            "the heuristic's" if same else escape(fastest.plan if fastest else heuristic.note),
        )
    return shown


def verdict(rows: Iterable[Row]) -> tuple[str, bool]:
    """One line with median and worst regret and their limits, and whether both are kept."""
    found = regrets(rows)
    if not found:
        return "regret: n/a, no case was tuned", False
    median, worst = statistics.median(found), max(found)
    met = median <= MEDIAN_LIMIT and worst <= WORST_LIMIT
    text = (
        f"regret over {len(found)} cases: median {median:.1%} (at most {MEDIAN_LIMIT:.0%}), "
        f"worst {worst:.1%} (at most {WORST_LIMIT:.0%}): {'met' if met else 'MISSED'}"
    )
    return text, met


def report(rows: list[Row], console: Console) -> bool:
    """Print table and verdict; returns whether the limits are kept."""
    console.print(table(rows))
    text, met = verdict(rows)
    console.print(text, markup=False)
    return met
