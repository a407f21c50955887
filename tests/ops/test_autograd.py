"""Derivatives of as_strided against torch's own, bit for bit, and what gcd does with tensors that need gradients."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

import ops


class View(NamedTuple):
    """Layout of an input over a storage of 48 elements, and the view taken of it."""

    input: tuple[tuple[int, ...], tuple[int, ...], int]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int | None


STORAGE = 48

VIEWS = {
    "dense": View(((6, 8), (8, 1), 0), (4, 5), (8, 1), 2),
    "overlapping windows": View(((6,), (1,), 0), (3, 4), (1, 1), None),
    "zero stride": View(((8,), (1,), 0), (5, 8), (0, 1), None),
    "all strides zero": View(((8,), (1,), 3), (4, 3), (0, 0), None),
    "transposed": View(((6, 8), (8, 1), 0), (8, 6), (1, 8), 0),
    "permuted and overlapping": View(((4, 3, 2), (6, 2, 1), 0), (2, 3, 4), (1, 2, 3), 1),
    "transposed input": View(((8, 6), (1, 8), 0), (5, 5), (3, 2), 1),
    "sliced input": View(((4,), (2,), 5), (3, 2), (4, 1), None),
    "outside the input": View(((5,), (1,), 10), (10,), (1,), 5),
    "wholly outside the input": View(((5,), (1,), 0), (5,), (1,), 20),
    "expanded input": View(((3, 4), (0, 1), 0), (2, 3), (1, 1), None),
    "overlapping input": View(((3, 4), (1, 1), 0), (6,), (1,), None),
    "size one with any stride": View(((6, 1), (1, 40), 0), (1, 6), (45, 1), 0),
    "empty": View(((6,), (1,), 0), (0, 3), (1, 1), 40),
    "empty input": View(((0, 3), (3, 1), 0), (2, 2), (2, 1), 0),
    "scalar": View(((), (), 7), (), (), None),
}


def leaf(view: View, dtype: torch.dtype) -> torch.Tensor:
    """A leaf in the view's input layout; equal values on every call."""
    base = torch.randn(STORAGE, generator=torch.Generator().manual_seed(7), dtype=dtype)
    return base.as_strided(*view.input).requires_grad_()


