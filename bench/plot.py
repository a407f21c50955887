"""Figures from the results of compare and sweep, as PNG and SVG.

    speedup     built-in time over this project's, a bar a case
    size        time against the number of elements, with the roof: a measured copy or add, or the memory's floor
    candidates  every candidate plan of each tuned case, with the heuristic's and the fastest marked
    pipes       busy share of each pipe of a core, a bar a modelled case

Each kind is drawn if the files hold rows for it. One modelled sweep holds them for all but the speed-ups, which
`compare` takes:

    python -m bench sweep --regret --json sweep.json
    python -m bench compare --json compare.json
    python -m bench plot sweep.json compare.json --out docs/figures
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bench import results
from bench.providers import ADD_ROOF, BUILTIN, COPY_ROOF, MEMORY_FLOOR, PROJECT
from bench.regret import by_case
from bench.results import ResultsError, Row
from bench.timing import ratio

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#999999"  # told apart also without colour vision
PIPE_COLOURS = {"V": BLUE, "S": ORANGE, "MTE2": GREEN, "MTE3": "#cc79a7"}
PIPE_METRIC = "busy "  # rows of a model: "busy V" and so on, as fractions

MOST_BARS = 40  # more cannot be read on one page; the rest go on further pages


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="files written with --json or --csv")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for the figures (default figures)")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only this kind of figure")


def run(args: Any) -> int:
    """Draw what the files hold rows for; 1 if that is nothing, 2 if a file cannot be read."""
    try:
        rows = [row for path in args.results for row in results.read(path)]
    except ResultsError as error:
        print(f"bench plot: {error}")
        return 2
    written = draw(rows, args.out, args.kind or sorted(KINDS))
    for path in written:
        print(path)
    if not written:
        print("bench plot: the files hold no rows for these kinds of figure")
    return 0 if written else 1


def draw(rows: list[Row], folder: Path, kinds: Iterable[str]) -> list[Path]:
    """Write the figures of these kinds, for each device that has rows for them, as PNG and SVG; returns the files."""
    written: list[Path] = []
    devices = list(dict.fromkeys(row.device for row in rows))
    for kind in kinds:
        drawn = [KINDS[kind]([row for row in rows if row.device == device], device) for device in devices]
        drawn = [figures for figures in drawn if figures]
        for number, figures in enumerate(drawn):
            which = f"-{number + 1}" if len(drawn) > 1 else ""
            for page, figure in enumerate(figures):
                written += save(figure, folder / f"{kind}{which}{f'-page{page + 1}' * (page > 0)}")
    return written


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write one figure as PNG and SVG and close it. The SVG is the same for the same rows."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    with matplotlib.rc_context({"svg.hashsalt": "bench", "svg.fonttype": "none"}):
        figure.savefig(paths[0], dpi=150)
        figure.savefig(paths[1], metadata={"Date": None})
    pyplot.close(figure)
    return paths


def horizontal(count: int, title: str, x_label: str) -> tuple[Figure, Any]:
    """A figure with room for `count` horizontal bars."""
    figure, axes = pyplot.subplots(figsize=(10, 1.6 + 0.28 * count), layout="constrained")
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x_label)
    axes.margins(y=0.01)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def plain_ticks(axes: Any) -> None:
    """1, 2, 5 instead of powers of ten on a logarithmic axis of ratios."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def label(row: Row) -> str:
    """A case as it stands on an axis."""
    return f"{row.op} {row.case} [{row.dtype}]"


def best_times(rows: list[Row], provider: str) -> dict[tuple[str, str, str], Row]:
    """The row of a provider for each case: device time where there is one, else host or modelled time."""
    found: dict[tuple[str, str, str], Row] = {}
    for metric in ("modelled time", "host time", "device time"):
        for row in rows:
            if (row.provider, row.metric) == (provider, metric) and row.p50 is not None:
                found[row.op, row.dtype, row.case] = row
    return found


