"""Refusals: torch's type and text, found out by asking torch the same thing."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

import ops


def outcome(function, *arguments, **named):
    """Type and first line of what a call raises, or None."""
    try:
        function(*arguments, **named)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, AttributeError) as error:
        return type(error), str(error).split("\n")[0]
    return None


BASE = torch.arange(24.0)
BIG = 2**62

INVALID = [
    ((2, 3), (6,), 0),
    ((2,), (6, 1), 0),
    ((), (1,), 0),
    ((1, 3), (-6, 1), 0),
    ((0,), (-1,), 0),
    ((4,), (-42,), 8),
    ((-1, 3), (6, 1), 0),
    ((-1,), (0,), 0),
    ((-2, 3), (0, 1), 0),
    ((-3, -3), (0, 0), 0),
    ((-1, 0), (6, 1), 0),
    ((0, -1), (6, 1), 0),
    ((2, -1), (1, 1), 0),
    ((2,), (1,), -1),
    ((0,), (1,), -1),
    ((2,), (-1,), -1),
    ((5, 6), (6, 1), 0),
    ((4, 6), (6, 1), 1),
    ((), (), 24),
    ((2,), (24,), 0),
    ((2**40, 2**40), (0, 0), 0),
    ((2**40, 2**40), (2**40, 2**40), 0),
    ((BIG,), (4,), 0),
    ((2,), (2**63 - 1,), 0),
    ((3,), (BIG,), 0),
    ((2,), (2**61,), 0),
    ((2,), (1,), BIG),
    ((2,), (1,), 2**63 - 1),
    ((BIG, BIG, 0), (1, 1, 1), 0),
    ((0, BIG, BIG), (1, 1, 1), 0),
    ((0, BIG, 2), (1, 1, 1), 0),
    ((0, BIG, 2, -1), (1, 1, 1, 1), 0),
    ((0, -1, BIG, 2), (1, 1, 1, 1), 0),
    ((5, 2), (50, 10), 2),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.complex128], ids=str)
@pytest.mark.parametrize(("size", "stride", "offset"), INVALID, ids=str)
def test_values_are_refused_as_torch_does(size, stride, offset, dtype):
    source = torch.zeros(24, dtype=dtype)
    expected = outcome(torch.as_strided_copy, source, size, stride, offset)
    assert expected is not None
    assert outcome(ops.as_strided, source, size, stride, offset) == expected
    assert outcome(ops.plan_as_strided, source, size, stride, offset) == expected
    for out in (torch.zeros(5, dtype=dtype), torch.zeros(0, dtype=dtype)):
        shape = out.shape
        assert outcome(ops.as_strided, source, size, stride, offset, out=out) == expected
        assert out.shape == shape


MISTYPED = [
    (5, (1,), None),
    ((5,), 1, None),
    ((5.0,), (1,), None),
    ((5,), (1.0,), None),
    ((True,), (1,), None),
    ((5,), (1,), 1.5),
    ((5,), (1,), True),
    ((5,), (1,), "x"),
    ("5", (1,), None),
    (None, (1,), None),
    (np.array([5]), (1,), None),
    (([2],), (1,), None),
    ((2, "a"), (1, 1), None),
    ((2, 5.0), (1, 1), None),
    ((2**63,), (1,), None),
    ((2,), (1,), 2**63),
    (torch.tensor([2.0]), (1,), None),
    (torch.tensor([True]), (1,), None),
    (torch.tensor(2), (1,), None),
    ((2,), torch.tensor([[1]]), None),
    ((2,), (1,), torch.tensor(1.5)),
    ((2,), (1,), torch.tensor([1, 2])),
    ({2}, (1,), None),
    ((2,), (1,), [1]),
    ((torch.tensor(True),), (1,), None),
    ((2,), (torch.tensor(True),), None),
    ((2,), (1,), torch.tensor(True)),
]


@pytest.mark.parametrize(("size", "stride", "offset"), MISTYPED, ids=str)
def test_types_are_refused_as_torch_does(size, stride, offset):
    expected = outcome(torch.as_strided_copy, BASE, size, stride, offset)
    assert expected is not None
    assert outcome(ops.as_strided, BASE, size, stride, offset) == expected
    assert outcome(ops.plan_as_strided, BASE, size, stride, offset) == expected


@pytest.mark.parametrize("self", [[1.0, 2.0], np.zeros(3), None, 5], ids=repr)
def test_what_is_no_tensor_is_refused(self):
    expected = outcome(torch.as_strided_copy, self, (1,), (1,))
    assert outcome(ops.as_strided, self, (1,), (1,)) == expected


def test_a_tensor_without_strides_is_refused():
    sparse = torch.eye(3).to_sparse()
    kind, _ = outcome(torch.as_strided_copy, sparse, (1,), (1,))
    assert kind is NotImplementedError
    with pytest.raises(NotImplementedError, match="sparse"):
        ops.as_strided(sparse, (1,), (1,))


def test_random_values_are_accepted_and_refused_as_by_torch():
    """Sizes, strides and offsets from a set that mixes small, negative and overflowing values."""
    values = [-(2**61), -3, -1, 0, 0, 1, 1, 2, 3, 5, 2**31, 2**40, BIG, 2**63 - 1]
    rng = random.Random(20)
    agreed = 0
    for _ in range(3000):
        rank = rng.choice([0, 1, 1, 2, 2, 3])
        size = tuple(rng.choice(values) for _ in range(rank))
        stride = tuple(rng.choice(values) for _ in range(rank if rng.random() < 0.95 else rank + 1))
        offset = rng.choice([None, 0, 0, 1, 20, -1, BIG])
        source = torch.zeros(24, dtype=rng.choice([torch.int8, torch.int16, torch.float64]))
        if 10**5 < math.prod(size) < 2**62:
            continue  # legal with stride 0, and larger than memory or patience
        expected = outcome(torch.as_strided_copy, source, size, stride, offset)
        assert outcome(ops.as_strided, source, size, stride, offset) == expected, (size, stride, offset, source.dtype)
        agreed += 1
    assert agreed > 2500


NAMED = ["bits8", "bits16", "qint8", "quint4x2", "float8_e5m2", "float4_e2m1fn_x2", "int1", "int7", "uint4", "bool"]


@pytest.mark.parametrize("name", NAMED)
def test_dtypes_of_out_are_named_as_torch_does(name):
    dtype = getattr(torch, name)
    quantized = name.startswith("q")
    out = (
        torch._empty_affine_quantized([3], scale=1.0, zero_point=0, dtype=dtype)
        if quantized
        else torch.empty(3, dtype=dtype)
    )
    expected = outcome(torch.as_strided_copy, BASE, (3,), (1,), out=out)
    assert name == "bool" or "c10::" in expected[1]
    assert outcome(ops.as_strided, BASE, (3,), (1,), out=out) == expected


def test_what_is_no_plan_is_refused():
    plan = ops.plan_as_strided(BASE, (3,), (1,))
    for out in (None, torch.zeros(3)):
        with pytest.raises(TypeError, match=r"as_strided\(\): argument 'plan' must be AsStridedPlan, not dict"):
            ops.as_strided(BASE, (3,), (1,), out=out, plan=plan.decisions())
    assert ops.as_strided(BASE, (3,), (1,), plan=plan).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.int8, torch.int64, torch.bool, torch.complex64, torch.bfloat16], ids=str
)
def test_a_refused_call_writes_nothing(dtype):
    out = torch.full((5,), 7.0)
    assert outcome(ops.as_strided, BASE, (2, 3), (1, 6), 99, out=out)[0] is RuntimeError
    other = torch.zeros(5, dtype=dtype)
    expected = outcome(torch.as_strided_copy, BASE, (5,), (1,), out=other)
    assert outcome(ops.as_strided, BASE, (5,), (1,), out=other) == expected
    assert out.tolist() == [7.0] * 5
    assert torch.equal(other, torch.zeros(5, dtype=dtype))
