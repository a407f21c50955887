"""Speed lines the project sets itself, and whether the medians of this run meet them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.timing import Quantiles, format_us, ratio


@dataclass(frozen=True)
class Times:
    """Medians of one case: this project and the built-in, with one thread each and with default threads."""

    project: Quantiles | None = None
    builtin: Quantiles | None = None
    project_default: Quantiles | None = None
    builtin_default: Quantiles | None = None


@dataclass(frozen=True)
class Criterion:
    """At most `limit` times the built-in's time, or at most `limit` microseconds where `absolute`."""

    case: str
    text: str
    limit: float
    absolute: bool = False

    def measured(self, times: Times) -> float | None:
        """The figure to hold against the limit: one thread against one thread."""
        if self.absolute:
            return times.project.p50 if times.project else None
        return ratio(times.project, times.builtin)

    def beside(self, times: Times) -> float | None:
        """The same figure with default threads."""
        if self.absolute:
            return times.project_default.p50 if times.project_default else None
        return ratio(times.project_default, times.builtin_default)


COMPARE = (
    Criterion("gcd/int32/1e6 full range", "gcd, 1e6 full-range int32 pairs", 0.25),
    Criterion("as_strided/float32/rows 1000x1003 of 1008", "as_strided (1000,1003),(1008,1) float32", 2.0),
    Criterion("gcd/int32/16 elements", "warm gcd of 16 elements", 40.0, absolute=True),
)


def verdict(criterion: Criterion, times: Times) -> tuple[str, bool | None]:
    """One line with the measured value, its limit and both threadings; and whether it is met (None: not measured)."""
    value, beside = criterion.measured(times), criterion.beside(times)

    def shown(figure: float | None) -> str:
        if criterion.absolute:
            return format_us(figure)
        return "n/a" if figure is None else f"{figure:.2f}"

    limit = format_us(criterion.limit) if criterion.absolute else f"{criterion.limit:g} of the built-in"
    if value is None:
        return f"{criterion.text}: n/a (at most {limit})", None
    met = value <= criterion.limit
    times_text = ""
    if not criterion.absolute and times.project and times.builtin:
        times_text = f" = {format_us(times.project.p50)} / {format_us(times.builtin.p50)}"
    outcome = "met" if met else "MISSED"
    return (
        f"{criterion.text}: {shown(value)}{times_text}, at most {limit}: {outcome} (default threads {shown(beside)})",
        met,
    )


def verdicts(criteria: tuple[Criterion, ...], times: Mapping[str, Times]) -> tuple[list[str], bool]:
    """Lines for the criteria whose case was measured, and whether every one of them is met."""
    lines, all_met = [], True
    for criterion in criteria:
        if criterion.case not in times:
            continue
        line, met = verdict(criterion, times[criterion.case])
        lines.append(line)
        all_met = all_met and met is True
    return lines, all_met
