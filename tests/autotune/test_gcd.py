"""Tuning gcd by the cycle model, with the real kernels."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import autotune
import ops
from autotune import model
from autotune.check import wrong_elements
from autotune.gcd import OPERATOR, Scratch
from ops.variants import variants
from tests.autotune.double import ROOT, TableMeasure
from tiling import tuned
from tiling.gcd import GcdProblem, plan
from tiling.platform import platform

CHIP = platform()
CPU = torch.device("cpu")

DENSE = GcdProblem.dense((3000,), "int16")
PROBLEMS = {
    "dense": DENSE,
    "row": GcdProblem("int32", "int32", "int32", "int32", (30, 70), (70, 1), (0, 1), (70, 1)),
    "mixed into int8": GcdProblem("int8", "float32", "float32", "int8", (500,), (1,), (1,), (1,)),
    "0-d other": GcdProblem("int16", "int64", "int16", "int16", (500,), (1,), (0,), (1,)),
    "0-d self": GcdProblem("float32", "float16", "float16", "float16", (500,), (0,), (1,), (1,)),
    "transposed": GcdProblem("int16", "int16", "int16", "int16", (40, 50), (1, 40), (50, 1), (50, 1)),
    "bool": GcdProblem("bool", "uint8", "uint8", "uint8", (500,), (1,), (1,), (1,)),
    "uint16 out": replace(DENSE, out_dtype="uint16"),
}
each_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


@pytest.mark.parametrize("name", ["dense", "row", "transposed"])
def test_candidates_of_one_dtype_stay_within_the_kernels_that_are_compiled(name: str):
    problem = PROBLEMS[name]
    known = {(v.kernel, v.signature, v.constexprs) for v in variants("gcd")}
    for decisions in OPERATOR.choices(plan(problem, CHIP), CHIP):
        made = OPERATOR.variant(plan(problem, CHIP, **decisions))
        assert made is not None
        assert (made.kernel, made.signature, made.constexprs) in known


@each_problem
def test_the_scratch_call_is_the_problem(problem: GcdProblem):
    scratch = Scratch(problem, CPU)
    assert ops.plan_gcd(scratch.a, scratch.b, scratch.out).problem == problem


@each_problem
def test_the_heuristic_is_right_on_scratch_data_and_a_fault_is_found(problem: GcdProblem):
    scratch = Scratch(problem, CPU)
    scratch.run(plan(problem, CHIP))
    assert wrong_elements(scratch, complete=True) is None
    last = tuple(size - 1 for size in problem.shape)
    scratch.out[last] = scratch.out[last].item() ^ 1 if not scratch.out.is_floating_point() else scratch.out[last] + 1
    said = str(wrong_elements(scratch, complete=True))
    assert said.startswith(f"1 of {problem.elements} elements differ, the first at {problem.elements - 1}: ")


def test_two_nans_are_the_same_and_a_nan_is_no_number():
    scratch = Scratch(GcdProblem.dense((4,), "float32"), CPU)
    nan, one = torch.tensor([float("nan")]), torch.tensor([1.0])
    other_nan = torch.tensor([-4194303], dtype=torch.int32).view(torch.float32)
    assert scratch.same(nan, other_nan).tolist() == [True]
    assert scratch.same(nan, one).tolist() == [False]


def test_candidates_are_right_and_the_heuristic_is_among_them():
    result = autotune.tune("gcd", DENSE, "model", save=False)
    assert result.heuristic.figure is not None
    assert result.heuristic.plan == plan(DENSE, CHIP)
    assert not [candidate.reason for candidate in result.failed if "wrong" in str(candidate.reason)]
    assert sum(candidate.figure is not None for candidate in result.candidates) >= 3


@pytest.mark.parametrize("whole", [1 << 21, 0], ids=["run whole", "checked at the linalg level"])
def test_a_call_of_several_launches_is_not_judged_by_a_sampled_copy(monkeypatch: pytest.MonkeyPatch, whole: int):
    monkeypatch.setattr(model, "WHOLE", 1 << 10)
    monkeypatch.setattr(model, "WHOLE_OF_SEVERAL", whole)
    problem = GcdProblem("int16", "int16", "int16", "int16", (300, 200), (1, 300), (200, 1), (200, 1))
    assert plan(problem, CHIP).copied == ("self",)
    result = autotune.tune("gcd", problem, "model", [], save=False)
    figure = result.winner.figure
    assert figure is not None
    assert figure.microseconds > CHIP.cost("launch")


def test_tuning_an_in_place_call_leaves_it_untouched_and_is_used_by_it():
    a = torch.arange(1, 3001, dtype=torch.int16)
    b = torch.arange(3000, 0, -1, dtype=torch.int16)
    before = a.clone(), b.clone()
    worse = {"cols": 1024, "cores": 1}
    result = autotune.tune("gcd", (a, b, a), "model", [worse], save=True)
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])
    assert result.stored == tuned.path(CHIP.chip)
    assert ops.plan_gcd(a, b, a) == result.plan
    ops.gcd_(a, b)
    assert torch.equal(a, torch.gcd(*before))


def test_the_first_in_place_call_inside_enabled_tunes_on_other_memory_and_is_right():
    a = torch.arange(1, 2001, dtype=torch.int16)
    b = torch.arange(2000, 0, -1, dtype=torch.int16)
    expected = torch.gcd(a, b)
    with autotune.enabled("model"):
        ops.gcd_(a, b)
    assert torch.equal(a, expected)
    assert len(tuned.read(tuned.path(CHIP.chip), CHIP.chip).entries) == 1


def test_values_decide_the_time_of_a_calls_own_tensors():
    small, large = (torch.full((2048,), value, dtype=torch.int32) for value in (6, 2**31 - 1))
    times = [
        autotune.tune("gcd", (tensor, tensor + 0), "model", [], save=False).winner.figure for tensor in (small, large)
    ]
    assert times[0] is not None
    assert times[1] is not None
    assert times[0].microseconds < times[1].microseconds


OTHER_PROCESS = """
import sys, time
import torch
import ops, ops.launch
a = b = torch.arange(1, 3001, dtype=torch.int16)
grids = []
ops.launch.launch = lambda kernel, grid, *_, **__: grids.append(grid)
ops.gcd(a, b)
print(grids[-1], flush=True)
sys.stdin.readline()
deadline = time.monotonic() + 1.2
while grids[-1] == grids[0] and time.monotonic() < deadline:
    ops.gcd(a, b)
    time.sleep(0.01)
print(grids[-1], flush=True)
"""


def test_a_tuning_changes_the_launches_of_a_running_process_within_a_second():
    problem = GcdProblem.dense((3000,), "int16")
    own = plan(problem, CHIP).grid
    assert own > 1
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline().strip() == str(own)
    fewer = TableMeasure(lambda plan: 1.0 if plan.grid == 1 else 2.0)
    tuned_to = autotune.tune("gcd", problem, fewer, [{**plan(problem, CHIP).decisions(), "cores": 1}])
    assert tuned_to.plan.grid == 1
    other.stdin.write("go\n")
    other.stdin.flush()
    assert other.stdout.readline().strip() == "1"
    assert other.wait(10) == 0
