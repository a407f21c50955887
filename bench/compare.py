"""Both operators beside the built-in ones of torch on the same device: checked first, then timed.

On a CPU the project's kernels run in the emulator, so its times say nothing about an NPU. The criterion is one thread
against one thread, in phases; default threads stand beside. On an NPU the host time of a synchronised call and the time
of the kernels on the device are taken, and the table names the kernels that the built-in really ran.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from bench import cases as case_lists
from bench import criteria, env, npu, results, timing
from bench.cases import Case
from bench.console import make_console
from bench.inputs import expected, make_inputs, wrong_results
from bench.providers import (
    BUILTIN,
    PROJECT,
    PROVIDERS,
    Provider,
    RefusalError,
    name_builtin,
    project_plan,
    project_plan_object,
    roof_call,
    roof_name,
)
from bench.timing import Quantiles
from ops import device as devices

BUSY_SHARE = 0.1  # of a row's calls; fewer move no median


@dataclass
class Outcome:
    """What was found out about one case."""

    case: Case
    ok: bool = False
    failed: bool = False
    note: str = ""
    plan: str = ""
    builtin_note: str = ""
    builtin_wrong: int = 0
    times: criteria.Times = field(default_factory=criteria.Times)
    roof: Quantiles | None = None
    project_device: Quantiles | None = None
    builtin_device: Quantiles | None = None
    roof_device: Quantiles | None = None


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    case_lists.add_selection_arguments(parser)
    results.add_output_arguments(parser)
    parser.add_argument("--rounds", type=int, default=4, help="blocks of calls per provider (default 4)")
    parser.add_argument("--check-only", action="store_true", help="check the results, time nothing")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a speed line is missed, too")


def run(args: Any) -> int:
    """Check, time, print; 1 if any row is wrong (or, with --strict, a line is missed), 2 for a wrong selection."""
    console = make_console()
    try:
        chosen = case_lists.selected(args, case_lists.compare_cases())
    except case_lists.CaseError as error:
        console.print(f"bench compare: {error}", markup=False)
        return 2
    device = devices.default_device()
    outcomes = compare(chosen, device, console, rounds=args.rounds, check_only=args.check_only)
    lines, met = criteria.verdicts(criteria.COMPARE, {item.case.id: item.times for item in outcomes})
    report(outcomes, device, console)
    for line in lines if not args.check_only else ():
        console.print(line, markup=False)
    results.write(to_rows(outcomes, device), args.json, args.csv)
    wrong = [item.case.id for item in outcomes if not item.ok]
    if wrong:
        console.print(f"{len(wrong)} of {len(outcomes)} rows are not ok: {', '.join(wrong)}", style="red", markup=False)
        return 1
    console.print(f"{len(outcomes)} rows, all ok")
    return 1 if args.strict and not met else 0


def compare(
    cases: list[Case],
    device: torch.device,
    console: Console,
    *,
    providers: tuple[Provider, ...] = PROVIDERS,
    rounds: int = 4,
    check_only: bool = False,
) -> list[Outcome]:
    """Check every case against the exact reference, then time those that are right."""
    project, builtin = providers
    outcomes = []
    with Progress(console=console, transient=True) as progress:
        if project.name == PROJECT:
            compile_ahead(cases, device, progress)
        task = progress.add_task("checking", total=len(cases))
        for case in cases:
            outcomes.append(check(case, device, project, builtin))
            progress.advance(task)
        task = progress.add_task("timing", total=len(cases))
        for outcome in () if check_only else outcomes:
            if outcome.ok:
                measure(outcome, device, project, builtin, rounds)
            progress.advance(task)
    return outcomes


def compile_ahead(cases: list[Case], device: torch.device, progress: Progress) -> None:
    """Compile what the cases need, in parallel. What does not compile fails in its own row, with its reason."""
    import ops

    task = progress.add_task("compiling what is not in the cache", total=None)
    with contextlib.suppress(NotImplementedError, RuntimeError):
        plans = [plan for case in cases if (plan := project_plan_object(case, make_inputs(case, device))) is not None]
        ops.precompile(
            plans, device=device, progress=lambda done, total, name: progress.update(task, completed=done, total=total)
        )
    progress.remove_task(task)


def check(case: Case, device: torch.device, project: Provider, builtin: Provider) -> Outcome:
    """Run both once and compare every bit with the reference. Only the project's result decides."""
    outcome = Outcome(case)
    inputs = make_inputs(case, device)
    reference = expected(case, inputs)
    try:
        theirs = builtin.prepare(case, inputs)()
        outcome.builtin_wrong = wrong_results(case, theirs, reference)
    except RefusalError as refusal:
        outcome.builtin_note = str(refusal)
    try:
        if project.name == PROJECT:
            outcome.plan = project_plan(case, inputs)
        actual = project.prepare(case, inputs)()
        devices.synchronize(device)
    except (NotImplementedError, RuntimeError, RefusalError) as error:
        outcome.failed = True
        outcome.note = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return outcome
    wrong = wrong_results(case, actual, reference)
    outcome.ok = wrong == 0
    if wrong:
        outcome.note = f"{wrong} of {case.elements} elements are wrong"
    return outcome


