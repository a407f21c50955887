"""Many cases, each checked and measured: resumable, in parallel, over several devices.

What is finished is in a journal at once, so Ctrl-C or a kill loses at most the rows in work, and the same command goes
on from there. When this project's source, the toolchain, the chip or its costs have changed, all is measured anew.
Under `torchrun --nproc-per-node=N -m bench sweep` the rows are split over N devices (or processes) and merged.

Measures: device (kernel time on an NPU), model (modelled cycles of the compiled kernels), host (wall clock, which on a
CPU is the emulator's), auto (device on an NPU, else model). --regret measures every candidate plan of each case and
shows how far the heuristic's choice is from the best.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench import cases as case_lists
from bench import regret, results
from bench.console import make_console
from bench.distributed import Group
from bench.journal import Journal
from bench.pool import COMMAND, Pool
from bench.providers import MEMORY_FLOOR
from bench.results import Row
from bench.tasks import MEASURES, Task, resolve
from bench.timing import format_us
from ops.device import APPLICATION

INTERRUPTED = 130  # what a shell reports for a command ended by Ctrl-C


def default_journal() -> Path:
    """Where finished rows are kept unless --journal names another file."""
    return Path(platformdirs.user_cache_dir(APPLICATION)) / "sweep.jsonl"


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    case_lists.add_selection_arguments(parser)
    results.add_output_arguments(parser)
    parser.add_argument("--measure", choices=MEASURES, default="auto", help="what a figure is (default auto)")
    parser.add_argument("--regret", action="store_true", help="measure all candidate plans and rank the heuristic's")
    parser.add_argument("--store", action="store_true", help="with --regret: store the winners for later calls")
    parser.add_argument("--jobs", type=int, default=1, help="rows measured at the same time (default 1)")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds after which a row is given up")
    parser.add_argument("--journal", type=Path, default=None, help=f"finished rows (default {default_journal()})")
    parser.add_argument("--fresh", action="store_true", help="measure anew what the journal already holds")
    parser.add_argument("--strict", action="store_true", help="with --regret: exit 1 if the limits are not kept")


def run(args: Any, command: tuple[str, ...] = COMMAND) -> int:
    """Measure what is missing and print everything; 1 if a row failed, 2 for a wrong command line, 130 after Ctrl-C."""
    console = make_console()
    try:
        chosen = case_lists.selected(args, case_lists.sweep_cases())
        tasks = plan_tasks(args, chosen)
    except (case_lists.CaseError, ValueError) as error:
        console.print(f"bench sweep: {error}", markup=False)
        return 2
    journal = Journal(args.journal or default_journal())
    with interruptible(), Group() as group:
        console.quiet = group.rank != 0
        try:
            rows, failed = measure(tasks, journal, group, args, console, command)
        except KeyboardInterrupt:
            done = len(set(journal.read()) & {task.key for task in tasks})
            console.print(f"interrupted: {done} of {len(tasks)} rows are done, the same command does the rest")
            return INTERRUPTED
        if group.rank != 0:
            return 0
        return report(rows, failed, args, console)


def plan_tasks(args: Any, chosen: list[case_lists.Case]) -> list[Task]:
    """One task a case. Raises ValueError for options that do not go together."""
    measure = resolve(args.measure)
    if args.jobs < 1:
        raise ValueError("--jobs must be at least 1")
    if measure != "model" and args.jobs > 1:
        raise ValueError(f"--measure {measure} takes times, which jobs beside it would disturb: use --jobs 1")
    if args.store and not args.regret:
        raise ValueError("--store goes with --regret")
    return [Task(case, measure, tune=args.regret, save=args.store) for case in chosen]


def measure(
    tasks: list[Task], journal: Journal, group: Group, args: Any, console: Console, command: tuple[str, ...]
) -> tuple[list[Row], list[tuple[str, str]]]:
    """Run this process's part of what is missing; returns all rows in the order of tasks, and failures with reasons.

    Rank 0 alone decides what is missing: a journal read later would already hold rows of faster ranks.
    """
    known = {} if args.fresh else journal.read()
    missing = set(group.broadcast([task.key for task in tasks if task.key not in known]))
    mine = group.share([task for task in tasks if task.key in missing])
    if group.rank == 0:
        console.print(f"{len(tasks)} rows, {len(tasks) - len(missing)} already done", markup=False)
    fresh: dict[str, Any] = {}
    failed: list[tuple[str, str]] = []
    with Pool(args.jobs, args.timeout, command) as pool, progress_bar(console) as progress:
        bar = progress.add_task("sweep", total=len(mine))
        for finished in pool.run(mine):
            key = finished.task.key
            if finished.error is None:
                journal.append(key, finished.rows)
                fresh[key] = [row.to_json() for row in finished.rows]
            else:
                failed.append((finished.task.case.id, finished.error))
            progress.advance(bar)
    merged: dict[str, list[Row]] = dict(known)
    for part in group.gather({"rows": fresh, "failed": failed}):
        merged |= {key: [Row.from_json(row) for row in rows] for key, rows in part["rows"].items()}
        failed = [*failed, *(tuple(item) for item in part["failed"] if tuple(item) not in failed)]
    return [row for task in tasks for row in merged.get(task.key, [])], failed


def progress_bar(console: Console) -> Progress:
    """Rows done, time spent and time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, SIGTERM (which torchrun and batch systems send) ends the sweep as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def report(rows: list[Row], failed: list[tuple[str, str]], args: Any, console: Console) -> int:
    """Print the table and the failures, write the files; the exit code."""
    results.write(rows, args.json, args.csv)
    kept = True
    if args.regret:
        kept = regret.report(rows, console)
    else:
        console.print(table(rows))
    for case, reason in failed:
        console.print(f"failed: {case}: {reason.splitlines()[0] if reason else reason}", markup=False)
    if rows:
        console.print(f"on {rows[0].device}", markup=False)
    return 1 if failed or (args.strict and not kept) else 0


def table(rows: list[Row]) -> Table:
    """One line a case and provider: time with its range, bandwidth, plan."""
    shown = Table(header_style="bold")
    for heading in ("case", "dtype", "provider", "figure"):
        shown.add_column(heading, overflow="fold")
    for heading in ("median", "from", "to", "GB/s"):
        shown.add_column(heading, justify="right")
    shown.add_column("plan", overflow="fold")
    for row in rows:
        if row.unit != "us" or row.provider == MEMORY_FLOOR:
            continue
        bandwidth = "n/a" if row.gb_per_s is None else f"{row.gb_per_s:.3g}"
        times = [format_us(value) for value in (row.p50, row.p20, row.p80)]
        shown.add_row(
            f"{row.op} {row.case}", row.dtype, row.provider, row.metric, *times, bandwidth, escape(row.plan or row.note)
        )
    return shown
