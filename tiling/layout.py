"""Dimensions of strided accesses: broadcast, drop, merge, widen, split into words.

A dimension is a tuple `(size, stride, ...)` with one stride per operand; a layout is a tuple of dimensions, slowest
first. Strides and offsets count elements. Nothing here allocates or touches data.

    >>> merge(((4, 12), (3, 4), (4, 1)))
    ((48, 1),)
    >>> merge(((4, 3, 0), (3, 1, 1)))
    ((4, 3, 0), (3, 1, 1))
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Dim = tuple[int, ...]
Dims = tuple[Dim, ...]


def contiguous_strides(size: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major tensor of `size`, as torch counts them (an empty dimension counts as one).

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def broadcast_strides(size: Sequence[int], stride: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Strides with which an operand of `size` and `stride` is read as `shape`: zero where it is repeated.

    Raises ValueError if `size` does not broadcast to `shape`.

    >>> broadcast_strides((3, 1), (1, 1), (2, 3, 4))
    (0, 1, 0)
    """
    lead = len(shape) - len(size)
    if lead < 0 or any(own not in (1, to) for own, to in zip(size, shape[lead:], strict=True)):
        raise ValueError(f"size {tuple(size)} does not broadcast to {tuple(shape)}")
    tail = tuple(0 if own == 1 and to != 1 else step for own, step, to in zip(size, stride, shape[lead:], strict=True))
    return (0,) * lead + tail


def merge(dims: Sequence[Dim]) -> Dims:
    """The same accesses in the same order with fewer dimensions: size-1 ones dropped, neighbours joined.

    Two neighbours join when every operand steps over the inner one exactly once per outer step; runs of stride 0 join
    as well (0 == size * 0). Never empty: a layout of one element is `((1, 1, ...),)`.
    """
    operands = len(dims[0]) - 1 if dims else 1
    kept: list[Dim] = []
    for dim in dims:
        size, *strides = dim
        if size == 1:
            continue
        if kept and all(outer == size * inner for outer, inner in zip(kept[-1][1:], strides, strict=True)):
            kept[-1] = (kept[-1][0] * size, *strides)
        else:
            kept.append(dim)
    return tuple(kept) or ((1,) * (operands + 1),)


def elements(dims: Sequence[Dim]) -> int:
    """How many elements a layout visits."""
    return math.prod(dim[0] for dim in dims)


def span(dims: Sequence[Dim], operand: int = 0) -> int:
    """Elements from the first to the last one visited, both included; 0 for an empty layout.

    >>> span(((2, 10), (3, 2)))
    15
    """
    if any(dim[0] == 0 for dim in dims):
        return 0
    return 1 + sum((dim[0] - 1) * dim[1 + operand] for dim in dims)


def widening(dims: Sequence[Dim], alignment: int, itemsize: int, limit: int) -> int:
    """Largest factor (a power of two) by which elements can be made wider while every access stays whole.

    Every operand must be dense in the last dimension, which the factor divides, as it does every other stride.
    alignment: bytes that divide the address of the first element of every operand. limit: widest element in bytes.

    >>> widening(((5, 12), (8, 1)), alignment=64, itemsize=1, limit=8)
    4
    """
    *outer, (extent, *inner) = dims
    if any(stride != 1 for stride in inner):
        return 1
    common = math.gcd(extent, *(stride for dim in outer for stride in dim[1:]))
    factor = 1
    while common % (2 * factor) == 0 and 2 * factor * itemsize <= limit and alignment % (2 * factor * itemsize) == 0:
        factor *= 2
    return factor


def widen(dims: Sequence[Dim], factor: int) -> Dims:
    """The layout in elements `factor` times as wide; `widening` says which factors are allowed."""
    *outer, (extent, *inner) = dims
    divided: list[Dim] = [(size, *(stride // factor for stride in strides)) for size, *strides in outer]
    return merge([*divided, (extent // factor, *inner)])


def words(dims: Sequence[Dim], count: int) -> Dims:
    """The layout in words, `count` of them to an element.

    >>> words(((10, 3),), 2)
    ((10, 6), (2, 1))
    """
    scaled: list[Dim] = [(size, *(stride * count for stride in strides)) for size, *strides in dims]
    return merge([*scaled, (count,) + (1,) * (len(dims[0]) - 1)])
