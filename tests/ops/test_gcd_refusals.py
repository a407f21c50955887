"""What is refused: torch's exception types and texts, and nothing written before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import ops

I32 = torch.int32


def ones(*shape: int, dtype: torch.dtype = I32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


def partial_overlap(gcd: Any) -> None:
    base = torch.arange(6, dtype=I32)
    gcd(base[:3], base[1:4], out=base[2:5])


def as_out(gcd: Any, self: torch.Tensor, other: torch.Tensor, position: int) -> None:
    out = (self, other)[position]
    before = out.clone()
    try:
        gcd(self, other, out=out)
    finally:
        assert torch.equal(out, before)


# Each runs once with torch's functions and once with the project's; both must raise the same.
SAME_AS_TORCH: dict[str, Callable[[Any], object]] = {
    "other a number": lambda gcd: gcd(ones(3), 3),
    "self a number": lambda gcd: gcd(3, ones(3)),
    "other a list": lambda gcd: gcd(ones(3), [1, 2, 3]),
    "out a number": lambda gcd: gcd(ones(3), ones(3), out=3),
    "shapes": lambda gcd: gcd(ones(3), ones(4)),
    "inner shapes": lambda gcd: gcd(ones(2, 3, 5), ones(4, 5)),
    "uint16 beside int32": lambda gcd: gcd(ones(3, dtype=torch.uint16), ones(3)),
    "uint64 beside int64": lambda gcd: gcd(ones(3, dtype=torch.int64), ones(3, dtype=torch.uint64)),
    "out bool": lambda gcd: gcd(ones(3), ones(3), out=ones(3, dtype=torch.bool)),
    "out expanded": lambda gcd: gcd(ones(3), ones(3), out=ones(1).expand(3)),
    "out over a part of an operand": partial_overlap,
    "self as a smaller out": lambda gcd: as_out(gcd, ones(3), ones(2, 3), 0),
    "other as a smaller out": lambda gcd: as_out(gcd, ones(2, 3), ones(3), 1),
    "self as an empty out": lambda gcd: as_out(gcd, ones(0), ones(2, 0), 0),
    "other as a larger out": lambda gcd: as_out(gcd, ones(1), ones(1, 1), 0),
}
IN_PLACE: dict[str, Callable[[Any], object]] = {
    "smaller than the result": lambda gcd_: gcd_(ones(2), ones(3, 2)),
    "expanded": lambda gcd_: gcd_(ones(1).expand(3), ones(3)),
}
# Promoted dtypes that are refused; torch's text ends alike, with the name of its own kernel.
UNSUPPORTED = {
    torch.bool: "Bool",
    torch.float64: "Double",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


def raised(call: Callable[[], object]) -> tuple[type[Exception], str]:
    with pytest.raises((TypeError, RuntimeError, NotImplementedError)) as info:
        call()
    # Python calls print the arguments' types and the schema after torch's first line.
    return info.type, str(info.value).splitlines()[0]


@pytest.mark.parametrize("case", SAME_AS_TORCH)
def test_same_as_torch(case: str) -> None:
    call = SAME_AS_TORCH[case]
    assert raised(lambda: call(ops.gcd)) == raised(lambda: call(torch.gcd))


@pytest.mark.parametrize("case", IN_PLACE)
def test_in_place_same_as_torch(case: str) -> None:
    call = IN_PLACE[case]
    assert raised(lambda: call(ops.gcd_)) == raised(lambda: call(torch.Tensor.gcd_))


@pytest.mark.parametrize(("dtype", "name"), UNSUPPORTED.items(), ids=str)
def test_promoted_dtypes_without_a_kernel(dtype: torch.dtype, name: str) -> None:
    x = ones(3, dtype=dtype)
    kind, text = raised(lambda: ops.gcd(x, x))
    assert (kind, text) == (NotImplementedError, f"\"gcd\" not implemented for '{name}'")
    torch_kind, torch_text = raised(lambda: torch.gcd(x, x))
    assert kind is torch_kind
    assert text.split(" ", 1)[1] == torch_text.split(" ", 1)[1]


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (torch.float64, "Double"),
        (torch.complex64, "ComplexFloat"),
    ],
    ids=str,
)
def test_operands_that_promote_beyond_the_eight(other: torch.dtype, name: str) -> None:
    assert raised(lambda: ops.gcd(ones(3), ones(3, dtype=other))) == (
        NotImplementedError,
        f"\"gcd\" not implemented for '{name}'",
    )


def test_an_operand_the_kernels_do_not_load() -> None:
    """Beside float32, uint16 promotes to float32 but is not one of the eight; a 0-d float64 is cast first."""
    x, unsigned = ones(3, dtype=torch.float32), ones(3, dtype=torch.uint16)
    assert torch.result_type(x, unsigned) == torch.float32
    assert raised(lambda: ops.gcd(x, unsigned)) == (NotImplementedError, "\"gcd\" not implemented for 'UInt16'")
    assert ops.gcd(6 * x, torch.tensor(4.0, dtype=torch.float64)).tolist() == [2, 2, 2]


def test_sparse_tensors_and_other_devices() -> None:
    assert raised(lambda: ops.gcd(ones(3).to_sparse(), ones(3)))[0] is NotImplementedError
    assert raised(lambda: ops.gcd(ones(3), torch.ones(3, dtype=I32, device="meta")))[0] is RuntimeError


def test_float_results_into_bool() -> None:
    x = ones(3, dtype=torch.float16)
    kind, text = raised(lambda: ops.gcd(x, x, out=ones(3, dtype=torch.bool)))
    assert (kind, text) == (RuntimeError, "result type Half can't be cast to the desired output type Bool")


def test_nothing_is_written_or_resized_by_a_refused_call() -> None:
    out = torch.full((2, 3), 7, dtype=torch.bool)
    raised(lambda: ops.gcd(ones(5), ones(5), out=out))
    assert out.shape == (2, 3)
    small = torch.full((2,), 7, dtype=I32)
    raised(lambda: ops.gcd_(small, ones(3, 2)))
    assert small.tolist() == [7, 7]
    base = torch.arange(6, dtype=I32)
    raised(lambda: ops.gcd(base[:3], base[1:4], out=base[2:5]))
    assert base.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_quantized_out_is_refused() -> None:
    out = torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint32)
    assert raised(lambda: torch.gcd(ones(3), ones(3), out=out))[0] is NotImplementedError
    for x in (ones(3), torch.ones(3)):
        kind, text = raised(lambda x=x: ops.gcd(x, x, out=out))  # type: ignore[misc]
        assert (kind, text) == (NotImplementedError, "gcd is not implemented for quantized tensors, here torch.qint32")
    assert out.int_repr().tolist() == [1, 1, 1]


def test_an_operand_whose_storage_shrank_after_the_first_call() -> None:
    for cut in (0, 1):
        pair = [torch.arange(3, 20), torch.arange(3, 20)]
        assert ops.gcd(*pair).tolist() == list(range(3, 20))
        pair[cut] = pair[cut][1:]
        pair[1 - cut] = pair[1 - cut][:-1]
        ops.gcd(*pair)
        pair[cut].untyped_storage().resize_(16 * 8)  # the view ends one element further
        kind, text = raised(lambda pair=pair: ops.gcd(*pair))  # type: ignore[misc]
        assert kind is RuntimeError
        assert "out of bounds for storage of size 128" in text
    whole = torch.arange(3, 20)
    assert ops.gcd(whole[1:], whole[:-1]).tolist() == [1] * 16


def test_resizing_warns_as_torch_does() -> None:
    a = torch.tensor([12, 18, 7], dtype=I32)
    for function in (torch.gcd, ops.gcd):
        out = torch.full((2, 2), 7, dtype=I32)
        with pytest.warns(
            UserWarning, match=r"An output with one or more elements was resized since it had shape \[2, 2\]"
        ):
            assert function(a, a, out=out) is out
        assert out.tolist() == [12, 18, 7]
        empty = torch.empty(0, dtype=I32)
        function(a, a, out=empty)
        assert empty.tolist() == [12, 18, 7]


def test_a_plan_of_another_call_is_refused() -> None:
    plan = ops.plan_gcd(ones(3), ones(3))
    with pytest.raises(ValueError, match="the plan was made for"):
        ops.gcd(ones(4), ones(4), plan=plan)
    with pytest.raises(ValueError, match=r"made for .*shape=\(3, 1\).*this call is .*shape=\(3,\)"):
        ops.gcd(ones(3), ones(3), plan=ops.plan_gcd(ones(3, 1), ones(3, 1)))  # the same dims once merged
    with pytest.raises(TypeError, match=r"gcd\(\): argument 'plan' must be GcdPlan, not dict"):
        ops.gcd(ones(3), ones(3), plan=plan.decisions())  # type: ignore[arg-type]
    assert ops.gcd(ones(3), ones(3), plan=plan).tolist() == [1, 1, 1]
