"""Checked before timed; wrong rows fail; what cannot be taken is n/a; the NPU side through a fake device layer."""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench import compare, npu, results
from bench.cases import AsStridedCase, Case, GcdCase
from bench.compare import Outcome
from bench.providers import BUILTIN, PROJECT, Provider, builtin_call
from bench.timing import Quantiles
from ops import device as devices
from tests.bench import fakes

CPU = torch.device("cpu")
CASES: list[Case] = [
    GcdCase("small", ("int32", "int32"), ((64,), (64,)), bits=9),
    AsStridedCase("rows", "float32", (4, 6), (8, 1)),
]


def quiet() -> Console:
    return Console(width=200, record=True, quiet=False)


def compared(project: Any, builtin: Any = builtin_call, **options: Any) -> list[Outcome]:
    providers = (fakes.provider(project), Provider(BUILTIN, builtin))
    return compare.compare(CASES, CPU, quiet(), providers=providers, rounds=1, **options)


def test_right_rows_are_timed_with_one_thread_and_with_default_threads() -> None:
    for outcome in compared(fakes.exact):
        assert outcome.ok
        times = outcome.times
        assert all((times.project, times.builtin, times.project_default, times.builtin_default, outcome.roof))


def test_wrong_rows_are_never_timed() -> None:
    for outcome in compared(fakes.off_by_one_bit):
        assert not outcome.ok
        assert outcome.note.endswith("elements are wrong")
        assert outcome.times.project is None
        assert "n/a" in compare.table_cells(outcome, False)


def test_a_failing_project_is_a_wrong_row_with_the_first_line_of_its_reason() -> None:
    for outcome in compared(fakes.failing):
        assert (outcome.ok, outcome.note) == (False, "RuntimeError: ub overflow")
        assert "failed" in compare.table_cells(outcome, False)[2]


def test_brackets_in_a_reason_survive_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    note = "MissingToolError: pip install 'ascend-triton-ops[emulator]'"
    compare.report([Outcome(CASES[0], failed=True, note=note)], CPU, Console(width=200))
    assert "ascend-triton-ops[emulator]" in capsys.readouterr().out


def test_what_the_builtin_refuses_is_not_a_ratio() -> None:
    for outcome in compared(fakes.exact, fakes.refusing):
        assert outcome.ok
        assert outcome.times.project is not None
        assert outcome.times.builtin is None
        cells = compare.table_cells(outcome, False)
        assert cells[4:7] == ["n/a", "n/a", "n/a"]
        assert cells[-1] == "not implemented for 'Half'"


def test_a_builtin_that_is_not_exact_is_named_but_does_not_fail_the_row() -> None:
    for outcome in compared(fakes.exact, fakes.off_by_one_bit):
        assert outcome.ok
        assert compare.notes(outcome) == "the built-in differs from the exact result in 1 elements"


def test_check_only_times_nothing() -> None:
    assert all(outcome.ok and outcome.times.project is None for outcome in compared(fakes.exact, check_only=True))


def test_a_busy_machine_is_said() -> None:
    def outcome(share: float) -> Outcome:
        times = compare.criteria.Times(project=Quantiles(1.0, 1.0, 1.0, share))
        return Outcome(CASES[0], ok=True, times=times)

    assert compare.disturbance([outcome(0.05)]) is None
    assert "up to 40% of a row's calls" in str(compare.disturbance([outcome(0.05), outcome(0.4)]))


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return parser.parse_args(list(options))


@pytest.fixture
def with_cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([compare.case_lists.case_to_json(case) for case in CASES]))
    monkeypatch.setattr(compare.devices, "default_device", lambda: CPU)
    return ["--cases", str(path), "--rounds", "1"]


def use(monkeypatch: pytest.MonkeyPatch, prepare: Any) -> None:
    providers = (fakes.provider(prepare), Provider(BUILTIN, builtin_call))
    monkeypatch.setattr(compare.compare, "__kwdefaults__", {**compare.compare.__kwdefaults__, "providers": providers})


def test_run_exits_0_and_writes_long_format(
    monkeypatch: pytest.MonkeyPatch, with_cases: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, fakes.exact)
    json_path, csv_path = tmp_path / "r.json", tmp_path / "r.csv"
    assert compare.run(parsed(*with_cases, "--json", str(json_path), "--csv", str(csv_path))) == 0
    printed = capsys.readouterr().out
    assert "not of an NPU" in printed
    assert "2 rows, all ok" in printed
    rows = results.read(json_path)
    assert results.read(csv_path) == rows
    assert {row.provider for row in rows} == {PROJECT, BUILTIN, "contiguous copy", "elementwise add"}
    ours = [row for row in rows if row.provider == PROJECT and row.metric == "host time"]
    assert [row.ok for row in ours] == [True, True]
    for row in rows:
        assert row.device
        assert row.versions["torch"]
        assert row.timestamp
        assert row.p20 is not None
        assert row.p50 is not None
        assert row.p80 is not None
        assert row.p20 <= row.p50 <= row.p80


