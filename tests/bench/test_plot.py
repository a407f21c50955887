"""Figures are drawn from rows alone: the right ones, with units and the device, and nothing from nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from matplotlib import pyplot

from bench import plot, results
from bench.results import Row

DEVICE = "a device"


def timed(case: str, provider: str, p50: float | None, **values: object) -> Row:
    common = {"op": "gcd", "dtype": "int32", "metric": "host time", "unit": "us", "device": DEVICE}
    return Row(case=case, provider=provider, p50=p50, **{**common, **values})  # type: ignore[arg-type]


def sample() -> list[Row]:
    rows = []
    for power in (4, 10, 20):
        case = f"2^{power}"
        rows += [
            timed(case, "this project", 2.0**power / 100, elements=2**power, ok=True),
            timed(case, "torch", 2.0**power / 50, elements=2**power),
            timed(case, "elementwise add", 2.0**power / 500, elements=2**power),
            timed(case, "heuristic", 12.0, metric="modelled time"),
            timed(case, "candidate", 10.0, metric="modelled time"),
            timed(case, "candidate", None, metric="modelled time"),
            timed(case, "this project", 0.9, metric="busy V", unit="fraction"),
            timed(case, "this project", 0.4, metric="busy MTE2", unit="fraction"),
        ]
    return rows


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    plot.add_arguments(parser)
    return parser.parse_args(list(options))


def test_every_kind_as_png_and_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.write_json(tmp_path / "r.json", sample()[:5])
    results.write_csv(tmp_path / "r.csv", sample()[5:])
    out = tmp_path / "figures"
    assert plot.run(parsed(str(tmp_path / "r.json"), str(tmp_path / "r.csv"), "--out", str(out))) == 0
    names = {f"{kind}{suffix}" for kind in plot.KINDS for suffix in (".png", ".svg")}
    assert {path.name for path in out.iterdir()} == names
    assert len(capsys.readouterr().out.splitlines()) == len(names)
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert not pyplot.get_fignums()


@pytest.mark.parametrize(
    ("kind", "units"),
    [
        ("speedup", ["built-in time / time (×)", "gcd 2^4 [int32]", "2.00"]),
        ("size", ["elements of the result", "time (us)", "gcd [int32]", "in the same colour: elementwise add"]),
        ("candidates", ["time / time of the fastest candidate (×)", "the heuristic's plan"]),
        ("pipes", ["share of the time (%)", "MTE2"]),
    ],
)
def test_titles_name_the_device_and_axes_their_units(tmp_path: Path, kind: str, units: list[str]) -> None:
    (_, svg) = plot.draw(sample(), tmp_path, [kind])
    text = svg.read_text()
    for wanted in (DEVICE, *units):
        assert wanted in text


def test_the_same_rows_give_the_same_svg(tmp_path: Path) -> None:
    first, second = (plot.draw(sample(), tmp_path / name, ["speedup"])[1].read_bytes() for name in "ab")
    assert first == second


def test_wrong_rows_and_missing_figures_are_no_speedup(tmp_path: Path) -> None:
    rows = [
        timed("wrong", "this project", 1.0, ok=False),
        timed("wrong", "torch", 9.0),
        timed("no figure", "this project", 1.0, ok=True),
        timed("no figure", "torch", None),
    ]
    assert plot.draw(rows, tmp_path, ["speedup"]) == []


def test_one_set_a_device(tmp_path: Path) -> None:
    other = [results.replace(row, device="another") for row in sample()]
    written = plot.draw(sample() + other, tmp_path, ["speedup"])
    assert [path.name for path in written] == ["speedup-1.png", "speedup-1.svg", "speedup-2.png", "speedup-2.svg"]


def test_many_bars_go_on_a_second_page(tmp_path: Path) -> None:
    names = [f"case {i}" for i in range(plot.MOST_BARS + 1)]
    rows = [timed(name, provider, 1.0, ok=True) for name in names for provider in ("this project", "torch")]
    written = plot.draw(rows, tmp_path, ["speedup"])
    assert [path.name for path in written[::2]] == ["speedup.png", "speedup-page2.png"]


def test_nothing_to_draw_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.write_json(tmp_path / "r.json", [])
    assert plot.run(parsed(str(tmp_path / "r.json"), "--out", str(tmp_path))) == 1
    assert "no rows" in capsys.readouterr().out


def test_a_foreign_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text("[]")
    assert plot.run(parsed(str(tmp_path / "r.json"))) == 2
    assert "r.json" in capsys.readouterr().out
