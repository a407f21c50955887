"""Does the device level catch a faulty back end? Modules with one thing broken, run against exact results.

A mutant is caught if a check reports it, or the result is wrong. Kernels are in two groups: on those under `developed`
missed mutants were looked at while the checks were written, those under `held_out` were only ever counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch

import emulator
import ops
from emulator import cycles
from emulator.device import DeviceCheckError, Kernel, load, runtime
from emulator.errors import EmulatorError
from tests.emulator.device.mutants import Mutant, mutants
from tiling import as_strided as tiling_as_strided
from tiling import gcd as tiling_gcd
from tiling.platform import platform

AIM = 0.95
CORES = 2  # few programs with several tiles each, so that both buffers of each pair are used

Call = Callable[[], int]


def gcd_call(dtype: torch.dtype, n: int = 9001) -> Call:
    """Wrong elements of a gcd over several tiles, the last one partial, with values for every branch of the kernel."""
    generator = torch.Generator().manual_seed(n)
    limit = 2**62 if dtype.is_floating_point else torch.iinfo(dtype).max
    x, y = (torch.randint(1 - limit if dtype.is_signed else 0, limit, (n,), generator=generator) for _ in "xy")
    for operand in (x, y):
        operand[: n // 4] %= 100  # other branches, fewer steps
        operand[n // 4 : n // 2] %= 2**20
    x, y = x.to(dtype), y.to(dtype)
    if dtype.is_floating_point:  # a fraction is cut off, toward zero
        x, y = (one + one.sign() * 0.75 * (one.abs() < 1000) for one in (x, y))
    want = torch.from_numpy(np.asarray([math.gcd(int(a), int(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]))
    want = want.to(dtype)
    automatic = ops.plan_gcd(x, y)
    plan = tiling_gcd.plan(automatic.problem, platform(), **{**automatic.decisions(), "cores": CORES})

    def call() -> int:
        out = torch.full_like(x, 77)
        ops.gcd(x, y, out=out, plan=plan)
        return int((out != want).sum())

    return call


def view_call(size: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype = torch.float32) -> Call:
    """Wrong elements of a strided copy."""
    count = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True)) + 1
    x = torch.arange(count, dtype=torch.int64).to(dtype)
    want = torch.as_strided_copy(x, size, stride, offset)
    automatic = ops.plan_as_strided(x, size, stride, offset)
    plan = tiling_as_strided.plan(automatic.problem, platform(), **{**automatic.decisions(), "cores": CORES})

    def call() -> int:
        out = torch.full_like(want, 77)
        ops.as_strided(x, size, stride, offset, out=out, plan=plan)
        return int((out != want).sum())

    return call


DEVELOPED: dict[str, Callable[[], Call]] = {
    "gcd int16": lambda: gcd_call(torch.int16),
    "gcd int8": lambda: gcd_call(torch.int8),
    "as_strided rows": lambda: view_call((640, 500), (600, 1), 3),
    "as_strided gather": lambda: view_call((300, 9, 3), (41, 4, 1), 5),
}
HELD_OUT: dict[str, Callable[[], Call]] = {
    "gcd int32": lambda: gcd_call(torch.int32),
    "gcd float32": lambda: gcd_call(torch.float32),
    "as_strided transpose": lambda: view_call((500, 300), (1, 500), 5),
    "as_strided broadcast": lambda: view_call((640, 300), (1, 0), 0),
    "as_strided bursts": lambda: view_call((1500,), (150,), 0),
    "as_strided split": lambda: view_call((320, 500), (1100, 2), 3),
}


def module_of(call: Call) -> tuple[str, frozenset[int]]:
    """The one module that a call runs, which must be right as it is, and the lines (from 0) that it executes."""
    with cycles.record(platform().costs, cores=CORES) as report:
        assert call() == 0
    (launch,) = report.launches
    executed: set[int] = set()
    for stream in launch.streams:
        executed |= {event.line - 1 for event in (runtime.Event * len(stream)).from_buffer_copy(stream.events)}
    return launch.kernel.text, frozenset(executed)


def judge(mutant: Mutant, call: Call, monkeypatch: pytest.MonkeyPatch) -> str:
    """By what a mutant was caught: the name of a check, "result", "refused" by the tools, or "missed"."""
    original = Kernel.run
    try:
        broken = load(mutant.text)
    except EmulatorError:
        return "refused"
    with monkeypatch.context() as patch, emulator.route("device"):
        patch.setattr(Kernel, "run", lambda kernel, *rest, **options: original(broken, *rest, **options))
        try:
            return "result" if call() else "missed"
        except DeviceCheckError as error:
            return error.findings[0].check


def rate(
    group: dict[str, Callable[[], Call]], per_kind: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Counter[str], list[str]]:
    """How many mutants met which fate, and those that were missed."""
    fates: Counter[str] = Counter()
    missed = []
    for name, make in group.items():
        call = make()
        text, executed = module_of(call)
        for mutant in mutants(text, per_kind, executed):
            fate = judge(mutant, call, monkeypatch)
            if fate == "missed" and mutant.harmless:
                fate = "harmless"
            if fate == "missed":
                missed.append(f"{name}: {mutant.kind} at line {mutant.line}")
            fates[fate] += 1
    return fates, missed


Tell = Callable[[str, object], None]


def check(group: dict[str, Callable[[], Call]], per_kind: int, patch: pytest.MonkeyPatch, tell: Tell) -> int:
    fates, missed = rate(group, per_kind, patch)
    counted = fates.total() - fates["harmless"] - fates["refused"]
    caught = counted - fates["missed"]
    tell("summary", f"{caught} of {counted} mutants caught ({caught / counted:.1%}): {dict(fates)}; missed: {missed}")
    assert caught / counted >= AIM, missed
    return counted


def test_mutants_of_kernels_used_in_development(monkeypatch: pytest.MonkeyPatch, record_property: Tell) -> None:
    assert check(DEVELOPED, 1, monkeypatch, record_property) >= 40


def test_mutants_of_kernels_held_out(monkeypatch: pytest.MonkeyPatch, record_property: Tell) -> None:
    assert check(HELD_OUT, 1, monkeypatch, record_property) >= 60


@pytest.mark.thorough
def test_many_mutants(monkeypatch: pytest.MonkeyPatch, record_property: Tell) -> None:
    assert check({**DEVELOPED, **HELD_OUT}, 4, monkeypatch, record_property) >= 350
