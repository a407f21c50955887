"""One row of a sweep: a case and how it is measured. A task is plain data; running it gives result rows."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bench import compare, env
from bench.cases import AsStridedCase, Case, case_from_json, case_to_json
from bench.inputs import Inputs, make_inputs
from bench.providers import MEMORY_FLOOR, PROJECT, PROVIDERS, describe_plan
from bench.results import Row, stamp
from bench.timing import gigabytes_per_second
from ops import device as devices
from tiling.versions import toolchain

SOURCES = ("ops", "tiling", "autotune", "emulator")
SUFFIXES = (".py", ".cpp", ".h", ".inc")

MEASURES = ("auto", "device", "model", "host")


class TaskError(RuntimeError):
    """A task that gave no figure; the text is the reason."""


@dataclass(frozen=True)
class Task:
    """A case, a measure of MEASURES but auto, and whether all candidates are measured (`tune`), and stored (`save`)."""

    case: Case
    measure: str
    tune: bool = False
    save: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data for a worker process; `Task.from_json` is its inverse."""
        return {"case": case_to_json(self.case), "measure": self.measure, "tune": self.tune, "save": self.save}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """A task from plain data."""
        return cls(case_from_json(data["case"]), data["measure"], data["tune"], data["save"])

    @property
    def key(self) -> str:
        """Names the task in a journal: changes with this project's source, the toolchain, the chip and its costs."""
        platform = devices.platform_of(devices.default_device())
        parts = [self.to_json(), sources(), toolchain(), platform.chip, platform.profile]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@functools.cache
def sources() -> str:
    """Hash of every source that a figure may depend on: operators, tiling, tuner, emulator, and this file."""
    root = Path(__file__).resolve().parent.parent
    files = [path for package in SOURCES for path in (root / package).rglob("*") if path.suffix in SUFFIXES]
    digest = hashlib.sha256()
    for path in sorted([*files, Path(__file__).resolve()]):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def resolve(measure: str) -> str:
    """The measure that "auto" stands for here: device on an NPU, else model."""
    if measure != "auto":
        return measure
    return "device" if devices.npu() is not None else "model"


def run_task(task: Task) -> list[Row]:
    """Measure one task. Raises TaskError with the reason if there is no figure, wrong results included."""
    if task.tune:
        return tune_rows(task)
    if task.measure == "model":
        return model_rows(task)
    device = devices.default_device() if task.measure == "device" else torch.device("cpu")
    project, builtin = PROVIDERS
    outcome = compare.check(task.case, device, project, builtin)
    if not outcome.ok:
        raise TaskError(outcome.note)
    compare.measure(outcome, device, project, builtin, rounds=3)
    return compare.to_rows([outcome], device)


def call_arguments(case: Case, inputs: Inputs) -> tuple[Any, ...]:
    """The positional arguments of the project's operator for a case, as autotune takes them."""
    if isinstance(case, AsStridedCase):
        return (*inputs.tensors, case.size, case.stride, case.offset)
    return inputs.tensors if inputs.out is None else (*inputs.tensors, inputs.out)


def row_of(task: Task, provider: str, figure: Any, **values: Any) -> Row:
    """A row for a figure of autotune: its microseconds, and its range as p20 and p80 (for a model: its band)."""
    case = task.case
    metric = {"model": "modelled time", "device": "device time", "host": "host time"}[task.measure]
    row = Row(
        op=case.op,
        case=case.name,
        dtype=case.dtype,
        provider=provider,
        metric=metric,
        unit="us",
        elements=case.elements,
        bytes=case.bytes,
        **values,
    )
    if figure is None:
        return row
    bandwidth = gigabytes_per_second(case.bytes, figure.microseconds)
    return replace(row, p20=figure.low, p50=figure.microseconds, p80=figure.high, gb_per_s=bandwidth)


