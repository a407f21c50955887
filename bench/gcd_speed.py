"""The speed lines of gcd: modelled cycles per element and core, and the emulator's time over torch's here.

Modelled cycles come from public constants and no NPU; the ratios are wall clock of the emulator. Either half alone:
--model-only, --ratios-only.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from bench import compare, ratios, results
from bench.console import make_console


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    ratios.add_arguments(parser)


def run(args: Any) -> int:
    """Print both halves; 1 if a result is wrong or, with --strict, if a line is missed."""
    console = make_console()
    met = True
    if not args.ratios_only:
        # report(console) prints the modelled half and returns whether every line of it is met.
        met = importlib.import_module("bench.model_static").report(console)
    if args.model_only:
        return 1 if args.strict and not met else 0
    outcomes, ratios_met = ratios.measure(ratios.gcd_lines(), args, console)
    results.write(compare.to_rows(outcomes, torch.device("cpu")), args.json, args.csv)
    wrong = any(not outcome.ok for outcome in outcomes)
    return 1 if wrong or (args.strict and not (met and ratios_met)) else 0
