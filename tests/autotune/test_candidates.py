"""The compile gate of the tuner: what is ruled out, in which words, and that no failure is compiled twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from triton.compiler.errors import CompilationError

import autotune
from autotune import operators, tuner
from autotune.candidates import enumerate_candidates
from emulator import toolchain
from emulator.errors import MissingToolError, ToolError
from ops.variants import Variant
from tests.autotune.double import DoublePlan, DoubleProblem, Faults, TableMeasure, plan_double
from tiling.platform import platform

CHIP = platform()
PROBLEM = DoubleProblem(1000)
EQUAL = TableMeasure(lambda plan: 1.0)

Outcome = Callable[[int], Any]


class FakeVariant(Variant):
    """A variant whose function is its own constexpr, so that the fake compiler knows which one it is given."""

    @property
    def function(self) -> Any:
        return self.constexprs[0][1]


@pytest.fixture
def compiler(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A compiler that fails as `outcome` says for a block; `compiled` lists the blocks it was given."""
    fake = SimpleNamespace(outcome=lambda block: module(), compiled=[])

    def lower(function: int, signature: dict[str, str], constexprs: dict[str, Any], options: dict[str, Any]) -> int:
        assert options == {"multibuffer": True}
        fake.compiled.append(function)
        return function

    monkeypatch.setattr(toolchain, "lower_to_linalg", lower)
    monkeypatch.setattr(toolchain, "compile_hivm", lambda block, **_: fake.outcome(block))
    operators.register(replace(operators.operator("double"), variant=variant))
    return fake


def module(dropped: bool = False, overflow: bool = False) -> SimpleNamespace:
    return SimpleNamespace(multibuffer_dropped=dropped, overflow=overflow, ub_bytes=300_000)


def variant(plan: DoublePlan) -> Variant:
    return FakeVariant("double", plan.kernel, (("x", "*i32"),), plan.constexprs, plan.multibuffer, quick=False)


def reasons(result: autotune.TuneResult) -> dict[int, str | None]:
    return {int(candidate.decisions["block"]): candidate.reason for candidate in result.candidates}


def raising(error: Exception) -> Outcome:
    def outcome(block: int) -> Any:
        if block == 128:
            raise error
        return module()

    return outcome


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            lambda block: module(overflow=block == 128),
            "not compiled: the unified buffer overflows (300,000 bytes needed)",
        ),
        (
            lambda block: module(dropped=block == 128),
            "compiled without the double buffering it asked for: the unified buffer is too small for it",
        ),
        (
            raising(ToolError("double", "bishengir-compile", "no such instruction", "/saved.mlir")),
            "not compiled: kernel 'double': stage bishengir-compile failed: no such instruction\nIR saved in /saved",
        ),
        (raising(CompilationError("x = 1", None, "bad types")), "not compiled: "),
    ],
    ids=["overflow", "double buffering dropped", "a tool failed", "the front end refused"],
)
def test_what_the_compiler_refuses_is_listed_with_its_reason_and_not_run(
    compiler: SimpleNamespace, faults: Faults, outcome: Outcome, said: str
):
    compiler.outcome = outcome
    found = reasons(autotune.tune("double", PROBLEM, EQUAL))
    assert str(found[128]).startswith(said)
    assert 128 not in faults.runs
    assert {block for block, reason in found.items() if reason is None} == {32, 64, 256}


def test_what_the_planner_refuses_is_not_compiled(compiler: SimpleNamespace):
    autotune.tune("double", PROBLEM, EQUAL)
    assert sorted(compiler.compiled) == [32, 64, 128, 256]


def test_a_failure_is_not_compiled_again(compiler: SimpleNamespace):
    compiler.outcome = lambda block: module(overflow=block == 128)
    first = autotune.tune("double", PROBLEM, EQUAL)
    compiler.compiled.clear()
    again = autotune.tune("double", DoubleProblem(2000), EQUAL)
    assert 128 not in compiler.compiled
    assert reasons(again)[128] == reasons(first)[128]


def test_a_failure_is_not_compiled_again_by_another_process(compiler: SimpleNamespace, monkeypatch: pytest.MonkeyPatch):
    compiler.outcome = lambda block: module(overflow=block == 128)
    autotune.tune("double", PROBLEM, EQUAL)
    monkeypatch.setattr(tuner, "_failures", {})  # as in a process that has just started
    compiler.compiled.clear()
    assert "overflows" in str(reasons(autotune.tune("double", PROBLEM, EQUAL))[128])
    assert 128 not in compiler.compiled


def test_failures_are_stored_even_if_nothing_else_is(compiler: SimpleNamespace, monkeypatch: pytest.MonkeyPatch):
    compiler.outcome = lambda block: module(overflow=True)
    with pytest.raises(autotune.TuningError, match="overflows"):
        autotune.tune("double", PROBLEM, EQUAL)
    monkeypatch.setattr(tuner, "_failures", {})
    compiler.compiled.clear()
    with pytest.raises(autotune.TuningError, match="overflows"):
        autotune.tune("double", PROBLEM, EQUAL)
    assert compiler.compiled == []


def test_without_the_compiler_nothing_is_ruled_out(compiler: SimpleNamespace, faults: Faults):
    compiler.outcome = raising(MissingToolError("ascendnpu-ir"))
    assert reasons(autotune.tune("double", PROBLEM, EQUAL))[128] is None
    assert 128 in faults.runs


def test_candidates_come_once_each_in_one_order(faults: Faults):
    operator = operators.operator("double")
    wanted = [{"block": 128}, plan_double(PROBLEM, CHIP, block=128), {"block": 16}, {"block": 4096}]
    found = enumerate_candidates(operator, PROBLEM, CHIP, wanted)
    reverse = enumerate_candidates(operator, PROBLEM, CHIP, wanted[::-1])
    assert found == reverse
    assert sorted(candidate.decisions["block"] for candidate in found) == [16, 64, 128, 4096]
    assert [candidate.decisions["block"] for candidate in found if candidate.heuristic] == [64]
    assert [candidate.decisions["block"] for candidate in found if not candidate.alive] == [4096]