def model_rows(task: Task) -> list[Row]:
    """Check a case at the linalg level, whole, and at the device level, as far as sampled; then its modelled time."""
    from autotune import tuner
    from autotune.choice import choose
    from autotune.operators import operator

    case, cpu = task.case, torch.device("cpu")
    outcome = compare.check(case, cpu, *PROVIDERS)
    if not outcome.ok:
        raise TaskError(outcome.note)
    judge = choose("model", None)
    if case.elements == 0:
        return stamped([row_of(task, PROJECT, None, ok=True, note="empty: nothing is launched")], judge.describe())
    problem, scratch = operator(case.op).scratch_of(call_arguments(case, make_inputs(case, cpu)), cpu)
    plan = current_plan(case, problem)
    tuner.blank(scratch.out)
    wrong = tuner.wrong_elements(scratch, judge.run(scratch, plan))
    if wrong:
        raise TaskError(f"at the device level: {wrong}")
    (figure,) = judge.figures(scratch, [plan])
    if isinstance(figure, str):
        raise TaskError(figure)
    rows = [row_of(task, PROJECT, figure, ok=True, plan=describe_plan(plan), note="p20 and p80: band of the model")]
    return stamped([*rows, memory_floor(rows[0]), *detail_rows(rows[0], figure)], judge.describe())


def memory_floor(row: Row) -> Row:
    """The time that the memory needs for the bytes of a modelled row, whatever the cores do."""
    platform = devices.platform_of(torch.device("cpu"))
    speed = platform.cost("hbm_bandwidth") * platform.cost("hbm_efficiency")  # GB/s
    floor = row.bytes / (speed * 1e3)
    return replace(row, provider=MEMORY_FLOOR, p20=None, p50=floor, p80=None, gb_per_s=speed, ok=None, plan="", note="")


def current_plan(case: Case, problem: Any) -> Any:
    """The plan that a call of the operator uses now: a stored one if there is one, else the heuristic's."""
    from autotune.operators import operator
    from tiling import tuned

    platform, plan = devices.platform_of(torch.device("cpu")), operator(case.op).plan
    return tuned.resolve(case.op, problem, platform, plan) or plan(problem, platform)


def detail_rows(row: Row, figure: Any) -> list[Row]:
    """One row for each detail of a modelled figure: the share of the time that a pipe was busy."""
    empty = replace(row, p20=None, p80=None, gb_per_s=None, note="")
    return [replace(empty, metric=f"busy {pipe}", unit="fraction", p50=share) for pipe, share in figure.detail.items()]


def tune_rows(task: Task) -> list[Row]:
    """Measure every candidate; rows for each, for the heuristic, for the fastest, and the heuristic's regret."""
    import autotune
    from autotune.choice import choose

    case = task.case
    if case.elements == 0:
        note = "empty: nothing is launched"
        return stamped([row_of(task, "heuristic", None, note=note)], choose(task.measure, None).describe())
    device = devices.default_device() if task.measure == "device" else torch.device("cpu")
    arguments = call_arguments(case, make_inputs(case, device))
    try:
        found = autotune.tune(case.op, arguments, task.measure, save=task.save)
    except autotune.TuningError as error:
        raise TaskError(str(error)) from error
    rows = [candidate_row(task, candidate) for candidate in found.candidates]
    heuristic = next(row for row in rows if row.provider == "heuristic")
    figure = found.heuristic.figure
    if found.regret is not None and figure is not None:
        measured = [row for row in rows if row.p50 is not None]
        fastest = min(measured, key=lambda row: (row.p50, row is not heuristic))
        rank = f"number {found.heuristic_rank} of {sum(row.p50 is not None for row in rows)}"
        empty = replace(heuristic, p20=None, p80=None, gb_per_s=None)
        rows += [
            replace(fastest, provider="fastest"),
            replace(empty, metric="regret", unit="fraction", p50=found.regret, note=rank),
            replace(heuristic, provider=PROJECT),
            *detail_rows(replace(heuristic, provider=PROJECT), figure),
            *([memory_floor(heuristic)] if task.measure == "model" else []),
        ]
    return stamped(rows, found.device)


def candidate_row(task: Task, candidate: Any) -> Row:
    """The figure of one candidate, or the reason why it has none."""
    plan = describe_plan(candidate.plan) if candidate.plan is not None else candidate.name
    provider = "heuristic" if candidate.heuristic else "candidate"
    ok = candidate.figure is not None
    return row_of(task, provider, candidate.figure, plan=plan, note=candidate.reason or "", ok=ok)


def stamped(rows: list[Row], device: str) -> list[Row]:
    """The rows with device, versions and time."""
    return stamp(rows, device, env.versions())


Runner = Callable[[Task], list[Row]]
