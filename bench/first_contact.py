"""Everything in order on a machine with a new NPU: versions, compile, correctness, calibrate, compare, sweep.

Stops at the first step that fails and says what to report. Without an NPU the same steps run on the emulator, where
calibrate tests its own fit: a rehearsal, and the test of this command.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench import cases as case_lists
from bench import compare, env
from bench.cases import Case
from bench.console import make_console
from bench.inputs import make_inputs
from bench.providers import BUILTIN, PROVIDERS, Provider, RefusalError, project_plan_object
from bench.published_cases import published_cases
from ops import device as devices

QUICK_ELEMENTS = 20_000

# What a step may raise: a fault of the toolchain or the device, which is this command's business to report.
FAILURES = (RuntimeError, ValueError, ArithmeticError, OSError, ImportError)


class StepError(RuntimeError):
    """A step that found something wrong; the text says what."""


@dataclass(frozen=True)
class Visit:
    """One run of this command: where results go, whether everything is cut short, and the console."""

    folder: Path
    quick: bool
    console: Console

    def options(self, *options: str) -> list[str]:
        """Options of a command, with a limit on the size of cases in a quick run."""
        return [*options, *(["--max-elements", str(QUICK_ELEMENTS)] if self.quick else [])]


@dataclass(frozen=True)
class Step:
    """A part of the visit: what it does, and what to look at when it fails."""

    name: str
    run: Callable[[Visit], None]
    look: str


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, default=Path("first-contact"), help="folder for results and report")
    parser.add_argument("--quick", action="store_true", help=f"only cases of up to {QUICK_ELEMENTS} elements")


def run(args: Any) -> int:
    """Take the steps in order; 1 at the first that fails."""
    console = make_console()
    visit = Visit(args.out, args.quick, console)
    visit.folder.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(STEPS, 1):
        console.rule(f"{number} of {len(STEPS)}: {step.name}")
        try:
            step.run(visit)
        except FAILURES as error:
            console.print(f"first contact stopped at {step.name!r}: {type(error).__name__}: {error}", markup=False)
            console.print(f"Look at: {step.look}.", markup=False)
            console.print(f"Please report the lines above with the files in {visit.folder}.", markup=False)
            write_report(visit, step.name, error)
            return 1
    write_report(visit, None, None)
    console.print(f"first contact is complete: {visit.folder}", markup=False)
    return 0


def write_report(visit: Visit, stopped_at: str | None, error: Exception | None) -> None:
    """Write report.json: the environment, and where and why the visit stopped, if it did."""
    report = {
        "device": devices.describe(devices.default_device()),
        "stopped_at": stopped_at,
        "error": None if error is None else f"{type(error).__name__}: {error}",
        "environment": env.describe(),
    }
    (visit.folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def bench(command: str, *options: str) -> None:
    """Run another command of this package. Raises StepError unless it exits 0."""
    from bench.__main__ import main

    code = main([command, *options])
    if code != 0:
        raise StepError(f"`python -m bench {command} {' '.join(options)}` exited with {code}")


def versions(visit: Visit) -> None:
    """Print the environment."""
    bench("env")


def checked_cases(visit: Visit) -> list[Case]:
    """Every case of this package's lists and of the published ones, within the limit of a quick run."""
    listed = {case.id: case for case in [*case_lists.compare_cases(), *case_lists.sweep_cases(), *published_cases()]}
    limit = QUICK_ELEMENTS if visit.quick else None
    return [case for case in listed.values() if limit is None or case.elements <= limit]


def compile_kernels(visit: Visit) -> None:
    """Compile what the cases need, on this machine's own device, in parallel."""
    import ops

    device = devices.default_device()
    plans = [project_plan_object(case, make_inputs(case, device)) for case in checked_cases(visit) if case.elements > 0]
    count = ops.precompile(plans, device=device)
    visit.console.print(f"{count} kernels compiled for {devices.describe(device)}", markup=False)


def correctness(visit: Visit) -> None:
    """Compare every case with the exact reference. Raises StepError naming the first that is wrong."""
    device = devices.default_device()
    project, _ = PROVIDERS
    chosen = checked_cases(visit)
    with Progress(console=visit.console, transient=True) as progress:
        task = progress.add_task("checking", total=len(chosen))
        for case in chosen:
            outcome = compare.check(case, device, project, _NO_BUILTIN)
            if not outcome.ok:
                raise StepError(f"{case.id}: {outcome.note}; plan {outcome.plan}")
            progress.advance(task)
    visit.console.print(f"{len(chosen)} cases, every bit right", markup=False)


def _refuse(case: Case, inputs: Any) -> Any:
    raise RefusalError("not asked")


# Here only this project is on trial.
_NO_BUILTIN = Provider(BUILTIN, _refuse)


def calibrate(visit: Visit) -> None:
    """Measure the chip's constants; on the emulator, test the fit."""
    bench("calibrate")


def compare_step(visit: Visit) -> None:
    """Set the project against the built-in operators."""
    bench("compare", *visit.options("--json", str(visit.folder / "compare.json")))


def sweep(visit: Visit) -> None:
    """Measure the default list; on an NPU with the profiler, else by the model."""
    files = ["--json", str(visit.folder / "sweep.json"), "--journal", str(visit.folder / "sweep.jsonl")]
    bench("sweep", *visit.options(*files))


STEPS = (
    Step("versions", versions, "the installation: torch, torch_npu, triton-ascend and CANN must fit each other"),
    Step("compile", compile_kernels, "the compiler's message; `python -m bench gate` shows the variants one by one"),
    Step("correctness", correctness, "the case named above, run alone: `python -m bench compare --case ...`"),
    Step("calibrate", calibrate, "torch_npu's profiler, which must give kernel times"),
    Step("compare", compare_step, "the rows that are not ok"),
    Step("sweep", sweep, "the failed rows; the same command resumes"),
)
