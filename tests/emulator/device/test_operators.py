"""Both operators on the code that goes to the NPU: values, layouts and the public case lists, with no report.

`make test` runs a part, `make test-all` everything, and the values also under what a device may do differently.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import emulator
import ops
from emulator.device import options
from tests.ops import gcd_inputs, test_as_strided_cases, test_gcd_cases
from tests.ops.gcd_asserts import assert_gcd

ELEMENTS = 1 << 20  # of a case; larger ones run at this level scaled down
GCD_CASES = test_gcd_cases.CASES
VIEW_CASES = [case for case in test_as_strided_cases.CASES if test_as_strided_cases.elements(case) <= ELEMENTS]

# What hardware may do and the kernels must stand: SEMANTICS.md.
ASSUMPTIONS: dict[str, dict[str, Any]] = {
    "division one place off": {"division": "random"},
    "division away from zero": {"division": "away"},
    "division toward zero": {"division": "toward"},
    "subnormals flushed": {"flush_subnormals": True, "division": "random"},
    "another fill": {"fill": 0x01},
}


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Random operands of every bit length, and those on which such kernels fail first."""
    special = (
        gcd_inputs.adversarial_floats(dtype) if dtype.is_floating_point else gcd_inputs.adversarial_integers(dtype)
    )
    first, second = (torch.cat(parts) for parts in zip(gcd_inputs.random_pairs(dtype, 4000, 7), special, strict=True))
    return first, second


@pytest.mark.parametrize("dtype", gcd_inputs.DTYPES, ids=str)
def test_gcd_values(dtype: torch.dtype) -> None:
    first, second = (operand[::4] for operand in pairs(dtype))
    with emulator.route("device"):
        assert_gcd(ops.gcd(first.contiguous(), second.contiguous()), first, second)


@pytest.mark.thorough
@pytest.mark.parametrize("assumption", ["as documented", *ASSUMPTIONS])
@pytest.mark.parametrize("dtype", gcd_inputs.DTYPES, ids=str)
def test_gcd_values_whole(dtype: torch.dtype, assumption: str) -> None:
    first, second = pairs(dtype)
    with emulator.route("device"), options(**ASSUMPTIONS.get(assumption, {})):
        assert_gcd(ops.gcd(first, second), first, second)


@pytest.mark.parametrize(
    ("dtype", "scalar"),
    [
        (torch.bfloat16, torch.tensor(12345.678)),
        (torch.float16, torch.tensor(2049.0)),
        (torch.float16, torch.tensor(65520.0)),
        (torch.bfloat16, torch.tensor(-22721)),
    ],
    ids=lambda value: str(value).removeprefix("torch."),
)
def test_wider_scalar_takes_the_tensors_dtype(dtype: torch.dtype, scalar: torch.Tensor) -> None:
    """The compiler loses this rounding if it is written as a cast: tests/findings/test_scalar_float_casts.py."""
    first = torch.arange(-2000, 2000).to(dtype)
    with emulator.route("device"):
        assert_gcd(ops.gcd(first, scalar), first, scalar)


@pytest.mark.thorough
def test_half_precision_stands_saturation() -> None:
    """Where the runtime lets f16 saturate, integers computed through f16 stay exact, and so do finite halves."""
    for dtype in (torch.int8, torch.uint8, torch.int16):
        first, second = pairs(dtype)
        with emulator.route("device"), options(f16_saturates=True):
            assert_gcd(ops.gcd(first, second), first, second)


def gcd_case(case: dict[str, Any]) -> None:
    with emulator.route("device"):
        test_gcd_cases.run(case, scale=test_gcd_cases.elements(case) > ELEMENTS)


def view_case(case: dict[str, Any]) -> None:
    with emulator.route("device"):
        test_as_strided_cases.run({**case, "dtypes": case["dtypes"][:2]})


@pytest.mark.parametrize("case", GCD_CASES[::8], ids=lambda case: f"{case['id']}")
def test_gcd_case(case: dict[str, Any]) -> None:
    gcd_case(case)


@pytest.mark.parametrize("case", VIEW_CASES[::4], ids=lambda case: f"{case['id']}")
def test_view_case(case: dict[str, Any]) -> None:
    view_case(case)


@pytest.mark.thorough
@pytest.mark.parametrize("case", GCD_CASES, ids=lambda case: f"{case['id']}")
def test_every_gcd_case(case: dict[str, Any]) -> None:
    gcd_case(case)


@pytest.mark.thorough
@pytest.mark.parametrize("case", VIEW_CASES, ids=lambda case: f"{case['id']}")
def test_every_view_case(case: dict[str, Any]) -> None:
    view_case(case)


def test_a_million_int16_in_two_seconds() -> None:
    """With all checks, of processor time on all threads together: what else runs here does not count."""
    generator = torch.Generator().manual_seed(16)
    first, second = (torch.randint(-32768, 32767, (10**6,), generator=generator, dtype=torch.int16) for _ in "xy")
    with emulator.route("device"):
        ops.gcd(first[:100_000], second[:100_000])  # compiled before
        ops.gcd(first, second)
        start = time.process_time()
        result = ops.gcd(first, second)
        assert time.process_time() - start < 2.0
    assert_gcd(result[:50_000], first[:50_000], second[:50_000])
