"""Exact references in plain numpy, versioned beside the kernels: what the operators must give, written for clarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


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
