"""The default lists hold what they promise, and cases survive a trip through JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from bench import cases
from bench.cases import AsStridedCase, CaseError, GcdCase
from bench.inputs import torch_dtype
from tiling.as_strided import TilingKey, classify


def test_compare_list_has_thirty_rows_over_both_operators() -> None:
    listed = cases.compare_cases()
    assert len(listed) >= 30
    assert {case.op for case in listed} == {"gcd", "as_strided"}
    assert {dtype for case in listed if isinstance(case, GcdCase) for dtype in case.dtypes} == set(cases.GCD_DTYPES)


def test_sweep_list_has_forty_rows_every_gcd_dtype_and_sizes_from_1_to_2_26() -> None:
    listed = cases.sweep_cases()
    assert len(listed) >= 40
    same = {case.dtypes[0] for case in listed if isinstance(case, GcdCase) and len(set(case.dtypes)) == 1}
    assert same == set(cases.GCD_DTYPES)
    for op in ("gcd", "as_strided"):
        sizes = {case.elements for case in listed if case.op == op}
        assert 1 in sizes
        assert 2**26 in sizes


def test_sweep_list_covers_the_twelve_documented_paths() -> None:
    listed = [case for case in cases.sweep_cases() if isinstance(case, AsStridedCase)]
    keys = {classify(case.size, case.stride, case.offset, cases.ITEM_BYTES[case.dtype]) for case in listed}
    assert keys == set(TilingKey)
    assert len(TilingKey) == 12


@pytest.mark.parametrize("listed", [cases.compare_cases(), cases.sweep_cases()], ids=["compare", "sweep"])
def test_ids_are_unique_and_cases_survive_json(listed: list[cases.Case]) -> None:
    assert len({case.id for case in listed}) == len(listed)
    for case in listed:
        assert cases.case_from_json(json.loads(json.dumps(cases.case_to_json(case)))) == case


@pytest.mark.parametrize("case", cases.sweep_cases() + cases.compare_cases(), ids=lambda case: case.id)
def test_item_sizes_are_those_of_torch(case: cases.Case) -> None:
    names = case.dtypes if isinstance(case, GcdCase) else (case.dtype,)
    for name in names:
        assert cases.ITEM_BYTES[name] == torch_dtype(name).itemsize


def test_shape_and_bytes_of_broadcast_and_mixed_gcd() -> None:
    case = GcdCase("x", ("int8", "int32"), ((3, 1), (1, 4)))
    assert (case.size, case.elements) == ((3, 4), 12)
    assert case.bytes == 3 * 1 + 4 * 4 + 12 * 4
    assert GcdCase("x", ("int8", "float32"), ((5,), ()), out="int8").bytes == 5 + 4 + 5


@pytest.mark.parametrize(
    ("size", "stride", "span", "read"),
    [
        ((10,), (2,), 19, 10),
        ((4, 5), (1, 0), 4, 4),
        ((100, 8), (1, 1), 107, 107),
        ((3, 4), (8, 1), 20, 12),
        ((0, 4), (4, 1), 0, 0),
        ((), (), 1, 1),
    ],
)
def test_span_and_bytes_of_as_strided(size: tuple[int, ...], stride: tuple[int, ...], span: int, read: int) -> None:
    case = AsStridedCase("x", "int16", size, stride)
    assert case.span == span
    assert case.bytes == 2 * (read + case.elements)
    if case.elements:
        storage = torch.arange(span)
        assert torch.as_strided(storage, size, stride).unique().numel() == read


def test_selection() -> None:
    listed = cases.sweep_cases()
    assert {case.op for case in cases.select(listed, ops=["gcd"])} == {"gcd"}
    assert all(case.dtype == "int8" for case in cases.select(listed, ops=["as_strided"], dtypes=["int8"]))
    assert all("2^20" in case.name for case in cases.select(listed, names=["2^20"]))
    assert max(case.elements for case in cases.select(listed, max_elements=5000)) <= 5000
    with pytest.raises(CaseError, match="no case matches"):
        cases.select(listed, dtypes=["float64"])


def test_shapes_times_dtypes_times_operators() -> None:
    parser = argparse.ArgumentParser()
    cases.add_selection_arguments(parser)
    args = parser.parse_args(["--shape", "3x4", "--shape", "7", "--dtypes", "int8,int16"])
    made = cases.selected(args, [])
    assert [case.id for case in made if case.op == "gcd"] == [
        "gcd/int8/3x4",
        "gcd/int8/7",
        "gcd/int16/3x4",
        "gcd/int16/7",
    ]
    assert AsStridedCase("3x4", "int8", (3, 4), (4, 1)) in made
    args = parser.parse_args(["--op", "as_strided", "--dtypes", "float64", "--shape", "3x4", "--stride", "1x3"])
    assert cases.selected(args, []) == [AsStridedCase("3x4 by 1x3", "float64", (3, 4), (1, 3))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--shape 3xx4", "is no shape"),
        ("--shape -3x4", "is no shape|not negative"),
        ("--shape 3x4 --op gcd --dtypes float64", "gcd of float64"),
        ("--shape 3x4 --op as_strided --stride 1", "expected 2 numbers"),
    ],
)
def test_wrong_shapes_are_refused(options: str, message: str) -> None:
    parser = argparse.ArgumentParser()
    cases.add_selection_arguments(parser)
    with pytest.raises(CaseError, match=message):
        cases.selected(parser.parse_args(options.replace("--shape -", "--shape=-").split()), [])


def test_case_file(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([cases.case_to_json(case) for case in cases.compare_cases()]))
    parser = argparse.ArgumentParser()
    cases.add_selection_arguments(parser)
    args = parser.parse_args(["--cases", str(path), "--op", "as_strided"])
    assert cases.selected(args, []) == [case for case in cases.compare_cases() if case.op == "as_strided"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting"),
        ("{}", "expected a list"),
        ('[{"name": "x"}]', "needs an op"),
        ('[{"op": "gcd", "colour": 1}]', "unknown fields"),
        ('[{"op": "gcd", "name": "x"}]', "missing"),
        ('[{"op": "gcd", "name": "x", "dtypes": ["int8", "int8"], "shapes": [[1], [1]], "layout": "odd"}]', "layout"),
    ],
)
def test_a_wrong_case_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text)
    with pytest.raises(CaseError, match=message):
        cases.load_cases(path)
