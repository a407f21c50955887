"""Inputs are reproducible and within their bounds; the check sees every differing bit."""

from __future__ import annotations

import math

import pytest
import torch

from bench import inputs
from bench.cases import AsStridedCase, Case, GcdCase, compare_cases, sweep_cases

CPU = torch.device("cpu")
SMALL = [case for case in compare_cases() + sweep_cases() if case.elements <= 2000]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.id)
def test_the_same_values_every_time(case: Case) -> None:
    first, second = (inputs.make_inputs(case, CPU) for _ in range(2))
    for left, right in zip(first.tensors, second.tensors, strict=True):
        assert inputs.wrong_elements(left, right.clone()) == 0


@pytest.mark.parametrize("layout", ["", "transposed", "sliced"])
def test_layouts(layout: str) -> None:
    case = GcdCase("x", ("int32", "int32"), ((6, 5), (6, 5)), bits=4, layout=layout)
    for tensor in inputs.make_inputs(case, CPU).tensors:
        assert tensor.shape == (6, 5)
        assert tensor.is_contiguous() == (layout == "")
        assert tensor.abs().max() < 2**4
    strides = {"": (5, 1), "transposed": (1, 6), "sliced": (28, 1)}
    assert inputs.make_inputs(case, CPU).tensors[0].stride() == strides[layout]


def test_full_range_reaches_both_ends() -> None:
    case = GcdCase("x", ("int8", "int8"), ((5000,), (5000,)))
    lhs, _ = inputs.make_inputs(case, CPU).tensors
    assert (int(lhs.min()), int(lhs.max())) == (-128, 127)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_floats_are_finite_integers(dtype: str) -> None:
    case = GcdCase("x", (dtype, dtype), ((5000,), (5000,)))
    for tensor in inputs.make_inputs(case, CPU).tensors:
        assert torch.isfinite(tensor).all()
        assert torch.equal(tensor, tensor.trunc())


@pytest.mark.parametrize(
    "dtypes", [("int8", "int8"), ("uint8", "int8"), ("int64", "int32"), ("float16", "int16"), ("float32", "bfloat16")]
)
def test_expected_gcd_is_math_gcd(dtypes: tuple[str, str]) -> None:
    case = GcdCase("x", dtypes, ((17, 1), (1, 13)), bits=10)
    made = inputs.make_inputs(case, CPU)
    lhs, rhs = (tensor.expand(17, 13).flatten().tolist() for tensor in made.tensors)
    wanted = [math.gcd(int(a), int(b)) for a, b in zip(lhs, rhs, strict=True)]
    # 8-bit magnitudes of 128 wrap on store.
    if case.dtypes == ("int8", "int8"):
        wanted = [value - 256 if value > 127 else value for value in wanted]
    found = inputs.expected(case, made)
    assert found.dtype == torch.result_type(*made.tensors)
    assert found.flatten().tolist() == wanted


def test_expected_with_out_and_a_zero_dim_operand() -> None:
    case = GcdCase("x", ("int8", "float32"), ((50,), ()), bits=7, out="int8")
    made = inputs.make_inputs(case, CPU)
    assert made.out is not None
    found = inputs.expected(case, made)
    scalar = int(made.tensors[1])
    assert found.dtype == torch.int8
    assert found.tolist() == [math.gcd(value, scalar) for value in made.tensors[0].tolist()]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int64", "complex128"])
def test_expected_as_strided_addresses_the_storage(dtype: str) -> None:
    case = AsStridedCase("x", dtype, (3, 4), (5, 2), offset=2)
    made = inputs.make_inputs(case, CPU)
    (storage,) = made.tensors
    assert storage.numel() == 2 + 1 + 2 * 5 + 3 * 2
    found = inputs.expected(case, made)
    assert found.is_contiguous()
    for row in range(3):
        for column in range(4):
            wanted = storage[2 + 5 * row + 2 * column].reshape(1)
            assert inputs.wrong_elements(found[row, column].reshape(1), wanted) == 0


def test_wrong_elements_counts_differing_bits_not_values() -> None:
    nan = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert inputs.wrong_elements(nan, nan.clone()) == 0
    assert inputs.wrong_elements(nan, nan.flip(0)) == 2
    zeros = torch.tensor([0.0, -0.0])
    assert inputs.wrong_elements(zeros, torch.zeros(2)) == 1


def test_any_nan_of_a_gcd_is_right_but_a_copy_keeps_its_bits() -> None:
    nan = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    gcd, copy = GcdCase("x", ("float32", "float32"), ((2,), (2,))), AsStridedCase("x", "float32", (2,), (1,))
    assert inputs.wrong_results(gcd, nan, nan.flip(0)) == 0
    assert inputs.wrong_results(copy, nan, nan.flip(0)) == 2
    assert inputs.wrong_results(gcd, torch.tensor([1.0, 2.0]), nan) == 2


def test_wrong_shape_or_dtype_is_all_wrong() -> None:
    reference = torch.zeros(6, dtype=torch.int32)
    assert inputs.wrong_elements(reference.reshape(2, 3), reference) == 6
    assert inputs.wrong_elements(reference.float(), reference) == 6
    assert inputs.wrong_elements(torch.zeros(0), torch.zeros(0)) == 0
    assert inputs.wrong_elements(torch.zeros(1), torch.zeros(0)) == 1
