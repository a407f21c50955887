"""Tasks on real, small calls: each measure gives checked rows; what is wrong or fails is a reason, not a figure."""

from __future__ import annotations

import pytest

import autotune
from bench import compare, tasks
from bench.cases import AsStridedCase, GcdCase
from bench.compare import Outcome
from bench.tasks import Task, TaskError
from ops import device as devices

CASE = AsStridedCase("stride 3", "float32", (500,), (3,))
EMPTY = AsStridedCase("empty", "float32", (0, 4), (4, 1))


def test_host_rows() -> None:
    rows = tasks.run_task(Task(CASE, "host"))
    assert {row.provider for row in rows} == {"this project", "torch", "contiguous copy"}
    (ours,) = [row for row in rows if row.provider == "this project" and row.metric == "host time"]
    assert ours.ok is True
    assert ours.plan
    assert ours.p50 is not None
    assert ours.gb_per_s is not None


def test_model_rows_have_a_band_and_busy_shares() -> None:
    rows = tasks.run_task(Task(CASE, "model"))
    ours = rows[0]
    assert (ours.metric, ours.unit, ours.ok) == ("modelled time", "us", True)
    assert ours.p20 is not None
    assert ours.p50 is not None
    assert ours.p80 is not None
    assert 0 < ours.p20 <= ours.p50 <= ours.p80
    assert "model" in ours.device
    busy = {row.metric: row.p50 for row in rows if row.metric.startswith("busy ")}
    assert set(busy) == {"busy S", "busy V", "busy MTE2", "busy MTE3"}
    assert all(share is not None and 0 <= share <= 1 for share in busy.values())


def test_tune_rows_hold_candidates_fastest_and_regret() -> None:
    rows = tasks.run_task(Task(CASE, "model", tune=True))
    timed = [
        row for row in rows if row.provider in ("candidate", "heuristic") and row.p50 is not None and row.unit == "us"
    ]
    (heuristic,) = [row for row in timed if row.provider == "heuristic"]
    (fastest,) = [row for row in rows if row.provider == "fastest"]
    (regret,) = [row for row in rows if row.metric == "regret"]
    assert len(timed) > 1
    assert heuristic.p50 is not None
    assert fastest.p50 is not None
    assert fastest.p50 == min(row.p50 for row in timed if row.p50 is not None)
    assert regret.p50 == pytest.approx(heuristic.p50 / fastest.p50 - 1)
    assert [row.plan for row in rows if row.provider == "this project" and row.unit == "us"] == [heuristic.plan]


@pytest.mark.parametrize("tune", [False, True])
def test_an_empty_result_launches_nothing_and_has_no_figure(tune: bool) -> None:
    (row,) = tasks.run_task(Task(EMPTY, "model", tune=tune))
    assert row.p50 is None
    assert "nothing is launched" in row.note


@pytest.mark.parametrize("measure", ["host", "model"])
def test_a_wrong_result_is_a_reason_and_no_figure(monkeypatch: pytest.MonkeyPatch, measure: str) -> None:
    monkeypatch.setattr(compare, "check", lambda case, *rest: Outcome(case, ok=False, note="3 elements are wrong"))
    with pytest.raises(TaskError, match="3 elements are wrong"):
        tasks.run_task(Task(CASE, measure))


def test_a_tuning_without_a_candidate_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise autotune.TuningError("none of 4 candidates serves; last: ub overflow")

    monkeypatch.setattr(autotune, "tune", fail)
    with pytest.raises(TaskError, match="ub overflow"):
        tasks.run_task(Task(CASE, "model", tune=True))


def test_auto_is_the_device_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tasks.resolve("auto") == "model"
    assert tasks.resolve("host") == "host"
    monkeypatch.setattr(devices, "npu", lambda: object())
    assert tasks.resolve("auto") == "device"


def test_arguments_are_those_of_the_public_functions() -> None:
    import torch

    from bench.inputs import make_inputs

    cpu = torch.device("cpu")
    storage, *rest = tasks.call_arguments(CASE, make_inputs(CASE, cpu))
    assert (storage.dim(), rest) == (1, [(500,), (3,), 0])
    gcd = GcdCase("x", ("int8", "float32"), ((4,), (4,)), bits=7, out="int8")
    assert [tensor.dtype for tensor in tasks.call_arguments(gcd, make_inputs(gcd, cpu))] == [
        torch.int8,
        torch.float32,
        torch.int8,
    ]
