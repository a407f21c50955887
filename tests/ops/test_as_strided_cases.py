"""The case list: shapes that public test suites and reports use, each with its expected outcome."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import ops
from tests.ops.as_strided_support import bits, random_storage

CASES = json.loads((Path(__file__).parents[1] / "data" / "as_strided_cases.json").read_text())

# Larger ones run with --thorough; none of the list is beyond 2^26 elements.
QUICK_ELEMENTS = 2**21


def elements(case) -> int:
    return max(case.get("storage_numel", 0), int(np.prod(case["input_shape"], dtype=object)))


def make_input(case, dtype: torch.dtype) -> torch.Tensor:
    storage = random_storage(random.Random(case["id"]), max(elements(case), 1), dtype)
    if dtype is torch.bool:
        storage = storage.view(torch.uint8).remainder(2).view(torch.bool)  # torch normalises other bytes
    if "input_stride" in case:
        return torch.as_strided(storage, case["input_shape"], case["input_stride"], case.get("input_offset", 0))
    return storage.view(case["input_shape"])


def run(case) -> None:
    arguments = (case["size"], case["stride"], case["storage_offset"])
    for name in case["dtypes"]:
        source = make_input(case, getattr(torch, name))
        outcome = case.get("expect_here", case["expect"])
        if outcome == "ok":
            result = ops.as_strided(source, *arguments)
            assert np.array_equal(bits(result), bits(torch.as_strided_copy(source, *arguments))), name
            assert result.is_contiguous()
        elif "out dtype" in outcome:
            kind, text = case["error_text"].split(": ", 1)
            out = torch.empty(0, dtype=getattr(torch, outcome.rsplit(" ", 1)[1]))
            with pytest.raises(RuntimeError) as caught:
                ops.as_strided(source, *arguments, out=out)
            assert (kind, str(caught.value)) == ("RuntimeError", text)
        else:
            kind, text = case["error_text"].split(": ", 1)
            with pytest.raises(RuntimeError) as caught:
                ops.as_strided(source, *arguments)
            assert (kind, str(caught.value)) == ("RuntimeError", text)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.thorough] if elements(case) > QUICK_ELEMENTS else [], id=str(case["id"]))
        for case in CASES
    ],
)
def test_case(case):
    run(case)


def test_large_cases_scaled_down():
    """Cases that only run whole with --thorough run here with every long dimension shortened."""
    large = [case for case in CASES if elements(case) > QUICK_ELEMENTS]
    assert large
    for case in large:
        size = [min(extent, 64) for extent in case["size"]]
        reach = 1 + sum((extent - 1) * step for extent, step in zip(size, case["stride"], strict=True))
        run(
            {
                **case,
                "size": size,
                "storage_offset": min(case["storage_offset"] or 0, 1000),
                "input_shape": [reach + 1000],
            }
        )


def test_out_of_the_case_notes():
    """Case 7: out= given with stride (1, 2), and an empty out= that is resized."""
    source = torch.arange(24.0).view(4, 6)
    turned = torch.zeros(3, 2).t()
    assert ops.as_strided(source, (2, 3), (1, 6), 0, out=turned) is turned
    assert turned.stride() == (1, 2)
    empty = torch.empty(0)
    ops.as_strided(source, (2, 3), (1, 6), 0, out=empty)
    expected = torch.as_strided_copy(source, (2, 3), (1, 6), 0)
    assert torch.equal(turned, expected)
    assert torch.equal(empty, expected)
