"""The case list: shapes, dtypes and outcomes taken from the public test suites of other implementations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import ops
from tests.ops.gcd_asserts import assert_gcd

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "gcd_cases.json").read_text())
LARGE = 1 << 26  # beyond, a case runs scaled down to SCALED, and whole only in the thorough run if it fits the memory
SCALED = 1 << 22
FITS = 12 << 30  # bytes of operands and result; the reference looks at a part at a time
PART = 1 << 24


def values(shape: list[int], dtype: torch.dtype, span: list[int] | None, seed: int) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point:
        low, high = span or (-100, 100)
        generator = torch.Generator().manual_seed(seed)
        return torch.empty(shape, dtype=torch.float32).uniform_(low, high, generator=generator).to(dtype)
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        return torch.ones(shape, dtype=dtype)
    info = torch.iinfo(dtype)
    low, high = span or (info.min, info.max)
    low = max(low, info.min)
    generator = torch.Generator().manual_seed(seed)
    made = torch.randint(low, high, shape, dtype=dtype, generator=generator)
    edge = [0, 12 if span else info.min]
    made.view(-1)[:2] = torch.tensor(edge[: made.numel()], dtype=dtype)[: made.numel()]
    return made


def scaled(shape: list[int]) -> list[int]:
    """The same rank with fewer elements, odd where it was large."""
    while math.prod(shape) > SCALED:
        longest = shape.index(max(shape))
        shape = [*shape[:longest], shape[longest] // 3 + 1, *shape[longest + 1 :]]
    return shape


def run(case: dict[str, Any], scale: bool) -> None:
    shapes = case["lhs_shape"], case["rhs_shape"]
    if scale:
        same = shapes[0] == shapes[1]
        shapes = (scaled(shapes[0]), scaled(shapes[0]) if same else shapes[1])
    first, second = (
        values(shape, getattr(torch, case[f"{side}_dtype"]), case.get("value_range"), case["id"] + number)
        for number, (side, shape) in enumerate(zip(("lhs", "rhs"), shapes, strict=True))
    )
    out = None
    if "out_dtype" in case:
        out = torch.empty(case.get("out_shape", case.get("result_shape")), dtype=getattr(torch, case["out_dtype"]))
    expect = case.get("expect_here", case["expect"])
    if expect != "ok":
        kind, text = case["error_text"].split(": ", 1)
        with pytest.raises({"RuntimeError": RuntimeError, "NotImplementedError": NotImplementedError}[kind]) as raised:
            ops.gcd(first, second, out=out)
        assert str(raised.value) == text.replace('"gcd_cpu"', '"gcd"')
        return
    actual = ops.gcd(first, second, out=out)
    if not scale and "result_shape" in case:
        assert list(actual.shape) == case["result_shape"]
    if "expect_here" not in case and "result_dtype" in case:
        assert str(actual.dtype) == f"torch.{case['result_dtype']}"
    if first.shape == second.shape == actual.shape:
        parts = zip(*(tensor.reshape(-1).split(PART) for tensor in (actual, first, second)), strict=True)
    else:
        parts = iter([(actual, first, second)])
    for got, a, b in parts:
        assert_gcd(got, a, b)


def elements(case: dict[str, Any]) -> int:
    return math.prod(torch.broadcast_shapes(case["lhs_shape"], case["rhs_shape"]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}")
def test_case(case: dict[str, Any]) -> None:
    run(case, scale=elements(case) > LARGE)


@pytest.mark.thorough
@pytest.mark.parametrize("case", [case for case in CASES if elements(case) > LARGE], ids=lambda case: f"{case['id']}")
def test_large_case_whole(case: dict[str, Any]) -> None:
    needed = 3 * elements(case) * getattr(torch, case.get("result_dtype", "int32")).itemsize
    if needed > FITS:
        pytest.skip(f"operands and result take {needed} bytes, and with the reference more than 16 GiB")
    run(case, scale=False)
