"""Long-format rows survive JSON and CSV; what is not a results file is refused by name."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench import results
from bench.results import ResultsError, Row

ROWS = [
    Row(
        op="gcd",
        case='1e6, "quoted"',
        dtype="int32",
        provider="this project",
        metric="host time",
        unit="us",
        p20=1.5,
        p50=2.0,
        p80=3.25,
        elements=10,
        bytes=120,
        gb_per_s=0.06,
        ok=True,
        plan="gcd_i32(block=4928)",
        note="a, b",
        threads=1,
        device="emulator",
        versions={"torch": "2.13.0"},
        timestamp="2026-01-01T00:00:00+00:00",
    ),
    Row(op="as_strided", case="rows", dtype="int8", provider="torch", metric="host time", unit="us", ok=False),
]


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "deep" / f"results.{suffix}"
    getattr(results, f"write_{suffix}")(path, ROWS)
    assert results.read(path) == ROWS


def test_a_figure_that_is_none_of_one_is_dropped() -> None:
    row = Row(op="gcd", case="x", dtype="int8", provider="p", metric="m", unit="us", p50=math.nan, gb_per_s=math.inf)
    assert (row.p50, row.gb_per_s) == (None, None)
    assert "NaN" not in json.dumps(row.to_json())


def test_stamp_fills_only_what_is_empty() -> None:
    stamped = results.stamp(ROWS, "a device", {"torch": "1"})
    assert (stamped[0].device, stamped[0].versions, stamped[0].timestamp) == (
        "emulator",
        {"torch": "2.13.0"},
        "2026-01-01T00:00:00+00:00",
    )
    assert (stamped[1].device, stamped[1].versions) == ("a device", {"torch": "1"})
    assert stamped[1].timestamp


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.json", "{", "Expecting"),
        ("r.json", "[]", "no result rows"),
        ("r.json", '{"schema": 99, "rows": []}', "schema 99"),
        ("r.json", '{"schema": 1, "rows": [{"op": "gcd"}]}', "missing"),
        ("r.csv", "op,colour\ngcd,red\n", "unknown"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ResultsError, match=message) as caught:
        results.read(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"absent\.json"):
        results.read(tmp_path / "absent.json")
