"""The tuner on an operator with made-up costs: what wins, what is refused, what is stored, what is left alone."""

from __future__ import annotations

import json
import multiprocessing
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import autotune
from autotune import operators, tuner
from autotune.check import COMPARED, Check
from tests.autotune.double import DoubleProblem, Faults, TableMeasure, plan_double
from tiling import tuned
from tiling.platform import platform

CHIP = platform()
PROBLEM = DoubleProblem(1000)
SLOW_ABOVE_128 = TableMeasure(lambda plan: {32: 4.0, 64: 3.0, 128: 2.0, 256: 5.0}.get(plan.block))


def by_block(result: autotune.TuneResult) -> dict[int, autotune.Candidate]:
    return {int(candidate.decisions["block"]): candidate for candidate in result.candidates}


def resolved(problem: DoubleProblem = PROBLEM) -> int | None:
    plan = tuned.resolve("double", problem, CHIP, plan_double)
    return None if plan is None else plan.block


def test_the_fastest_wins_and_every_candidate_is_in_the_result(faults: Faults):
    result = autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert result.plan == plan_double(PROBLEM, CHIP, block=128)
    assert [candidate.decisions["block"] for candidate in result.candidates] == [128, 64, 32, 256, 2048]
    assert result.heuristic.decisions == {"block": 64}
    assert result.heuristic_rank == 2
    assert result.regret == pytest.approx(0.5)
    (refused,) = result.failed
    assert refused.reason == "not legal: block 2048 does not fit the unified buffer"


def test_the_table_names_everything(faults: Faults):
    text = str(autotune.tune("double", PROBLEM, SLOW_ABOVE_128))
    assert "double int32[1000], model on emulator of" in text
    assert "winner" in text
    assert "heuristic" in text
    assert "does not fit the unified buffer" in text
    assert "the heuristic is number 2, 50.0% behind the fastest" in text


def test_the_result_is_plain_data(faults: Faults):
    data = json.loads(json.dumps(autotune.tune("double", PROBLEM, SLOW_ABOVE_128).to_json()))
    assert data["regret"] == pytest.approx(0.5)
    assert [row["decisions"]["block"] for row in data["candidates"] if row["winner"]] == [128]


@pytest.mark.parametrize("seed", range(6))
def test_the_winner_does_not_depend_on_the_order_of_candidates(faults: Faults, seed: int):
    blocks = [16, 32, 48, 96, 128, 160, 256]
    random.Random(seed).shuffle(blocks)
    equal = TableMeasure(lambda plan: 2.0 if plan.block in (48, 160) else 3.0)
    result = autotune.tune("double", PROBLEM, equal, [{"block": block} for block in blocks], save=False)
    assert result.plan.block == 160
    assert sorted(faults.runs) == sorted({*blocks, 64})


def test_plans_serve_as_candidates(faults: Faults):
    wanted = [plan_double(PROBLEM, CHIP, block=block) for block in (128, 128, 256)]
    result = autotune.tune("double", PROBLEM, SLOW_ABOVE_128, wanted, save=False)
    assert set(by_block(result)) == {64, 128, 256}


@pytest.mark.parametrize(("noise", "winner"), [(0.05, 64), (0.01, 128)])
def test_a_tie_within_the_noise_goes_to_the_heuristic(faults: Faults, noise: float, winner: int):
    measure = TableMeasure(lambda plan: {64: 1.03, 128: 1.0}.get(plan.block, 2.0), noise=noise)
    result = autotune.tune("double", PROBLEM, measure, save=False)
    assert result.plan.block == winner
    assert result.regret == pytest.approx(0.03)


def test_a_wrong_candidate_is_listed_and_never_wins(faults: Faults):
    faults.wrong = {128}
    result = autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert result.plan.block == 64
    assert by_block(result)[128].reason == "wrong result: 1 of 1000 elements differ, the first at 999: 1999 for 1998"


