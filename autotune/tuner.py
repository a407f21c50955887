"""The tuner: enumerate, gate, check, measure, pick, store. And tuning on first use."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from triton.errors import TritonError

from autotune import candidates as listing
from autotune import store
from autotune.candidates import Candidate, Failures
from autotune.check import Check, blank, wrong_elements
from autotune.choice import choose
from autotune.measure import Measure
from autotune.operators import Scratch, operator
from autotune.result import TuneResult, TuningError, pick, speed_order
from ops import device as devices
from tiling import tuned
from tiling.platform import Platform
from tiling.versions import source_hash

__all__ = ["blank", "enabled", "resolver", "tune", "wrong_elements"]

# What a plan's compilation and run can raise on either kind of device. Anything else is a fault of this project.
CANDIDATE_ERRORS = (
    RuntimeError,
    ValueError,
    ArithmeticError,
    OSError,
    MemoryError,
    subprocess.SubprocessError,
    TritonError,
)


def tune(
    op: str | Callable[..., Any],
    target: Any,
    measure: str | Measure = "auto",
    candidates: Iterable[Any] | None = None,
    *,
    platform: Platform | None = None,
    save: bool = True,
) -> TuneResult:
    """Find the fastest plan of one problem, and store it for every process of this user.

        >>> result = tune("gcd", (a, b))                       # a call's own tensors; they are copied, never written
        >>> result = tune(ops.as_strided, ops.plan_as_strided(x, size, stride).problem, measure="model")
        >>> print(result); result.regret
        0.03

    op: 'gcd', 'as_strided' or the public function. target: a problem, or the positional arguments of a call, `out`
    last. measure: 'auto', 'device', 'model' or 'host' (see autotune.measure), or a Measure. candidates: plans or
    mappings of decisions; by default the operator's own list. platform: for 'model', the chip to tune for. save:
    whether to store the winner. Times are microseconds.

    Raises TuningError naming operator, problem and last reason when no candidate can be used; ValueError for an empty
    result and for an unknown operator or measure; RuntimeError when the measure needs what this machine does not have.
    """
    described = operator(op)
    judge = choose(measure, platform) if isinstance(measure, str) else measure
    platform = platform or getattr(judge, "platform", None) or devices.platform_of(judge.device)
    with tuned.unresolved():
        problem, scratch = target, None
        if not hasattr(target, "pattern"):
            arguments = tuple(target) if isinstance(target, (tuple, list)) else (target,)
            problem, scratch = described.scratch_of(arguments, judge.device)
        rows = listing.enumerate_candidates(described, problem, platform, candidates)
        failures = Failures(_known_failures(platform.chip))
        rows = listing.gate(rows, described, platform, failures)
        scratch = scratch or described.scratch(problem, judge.device)
        check = Check(scratch)
        rows = [_checked(row, check, judge) for row in rows]
        rows = _measured(rows, scratch, judge)
    if not any(row.figure for row in rows):
        if save and failures.fresh:
            store.save(platform.chip, (), failures.fresh)
        last = rows[-1].reason
        raise TuningError(f"{described.name} on {problem.key()}: none of {len(rows)} candidates serves; last: {last}")
    ordered = tuple(sorted(rows, key=speed_order))
    result = TuneResult(described.name, problem, judge.name, judge.describe(), ordered, pick(rows))
    if not save:
        return result
    return replace(result, stored=store.save(platform.chip, [_entry(result, platform)], failures.fresh))


# Failures are remembered for the life of the process even where they cannot be stored.
_failures: dict[str, dict[str, str]] = {}


def _known_failures(chip: str) -> dict[str, str]:
    known = _failures.setdefault(chip, {})
    known |= store.failures(chip)
    return known


def _checked(row: Candidate, check: Check, judge: Measure) -> Candidate:
    """The candidate, ruled out unless its output is the reference's."""
    if not row.alive:
        return row
    blank(check.scratch.out)
    try:
        complete = judge.run(check.scratch, row.plan)
    except CANDIDATE_ERRORS as error:
        return replace(row, reason=f"failed: {type(error).__name__}: {error}")
    wrong = check.wrong(complete)
    return replace(row, reason=f"wrong result: {wrong}") if wrong else row


