"""`bench cycles`: the calls it covers, what a row says, and the trace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench import cycles
from bench.cases import GCD_DTYPES, AsStridedCase, GcdCase, same
from tiling.as_strided import TilingKey, classify
from tiling.platform import platform

CHIP = platform("Ascend910B3")


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cycles.add_arguments(parser)
    return parser.parse_args(given)


def test_readme_has_every_dtype_and_every_documented_path() -> None:
    cases = cycles.readme_cases()
    assert [case.dtypes for case in cases if isinstance(case, GcdCase)] == [(dtype, dtype) for dtype in GCD_DTYPES]
    assert set(cycles.PATHS) == set(TilingKey)
    for key, case in cycles.PATHS.items():
        assert classify(case.size, case.stride, case.offset, 4) == key


def test_options_describe_a_call() -> None:
    gcd = cycles.case_of(arguments("--op", "gcd", "--dtype", "int16", "--shape", "100x30", "--bits", "9"))
    assert gcd == GcdCase("100x30", ("int16", "int16"), ((100, 30), (100, 30)), 9)
    view = cycles.case_of(arguments("--op", "as_strided", "--shape", "5,7", "--stride", "1,5", "--offset", "2"))
    assert view == AsStridedCase("5x7 by 1x5", "int32", (5, 7), (1, 5), 2)
    contiguous = cycles.case_of(arguments("--op", "as_strided", "--shape", "5,7"))
    assert isinstance(contiguous, AsStridedCase)
    assert contiguous.stride == (7, 1)


def test_mismatched_strides_are_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cycles.run(arguments("--op", "as_strided", "--shape", "5,7", "--stride", "1")) == 2
    assert "2 sizes and 1 strides" in capsys.readouterr().out


@pytest.mark.parametrize(("op", "dtype"), [("gcd", "int17"), ("gcd", "float64"), ("as_strided", "quaternion")])
def test_a_dtype_there_is_not_is_a_wrong_command_line(op: str, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cycles.run(arguments("--op", op, "--dtype", dtype, "--shape", "100")) == 2
    assert f"no dtype '{dtype}' for {op}" in capsys.readouterr().out


def test_complete_run_is_checked_and_priced() -> None:
    row, report = cycles.model(same("int16", 50_000, "small"), CHIP, sample=None)
    assert row.ok is True
    assert report.bytes_moved == 3 * 2 * 50_000
    assert row.bound == "V"
    assert row.kernel == "gcd_linear"
    assert row.low <= row.microseconds <= row.high
    assert row.per_element * 50_000 == pytest.approx(report.program_cycles)
    assert max(row.pipes.values()) <= row.per_element


def test_sampled_run_claims_nothing_about_the_result() -> None:
    row, report = cycles.model(same("int16", 200_000, "sampled"), CHIP, sample=2)
    assert row.ok is None
    assert not report.complete
    whole, _ = cycles.model(same("int16", 200_000, "sampled"), CHIP, sample=None)
    assert row.per_element == pytest.approx(whole.per_element, rel=0.1)


def test_empty_call_launches_nothing() -> None:
    row, report = cycles.model(cycles.PATHS[TilingKey.SCALAR], CHIP)
    assert report.launches == []
    assert (row.kernel, row.microseconds, row.figure, row.ok) == ("no launch", 0.0, "", True)


def test_markdown_has_one_line_a_row() -> None:
    cases = [same("int8", 20_000, "one"), cycles.PATHS[TilingKey.SCALAR]]
    lines = cycles.markdown(cycles.model(case, CHIP)[0] for case in cases).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| gcd int8 one | gcd_linear | ")
    assert lines[3].startswith("| as_strided float32 scalar | no launch | ")


def test_one_call_with_trace_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, rows = tmp_path / "trace.json", tmp_path / "rows.json"
    given = ("--op", "as_strided", "--dtype", "float32", "--shape", "64,500", "--stride", "600,1")
    assert cycles.run(arguments(*given, "--sample", "0", "--costs", "--trace", str(drawn), "--json", str(rows))) == 0
    events = json.loads(drawn.read_text())["traceEvents"]
    assert {event["tid"] for event in events if event["ph"] == "X"} >= {2, 3}  # loads and stores
    (row,) = json.loads(rows.read_text())
    assert row["path"] == "STRIDE_1"
    assert row["ok"] is True
    printed = capsys.readouterr().out
    assert "ui.perfetto.dev" in printed
    assert "dma_latency" in printed


@pytest.mark.thorough
def test_readme_table_is_whole() -> None:
    table = cycles.readme_table().splitlines()
    assert len(table) == 2 + 8 + 12