def speedup(rows: list[Row], device: str) -> list[Figure]:
    """Bars of built-in time over this project's; the line at 1 is equality."""
    ours, theirs = best_times(rows, PROJECT), best_times(rows, BUILTIN)
    bars = [
        (label(row), value)
        for key, row in ours.items()
        if key in theirs and row.ok is not False and (value := ratio(theirs[key].p50, row.p50)) is not None
    ]
    figures = []
    for start in range(0, len(bars), MOST_BARS):
        page = bars[start : start + MOST_BARS][::-1]
        figure, axes = horizontal(
            len(page), f"Speed-up over the built-in operator\n{device}", "built-in time / time (×)"
        )
        values = [value for _, value in page]
        axes.barh([text for text, _ in page], values, color=[BLUE if value >= 1 else ORANGE for value in values])
        axes.axvline(1.0, color="black", linewidth=1)
        axes.set_xscale("log")
        plain_ticks(axes)
        axes.margins(x=0.12)
        for place, value in enumerate(values):
            axes.annotate(
                f"{value:.2f}",
                (value, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        figures.append(figure)
    return figures


def family(row: Row) -> str:
    """What cases that differ in size only have in common: operator, dtype and name without the size."""
    return " ".join([row.op, f"[{row.dtype}]", re.sub(r"2\^\d+", "", row.case, count=1).strip()]).strip()


def size(rows: list[Row], device: str) -> list[Figure]:
    """Time against elements: a line where cases differ in size only, dots for all others, the roofs as dashes."""
    families: dict[str, list[Row]] = {}
    for row in best_times(rows, PROJECT).values():
        if row.elements > 0:
            families.setdefault(family(row), []).append(row)
    lines = {name: points for name, points in families.items() if len({point.elements for point in points}) > 1}
    if not lines:
        return []
    figure, axes = pyplot.subplots(figsize=(10, 7), layout="constrained")
    roofs: list[str] = []
    for name, points in sorted(lines.items()):
        (drawn,) = axes.plot(*_sorted(points), "o-", label=name, markersize=5, linewidth=1.6)
        for roof in (COPY_ROOF, ADD_ROOF, MEMORY_FLOOR):
            below = [row for row in best_times(rows, roof).values() if family(row) == name and row.elements > 0]
            if len(below) > 1:
                axes.plot(*_sorted(below), "--", linewidth=1.0, color=drawn.get_color())
                roofs.append(roof)
    if roofs:
        axes.plot(
            [], [], "--", color="black", linewidth=1.0, label=f"in the same colour: {', '.join(dict.fromkeys(roofs))}"
        )
    for op, marker in (("gcd", "^"), ("as_strided", "s")):
        alone = [point for name, points in families.items() if name not in lines for point in points if point.op == op]
        if alone:
            axes.plot(*_sorted(alone), marker, color=GREY, markersize=4, label=f"{op}, other cases")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    # The floor of a tiny case lies decades below anything that runs.
    axes.set_ylim(bottom=min(point.p50 or 1.0 for points in families.values() for point in points) / 3)
    axes.set_xlabel("elements of the result")
    axes.set_ylabel("time (us)")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"Time against size\n{device}", fontsize=11)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", fontsize=8, ncols=3)
    return [figure]


def _sorted(points: list[Row]) -> tuple[list[int], list[float]]:
    """Elements and times of some rows, by elements."""
    pairs = sorted((point.elements, point.p50 or 0.0) for point in points)
    return [elements for elements, _ in pairs], [taken for _, taken in pairs]


def candidates(rows: list[Row], device: str) -> list[Figure]:
    """Dots of every candidate's time over the fastest, a line a case."""
    tuned = []
    for group in by_case(rows).values():
        figures = [row for row in group if row.provider in ("candidate", "heuristic") and row.unit == "us"]
        times = [row.p50 for row in figures if row.p50 is not None]
        if len(times) > 1:
            tuned.append((label(group[0]), [row for row in figures if row.p50 is not None], min(times)))
    drawn = []
    for start in range(0, len(tuned), MOST_BARS):
        page = tuned[start : start + MOST_BARS][::-1]
        title = f"Candidate plans of each tuning\n{device}"
        figure, axes = horizontal(len(page), title, "time / time of the fastest candidate (×)")
        for place, (_, tried, fastest) in enumerate(page):
            for row in tried:
                heuristic = row.provider == "heuristic"
                axes.plot(
                    (row.p50 or 0.0) / fastest,
                    place,
                    "D" if heuristic else "o",
                    color=ORANGE if heuristic else BLUE,
                    alpha=1.0 if heuristic else 0.5,
                    markersize=6 if heuristic else 4,
                    zorder=3 if heuristic else 2,
                )
        axes.set_yticks(range(len(page)), [text for text, _, _ in page])
        axes.set_xscale("log")
        plain_ticks(axes)
        axes.plot([], [], "D", color=ORANGE, label="the heuristic's plan")
        axes.plot([], [], "o", color=BLUE, label="another candidate")
        figure.legend(loc="outside lower center", fontsize=8, ncols=2)
        drawn.append(figure)
    return drawn


def pipes(rows: list[Row], device: str) -> list[Figure]:
    """Grouped bars of the busy share of each pipe, a group a modelled case."""
    shares: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.metric.startswith(PIPE_METRIC) and row.p50 is not None:
            shares.setdefault(label(row), {})[row.metric.removeprefix(PIPE_METRIC)] = row.p50
    names = [pipe for pipe in PIPE_COLOURS if any(pipe in share for share in shares.values())]
    drawn = []
    for start in range(0, len(shares), MOST_BARS):
        page = list(shares.items())[start : start + MOST_BARS][::-1]
        figure, axes = horizontal(round(1.4 * len(page)), f"Busy share of each pipe\n{device}", "share of the time (%)")
        height = 0.8 / max(1, len(names))
        for number, pipe in enumerate(names):
            places = [place + 0.4 - height * (number + 0.5) for place in range(len(page))]
            values = [100 * share.get(pipe, 0.0) for _, share in page]
            axes.barh(places, values, height=height, color=PIPE_COLOURS[pipe], label=pipe)
        axes.set_yticks(range(len(page)), [text for text, _ in page])
        axes.set_xlim(0, 100)
        figure.legend(loc="outside lower center", fontsize=8, ncols=len(names))
        drawn.append(figure)
    return drawn


KINDS: dict[str, Callable[[list[Row], str], list[Figure]]] = {
    "speedup": speedup,
    "size": size,
    "candidates": candidates,
    "pipes": pipes,
}
