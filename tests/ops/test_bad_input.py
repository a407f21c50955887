"""Everything that must be refused: with torch's kind of exception, before anything is written, and never by a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import ops
from tests.ops.odd_tensors import (
    SENTINEL,
    compressed,
    deleted,
    guarded,
    half_deleted,
    ints,
    meta,
    mkldnn,
    nested,
    quantized,
    readable,
    sparse,
)


class Refusal(NamedTuple):
    """Arguments, made anew for each call, and what must be raised."""

    make: Callable[[], tuple[Any, ...]]
    error: type[Exception] | tuple[type[Exception], ...]
    text: str


def pair(left: Callable[[], Any], right: Callable[[], Any]) -> Callable[[], tuple[Any, ...]]:
    return lambda: (left(), right())


def of(dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    return lambda: ints(6).to(dtype)


def plain() -> torch.Tensor:
    return ints(6)


NOT_TENSORS: dict[str, Any] = {
    "int": 3,
    "float": 1.5,
    "None": None,
    "list": [1, 2, 3, 4, 5, 6],
    "str": "abc",
    "bytes": b"abc",
    "array": np.arange(6),
    "dtype": torch.int32,
}

GCD: dict[str, Refusal] = {
    **{
        f"{name} promoted": Refusal(pair(of(dtype), plain), NotImplementedError, f"not implemented for '{name}'")
        for name, dtype in (
            ("Double", torch.float64),
            ("ComplexFloat", torch.complex64),
            ("ComplexDouble", torch.complex128),
        )
    },
    **{
        f"{name} twice": Refusal(pair(of(dtype), of(dtype)), NotImplementedError, f"not implemented for '{name}'")
        for name, dtype in (
            ("Bool", torch.bool),
            ("UInt16", torch.uint16),
            ("UInt32", torch.uint32),
            ("UInt64", torch.uint64),
        )
    },
    "unsigned with signed": Refusal(pair(of(torch.uint16), plain), RuntimeError, "Promotion for uint16"),
    "float8": Refusal(pair(of(torch.float8_e5m2), of(torch.float32)), RuntimeError, "Promotion for Float8"),
    "shapes": Refusal(
        lambda: (ints(2, 3), ints(2, 4)),
        RuntimeError,
        r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1",
    ),
    "sparse": Refusal(pair(sparse, sparse), NotImplementedError, "gcd"),
    "sparse and dense": Refusal(pair(plain, sparse), NotImplementedError, "gcd"),
    "compressed": Refusal(pair(compressed, plain), (NotImplementedError, RuntimeError), "ayout"),
    "quantized": Refusal(pair(quantized, quantized), NotImplementedError, "(?i)quint8"),
    "nested": Refusal(pair(nested, nested), NotImplementedError, "gcd"),
    "mkldnn": Refusal(pair(mkldnn, plain), (NotImplementedError, RuntimeError), "ayout"),
    "devices": Refusal(pair(plain, meta), RuntimeError, "device"),
    "deleted storage": Refusal(pair(deleted, plain), RuntimeError, "storage"),
    "storage cut short": Refusal(pair(plain, half_deleted), RuntimeError, "storage"),
    "huge": Refusal(lambda: (ints(1).expand(2**62), ints(1)), RuntimeError, "overflow"),
    "huge by broadcast": Refusal(
        lambda: (ints(1, 1).expand(2**40, 1), ints(1, 1).expand(1, 2**40)), RuntimeError, "overflow"
    ),
    "more than memory": Refusal(
        lambda: (ints(1, 1).expand(2**30, 1), ints(1, 1).expand(1, 2**30)), RuntimeError, "allocate memory"
    ),
    **{
        f"other is {name}": Refusal(
            lambda value=value: (plain(), value),  # type: ignore[misc]
            TypeError,
            r"gcd\(\): argument 'other' \(position 2\) must be Tensor",
        )
        for name, value in NOT_TENSORS.items()
    },
    **{
        f"input is {name}": Refusal(
            lambda value=value: (value, plain()),  # type: ignore[misc]
            TypeError,
            r"gcd\(\): argument 'input' \(position 1\) must be Tensor",
        )
        for name, value in NOT_TENSORS.items()
    },
}


@pytest.mark.parametrize("refusal", GCD.values(), ids=GCD)
def test_gcd_refuses(refusal: Refusal) -> None:
    with pytest.raises(refusal.error, match=refusal.text):
        ops.gcd(*refusal.make())
    out, buffer = guarded()
    with pytest.raises(refusal.error):
        ops.gcd(*refusal.make(), out=out)
    assert (buffer == SENTINEL).all()


@pytest.mark.parametrize("refusal", GCD.values(), ids=GCD)
def test_gcd_in_place_refuses(refusal: Refusal) -> None:
    self, other = refusal.make()
    before = self.clone() if type(self) is torch.Tensor and readable(self) and self.numel() < 100 else None
    with pytest.raises(refusal.error):
        ops.gcd_(self, other)
    if before is not None:
        assert torch.equal(before, self)


def outs() -> dict[str, tuple[Any, type[Exception] | tuple[type[Exception], ...], str]]:
    return {
        "bool": (torch.zeros(6, dtype=torch.bool), RuntimeError, "can't be cast to the desired output type Bool"),
        "expanded": (torch.zeros(1, dtype=torch.int32).expand(6), RuntimeError, "more than one element"),
        "meta": (meta(), RuntimeError, "device"),
        "sparse": (sparse(), (NotImplementedError, RuntimeError), ""),
        "requires grad": (torch.zeros(6, requires_grad=True), RuntimeError, "automatic differentiation"),
        "deleted storage": (deleted(), RuntimeError, "storage"),
        "int": (3, TypeError, "argument 'out' must be Tensor, not int"),
        "list": ([1, 2], TypeError, "argument 'out' must be Tensor, not list"),
        "inference": (inference(torch.int32), RuntimeError, "Inplace update to inference tensor"),
    }


def inference(dtype: torch.dtype) -> torch.Tensor:
    with torch.inference_mode():
        return torch.full((6,), SENTINEL, dtype=dtype)


@pytest.mark.parametrize("name", outs())
def test_gcd_refuses_out(name: str) -> None:
    out, error, text = outs()[name]
    with pytest.raises(error, match=text):
        ops.gcd(ints(6), ints(6), out=out)
    if name == "inference":
        assert (out == SENTINEL).all()


@pytest.mark.parametrize("name", outs())
def test_as_strided_refuses_out(name: str) -> None:
    out, error, text = outs()[name]
    with pytest.raises(error, match=text if name != "bool" else "Expected out tensor to have dtype"):
        ops.as_strided(ints(12) if name != "requires grad" else torch.arange(12.0), (6,), (1,), out=out)
    if name == "inference":
        assert (out == SENTINEL).all()


def test_partial_overlap_is_refused_and_nothing_written() -> None:
    buffer = ints(12)
    before = buffer.clone()
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        ops.gcd(buffer[:6], ints(6), out=buffer[2:8])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        ops.gcd_(buffer[:6], buffer[3:9])
    assert torch.equal(buffer, before)


def test_gcd_in_place_refuses_to_grow_and_to_write_an_expanded_tensor() -> None:
    x = ints(2)
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        ops.gcd_(x, ints(3, 2))
    assert x.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        ops.gcd_(ints(1).expand(6), ints(6))
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        ops.gcd_(inference(torch.int32), ints(6))


# Every one of these torch refuses as well: its own exception is what is expected.
AS_STRIDED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "sparse": lambda: (sparse(), (2,), (1,)),
    "compressed": lambda: (compressed(), (2,), (1,)),
    "nested": lambda: (nested(), (2,), (1,)),
    "mkldnn": lambda: (mkldnn(), (2,), (1,)),
    "deleted storage": lambda: (deleted(), (2,), (1,)),
    "storage cut short": lambda: (half_deleted(), (4,), (1,)),
    "negative stride": lambda: (ints(6), (2,), (-1,)),
    "negative stride of nothing": lambda: (ints(6), (0,), (-1,)),
    "negative size": lambda: (ints(6), (-1, 3), (6, 1)),
    "negative size alone": lambda: (ints(6), (-1,), (1,)),
    "negative offset": lambda: (ints(6), (2,), (1,), -1),
    "negative offset of nothing": lambda: (ints(6), (0,), (1,), -1),
    "lengths": lambda: (ints(6), (2, 3), (6,)),
    "one too many": lambda: (ints(6), (7,), (1,)),
    "beyond through the offset": lambda: (ints(6), (6,), (1,), 1),
    "scalar beyond": lambda: (ints(6), (), (), 6),
    "sliced view": lambda: (ints(6)[3:], (4,), (1,)),
    "conjugate view beyond its own elements": lambda: (torch.zeros(6, dtype=torch.complex64)[::2].conj(), (4,), (1,)),
    "product overflows": lambda: (ints(6), (2**40, 2**40), (0, 0)),
    "span overflows": lambda: (ints(6), (2**40, 2), (2**40, 1)),
    "stride overflows": lambda: (ints(6), (3,), (2**63 - 1,)),
    "offset overflows": lambda: (ints(6), (1,), (1,), 2**63 - 1),
    "more than memory": lambda: (ints(6), (2**40, 2**20), (0, 0)),
    "size int": lambda: (ints(6), 2, (1,)),
    "size None": lambda: (ints(6), None, (1,)),
    "size float": lambda: (ints(6), (2.0,), (1,)),
    "size bool": lambda: (ints(6), (True,), (1,)),
    "size str": lambda: (ints(6), "2", (1,)),
    "size set": lambda: (ints(6), {2}, (1,)),
    "size nested": lambda: (ints(6), ((2,),), (1,)),
    "size beyond 64 bits": lambda: (ints(6), (2**64,), (1,)),
    "size float tensor": lambda: (ints(6), torch.tensor([2.0]), (1,)),
    "stride float": lambda: (ints(6), (2,), (1.0,)),
    "stride None": lambda: (ints(6), (2,), None),
    "stride beyond 64 bits": lambda: (ints(6), (2,), (2**64,)),
    "offset float": lambda: (ints(6), (2,), (1,), 1.0),
    "offset str": lambda: (ints(6), (2,), (1,), "1"),
    "offset list": lambda: (ints(6), (2,), (1,), [1]),
    **{f"input is {name}": lambda value=value: (value, (2,), (1,)) for name, value in NOT_TENSORS.items()},  # type: ignore[misc]
}


@pytest.mark.parametrize("make", AS_STRIDED.values(), ids=AS_STRIDED)
def test_as_strided_refuses_what_torch_refuses(make: Callable[[], tuple[Any, ...]]) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - torch says which
        torch.as_strided_copy(*make())
    with pytest.raises(theirs.type) as ours:
        ops.as_strided(*make())
    if theirs.type in (RuntimeError, TypeError) and "allocate memory" not in str(theirs.value):
        # Type names excepted, which C types write with their module.
        texts = [str(error.value).splitlines()[0].partition("must be Tensor, not")[0] for error in (ours, theirs)]
        assert texts[0] == texts[1]
    out, buffer = guarded()
    with pytest.raises(theirs.type):
        ops.as_strided(*make(), out=out)
    assert (buffer == SENTINEL).all()


def test_a_quantized_input_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="quantized"):
        ops.as_strided(quantized(), (2,), (1,))


def test_the_input_is_never_modified() -> None:
    x = ints(64)
    before = x.clone()
    for make in AS_STRIDED.values():
        with pytest.raises(Exception):  # noqa: B017, PT011 - which, is tested above
            ops.as_strided(x, *make()[1:3], -1)
    ops.as_strided(x, (3, 4), (1, 1))
    ops.gcd(x, x)
    assert torch.equal(x, before)
