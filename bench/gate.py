"""Compile every kernel variant a plan can reach, and reject bad code.

A variant fails on a loop over elements, on tiles that overflow the unified buffer, on double buffering that the
compiler dropped without an error, and when it does not compile. Chips whose modules are equal but for the attributes
that name the chip are served by one compilation; which chips those are is found out first, by variants of several
kernels. What was compiled before is not compiled again.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.console import make_console
from emulator import inspect, toolchain
from emulator.errors import ToolError
from emulator.toolchain import HivmModule
from ops.variants import Variant, variants
from tiling.platform import DEFAULT_CHIP, VECTOR_CORES, platform

QUICK_LIMIT = 60
PROBES = 6  # kernels compiled for every chip, to find out which chips get the same code
CHIPS = tuple(VECTOR_CORES)

Compile = Callable[[Variant, str], HivmModule]


@dataclass(frozen=True)
class Row:
    """The verdict on one variant for the chips that share its code. `problems` is empty if it passed."""

    name: str
    kernel: str
    dtypes: str
    tile: str
    targets: tuple[str, ...]
    ub_bytes: int
    double_buffered: str
    templates: int
    scalar_loops: int
    problems: tuple[str, ...]


@dataclass
class Result:
    """All verdicts, and what is wrong with the platform table, if anything is."""

    rows: list[Row] = field(default_factory=list)
    platform_problems: list[str] = field(default_factory=list)

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.problems]

    @property
    def passed(self) -> bool:
        return not self.failed and not self.platform_problems


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    parser.add_argument("--quick", action="store_true", help=f"one chip, at most {QUICK_LIMIT} variants (make test)")
    parser.add_argument("--op", choices=("gcd", "as_strided"), help="only this operator's variants")
    parser.add_argument("--target", action="append", choices=CHIPS, help="only this chip; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilations at a time")
    parser.add_argument("--json", type=Path, help="also write the table here")
    parser.add_argument("--all-rows", action="store_true", help="print the variants that passed as well")


def run(args: Any) -> int:
    """Compile, print, and return 1 if anything failed."""
    console = make_console()
    everything = variants(args.op)
    chosen = quick_subset(everything) if args.quick else everything
    chips = tuple(args.target or ((DEFAULT_CHIP,) if args.quick else CHIPS))
    console.print(f"{len(everything)} variants are reachable, {len(chosen)} are compiled for {len(chips)} chips")
    result = gate(chosen, chips, console, jobs=args.jobs)
    console.print(table(result.rows if args.all_rows else result.failed or result.rows[:8]))
    for problem in result.platform_problems:
        console.print(problem, style="red", markup=False)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in result.rows], indent=1))
    if result.passed:
        console.print(f"all {len(result.rows)} pass", style="green")
        return 0
    console.print(f"{len(result.failed)} of {len(result.rows)} fail", style="red")
    return 1


def gate(
    chosen: Sequence[Variant],
    chips: Sequence[str],
    console: Console,
    *,
    jobs: int = 1,
    compile_variant: Compile | None = None,
) -> Result:
    """Compile `chosen` for `chips`; `compile_variant` stands in for the compiler in tests."""
    build = compile_variant or compile_for
    result = Result()
    with ThreadPoolExecutor(max(1, jobs)) as workers, Progress(console=console, transient=True) as progress:
        groups, result.platform_problems = chip_groups(probes(chosen), chips, build, workers.map)
        work = [(variant, group) for group in groups for variant in chosen]
        task = progress.add_task("compiling", total=len(work))
        for row in workers.map(lambda item: judge(item[0], item[1], build), work):
            result.rows.append(row)
            progress.advance(task)
    return result


def compile_for(variant: Variant, chip: str) -> HivmModule:
    """The final module of a variant for a chip, from the cache if it was compiled before."""
    options = {"multibuffer": variant.multibuffer}
    linalg = toolchain.lower_to_linalg(variant.function, dict(variant.signature), dict(variant.constexprs), options)
    return toolchain.compile_hivm(linalg, chip=chip, multibuffer=variant.multibuffer)


def chip_groups(
    tried: Sequence[Variant], chips: Sequence[str], build: Compile, spread: Callable[..., Iterable[Any]] = map
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Chips whose modules are the same code for every probe, and where the platform table differs from the modules."""
    if len(chips) == 1:
        tried = tried[:1]
    pairs = list(itertools.product(chips, tried))

    def attempt(pair: tuple[str, Variant]) -> tuple[str, str, list[str]]:
        chip, probe = pair
        try:
            module = build(probe, chip)
        except ToolError as error:
            return chip, f"error: {error.message}", []  # the variant's own row will say so
        if module.overflow:
            return chip, "overflow", []
        return chip, inspect.without_chip(module), chip_problems(chip, module)

    code: dict[str, list[str]] = {chip: [] for chip in chips}
    problems: dict[str, None] = {}
    for chip, text, found in spread(attempt, pairs):
        code[chip].append(text)
        problems.update(dict.fromkeys(found))
    groups: dict[tuple[str, ...], list[str]] = {}
    for chip in chips:
        groups.setdefault(tuple(code[chip]), []).append(chip)
    return [tuple(members) for members in groups.values()], list(problems)