def test_a_failing_candidate_is_listed_with_its_reason(faults: Faults):
    faults.raising = {128}
    result = autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert by_block(result)[128].reason == "failed: RuntimeError: launch with block 128 failed"


def test_a_candidate_that_writes_nothing_is_not_saved_by_an_earlier_ones_output(faults: Faults):
    faults.idle = {128}
    result = autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert "wrong result: 1000 of 1000 elements differ" in str(by_block(result)[128].reason)


def test_where_the_measure_samples_untouched_elements_do_not_count(faults: Faults):
    measure = TableMeasure(lambda plan: 1.0)
    measure.complete = False
    faults.idle = {128}
    faults.wrong = {256}
    result = autotune.tune("double", PROBLEM, measure)
    assert by_block(result)[128].reason == "wrong result: nothing was written"
    assert str(by_block(result)[256].reason).startswith("wrong result: 1 of 1000")


def test_a_candidate_without_a_figure_has_the_measures_reason(faults: Faults):
    result = autotune.tune("double", PROBLEM, TableMeasure(lambda plan: None if plan.block == 128 else 1.0))
    assert by_block(result)[128].reason == "no figure"


def test_large_outputs_are_compared_at_both_ends_and_in_between():
    large = Check(SimpleNamespace(out=torch.empty(1 << 26, dtype=torch.int8)))
    assert int(large.index.min()) == 0
    assert int(large.index.max()) == (1 << 26) - 1
    assert len(large.index) < COMPARED
    small = Check(SimpleNamespace(out=torch.empty(1000, dtype=torch.int8)))
    assert torch.equal(small.index, torch.arange(1000))


# --- the user's data -------------------------------------------------------------------------------------------------


def test_tuning_a_calls_own_tensors_leaves_them_untouched(faults: Faults):
    x = torch.arange(1000, dtype=torch.int32)
    before = x.clone()
    version = x._version
    result = autotune.tune("double", (x,), SLOW_ABOVE_128)
    assert result.problem == PROBLEM
    assert torch.equal(x, before)
    assert x._version == version
    assert all(scratch.x.data_ptr() != x.data_ptr() for scratch in faults.scratches)


def test_a_single_tensor_is_a_call_of_one_argument(faults: Faults):
    assert autotune.tune("double", torch.arange(1000, dtype=torch.int32), SLOW_ABOVE_128).problem == PROBLEM


# --- the store -------------------------------------------------------------------------------------------------------


def test_the_winner_is_stored_and_resolved(faults: Faults):
    assert resolved() is None
    result = autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert result.stored == tuned.path(CHIP.chip)
    assert resolved() == 128
    (entry,) = tuned.read(tuned.path(CHIP.chip), CHIP.chip).entries.values()
    assert (entry.microseconds, entry.heuristic_microseconds, entry.elements) == (2.0, 3.0, 1000)


def test_a_device_tuning_wins_over_a_model_tuning_and_host_is_not_used(faults: Faults):
    autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    autotune.tune("double", PROBLEM, TableMeasure(lambda plan: float(plan.block), "host"))
    assert resolved() == 128
    autotune.tune("double", PROBLEM, TableMeasure(lambda plan: 1000.0 - plan.block, "device"))
    assert resolved() == 256


def test_without_save_nothing_is_stored(faults: Faults):
    assert autotune.tune("double", PROBLEM, SLOW_ABOVE_128, save=False).stored is None
    assert not tuned.path(CHIP.chip).exists()


def test_a_read_only_file_is_left_alone_and_said_once(faults: Faults):
    autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    file = tuned.path(CHIP.chip)
    file.chmod(0o444)
    before = file.read_bytes()
    with pytest.warns(RuntimeWarning, match="cannot be stored in .*read-only"):
        result = autotune.tune("double", DoubleProblem(7), SLOW_ABOVE_128)
    assert result.stored is None
    assert result.plan.block == 128
    assert file.read_bytes() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        autotune.tune("double", DoubleProblem(7), SLOW_ABOVE_128)
    assert resolved() == 128


