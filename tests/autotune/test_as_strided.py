"""Tuning as_strided by the cycle model, with the real kernels."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

import autotune
import ops
from autotune import model
from autotune.as_strided import OPERATOR, Scratch
from autotune.check import Check, blank, wrong_elements
from ops.variants import variants
from tiling import tuned
from tiling.as_strided import AsStridedProblem, plan
from tiling.platform import platform

CHIP = platform()
CPU = torch.device("cpu")

PROBLEMS = [
    AsStridedProblem((50, 64), (80, 1), 3, 4, alignment=4),
    AsStridedProblem((40, 40), (1, 40), 0, 2),
    AsStridedProblem((300,), (7,), 1, 8, alignment=8),
    AsStridedProblem((20, 100), (1, 0), 0, 1),
    AsStridedProblem((33,), (70,), 2, 16),
    AsStridedProblem((1,), (1,), 0, 4, alignment=4),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=AsStridedProblem.key)
def test_candidates_are_right_and_the_heuristic_is_among_them(problem: AsStridedProblem):
    result = autotune.tune("as_strided", problem, "model", save=False)
    assert all(candidate.figure or candidate.reason for candidate in result.candidates)
    assert result.heuristic.figure is not None
    assert not [candidate.reason for candidate in result.failed if "wrong" in str(candidate.reason)]
    assert result.heuristic.plan == plan(problem, CHIP)
    assert result.regret is not None
    assert result.winner.figure is not None
    assert result.winner.figure.low <= result.winner.figure.microseconds <= result.winner.figure.high


def test_sampled_programs_are_checked_by_what_they_wrote(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model, "WHOLE", 1 << 8)
    problem = AsStridedProblem((40, 501), (503, 1), 0, 8)  # parts of programs end within elements
    judge, scratch = model.ModelMeasure(CHIP), Scratch(problem, CPU)
    blank(scratch.out)
    assert judge.run(scratch, plan(problem, CHIP)) is False
    check = Check(scratch)
    assert check.wrong(complete=False) is None
    assert "elements differ" in str(check.wrong(complete=True))
    scratch.out[0, 3] ^= 1
    assert str(check.wrong(complete=False)).startswith("1 of 20040 elements differ, the first at 3: ")
    (figure,) = judge.figures(scratch, [plan(problem, CHIP)])
    assert figure.microseconds > 0


@pytest.mark.parametrize("problem", PROBLEMS, ids=AsStridedProblem.key)
def test_candidates_stay_within_the_kernels_that_are_compiled(problem: AsStridedProblem):
    known = {(v.kernel, v.signature, v.constexprs, v.multibuffer) for v in variants("as_strided")}
    for decisions in OPERATOR.choices(plan(problem, CHIP), CHIP):
        made = OPERATOR.variant(plan(problem, CHIP, **decisions))
        assert made is not None
        assert (made.kernel, made.signature, made.constexprs, made.multibuffer) in known


@pytest.mark.parametrize("problem", PROBLEMS, ids=AsStridedProblem.key)
def test_the_scratch_call_is_the_problem(problem: AsStridedProblem):
    scratch = Scratch(problem, CPU)
    found = ops.plan_as_strided(scratch.x, problem.size, problem.stride, problem.offset, out=scratch.out)
    assert found is not None
    assert found.problem == problem


@pytest.mark.parametrize("problem", PROBLEMS, ids=AsStridedProblem.key)
def test_the_expected_values_are_numpys(problem: AsStridedProblem):
    scratch = Scratch(problem, CPU)
    source = scratch.x.numpy()
    steps = [stride * problem.itemsize for stride in problem.stride]
    view = numpy.lib.stride_tricks.as_strided(source[problem.offset :], problem.size, steps)
    expected = scratch.expected(torch.arange(problem.elements)).numpy()
    assert expected.tobytes() == view.tobytes()


def test_a_fault_in_the_output_is_found():
    problem = PROBLEMS[0]
    scratch = Scratch(problem, CPU)
    scratch.run(plan(problem, CHIP))
    assert wrong_elements(scratch, complete=True) is None
    scratch.out[7, 9] += 1
    assert str(wrong_elements(scratch, complete=True)).startswith(
        f"1 of 3200 elements differ, the first at {7 * 64 + 9}"
    )


def test_tuning_a_call_changes_its_plan_and_not_its_data():
    x = torch.arange(10_000, dtype=torch.int32)
    before = x.clone()
    result = autotune.tune("as_strided", (x, (50, 64), (80, 1), 3), "model")
    assert torch.equal(x, before)
    assert result.stored == tuned.path(CHIP.chip)
    now = ops.plan_as_strided(x, (50, 64), (80, 1), 3)
    assert now == result.plan
    assert "because tuned on as_strided/4/50x64/80x1/3/4 by model (cycle model of Ascend910B3" in repr(now)
    assert torch.equal(ops.as_strided(x, (50, 64), (80, 1), 3), torch.as_strided(x, (50, 64), (80, 1), 3))


def test_tuning_a_call_whose_out_shares_its_storage_leaves_it_untouched():
    storage = torch.arange(10_000, dtype=torch.int32)
    before = storage.clone()
    out = storage[:3200].view(50, 64)
    autotune.tune("as_strided", (storage, (50, 64), (80, 1), 3, out), "model", save=False)
    assert torch.equal(storage, before)


def test_the_first_call_inside_enabled_tunes_and_is_right(tmp_path: Path):
    x = torch.arange(10_000, dtype=torch.float32)
    with autotune.enabled("model"):
        result = ops.as_strided(x, (30, 70), (3, 100), 1)
    assert torch.equal(result, torch.as_strided(x, (30, 70), (3, 100), 1))
    (entry,) = tuned.read(tuned.path(CHIP.chip), CHIP.chip).entries.values()
    assert entry.problem == ops.plan_as_strided(x, (30, 70), (3, 100), 1).problem.key()


@pytest.mark.parametrize("target", [AsStridedProblem((0, 3), (3, 1), 0, 4), (torch.zeros(9), (0, 3), (3, 1))])
def test_an_empty_result_has_nothing_to_tune(target: object):
    with pytest.raises(ValueError, match="an empty result needs no plan"):
        autotune.tune("as_strided", target, "model")