def chip_problems(chip: str, module: HivmModule) -> list[str]:
    """How `tiling.platform` differs from what the compiler says of a chip."""
    ours = platform(chip)
    found = []
    if (cores := inspect.vector_cores(module)) != ours.vector_cores:
        found.append(f"{chip}: tiling.platform says {ours.vector_cores} vector cores, the module {cores}")
    if (size := inspect.ub_size(module)) != ours.ub_bytes:
        found.append(f"{chip}: tiling.platform says {ours.ub_bytes} bytes of unified buffer, the module {size}")
    return found


def judge(variant: Variant, targets: tuple[str, ...], build: Compile) -> Row:
    """Compile one variant for the first of the chips that share its code, and look at the result."""
    pointers = dict.fromkeys(kind[1:] for _, kind in variant.signature if kind.startswith("*"))
    tile = " ".join(f"{name}={value}" for name, value in variant.constexprs)

    def row(module: HivmModule | None, problems: Iterable[str], loops: int = 0) -> Row:
        buffered, calls = "no", 0
        if module is not None and not module.overflow:
            buffered = "no" if module.multibuffer_dropped else "yes"
            calls = inspect.template_calls(module).total()
        return Row(
            variant.name,
            variant.kernel,
            " ".join(pointers),
            tile,
            targets,
            module.ub_bytes if module else 0,
            buffered if variant.multibuffer else "not asked for",
            calls,
            loops,
            tuple(problems),
        )

    try:
        module = build(variant, targets[0])
    except ToolError as error:
        first = next((line for line in error.message.splitlines() if "error" in line), error.message[:200])
        return row(None, [f"does not compile ({error.stage}): {first.strip()}"])
    if module.overflow:
        return row(module, [f"overflows the unified buffer: wants {module.ub_bytes} bytes"])
    loops = inspect.scalar_loops(module)
    problems = [f"loop over elements at module line {loop.line}: {loop.what}" for loop in loops]
    if module.multibuffer_dropped:
        problems.append("the compiler dropped double buffering")
    return row(module, problems, len(loops))


def probes(chosen: Iterable[Variant]) -> list[Variant]:
    """The first variant of some kernels, of both operators."""
    kernels: dict[tuple[str, str], Variant] = {}
    for variant in chosen:
        kernels.setdefault((variant.op, variant.kernel), variant)
    found = list(kernels.values())
    count = min(PROBES, len(found))
    return [found[index * len(found) // count] for index in range(count)]


def quick_subset(everything: Sequence[Variant], limit: int = QUICK_LIMIT) -> list[Variant]:
    """At most `limit` variants that touch every kernel, every dtype of every argument, and every value of a flag.

    Fixed: a greedy cover, then the variants marked quick, in order. Raises ValueError if `limit` is too small to cover.
    """

    def features(variant: Variant) -> set[tuple[Any, ...]]:
        types = {(variant.op, name, kind) for name, kind in variant.signature if kind.startswith("*")}
        flags = {(variant.kernel, name, value) for name, value in variant.constexprs if isinstance(value, (bool, str))}
        return {(variant.op, variant.kernel)} | types | flags

    left = set().union(*map(features, everything)) if everything else set()
    chosen: list[Variant] = []
    while left:
        best = max(everything, key=lambda variant: (len(features(variant) & left), variant.quick))
        chosen.append(best)
        left -= features(best)
    if len(chosen) > limit:
        raise ValueError(f"{len(chosen)} variants are needed to touch everything, more than {limit}")
    chosen += [variant for variant in everything if variant.quick and variant not in chosen]
    return chosen[:limit]


def table(rows: Sequence[Row]) -> Table:
    """The verdicts as a table."""
    made = Table(title="gate")
    for name in ("kernel", "dtypes", "tile", "targets", "UB bytes", "double buffered", "templates", "loops", "verdict"):
        made.add_column(name, justify="right" if name in ("UB bytes", "templates", "loops") else "left")
    for row in rows:
        targets = row.targets[0] if len(row.targets) == 1 else f"{row.targets[0]} and {len(row.targets) - 1} alike"
        made.add_row(
            row.kernel,
            row.dtypes,
            row.tile,
            targets,
            f"{row.ub_bytes:,}",
            row.double_buffered,
            str(row.templates),
            str(row.scalar_loops),
            "; ".join(row.problems) or "pass",
            style="red" if row.problems else None,
        )
    return made
