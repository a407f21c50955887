"""The rules for out= give torch's own outcome, taken from torch.add and torch.as_strided_copy at test time."""

from __future__ import annotations

import pytest
import torch

from ops import out as rules


def outcome(function):
    try:
        function()
    except RuntimeError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("shape", "stride"),
    [((2, 3), (3, 1)), ((2, 3), (0, 1)), ((2, 3), (1, 0)), ((1, 3), (0, 1)), ((2, 3), (1, 1)), ((3,), (0,)), ((), ())],
)
def test_internal_overlap(shape, stride):
    target = torch.zeros(16).as_strided(shape, stride)
    expected = outcome(lambda: torch.as_strided_copy(torch.zeros(16), shape, [1] * len(shape), out=target))
    assert outcome(lambda: rules.refuse_internal_overlap(target)) == expected


VIEWS = {
    "all": lambda base: base,
    "head": lambda base: base[:4],
    "tail": lambda base: base[4:],
    "middle": lambda base: base[2:6],
    "again": lambda base: base[2:6],
    "square": lambda base: base[:4].view(2, 2),
    "turned": lambda base: base[:4].view(2, 2).t(),
    "holes": lambda base: base[::2],
    "empty": lambda base: base[:0],
}


# torch only answers for equal shapes.
PAIRS = [
    (written, read)
    for written in VIEWS
    for read in VIEWS
    if VIEWS[written](torch.arange(8)).shape == VIEWS[read](torch.arange(8)).shape
]


@pytest.mark.parametrize(("written", "read"), PAIRS)
def test_partial_overlap(written, read):
    base = torch.arange(8)
    target, other = VIEWS[written](base), VIEWS[read](base)
    expected = outcome(lambda: torch.gcd(other, other, out=target))
    assert outcome(lambda: rules.refuse_partial_overlap(target, other)) == expected


def test_other_storage_never_overlaps():
    rules.refuse_partial_overlap(torch.zeros(4), torch.zeros(4))


@pytest.mark.parametrize("before", [(0,), (5,), (2, 3), (3, 2), (12,)])
def test_resize_warns_like_torch(before, recwarn):
    mine, theirs = torch.empty(before), torch.empty(before)
    torch.add(torch.ones(2, 3), 1, out=theirs)
    expected = [str(warning.message).split(" (Triggered")[0] for warning in recwarn.list]
    recwarn.clear()
    rules.resize(mine, (2, 3))
    assert [str(warning.message) for warning in recwarn.list] == expected
    assert (mine.shape, mine.stride()) == (theirs.shape, theirs.stride())


def test_the_right_shape_keeps_its_strides():
    target = torch.empty(3, 2).t()
    rules.resize(target, (2, 3))
    assert target.stride() == (1, 2)


@pytest.mark.parametrize(
    ("shape", "stride", "dense"),
    [((2, 3), (3, 1), True), ((2, 3), (1, 2), True), ((2, 3), (4, 1), False), ((1, 3), (9, 1), True), ((), (), True)],
)
def test_is_dense(shape, stride, dense):
    assert rules.is_dense(torch.zeros(32).as_strided(shape, stride)) is dense


def test_memory_range():
    base = torch.zeros(10, dtype=torch.int32)
    start = base.data_ptr()
    assert rules.memory_range(base[2:5]) == (start + 8, start + 20)
    assert rules.memory_range(base[::3]) == (start, start + 40)
    low, high = rules.memory_range(base[:0])
    assert low == high
