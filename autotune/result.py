"""What a tuning found: every candidate with its figure or its reason, and how the heuristic did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.candidates import Candidate


class TuningError(RuntimeError):
    """No candidate could be used, the heuristic's own plan included."""


@dataclass(frozen=True)
class TuneResult:
    """Every candidate of one tuning, best first, then those without a figure.

    `plan` is the winner, `heuristic` the plan that is used without tuning, `heuristic_rank` its place by figure (1 is
    the best), `regret` how much longer it takes than the fastest candidate (0.05: 5 %). Both are None when the
    heuristic's own plan failed. `device` names what the figures were taken on; `stored` is the file, None when nothing
    was stored.
    """

    op: str
    problem: Any
    measure: str
    device: str
    candidates: tuple[Candidate, ...]
    winner: Candidate
    stored: Path | None = None

    @property
    def plan(self) -> Any:
        return self.winner.plan

    @property
    def heuristic(self) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.heuristic)

    @property
    def heuristic_rank(self) -> int | None:
        own = self.heuristic.figure
        if own is None:
            return None
        figures = (candidate.figure for candidate in self.candidates)
        return 1 + sum(figure is not None and figure.microseconds < own.microseconds for figure in figures)

    @property
    def regret(self) -> float | None:
        own = self.heuristic.figure
        if own is None:
            return None
        figures = (candidate.figure for candidate in self.candidates)
        return own.microseconds / min(figure.microseconds for figure in figures if figure is not None) - 1.0

    @property
    def failed(self) -> tuple[Candidate, ...]:
        """The candidates without a figure; each has its reason."""
        return tuple(candidate for candidate in self.candidates if candidate.figure is None)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for a results file."""
        return {
            "op": self.op,
            "problem": self.problem.key(),
            "measure": self.measure,
            "device": self.device,
            "heuristic_rank": self.heuristic_rank,
            "regret": self.regret,
            "candidates": [_row(candidate, candidate is self.winner) for candidate in self.candidates],
        }

    def __str__(self) -> str:
        lines = [f"{self.op} {self.problem.key()}, {self.measure} on {self.device}"]
        for candidate in self.candidates:
            marks = " ".join(
                word
                for word, meant in (("winner", candidate is self.winner), ("heuristic", candidate.heuristic))
                if meant
            )
            figure = candidate.figure
            cost = "      n/a" if figure is None else f"{figure.microseconds:9.2f}"
            band = "" if figure is None else f"({figure.low:.2f}-{figure.high:.2f})"
            lines.append(f"  {cost} us {band:>20}  {candidate.name}  {marks or candidate.reason or ''}".rstrip())
        if self.regret is not None:
            lines.append(f"  the heuristic is number {self.heuristic_rank}, {self.regret:.1%} behind the fastest")
        return "\n".join(lines)


def _row(candidate: Candidate, winner: bool) -> dict[str, Any]:
    figure = candidate.figure
    return {
        "decisions": dict(candidate.decisions),
        "microseconds": None if figure is None else figure.microseconds,
        "low": None if figure is None else figure.low,
        "high": None if figure is None else figure.high,
        "host_microseconds": None if figure is None else figure.host_microseconds,
        "detail": {} if figure is None else dict(figure.detail),
        "reason": candidate.reason,
        "heuristic": candidate.heuristic,
        "winner": winner,
    }


def pick(candidates: Sequence[Candidate]) -> Candidate:
    """The fastest candidate that has a figure; the heuristic instead if it is within the noise of that.

    Depends on the candidates and not on their order.
    """
    measured = [(figure, candidate) for candidate in candidates if (figure := candidate.figure) is not None]
    fastest, best = min(measured, key=lambda pair: (pair[0].microseconds, pair[1].name))
    for figure, candidate in measured:
        limit = fastest.microseconds * (1 + max(figure.noise, fastest.noise))
        if candidate.heuristic and figure.microseconds <= limit:
            return candidate
    return best


def speed_order(candidate: Candidate) -> tuple[float, str]:
    """Sort key: fastest first, those without a figure last, ties by name."""
    return (math.inf if candidate.figure is None else candidate.figure.microseconds), candidate.name
