"""Exact references in plain numpy, versioned beside the kernels: what the operators must give, written for clarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_TORCH_INTEGER = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SATURATED = np.uint64(2**64 - 1)


def as_strided_reference(
    storage: np.ndarray[Any, Any], size: Sequence[int], stride: Sequence[int], offset: int
) -> np.ndarray[Any, Any]:
    """Elements `offset + sum(index[i] * stride[i])` of a one-dimensional storage, as a new array of `size`.

    >>> as_strided_reference(np.arange(6), (2, 2), (1, 2), 0)
    array([[0, 2],
           [1, 3]])
    """
    places = np.full(tuple(size), offset, dtype=np.int64)
    for dim, (extent, step) in enumerate(zip(size, stride, strict=True)):
        along = [1] * len(size)
        along[dim] = extent
        places += (np.arange(extent, dtype=np.int64) * step).reshape(along)
    return storage[places]


def gcd_reference(self: torch.Tensor, other: torch.Tensor, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    """What `ops.gcd(self, other)` must give, or its result cast to `out_dtype` as `out=` does.

    >>> gcd_reference(torch.tensor([-128, 0], dtype=torch.int8), torch.tensor([6, -128], dtype=torch.int8))
    tensor([   2, -128], dtype=torch.int8)

    self, other: CPU tensors of dtypes that `ops.gcd` takes. Operands are cast to torch.result_type by torch, magnitudes
    become uint64 (floats truncated, saturating), numpy.gcd does the rest. Returns a dense tensor.
    """
    compute = torch.result_type(self, other)
    self, other = torch.broadcast_tensors(self.to(compute), other.to(compute))
    g = np.asarray(np.gcd(_magnitude(self), _magnitude(other)))  # a scalar for 0-d operands
    if compute.is_floating_point:
        finite = (torch.isfinite(self) & torch.isfinite(other)).numpy()
        # Exact but for 2^64 - 1, which rounds to 2^64.
        value = np.where(finite, g.astype(np.float64), np.nan)
        return _from_float(value, compute, out_dtype or compute)
    result = _bits(g, compute)
    return result if out_dtype is None else result.to(out_dtype)


def _magnitude(values: torch.Tensor) -> np.ndarray[Any, Any]:
    if values.dtype.is_floating_point:
        whole = np.trunc(np.abs(values.double().numpy()))
        small = np.isfinite(whole) & (whole < 2.0**64)
        return np.where(small, np.where(small, whole, 0).astype(np.uint64), _SATURATED)
    wide = values.to(torch.int64).numpy()
    # Negating -2^63 wraps to itself, whose bits are those of 2^63.
    return np.where(wide < 0, np.negative(wide), wide).view(np.uint64)


def _bits(magnitude: np.ndarray[Any, Any], dtype: torch.dtype) -> torch.Tensor:
    """Integers modulo 2^n as `dtype`."""
    size = dtype.itemsize
    return torch.from_numpy(np.asarray(magnitude.astype(_UNSIGNED[size]))).view(_TORCH_INTEGER[size]).view(dtype)


def _from_float(value: np.ndarray[Any, Any], compute: torch.dtype, out_dtype: torch.dtype) -> torch.Tensor:
    if out_dtype.is_floating_point or out_dtype.is_complex:
        return torch.from_numpy(np.asarray(value)).to(compute).to(out_dtype)
    inside = value < 2.0**64  # false for NaN and for 2^64, both of which are stored as 0
    return _bits(np.where(inside, np.where(inside, value, 0).astype(np.uint64), np.uint64(0)), out_dtype)
