"""Modelled cycles of calls, by pipe: the compiled kernels run at the device level, priced by the platform's constants.

Nothing here was measured on an NPU. Without options: all eight dtypes of gcd and the twelve documented paths of
as_strided, as the README shows them (--markdown prints that table). One call of your own:

    python -m bench cycles --op gcd --dtype int16 --shape 1000000
    python -m bench cycles --op as_strided --dtype float32 --shape 1000,1000 --stride 1,1000 --trace out.json

A figure that rests on a constant nobody measured is a band, with the constants that widen it. --trace writes the
pipeline of one program for ui.perfetto.dev.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ops
from bench.cases import GCD_DTYPES, ITEM_BYTES, MILLION, AsStridedCase, Case, GcdCase, same
from bench.console import make_console
from bench.inputs import expected, make_inputs, wrong_elements
from emulator import cycles, trace
from emulator.replay import PIPES
from tiling.as_strided import TilingKey, classify
from tiling.platform import DEFAULT_CHIP, VECTOR_CORES, Platform, platform

# A few programs stand for a launch: they differ in little but the last, which is always among them.
SAMPLE = 4

# One call for each documented path, of a size at which the path matters.
PATHS: dict[TilingKey, AsStridedCase] = {
    TilingKey.CONTIGUOUS: AsStridedCase("contiguous 2^20", "float32", (2**20,), (1,)),
    TilingKey.CONTIGUOUS_SMALL_ALIGNED: AsStridedCase("contiguous 256", "float32", (256,), (1,)),
    TilingKey.STRIDE_1: AsStridedCase("rows 1000x1003 of 1008", "float32", (1000, 1003), (1008, 1)),
    TilingKey.STRIDE1_ROW_BATCH: AsStridedCase("rows 100x3 of 5", "float32", (100, 3), (5, 1)),
    TilingKey.GENERAL_STRIDE: AsStridedCase("transpose 1024x1024", "float32", (1024, 1024), (1, 1024)),
    TilingKey.GENERAL_SMALL_SPAN: AsStridedCase("100x5, strides 30 and 3", "float32", (100, 5), (30, 3)),
    TilingKey.BROADCAST: AsStridedCase("5000x200, strides 1 and 0", "float32", (5000, 200), (1, 0)),
    TilingKey.RANK1_STRIDE: AsStridedCase("2^20, stride 2", "float32", (2**20,), (2,)),
    TilingKey.RANK1_STRIDE_SPAN: AsStridedCase("4096, stride 3", "float32", (4096,), (3,)),
    TilingKey.COMPACT_SPAN: AsStridedCase("2x1000, strides 1 and 2", "float32", (2, 1000), (1, 2)),
    TilingKey.COMPACT_SUFFIX: AsStridedCase("windows of 8, 3000", "float32", (3000, 8), (1, 1)),
    TilingKey.SCALAR: AsStridedCase("empty", "float32", (0, 4), (4, 1)),
}


@dataclass(frozen=True)
class Row:
    """What the model says of one call. Cycles are per output element and core, times in microseconds of the chip.

    `per_element` and `pipes` hold the total and the part of each pipe. `low..high` is the band over all unmeasured
    constants, `guesses` those of them that forbid a point. `ok` is None where only some programs ran.
    """

    op: str
    dtype: str
    name: str
    path: str
    kernel: str
    elements: int
    per_element: float
    pipes: dict[str, float]
    bound: str
    microseconds: float
    low: float
    high: float
    hbm_floor: float
    figure: str
    guesses: tuple[str, ...]
    ok: bool | None


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    parser.add_argument("--op", choices=("gcd", "as_strided"), help="one call in place of the whole table")
    parser.add_argument("--dtype", default="int32", help="dtype of the call (default int32)")
    parser.add_argument("--shape", type=_numbers, default=(MILLION,), help="output size, such as 1000,1000")
    parser.add_argument("--stride", type=_numbers, help="as_strided: strides (default: contiguous)")
    parser.add_argument("--offset", type=int, default=0, help="as_strided: storage offset")
    parser.add_argument("--bits", type=int, help="gcd: magnitudes below 2^BITS (default: the whole range)")
    parser.add_argument("--chip", choices=tuple(VECTOR_CORES), default=DEFAULT_CHIP, help=f"default {DEFAULT_CHIP}")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="programs to run of a launch; 0 for all")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the pipeline of one program")
    parser.add_argument("--program", type=int, help="the program to trace (default: the first that ran)")
    parser.add_argument("--costs", action="store_true", help="also list the constants: value, source, status, range")
    parser.add_argument("--markdown", action="store_true", help="print the README's table and nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows here")


def run(args: Any) -> int:
    """Model, print; 1 if a complete run gave a wrong result, 2 for a wrong command line."""
    console = make_console()
    chip = platform(args.chip)
    if args.markdown:
        print(readme_table(chip))
        return 0
    try:
        chosen = [case_of(args)] if args.op else readme_cases()
    except ValueError as error:
        console.print(f"bench cycles: {error}", markup=False)
        return 2
    sample = args.sample or None
    rows, reports = [], []
    for case in track(chosen, "modelling", console=console, transient=True):
        row, report = model(case, chip, sample)
        rows.append(row)
        reports.append(report)
    console.print(table(rows, chip))
    if args.op:
        explain(reports[0], console)
    if args.costs:
        console.print(cost_table(chip))
    if args.trace:
        written = trace.write(reports[0].launches[0], chip.costs, args.trace, args.program)
        console.print(f"{written} steps in {args.trace}: open it at ui.perfetto.dev")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if any(row.ok is False for row in rows) else 0


def case_of(args: Any) -> Case:
    """The call that the options describe. Raises ValueError if they do not describe one."""
    known = GCD_DTYPES if args.op == "gcd" else tuple(ITEM_BYTES)
    if args.dtype not in known:
        raise ValueError(f"no dtype {args.dtype!r} for {args.op}: expected one of {', '.join(known)}")
    if args.op == "gcd":
        return GcdCase(_text(args.shape), (args.dtype, args.dtype), (args.shape, args.shape), args.bits)
    stride = args.stride if args.stride is not None else _contiguous(args.shape)
    if len(stride) != len(args.shape):
        raise ValueError(f"{len(args.shape)} sizes and {len(stride)} strides")
    return AsStridedCase(f"{_text(args.shape)} by {_text(stride)}", args.dtype, args.shape, stride, args.offset)


def readme_cases() -> list[Case]:
    """gcd of a million elements in every dtype, and a call of every documented path of as_strided."""
    return [*(same(dtype, MILLION, "1e6") for dtype in GCD_DTYPES), *PATHS.values()]


def model(case: Case, chip: Platform, sample: int | None = SAMPLE) -> tuple[Row, cycles.Report]:
    """Run a call at the device level and price it. With `sample`, so many programs of each launch run."""
    inputs = make_inputs(case, torch.device("cpu"))
    with cycles.record(chip.costs, cores=chip.vector_cores, sample=sample) as report:
        if isinstance(case, GcdCase):
            result = ops.gcd(*inputs.tensors, out=inputs.out)
        else:
            result = ops.as_strided(inputs.tensors[0], case.size, case.stride, case.offset)
    ok = wrong_elements(result, expected(case, inputs)) == 0 if report.complete else None
    path = ""
    if isinstance(case, AsStridedCase):
        itemsize = inputs.tensors[0].element_size()
        path = classify(case.size, case.stride, case.offset, itemsize).name
    low, high = report.band
    divisor = max(1, case.elements)
    row = Row(
        case.op,
        case.dtype,
        case.name,
        path,
        ", ".join(dict.fromkeys(launch.kernel.name for launch in report.launches)) or "no launch",
        case.elements,
        report.program_cycles / divisor,
        {pipe: spent / divisor for pipe, spent in report.pipes.items()},
        report.bound if report.launches else "",
        report.microseconds,
        low,
        high,
        report.floor,
        report.figure() if report.launches else "",
        tuple(report.guesses) if report.launches else (),
        ok,
    )
    return row, report


def table(rows: Sequence[Row], chip: Platform) -> Table:
    """The rows for a terminal."""
    made = Table(title=f"modelled for {chip.chip} ({chip.vector_cores} vector cores, {chip.profile} costs)")
    for name in _COLUMNS:
        made.add_column(name, justify="left" if name in ("call", "kernel", "bound", "time, band or point") else "right")
    for row in rows:
        made.add_row(*_cells(row), style="red" if row.ok is False else None)
    return made


_COLUMNS = ("call", "kernel", "cycles/element", *PIPES, "bound", "HBM floor, us", "time, band or point")


def _cells(row: Row) -> list[str]:
    call = f"{row.op} {row.dtype} {row.path.lower() or row.name}"
    if not row.bound:
        return [call, row.kernel, *[""] * (len(_COLUMNS) - 2)]
    shares = [f"{row.pipes[pipe]:.2f}" for pipe in PIPES]
    return [call, row.kernel, f"{row.per_element:.2f}", *shares, row.bound, f"{row.hbm_floor:.1f}", row.figure]


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a table for the README."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in _cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def readme_table(chip: Platform | None = None) -> str:
    """The README's table of modelled figures: eight gcd dtypes, twelve as_strided paths."""
    where = chip or platform()
    return markdown(model(case, where)[0] for case in readme_cases())


