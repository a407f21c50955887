"""The emulator's speed lines: its time over torch's on the same CPU, one thread against one thread, about 1e6 elements.

They say how bearable it is to develop without an NPU, and nothing about one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import compare, criteria, env, results
from bench.cases import AsStridedCase, Case, same
from bench.compare import Outcome
from bench.console import make_console
from bench.providers import PROVIDERS
from bench.timing import ratio
from ops import device as devices

MILLION = 1_000_000

Line = tuple[Case, float]


def gcd_lines() -> list[Line]:
    """Cases of gcd with the most that their ratio may be."""
    return [
        (same("int32", MILLION, "full range"), 0.25),
        (same("int64", MILLION, "below 2^20", bits=20), 0.25),
        (same("int32", MILLION, "below 2^9", bits=9), 0.35),
        (same("int16", MILLION, "full range"), 0.4),
        (same("int8", MILLION, "full range"), 0.3),
        (same("uint8", MILLION, "full range"), 0.3),
        (same("int64", MILLION, "full range"), 0.7),
    ]


def as_strided_lines() -> list[Line]:
    """Cases of as_strided with the most that their ratio may be."""
    square = (1000, 1000)

    def rank1(step: int, dtype: str, limit: float) -> Line:
        return AsStridedCase(f"stride {step}", dtype, (MILLION,), (step,)), limit

    def views(dtype: str, moved: float, transposed: float) -> list[Line]:
        return [
            (AsStridedCase("contiguous", dtype, (MILLION,), (1,)), moved),
            (AsStridedCase("rows", dtype, (1000, 1003), (1008, 1)), moved),
            (AsStridedCase("inner broadcast", dtype, square, (1, 0)), moved),
            (AsStridedCase("outer broadcast", dtype, square, (0, 1)), moved),
            (AsStridedCase("transpose", dtype, square, (1, 1000)), transposed),
            (AsStridedCase("NCHW to NHWC", dtype, (8, 44, 44, 64), (64 * 44 * 44, 44, 1, 44 * 44)), transposed),
        ]

    steps = (2, 3, 4, 5, 6, 7, 8)
    window = ((100_000, 8), (1, 1))
    return [
        *views("float32", 2.0, 1.5),
        *(rank1(step, "float32", 4.0) for step in steps),
        *views("int8", 2.5, 2.5),
        *(rank1(step, "int8", 2.5) for step in steps),
        (AsStridedCase("windows of 8", "int8", *window), 2.5),
        (AsStridedCase("diagonal", "int8", (100_000,), (101,)), 2.5),
        *(rank1(step, "int64", 4.5) for step in steps),
        (AsStridedCase("windows of 8", "int64", *window), 8.0),
    ]


def add_arguments(parser: Any) -> None:
    """Options that both speed commands have."""
    results.add_output_arguments(parser)
    parser.add_argument("--model-only", action="store_true", help="only the modelled cycles")
    parser.add_argument("--ratios-only", action="store_true", help="only the emulator's ratios")
    parser.add_argument("--rounds", type=int, default=5, help="blocks of calls per provider (default 5)")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a line is missed")


def measure(lines: Iterable[Line], args: Any, console: Console) -> tuple[list[Outcome], bool]:
    """Check and time the cases on the CPU, print each ratio against its limit; whether all are right and met."""
    lines = list(lines)
    cpu = torch.device("cpu")
    outcomes = compare.compare([case for case, _ in lines], cpu, console, providers=PROVIDERS, rounds=args.rounds)
    console.print(
        f"Emulator over torch on {devices.describe(cpu)}; {env.one_line()}: one thread against one thread, in phases, "
        "medians; default threads beside",
        markup=False,
    )
    table = Table(header_style="bold")
    for heading in ("case", "dtype"):
        table.add_column(heading)
    for heading in ("emulator", "torch", "ratio", "at most", "default threads"):
        table.add_column(heading, justify="right")
    table.add_column("outcome")
    all_met = True
    for outcome, (case, limit) in zip(outcomes, lines, strict=True):
        times = outcome.times
        value = criteria.Criterion(case.id, case.name, limit).measured(times)
        met = outcome.ok and value is not None and value <= limit
        all_met = all_met and met
        state = "met" if met else "MISSED" if outcome.ok else escape(outcome.note)
        table.add_row(
            f"{case.op} {case.name}",
            case.dtype,
            str(times.project or "n/a"),
            str(times.builtin or "n/a"),
            compare.format_ratio(value),
            f"{limit:g}",
            compare.format_ratio(ratio(times.project_default, times.builtin_default)),
            state,
        )
    console.print(table)
    if (line := compare.disturbance(outcomes)) is not None:
        console.print(line, markup=False)
    console.print(f"ratios: {'all met' if all_met else 'not all met'}")
    return outcomes, all_met


def run(args: Any, modelled: str, lines: list[Line]) -> int:
    """Print an operator's modelled half, by `report` of the module named, and its ratios.

    Returns 1 if a result is wrong or, with --strict, if a line is missed.
    """
    console = make_console()
    met = True
    if not args.ratios_only:
        # report(console) prints the modelled half and returns whether every line of it is met.
        met = importlib.import_module(modelled).report(console)
    if args.model_only:
        return 1 if args.strict and not met else 0
    outcomes, ratios_met = measure(lines, args, console)
    results.write(compare.to_rows(outcomes, torch.device("cpu")), args.json, args.csv)
    wrong = any(not outcome.ok for outcome in outcomes)
    return 1 if wrong or (args.strict and not (met and ratios_met)) else 0
