"""Comparison with the reference, on bits."""

from __future__ import annotations

import torch

from ops.reference import gcd_reference

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def assert_same(actual: torch.Tensor, expected: torch.Tensor, *operands: torch.Tensor) -> None:
    """Same dtype, shape and bits, where any NaN equals any other. The message shows the first wrong lanes."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    # Indexing takes 64 dims at most, a tensor may have more.
    operands = tuple(tensor.broadcast_to(actual.shape).reshape(-1) for tensor in operands)
    actual, expected = actual.reshape(-1), expected.reshape(-1)
    if actual.dtype.is_complex:
        assert torch.equal(torch.view_as_real(actual), torch.view_as_real(expected))
        return
    width = _BITS[actual.element_size()]
    wrong = actual.view(width) != expected.view(width)
    if actual.dtype.is_floating_point:
        wrong &= ~(actual.isnan() & expected.isnan())
    if wrong.any():
        shown = [tensor[wrong][:5].tolist() for tensor in operands]
        got, want = actual[wrong][:5].tolist(), expected[wrong][:5].tolist()
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.numel()} wrong: operands {shown}, got {got}, expected {want}"
        )


def assert_gcd(actual: torch.Tensor, self: torch.Tensor, other: torch.Tensor) -> None:
    """`actual` is what the reference gives for these operands, in actual's dtype."""
    assert_same(actual, gcd_reference(self, other, actual.dtype), self, other)