def measure(outcome: Outcome, device: torch.device, project: Provider, builtin: Provider, rounds: int) -> None:
    """Times of one case, filled into its outcome. What the built-in refuses stays n/a, with its own words."""
    case = outcome.case
    inputs = make_inputs(case, device)
    calls = {PROJECT: project.prepare(case, inputs), "roof": roof_call(case, inputs)}
    try:
        calls[BUILTIN] = builtin.prepare(case, inputs)
    except RefusalError as refusal:
        outcome.builtin_note = str(refusal)
    if device.type == "npu":
        measure_on_npu(outcome, device, calls, rounds)
        return
    with timing.thread_count(1):
        single = timing.phases(calls, rounds=rounds, single_thread=True)
    del calls["roof"]
    default = timing.phases(calls, rounds=2)
    outcome.roof = single["roof"]
    outcome.times = criteria.Times(single[PROJECT], single.get(BUILTIN), default[PROJECT], default.get(BUILTIN))


def measure_on_npu(outcome: Outcome, device: torch.device, calls: dict[str, Any], rounds: int) -> None:
    """Host time of synchronised calls, kernel time from the profiler, and what the built-in ran."""
    host = timing.phases(calls, rounds=rounds, synchronize=lambda: devices.synchronize(device))
    outcome.times = criteria.Times(host[PROJECT], host.get(BUILTIN), host[PROJECT], host.get(BUILTIN))
    outcome.roof = host["roof"]
    outcome.project_device = npu.device_time(calls[PROJECT], device).time
    outcome.roof_device = npu.device_time(calls["roof"], device).time
    if BUILTIN in calls:
        taken = npu.device_time(calls[BUILTIN], device)
        outcome.builtin_device = taken.time
        outcome.builtin_note = name_builtin(taken.kernels, taken.warned)


def report(outcomes: list[Outcome], device: torch.device, console: Console) -> None:
    """The header and the table."""
    console.print(f"Device: {devices.describe(device)}; {env.one_line()}", markup=False)
    if device.type != "npu":
        console.print(
            "Times are of the emulator on this host, not of an NPU: medians (20 % to 80 % quantiles), one thread "
            "against one thread, in phases; the ratio with default threads stands beside.",
            markup=False,
        )
    on_npu = device.type == "npu"
    table = Table(header_style="bold")
    table.add_column("case", overflow="fold")
    table.add_column("dtype", overflow="fold")
    table.add_column("ok")
    headings = ("host", "built-in host", "kernels", "built-in kernels") if on_npu else (PROJECT, BUILTIN)
    for heading in (*headings, "ratio", *(() if on_npu else ("default threads",)), "GB/s", "of roof"):
        table.add_column(heading, justify="right")
    table.add_column("built-in ran" if on_npu else "note", overflow="fold")
    for outcome in outcomes:
        table.add_row(*table_cells(outcome, on_npu))
    console.print(table)
    console.print(
        "ratio: this project's time over the built-in's, below 1 is faster. of roof: time of a measured "
        "contiguous copy (as_strided) or elementwise add (gcd) of the same bytes over this project's time.",
        markup=False,
    )
    if (line := disturbance(outcomes)) is not None:
        console.print(line, markup=False)


