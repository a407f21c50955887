"""Calls that hypothesis makes up: never a crash, and wherever torch has an answer or a refusal, that one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ops
from tests.ops.odd_tensors import compressed, deleted, guarded, half_deleted, nested, quantized, readable, sparse

NUMBERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from((2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, -(2**31))),
)
NOT_NUMBERS = st.sampled_from((None, True, 1.0, "1", b"1", (), [1], np.int64(2), np.float32(2), np.uint8(3), 1j))
SEQUENCES = st.one_of(
    st.lists(NUMBERS, max_size=4),
    st.lists(NUMBERS | NOT_NUMBERS, max_size=3).map(tuple),
    st.sampled_from(
        (None, 2, "22", {1: 2}, torch.tensor([2, 1]), np.array([2, 1]), torch.tensor(2), torch.Size((2, 1)))
    ),
)
# Three dtypes that gcd takes, so that few kernels are compiled, and those that it refuses.
DTYPES = st.sampled_from(
    (
        torch.int8, torch.int32, torch.int32, torch.float32, torch.float64, torch.bool, torch.complex64, torch.uint16,
        torch.float8_e4m3fn,
    )
)  # fmt: skip
LAYOUTS: tuple[Callable[[torch.Tensor], Any], ...] = (
    lambda x: x,
    lambda x: x[::2],
    lambda x: x[3:],
    lambda x: x[:0],
    lambda x: x[0],
    lambda x: x.view(3, 4),
    lambda x: x.view(3, 4).t(),
    lambda x: x.view(2, 1, 6).expand(2, 5, 6),
    lambda x: x[:1].expand(2**55),
    lambda x: x.view(1, 12, 1, 1),
    lambda x: x.requires_grad_() if x.is_floating_point() else x,
    lambda x: x.conj() if x.is_complex() else x,
    lambda x: x.to("meta"),
    lambda x: torch.nn.Parameter(x, requires_grad=False),
)
ODDITIES: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: 3,
    lambda: "x",
    lambda: [1],
    lambda: np.arange(3),
    sparse,
    quantized,
    nested,
    deleted,
    half_deleted,
    compressed,
)


class Recipe(NamedTuple):
    """How to make an argument: printable even where the argument is not."""

    dtype: torch.dtype
    layout: int
    oddity: int | None

    def make(self) -> Any:
        if self.oddity is not None:
            return ODDITIES[self.oddity]()
        return LAYOUTS[self.layout](torch.arange(-4, 8).to(self.dtype))


def recipes() -> st.SearchStrategy[Recipe]:
    """Mostly a tensor of 12 elements in some layout; now and then something else."""
    oddity = st.integers(0, 10).flatmap(lambda n: st.integers(0, len(ODDITIES) - 1) if n == 10 else st.none())
    return st.builds(Recipe, DTYPES, st.integers(0, len(LAYOUTS) - 1), oddity)


REFUSED = (TypeError, ValueError, RuntimeError, NotImplementedError, IndexError, OverflowError, AttributeError)


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **kwargs)
        except REFUSED as error:
            return error


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Bit for bit where there are bits: NaN counts as itself."""
    if ours.is_meta or theirs.is_meta:
        return ours.is_meta and theirs.is_meta and ours.shape == theirs.shape
    ours, theirs = (x.detach().resolve_conj().contiguous().reshape(-1) for x in (ours, theirs))
    return ours.dtype == theirs.dtype and torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def hostile(calls: int) -> settings:
    return settings(
        max_examples=calls,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def as_strided_call(self: Any, size: Any, stride: Any, offset: Any) -> None:
    """Whatever torch refuses is refused, with its exception; whatever it computes is computed."""
    if isinstance(self, torch.Tensor) and (self.is_quantized or self.dtype is torch.bool):
        outcome(ops.as_strided, self, size, stride, offset)  # documented to differ; must not crash
        return
    ours = outcome(ops.as_strided, self, size, stride, offset)
    # Index tensors are an addition to what torch takes.
    size, stride = (x.tolist() if isinstance(x, torch.Tensor) and x.dim() == 1 else x for x in (size, stride))
    theirs = outcome(torch.as_strided_copy, self, size, stride, offset)
    if isinstance(theirs, torch.Tensor):
        # Without data torch does not look at what an element's address would be.
        assert isinstance(ours, torch.Tensor) or theirs.is_meta, (ours, theirs)
        assert theirs.is_meta or same(ours, theirs)
    elif isinstance(self, torch.Tensor) and readable(self):
        assert isinstance(ours, type(theirs)), (ours, theirs)
    else:  # more than one fault, and which is seen first is not torch's promise
        assert isinstance(ours, REFUSED), (ours, theirs)


def gcd_call(self: Any, other: Any, with_out: bool) -> None:
    """Never a crash, never a write beside `out`; where torch has an answer, that one."""
    kwargs = {}
    buffer = None
    if with_out:
        kwargs["out"], buffer = guarded(12)
        before = buffer.clone()
    ours = outcome(ops.gcd, self, other, **kwargs)
    if buffer is not None:
        assert torch.equal(buffer[:32], before[:32])
        if not isinstance(ours, torch.Tensor):
            assert torch.equal(buffer, before)
        elif ours.shape == (12,):  # else it was resized, into what lies behind it, as by torch
            assert torch.equal(buffer[-32:], before[-32:])
        return
    if any(isinstance(x, torch.Tensor) and not readable(x) for x in (self, other)):
        return  # torch itself crashes where storage is missing
    theirs = outcome(torch.gcd, self, other)
    if isinstance(theirs, torch.Tensor) and not theirs.is_meta:  # torch checks no dtypes of tensors without data
        assert isinstance(ours, torch.Tensor), (ours, theirs)
        assert same(ours, theirs)
    elif isinstance(theirs, TypeError):
        assert isinstance(ours, TypeError), (ours, theirs)


@hostile(150)
@given(recipes(), SEQUENCES, SEQUENCES, NUMBERS | NOT_NUMBERS)
def test_hostile_calls_of_as_strided(self: Recipe, size: Any, stride: Any, offset: Any) -> None:
    as_strided_call(self.make(), size, stride, offset)


@hostile(150)
@given(recipes(), recipes(), st.booleans())
def test_hostile_calls_of_gcd(self: Recipe, other: Recipe, with_out: bool) -> None:
    gcd_call(self.make(), other.make(), with_out)


@pytest.mark.thorough
@hostile(1000)
@given(recipes(), SEQUENCES, SEQUENCES, NUMBERS | NOT_NUMBERS)
def test_a_thousand_hostile_calls_of_as_strided(self: Recipe, size: Any, stride: Any, offset: Any) -> None:
    as_strided_call(self.make(), size, stride, offset)


@pytest.mark.thorough
@hostile(1000)
@given(recipes(), recipes(), st.booleans())
def test_a_thousand_hostile_calls_of_gcd(self: Recipe, other: Recipe, with_out: bool) -> None:
    gcd_call(self.make(), other.make(), with_out)