# --- nothing works ---------------------------------------------------------------------------------------------------


def test_all_candidates_failed_is_one_error_with_operator_problem_and_last_reason(faults: Faults):
    faults.raising = {32, 64, 128, 256}
    with pytest.raises(autotune.TuningError) as caught:
        autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert str(caught.value) == (
        "double on int32[1000]: none of 5 candidates serves; last: failed: RuntimeError: launch with block 64 failed"
    )
    assert not tuned.path(CHIP.chip).exists()


def test_unknown_names_are_refused_with_those_there_are(faults: Faults):
    with pytest.raises(ValueError, match=r"no operator 'triple' to tune: .*as_strided.*double.*gcd"):
        autotune.tune("triple", PROBLEM)
    with pytest.raises(ValueError, match="unknown measure 'speed'"):
        autotune.tune("double", PROBLEM, "speed")


def test_the_device_measure_without_a_device_is_refused(faults: Faults):
    with pytest.raises(RuntimeError, match="needs an NPU"):
        autotune.tune("double", PROBLEM, "device")


def test_the_operator_may_be_named_by_its_function(faults: Faults):
    def double():
        raise AssertionError("never called")

    assert autotune.tune(double, PROBLEM, SLOW_ABOVE_128, save=False).op == "double"
    assert operators.operator(double).name == "double"


# --- first use -------------------------------------------------------------------------------------------------------


def test_enabled_tunes_on_first_use_and_only_then(faults: Faults):
    with autotune.enabled(SLOW_ABOVE_128):
        assert resolved() == 128
        runs = len(faults.runs)
        assert runs == 4
        assert resolved() == 128
        assert len(faults.runs) == runs
    assert resolved() == 128
    assert resolved(DoubleProblem(9)) is None
    assert len(faults.runs) == runs


def test_enabled_blocks_nest(faults: Faults):
    with autotune.enabled(SLOW_ABOVE_128):
        with autotune.enabled(TableMeasure(lambda plan: float(plan.block))):
            assert resolved(DoubleProblem(1 << 20)) == 32
        assert resolved(DoubleProblem(1 << 4)) == 128


def test_a_failed_first_use_warns_once_and_leaves_the_heuristic(faults: Faults):
    faults.raising = {32, 64, 128, 256}
    with autotune.enabled(SLOW_ABOVE_128):
        with pytest.warns(RuntimeWarning, match=r"tuning double on int32\[1000\] failed and the heuristic") as caught:
            assert resolved() is None
        assert len(caught) == 1
        runs = len(faults.runs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert resolved() is None
        assert len(faults.runs) == runs


def test_an_explicit_tuning_inside_enabled_tunes_once(faults: Faults):
    with autotune.enabled(SLOW_ABOVE_128):
        autotune.tune("double", PROBLEM, SLOW_ABOVE_128)
    assert len(faults.runs) == 4


def test_threads_that_meet_a_problem_together_tune_it_once(faults: Faults):
    with autotune.enabled(SLOW_ABOVE_128), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: resolved(), range(16))) == [128] * 16
    assert len(faults.runs) == 4


def test_where_the_store_cannot_be_written_first_use_still_tunes_once(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "occupied").write_text("mine")
    monkeypatch.setenv(tuned.DIRECTORY_VARIABLE, str(tmp_path / "occupied" / "inside"))
    with autotune.enabled(SLOW_ABOVE_128):
        with pytest.warns(RuntimeWarning, match="cannot be"):
            assert resolved() == 128
        runs = len(faults.runs)
        assert resolved() == 128
    assert len(faults.runs) == runs


def test_a_child_forked_while_a_thread_tunes_does_not_hang(faults: Faults):
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with tuner._one_at_a_time:
            held.set()
            release.wait(60)

    def child() -> None:
        with autotune.enabled(SLOW_ABOVE_128):
            assert resolved() == 128

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    release.set()
    thread.join()
    assert process.exitcode == 0