def _measured(rows: Sequence[Candidate], scratch: Scratch, judge: Measure) -> list[Candidate]:
    todo = [row for row in rows if row.alive]
    figures = iter(judge.figures(scratch, [row.plan for row in todo]))
    done = []
    for row in rows:
        if row.alive:
            figure = next(figures)
            row = replace(row, reason=figure) if isinstance(figure, str) else replace(row, figure=figure)
        done.append(row)
    return done


def _entry(result: TuneResult, platform: Platform) -> tuned.Entry:
    winner, heuristic = result.winner, result.heuristic
    assert winner.figure is not None  # pick() returns candidates that have one
    own = heuristic.figure or winner.figure
    return tuned.Entry(
        op=result.op,
        measure=result.measure,
        problem=result.problem.key(),
        pattern=result.problem.pattern(),
        elements=result.problem.elements,
        cores=platform.vector_cores,
        source=source_hash(result.op),
        profile=platform.profile,
        decisions=dict(winner.decisions),
        microseconds=winner.figure.microseconds,
        low=winner.figure.low,
        high=winner.figure.high,
        heuristic_microseconds=own.microseconds,
        confirmed=winner.heuristic,
        device=result.device,
        written=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


# --- tuning on first use ---------------------------------------------------------------------------------------------

Key = tuple[str, str, str]

_given_up: set[Key] = set()
_unstored: dict[Key, Any] = {}  # winners of this process where the store cannot be written
_one_at_a_time = threading.RLock()


def _renew_lock() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


# A fork while another thread tunes would leave the child a lock that nobody releases.
os.register_at_fork(after_in_child=_renew_lock)


@contextlib.contextmanager
def enabled(measure: str | Measure = "auto") -> Iterator[None]:
    """Within it, in every thread of the process, a problem without a stored tuning is tuned on first use.

        with autotune.enabled():
            ops.gcd(a, b)        # tunes on scratch data, stores the plan, then runs with it

    When tuning fails, one warning says why and the operator runs with the heuristic's plan. The environment variable
    ASCEND_OPS_AUTOTUNE=1 does the same for a whole process.
    """
    before = tuned.set_resolver(resolver(measure))
    try:
        yield
    finally:
        tuned.set_resolver(before)


def resolver(measure: str | Measure = "auto") -> tuned.Resolver:
    """A resolver for `tiling.tuned.set_resolver` that tunes; it returns None for a problem whose tuning failed.

    Threads that meet a problem together wait for the first of them instead of tuning it again.
    """

    def on_first_use(op: str, problem: Any, platform: Platform, plan_function: Any) -> Any:
        key = (op, platform.chip, problem.key())
        with _one_at_a_time:
            if key in _given_up:
                return None
            decisions = _unstored.get(key) or _stored(op, problem, platform)
            if decisions is None:
                try:
                    result = tune(op, problem, measure, platform=platform)
                except CANDIDATE_ERRORS as error:
                    _given_up.add(key)
                    _warn(f"tuning {op} on {problem.key()} failed and the heuristic's plan is used: {error}")
                    return None
                decisions = result.winner.decisions
                if result.stored is None:
                    _unstored[key] = decisions
        return plan_function(problem, platform, **decisions)

    return on_first_use


def _stored(op: str, problem: Any, platform: Platform) -> Any:
    """The decisions another thread has stored for exactly this problem, or None."""
    entry = next(tuned.find(op, problem, platform), None)
    return entry.decisions if entry is not None and entry.problem == problem.key() else None


def _warn(text: str) -> None:
    # From here through on_first_use and the look-up to the operator's own frame.
    warnings.warn(text, RuntimeWarning, stacklevel=5)
