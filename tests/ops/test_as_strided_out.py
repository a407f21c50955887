"""out=: torch's rules, by doing the same with torch and comparing everything that can be seen."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import ops
from tests.ops.as_strided_support import random_storage, storage_bytes

VIEW = ((2, 3), (1, 6), 0)


def both(make, function):
    """What `function(operator, fresh tensors)` leaves behind with torch's operator and with this one."""
    seen = []
    for operator in (torch.as_strided_copy, ops.as_strided):
        tensors = make()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function(operator, *tensors)
                error = None
            except RuntimeError as raised:
                result, error = None, str(raised).split("\n")[0]
        messages = [str(warning.message).split(" (Triggered")[0] for warning in caught]
        state = [(tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.tolist()) for tensor in tensors]
        seen.append((error, messages, state, result is tensors[-1]))
    return seen


OUTS = {
    "right shape": lambda: torch.zeros(2, 3),
    "permuted": lambda: torch.zeros(3, 2).t(),
    "empty": lambda: torch.empty(0),
    "smaller": lambda: torch.zeros(5),
    "larger": lambda: torch.zeros(4, 5),
    "slice of a larger one": lambda: torch.zeros(10)[2:5],
    "with holes": lambda: torch.zeros(4, 6)[::2, ::2],
    "column": lambda: torch.zeros(2, 3, 4)[:, :, 1],
    "odd address": lambda: torch.zeros(7)[1:].view(2, 3),
    "expanded": lambda: torch.zeros(1, 3).expand(2, 3),
    "overlapping itself": lambda: torch.zeros(4).as_strided((2, 3), (1, 1)),
    "negative": lambda: torch._neg_view(torch.zeros(2, 3)),
    "double": lambda: torch.zeros(2, 3, dtype=torch.float64),
}


@pytest.mark.parametrize("name", OUTS)
def test_out_is_treated_as_torch_does(name):
    theirs, ours = both(
        lambda: (torch.arange(24.0), OUTS[name]()), lambda operator, source, out: operator(source, *VIEW, out=out)
    )
    assert ours == theirs


ALIASES = {
    "shifted forward": (lambda base: base[1:5], (4,), (1,), 0),
    "shifted backward": (lambda base: base[0:4], (4,), (1,), 1),
    "itself": (lambda base: base, (8,), (1,), 0),
    "reversed order of a square": (lambda base: base[:4].view(2, 2), (2, 2), (1, 2), 0),
    "transposed onto itself": (lambda base: base[:4].view(2, 2).t(), (2, 2), (2, 1), 0),
    "every other": (lambda base: base[::2], (4,), (1,), 0),
    "broadcast over what is read": (lambda base: base[2:6], (4,), (0,), 3),
    "beside what is read": (lambda base: base[4:], (4,), (1,), 0),
    "empty slice that grows": (lambda base: base[:0], (4,), (2,), 0),
}


@pytest.mark.parametrize("name", ALIASES)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.complex64], ids=str)
def test_memory_shared_with_the_input_is_read_first(name, dtype):
    view, *arguments = ALIASES[name]

    def make():
        base = torch.arange(8).to(dtype)
        return base, view(base)

    theirs, ours = both(make, lambda operator, source, out: operator(source, *arguments, out=out))
    assert ours == theirs


def test_the_documented_alias():
    base = torch.arange(8)
    ops.as_strided(base, (4,), (1,), 0, out=base[1:5])
    assert base.tolist() == [0, 0, 1, 2, 3, 5, 6, 7]


def test_an_empty_expanded_out_is_accepted():
    theirs, ours = both(
        lambda: (torch.arange(24.0), torch.zeros(1, 0).expand(4, 0)),
        lambda operator, source, out: operator(source, (4, 0), (0, 1), out=out),
    )
    assert ours == theirs


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.float8_e5m2, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128],
    ids=str,
)
def test_every_bit_reaches_an_out_with_holes(dtype):
    """Bools of any byte, and NaNs that a conversion would quiet."""
    source = random_storage(random.Random(14), 400, dtype)
    out = random_storage(random.Random(15), 400, dtype)
    want = storage_bytes(out).copy()
    assert ops.as_strided(source, (100,), (3,), out=out[1:301:3]).shape == (100,)
    want[1:301:3] = storage_bytes(source)[0:300:3]
    assert (storage_bytes(out) == want).all()


@pytest.mark.parametrize("size", [(0,), (0, 3)])
def test_empty_results_resize_too(size):
    theirs, ours = both(
        lambda: (torch.arange(24.0), torch.zeros(2, 3)),
        lambda operator, source, out: operator(source, size, (1,) * len(size), 0, out=out),
    )
    assert ours == theirs


def test_large_permuted_out_is_written_directly(monkeypatch):
    source = torch.arange(60_000, dtype=torch.int16)
    out = torch.zeros(50, 30, 40, dtype=torch.int16).permute(2, 0, 1)
    arguments = ((40, 50, 30), (1, 1200, 40), 0)
    plan = ops.plan_as_strided(source, *arguments, out=out)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *_: pytest.fail("copied by torch"))
    ops.as_strided(source, *arguments, out=out)
    monkeypatch.undo()
    assert torch.equal(out, torch.as_strided_copy(source, *arguments))
    assert plan.problem.size == (50, 30, 40)


def test_conjugate_out():
    source = torch.complex(torch.arange(4.0), torch.ones(4))
    out = torch.zeros(4, dtype=torch.complex64).conj()
    assert ops.as_strided(source, (4,), (1,), out=out) is out
    assert torch.equal(out, source)


def test_gradients_are_refused():
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        ops.as_strided(torch.arange(24.0), *VIEW, out=torch.zeros(2, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        ops.as_strided(torch.arange(24.0).requires_grad_(), *VIEW, out=torch.zeros(2, 3))


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not list"):
        ops.as_strided(torch.arange(24.0), *VIEW, out=[1])
