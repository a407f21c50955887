"""Layouts keep every address they stood for, in the same order: checked by enumeration."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiling.layout import (
    broadcast_strides,
    contiguous_strides,
    elements,
    merge,
    span,
    widen,
    widening,
    words,
)

dimension = st.tuples(st.integers(1, 5), st.integers(0, 12), st.integers(0, 12))
layouts = st.lists(dimension, min_size=1, max_size=5).map(tuple)


def addresses(dims, operand=0):
    """Addresses in the order of the output, straight from the definition."""
    ranges = [range(dim[0]) for dim in dims]
    return [
        sum(i * dim[1 + operand] for i, dim in zip(index, dims, strict=True)) for index in itertools.product(*ranges)
    ]


@given(layouts)
@settings(max_examples=300, deadline=None)
def test_merge_keeps_every_address_of_every_operand(dims):
    merged = merge(dims)
    assert elements(merged) == elements(dims)
    for operand in (0, 1):
        assert addresses(merged, operand) == addresses(dims, operand)
    assert merge(merged) == merged


@given(layouts)
@settings(max_examples=100, deadline=None)
def test_span_reaches_the_last_address(dims):
    assert span(dims) == max(addresses(dims)) + 1


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=3), st.integers(1, 8), st.sampled_from([1, 2, 4])
)
@settings(max_examples=300, deadline=None)
def test_widened_elements_are_the_same_bytes(outer, extent, itemsize):
    dims = merge([*[(size, 4 * stride) for size, stride in outer], (extent * 2, 1)])
    factor = widening(dims, alignment=64, itemsize=itemsize, limit=8)
    wide = widen(dims, factor)
    assert [a * factor + i for a in addresses(wide) for i in range(factor)] == addresses(dims)


@given(layouts, st.sampled_from([2, 4]))
@settings(max_examples=100, deadline=None)
def test_words_are_the_same_bytes(dims, count):
    assert addresses(words(dims, count)) == [a * count + i for a in addresses(dims) for i in range(count)]


@pytest.mark.parametrize(
    ("dims", "alignment", "itemsize", "limit", "factor"),
    [
        (((8, 1),), 64, 1, 4, 4),
        (((8, 1),), 2, 1, 4, 2),  # the address allows two bytes only
        (((6, 1),), 64, 1, 4, 2),  # 4 does not divide the row
        (((3, 6), (8, 1)), 64, 1, 4, 2),  # nor the row stride
        (((3, 8, 6), (8, 1, 1)), 64, 1, 4, 2),  # nor that of the second operand
        (((3, 8, 8), (8, 1, 0)), 64, 1, 4, 1),  # second operand repeats
        (((8, 2),), 64, 1, 4, 1),
        (((8, 1),), 64, 4, 4, 1),
        (((3, 0), (8, 1)), 64, 1, 8, 8),  # stride 0 divides
    ],
)
def test_widening_factor(dims, alignment, itemsize, limit, factor):
    assert widening(dims, alignment, itemsize, limit) == factor


@pytest.mark.parametrize(
    ("size", "stride", "shape", "expected"),
    [
        ((3,), (1,), (2, 3), (0, 1)),
        ((1, 3), (3, 1), (2, 3), (0, 1)),
        ((2, 1), (1, 1), (2, 5), (1, 0)),
        ((), (), (4,), (0,)),
        ((1,), (7,), (1,), (7,)),
        ((0,), (1,), (3, 0), (0, 1)),
    ],
)
def test_broadcast_strides(size, stride, shape, expected):
    assert broadcast_strides(size, stride, shape) == expected


@pytest.mark.parametrize(("size", "shape"), [((3,), (2,)), ((2, 3), (3,)), ((3,), (1,))])
def test_broadcast_refuses(size, shape):
    with pytest.raises(ValueError, match="does not broadcast"):
        broadcast_strides(size, contiguous_strides(size), shape)


def test_empty_and_single():
    assert merge([]) == ((1, 1),)
    assert merge([(1, 9), (1, 3)]) == ((1, 1),)
    assert span([(0, 5), (3, 1)]) == 0
    assert contiguous_strides((2, 0, 3)) == (3, 3, 1)
    assert contiguous_strides(()) == ()