def test_run_exits_1_when_a_row_is_wrong(
    monkeypatch: pytest.MonkeyPatch, with_cases: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, fakes.off_by_one_bit)
    assert compare.run(parsed(*with_cases)) == 1
    assert "2 of 2 rows are not ok" in capsys.readouterr().out


def test_run_exits_2_for_a_selection_without_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.run(parsed("--case", "no such case")) == 2
    assert "no case matches" in capsys.readouterr().out


@pytest.fixture
def npu_layer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A fake device: the kernels of each call, between clearings of the L2, as a profile would show them."""
    log: dict[str, Any] = {"kernels": {}, "profile": []}
    monkeypatch.setattr(devices, "synchronize", lambda device: None)
    monkeypatch.setattr(devices, "describe", lambda device: "a fake NPU")
    monkeypatch.setattr(devices, "clear_l2", lambda device: log["profile"].append(("ZerosLike", 100.0)))

    def profile(run: Any, device: object) -> list[tuple[str, float]]:
        log["profile"].clear()
        run()
        return list(log["profile"])

    monkeypatch.setattr(devices, "profile_kernels", profile)
    return log


def calls_with(log: dict[str, Any], **kernels: list[tuple[str, float]]) -> dict[str, Any]:
    """Calls that leave these kernels in the profile."""
    names = {"project": PROJECT, "builtin": BUILTIN, "roof": "roof"}
    return {names[name]: (lambda rows=rows: log["profile"].extend(rows)) for name, rows in kernels.items()}


def test_npu_sums_all_kernels_of_a_call_and_names_the_builtin(npu_layer: dict[str, Any]) -> None:
    calls = calls_with(
        npu_layer,
        project=[("asd_rows", 10.0)],
        builtin=[("AsStrided_7f_high", 30.0), ("Transpose_8", 10.0)],
        roof=[("TensorMove", 8.0)],
    )
    outcome = Outcome(CASES[1], ok=True)
    compare.measure_on_npu(outcome, fakes.NPU, calls, rounds=1)  # type: ignore[arg-type]
    assert outcome.project_device == Quantiles(10.0, 10.0, 10.0)
    assert outcome.builtin_device == Quantiles(40.0, 40.0, 40.0)
    assert outcome.builtin_note == "AsStrided + Transpose"
    cells = compare.table_cells(outcome, True)
    assert cells[7] == "0.25"
    assert cells[9] == "80 %"


def test_npu_fallback_to_the_cpu_is_named_and_gives_no_ratio(npu_layer: dict[str, Any]) -> None:
    def fallback() -> None:
        warnings.warn("The kernel [gcd.out] is not supported by NPU currently. Now running on CPU.", stacklevel=1)

    calls = calls_with(npu_layer, project=[("gcd_i32", 10.0)], roof=[]) | {BUILTIN: fallback}
    outcome = Outcome(CASES[0], ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare.measure_on_npu(outcome, fakes.NPU, calls, rounds=1)  # type: ignore[arg-type]
    assert outcome.builtin_device is None
    assert outcome.builtin_note == "CPU fallback"
    cells = compare.table_cells(outcome, True)
    assert cells[7] == "n/a"
    assert cells[9] == "n/a"


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 0.0])
def test_npu_profiler_nonsense_is_not_a_speedup(npu_layer: dict[str, Any], broken: float) -> None:
    calls = calls_with(npu_layer, project=[("gcd_i32", 10.0)], builtin=[("aclnnGcd_Gcd", broken)], roof=[])
    outcome = Outcome(CASES[0], ok=True)
    compare.measure_on_npu(outcome, fakes.NPU, calls, rounds=1)  # type: ignore[arg-type]
    assert outcome.builtin_device is None
    assert compare.table_cells(outcome, True)[7] == "n/a"
    rows = [row for row in compare.to_rows([outcome], fakes.NPU) if row.metric == "device time"]  # type: ignore[arg-type]
    assert [row.p50 for row in rows] == [10.0, None, None]


def test_npu_profile_without_any_kernel_is_no_figure(
    npu_layer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "profile_kernels", lambda run, device: [])
    assert npu.device_time(lambda: None, fakes.NPU) == npu.DeviceTime(None, (), ())  # type: ignore[arg-type]
