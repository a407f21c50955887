"""The speed lines of both operators, and what counts as met."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from rich.console import Console

from bench import compare, ratios
from bench.cases import GcdCase
from bench.providers import BUILTIN, Provider, builtin_call
from tests.bench import fakes


def limits(lines: list[ratios.Line], dtype: str, name: str) -> set[float]:
    return {limit for case, limit in lines if case.dtype == dtype and name in case.name}


def test_gcd_lines() -> None:
    lines = ratios.gcd_lines()
    assert limits(lines, "int32", "full range") == {0.25}
    assert limits(lines, "int64", "below") == {0.25}
    assert limits(lines, "int32", "below 2^9") == {0.35}
    assert limits(lines, "int16", "") == {0.4}
    assert limits(lines, "int8", "") == limits(lines, "uint8", "") == {0.3}
    assert limits(lines, "int64", "full range") == {0.7}
    assert all(case.elements == 1_000_000 for case, _ in lines)


def test_as_strided_lines() -> None:
    lines = ratios.as_strided_lines()
    for name in ("rows", "contiguous", "broadcast"):
        assert limits(lines, "float32", name) == {2.0}
    assert limits(lines, "float32", "transpose") == {1.5}
    assert {case.name for case, _ in lines if case.name.startswith("stride")} == {f"stride {n}" for n in range(2, 9)}
    assert limits(lines, "float32", "stride") == {4.0}
    assert limits(lines, "int8", "") == {2.5}
    assert limits(lines, "int64", "stride") == {4.5}
    assert limits(lines, "int64", "windows") == {8.0}
    assert len({case.id for case, _ in lines}) == len(lines)


@pytest.mark.parametrize(("limit", "met"), [(1e9, True), (1e-9, False)])
def test_measure(monkeypatch: pytest.MonkeyPatch, limit: float, met: bool) -> None:
    case = GcdCase("small", ("int32", "int32"), ((64,), (64,)), bits=9)
    providers = (fakes.provider(fakes.exact), Provider(BUILTIN, builtin_call))
    monkeypatch.setattr(ratios, "PROVIDERS", providers)
    console = Console(width=200, record=True)
    outcomes, kept = ratios.measure([(case, limit)], argparse.Namespace(rounds=1), console)
    assert kept is met
    assert outcomes[0].times.builtin is not None
    assert ("MISSED" in console.export_text()) is not met


def test_a_wrong_result_is_never_met(monkeypatch: pytest.MonkeyPatch) -> None:
    case = GcdCase("small", ("int32", "int32"), ((64,), (64,)), bits=9)
    wrong: Any = (fakes.provider(fakes.off_by_one_bit), Provider(BUILTIN, builtin_call))
    monkeypatch.setattr(ratios, "PROVIDERS", wrong)
    console = Console(width=200, record=True)
    outcomes, kept = ratios.measure([(case, 1e9)], argparse.Namespace(rounds=1), console)
    assert (outcomes[0].ok, kept) == (False, False)
    assert compare.notes(outcomes[0]) in console.export_text()