def explain(report: cycles.Report, console: Console) -> None:
    """What one call's cycles consist of, and which constants could change its time most."""
    parts = sorted(report.detail.by_class.items(), key=lambda item: -item[1])
    total = report.program_cycles
    console.print("vector pipe: " + ", ".join(f"{name} {spent / total:.0%}" for name, spent in parts[:8]), markup=False)
    counted = report.detail
    console.print(
        f"DMA: {counted.loads:.0f} in with {counted.load_bursts:.0f} bursts, {counted.stores:.0f} out with "
        f"{counted.store_bursts:.0f}; scalar accesses: {counted.scalar_ub:.0f} to UB, {counted.scalar_gm:.0f} to GM",
        markup=False,
    )
    for one in report.sensitivities()[:6]:
        if one.spread > 0:
            console.print(f"{one.name} over its range: {one.low:.1f} to {one.high:.1f} us", markup=False)


def cost_table(chip: Platform) -> Table:
    """The constants the model reads, with where they come from."""
    made = Table(title="constants")
    for name in ("name", "value", "unit", "plausible range", "status", "source"):
        made.add_column(name)
    for name in cycles.names():
        cost = chip.costs[name]
        made.add_row(name, f"{cost.value:g}", cost.unit, f"{cost.low:g} to {cost.high:g}", cost.status, cost.source)
    return made


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace("x", ",").split(",") if part)


def _text(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers)) or "0-d"


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)