def gradient(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Values whose sums round, with a negative zero in front."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(11), dtype=dtype)
    if values.numel():
        values.view(-1)[0] = -0.0
    return values.requires_grad_()


def bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return flat.copy_(tensor.detach().flatten()).view(torch.uint8)


def assert_same(ours: torch.Tensor, torchs: torch.Tensor) -> None:
    assert ours.shape == torchs.shape
    assert ours.dtype == torchs.dtype
    assert ours.stride() == torchs.stride()
    assert ours.requires_grad == torchs.requires_grad
    assert torch.equal(bits(ours), bits(torchs))


def check(view: View, dtype: torch.dtype) -> None:
    """Copy, gradient, gradient of the gradient: each equal to torch's."""
    mine, theirs = leaf(view, dtype), leaf(view, dtype)
    copy = ops.as_strided(mine, view.size, view.stride, view.offset)
    expected = torch.as_strided_copy(theirs, view.size, view.stride, view.offset)
    assert_same(copy, expected)

    seed, expected_seed = gradient(view.size, dtype), gradient(view.size, dtype)
    (back,) = torch.autograd.grad(copy, mine, seed, create_graph=True)
    (expected_back,) = torch.autograd.grad(expected, theirs, expected_seed, create_graph=True)
    assert_same(back, expected_back)

    if expected_back.requires_grad:
        outer = gradient(tuple(mine.shape), dtype).detach()
        assert_same(
            torch.autograd.grad(back, seed, outer)[0], torch.autograd.grad(expected_back, expected_seed, outer)[0]
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_gradients_equal_torchs(view: View, dtype: torch.dtype) -> None:
    check(view, dtype)


@st.composite
def views(draw: st.DrawFn) -> View:
    def layout(smallest: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        rank = draw(st.integers(0, 3))
        size = tuple(draw(st.integers(smallest, 4)) for _ in range(rank))
        return size, tuple(draw(st.sampled_from((0, 1, 1, 2, 3, 5))) for _ in range(rank))

    # 3 * 3 * 5 + 2 < STORAGE: every layout drawn stays inside.
    return View((*layout(0), draw(st.integers(0, 2))), *layout(0), draw(st.none() | st.integers(0, 2)))


@settings(max_examples=150, deadline=None, print_blob=True)
@given(views())
def test_gradients_equal_torchs_on_any_layout(view: View) -> None:
    check(view, torch.float32)


def test_numerical_gradients() -> None:
    base = torch.randn(8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(windows, base, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(windows, base)


def windows(x: torch.Tensor) -> torch.Tensor:
    return ops.as_strided(x, (3, 4), (2, 1), 0)


def torch_windows(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided_copy(x, (3, 4), (2, 1), 0)


def test_forward_mode_carries_the_tangent() -> None:
    primal, tangent = torch.arange(8.0), torch.randn(8)
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(windows(forward_ad.make_dual(primal, tangent)))
        assert torch.equal(out.primal, torch_windows(primal))
        assert torch.equal(out.tangent, torch_windows(tangent))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.grad(lambda x: f(x).pow(2).sum()),
        lambda f: torch.func.jacrev(f),
        lambda f: torch.func.jacfwd(f),
        lambda f: torch.func.hessian(lambda x: f(x).pow(3).sum()),
    ],
    ids=["grad", "jacrev", "jacfwd", "hessian"],
)
def test_transforms_of_torch_func(transform) -> None:
    x = torch.arange(8.0)
    assert torch.equal(transform(windows)(x), transform(torch_windows)(x))
    samples = torch.randn(3, 8)
    assert torch.equal(torch.vmap(transform(windows))(samples), torch.vmap(transform(torch_windows))(samples))


def test_the_operator_under_torch_func_names_the_front_door() -> None:
    def operator(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.ascend_ops.as_strided_copy(x, (3, 4), (2, 1), 0).sum()

    with pytest.raises(NotImplementedError, match="call the former"):
        torch.func.grad(operator)(torch.arange(8.0))


def test_parameters_and_views_keep_their_history() -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0))
    ops.as_strided(parameter, (3, 4), (1, 1)).sum().backward()
    assert parameter.grad is not None
    assert parameter.grad.tolist() == [1, 2, 3, 3, 2, 1]

    base = torch.arange(6.0, requires_grad=True)
    ops.as_strided((base * 2)[1:], (2, 2), (1, 1)).sum().backward()
    assert base.grad is not None
    assert base.grad.tolist() == [0, 2, 4, 2, 0, 0]


def test_no_history_where_none_is_wanted() -> None:
    x = torch.arange(6.0, requires_grad=True)
    with torch.no_grad():
        assert not windows(torch.arange(8.0, requires_grad=True)).requires_grad
    assert not ops.as_strided(x.detach(), (2,), (1,)).requires_grad
    assert not ops.as_strided(torch.arange(6), (2,), (1,)).requires_grad


def test_out_refuses_gradients_as_torch_does() -> None:
    x = torch.arange(6.0, requires_grad=True)
    out = torch.full((2,), -7.0)
    for self, target in ((x, out), (x.detach(), out.clone().requires_grad_())):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            ops.as_strided(self, (2,), (1,), out=target)
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            ops.gcd(self[:2], self.detach()[:2], out=target)
    assert out.tolist() == [-7, -7]
    with torch.no_grad():
        assert ops.as_strided(x, (2,), (1,), out=out).tolist() == [0, 1]


def test_gcd_is_marked_non_differentiable() -> None:
    x = torch.tensor([12.0, 18.0], requires_grad=True)
    y = ops.gcd(x, torch.tensor([8.0, 27.0]))
    assert y.tolist() == [4, 9]
    assert not y.requires_grad
    (y * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 9]


def test_gcd_is_a_constant_to_torch_func() -> None:
    x, y = torch.tensor([12.0, 18.0]), torch.tensor([8.0, 27.0])
    assert torch.func.grad(lambda x: (ops.gcd(x, y) * x).sum())(x).tolist() == [4, 9]
    value, tangent = torch.func.jvp(lambda x: ops.gcd(x, y) * x, (x,), (torch.ones(2),))
    assert value.tolist() == [48, 162]
    assert tangent.tolist() == [4, 9]


def test_gcd_in_place_on_what_needs_gradients_is_an_error() -> None:
    x = torch.tensor([12.0, 18.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        ops.gcd_(x, torch.tensor([8.0, 27.0]))
    with pytest.raises(RuntimeError, match="gcd_"):
        ops.gcd_(x * 1, torch.tensor([8.0, 27.0]))
    assert x.tolist() == [12, 18]


@pytest.mark.parametrize("write", ["gcd_", "gcd out", "as_strided out"])
def test_writes_are_seen_by_autograd(write: str) -> None:
    """A tensor saved for a backward pass and then overwritten is an error, as with torch's own in-place operators."""
    saved = torch.tensor([2.0, 3.0])
    result = (torch.ones(2, requires_grad=True) * saved).sum()
    other = torch.tensor([4.0, 6.0])
    if write == "gcd_":
        ops.gcd_(saved, other)
    elif write == "gcd out":
        ops.gcd(other, other, out=saved)
    else:
        ops.as_strided(other, (2,), (1,), out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
