"""Everything that must be refused: with torch's kind of exception, before anything is written, and never by a crash."""

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

SENTINEL = 77


def guarded(size: int = 6, dtype: torch.dtype = torch.int32) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in the middle of a buffer of sentinels, and the buffer."""
    buffer = torch.full((size + 64,), SENTINEL, dtype=dtype)
    return buffer[32 : 32 + size], buffer


def ints(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def sparse() -> torch.Tensor:
    return torch.eye(6, dtype=torch.int32).to_sparse()


def compressed() -> torch.Tensor:
    return torch.eye(6, dtype=torch.int32).to_sparse_csr()


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.arange(6.0), 1.0, 0, torch.quint8)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.arange(3), torch.arange(2)])


def mkldnn() -> torch.Tensor:
    return torch.arange(6.0).to_mkldnn()


def meta() -> torch.Tensor:
    return torch.empty(6, dtype=torch.int32, device="meta")


def deleted() -> torch.Tensor:
    x = ints(6)
    x.untyped_storage().resize_(0)
    return x


def half_deleted() -> torch.Tensor:
    x = ints(6)
    x.untyped_storage().resize_(12)
    return x


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


def readable(tensor: torch.Tensor) -> bool:
    """Whether a tensor has plain elements, and memory for all of them."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta or tensor.is_quantized:
        return False
    last = tensor.storage_offset() + sum(
        (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return (last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


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


# --- hostile calls made by hypothesis -------------------------------------------------------------------------------

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
