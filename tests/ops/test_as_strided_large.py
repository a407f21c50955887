"""Storage beyond 2^31 elements: offsets, strides and products that do not fit 32 bits."""

from __future__ import annotations

import random

import pytest
import torch

import ops
from tests.ops.as_strided_support import reach
from tiling.as_strided import choices
from tiling.platform import platform

ELEMENTS = 2_200_000_000

VIEWS = [
    ((5, 100), (2**29 + 12, 1), 3),
    ((3, 70, 40), (2**30 + 1, 41, 1), 3),
    ((3, 7, 9), (2**30 + 12, 40, 3), 3),
    ((5, 300), (2**28, 2_000_001), 3),
    ((3, 40, 50), (2**30 + 12, 1, 77), 3),
    ((4, 600), (2**29 + 12, 0), 3),
    ((60, 4, 500), (0, 2**29 + 12, 1), 3),
    ((2, 3000), (2**31 - 1, 2), 9),
    ((16_384,), (131_072,), 0),  # 131072 * 16383 is the report: int32 products wrap here
    ((50,), (3,), 2**31 + 5),
    ((20, 30), (1, 33), ELEMENTS - 1000),
    ((), (), ELEMENTS - 1),
    ((100_000,), (1,), 2**31 - 50_000),
]


@pytest.mark.thorough
def test_views_far_into_a_large_storage():
    """One storage of zeros whose pages exist only where a view has been filled: little of it is ever touched."""
    storage = torch.zeros(ELEMENTS, dtype=torch.int8)
    rng = random.Random(7)
    for size, stride, offset in VIEWS:
        assert reach(size, stride, offset) <= ELEMENTS
        filled = tuple(1 if step == 0 else extent for extent, step in zip(size, stride, strict=True))
        view = torch.as_strided(storage, filled, stride, offset)
        values = torch.tensor([rng.randrange(-128, 128) for _ in range(997)], dtype=torch.int8)
        view.copy_(values[torch.arange(view.numel()).remainder(997)].view(filled))
        expected = torch.as_strided_copy(storage, size, stride, offset)
        assert torch.equal(ops.as_strided(storage, size, stride, offset), expected), (size, stride, offset)
        problem = ops.plan_as_strided(storage, size, stride, offset).problem
        for plan in {each.family: each for each in choices(problem, platform())}.values():
            result = ops.as_strided(storage, size, stride, offset, plan=plan)
            assert torch.equal(result, expected), (size, stride, offset, plan)


@pytest.mark.thorough
def test_an_output_beyond_2_to_the_31():
    source = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    rows = 2**31 // 100 + 1000
    result = ops.as_strided(source, (rows, 100), (0, 1), 17)
    expected = source[17:117]
    assert result.numel() > 2**31
    for row in (0, 1, rows // 2, 2**31 // 100, rows - 1):
        assert torch.equal(result[row], expected)
    assert bool((result[-5000:] == expected).all())


def test_bounds_of_a_large_view_are_exact():
    source = torch.zeros(100, dtype=torch.int8)
    with pytest.raises(RuntimeError, match="requiring a storage size of 2147483649"):
        ops.as_strided(source, (2, 2), (2**31 - 1, 1))
