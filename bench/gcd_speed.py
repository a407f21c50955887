"""The speed lines of gcd: modelled cycles per element and core, and the emulator's time over torch's here.

Modelled cycles come from public constants and no NPU; the ratios are wall clock of the emulator. Either half alone:
--model-only, --ratios-only.
"""

from __future__ import annotations

from typing import Any

from bench import ratios


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    ratios.add_arguments(parser)


def run(args: Any) -> int:
    """Print both halves; 1 if a result is wrong or, with --strict, if a line is missed."""
    return ratios.run(args, "bench.model_static", ratios.gcd_lines())