def table_cells(outcome: Outcome, on_npu: bool) -> list[str]:
    """Cells of one row, in the order of the headings."""
    case, times = outcome.case, outcome.times
    state = "[green]ok[/]" if outcome.ok else "[red]failed[/]" if outcome.failed else "[red]wrong[/]"
    first = [f"{case.op} {case.name}", case.dtype, state]
    if on_npu:
        ours, theirs, roof = outcome.project_device, outcome.builtin_device, outcome.roof_device
        shown = [times.project, times.builtin, ours, theirs]
    else:
        ours, theirs, roof = times.project, times.builtin, outcome.roof
        shown = [ours, theirs]
    texts = [str(value) if value else "n/a" for value in shown]
    texts.append(format_ratio(timing.ratio(ours, theirs)))
    if not on_npu:
        texts.append(format_ratio(timing.ratio(times.project_default, times.builtin_default)))
    bandwidth = timing.gigabytes_per_second(case.bytes, ours)
    texts.append("n/a" if bandwidth is None else f"{bandwidth:.2f}")
    of_roof = timing.ratio(roof, ours)
    texts.append("n/a" if of_roof is None else f"{100 * of_roof:.0f} %")
    return [*first, *texts, escape(notes(outcome))]


def notes(outcome: Outcome) -> str:
    """What went wrong here, what the built-in ran or refused, and where its own result is not exact."""
    texts = [outcome.note, outcome.builtin_note]
    if outcome.builtin_wrong:
        texts.append(f"the built-in differs from the exact result in {outcome.builtin_wrong} elements")
    return "; ".join(text for text in texts if text)


def disturbance(outcomes: list[Outcome]) -> str | None:
    """One line if other processes took the core from many calls, None on a quiet machine."""
    times = [taken for item in outcomes for taken in (item.times.project, item.times.builtin) if taken is not None]
    worst = max((taken.disturbed for taken in times), default=0.0)
    if worst < BUSY_SHARE:
        return None
    return (
        f"This machine is busy: up to {worst:.0%} of a row's calls lost their core and count by CPU time; "
        "the figures with default threads mean little."
    )


def format_ratio(value: float | None) -> str:
    """A ratio with two digits, or n/a."""
    return "n/a" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def to_rows(outcomes: list[Outcome], device: torch.device) -> list[results.Row]:
    """Long-format rows: one per provider, metric and threading."""
    rows: list[results.Row] = []
    on_npu = device.type == "npu"
    for outcome in outcomes:
        case, times = outcome.case, outcome.times
        common: dict[str, Any] = {
            "op": case.op,
            "case": case.name,
            "dtype": case.dtype,
            "elements": case.elements,
            "bytes": case.bytes,
        }

        def add(provider: str, metric: str, taken: Quantiles | None, threads: int | None, common: Any = common) -> None:
            row = results.Row(**common, provider=provider, metric=metric, unit="us", threads=threads)
            rows.append(fill(row, taken))

        single = None if on_npu else 1
        add(PROJECT, "host time", times.project, single)
        rows[-1] = replace(rows[-1], ok=outcome.ok, plan=outcome.plan, note=outcome.note)
        add(BUILTIN, "host time", times.builtin, single)
        rows[-1] = replace(rows[-1], note=notes(replace(outcome, note="")))
        add(roof_name(case), "host time", outcome.roof, single)
        if on_npu:
            add(PROJECT, "device time", outcome.project_device, None)
            add(BUILTIN, "device time", outcome.builtin_device, None)
            add(roof_name(case), "device time", outcome.roof_device, None)
        else:
            add(PROJECT, "host time, default threads", times.project_default, None)
            add(BUILTIN, "host time, default threads", times.builtin_default, None)
    return results.stamp(rows, devices.describe(device), env.versions())


def fill(row: results.Row, taken: Quantiles | None) -> results.Row:
    """The row with quantiles and bandwidth, or without any where no time could be taken."""
    if taken is None:
        return row
    bandwidth = timing.gigabytes_per_second(row.bytes, taken)
    return replace(row, p20=taken.p20, p50=taken.p50, p80=taken.p80, gb_per_s=bandwidth)
