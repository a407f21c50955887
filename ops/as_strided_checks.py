"""What as_strided accepts: its arguments read as integers, and torch's refusals with torch's texts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from tiling.as_strided import AsStridedPlan
from tiling.layout import contiguous_strides

_INT64 = 2**63

# torch prints C++ type names where an out= tensor has another dtype.
_CPP_NAMES = {
    torch.uint8: "unsigned char",
    torch.int8: "signed char",
    torch.int16: "short int",
    torch.int32: "int",
    torch.int64: "long int",
    torch.uint16: "short unsigned int",
    torch.uint32: "unsigned int",
    torch.uint64: "long unsigned int",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.float32: "float",
    torch.float64: "double",
    torch.complex32: "c10::complex<c10::Half>",
    torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
    torch.bool: "bool",
}


def read_arguments(size: Any, stride: Any, storage_offset: Any) -> tuple[tuple[int, ...], tuple[int, ...], int | None]:
    """Size, stride and offset as plain integers.

    Sequences of Python or numpy integers, or int32/int64 tensors (one-dimensional for size and stride, of one element
    for the offset; a device tensor costs a synchronisation). Raises torch's TypeError or ValueError for anything else.
    """
    if isinstance(size, torch.Tensor) and _is_index(size, 1):
        size = size.tolist()
    if isinstance(stride, torch.Tensor) and _is_index(stride, 1):
        stride = stride.tolist()
    if isinstance(storage_offset, torch.Tensor) and _is_index(storage_offset, storage_offset.dim()):
        storage_offset = storage_offset.item() if storage_offset.numel() == 1 else storage_offset
    sizes, strides = _integers(size), _integers(stride)
    offset = None if storage_offset is None else _integer(storage_offset)
    if sizes is None or strides is None or (offset is None and storage_offset is not None):
        _refuse(size, stride, storage_offset)
    return sizes, strides, offset


def _is_index(tensor: torch.Tensor, dim: int) -> bool:
    return tensor.dtype in (torch.int32, torch.int64) and tensor.dim() == dim


def _integers(values: Any) -> tuple[int, ...] | None:
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return None
    read = tuple(map(_integer, values))
    return None if None in read else read  # type: ignore[return-value]


def _integer(value: Any) -> int | None:
    """A 64-bit integer, or None for what torch does not take as one: bool, float and integers beyond 64 bits."""
    if isinstance(value, bool) or (isinstance(value, torch.Tensor) and value.dtype == torch.bool):
        return None
    try:
        number = operator.index(value)
    except (TypeError, RuntimeError):  # a tensor of several elements raises RuntimeError
        return None
    return number if -_INT64 <= number < _INT64 else None


def _refuse(size: Any, stride: Any, storage_offset: Any) -> NoReturn:
    # Reading arguments needs no data: torch itself, asked about a tensor without any, gives its own text.
    torch.as_strided_copy(torch.empty(0, device="meta"), size, stride, storage_offset)
    raise TypeError(
        "as_strided_copy(): sizes, strides and storage_offset must be integers, got "
        f"size={size!r}, stride={stride!r}, storage_offset={storage_offset!r}"
    )


def check_bounds(
    size: tuple[int, ...], stride: tuple[int, ...], offset: int, itemsize: int, storage_bytes: int
) -> None:
    """Raise torch's RuntimeError for a view that torch.as_strided_copy refuses. All arithmetic is exact.

    storage_bytes: size of the storage that is read.
    """
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if 0 not in size:
        # torch computes in unsigned 64 bits: a negative size minus one is huge, unless it is multiplied by nothing.
        reach = 1 + sum(((extent - 1) % 2**64) * step for extent, step in zip(size, stride, strict=True))
        needed = (reach + offset) * itemsize
        if reach >= 2**64 or needed >= _INT64:
            strides = f" and strides={list(stride)}" if stride else ""
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)}{strides}")
        if needed > storage_bytes:
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
                f"{itemsize} requiring a storage size of {needed} are out of bounds for storage of size {storage_bytes}"
            )
    elements = 1
    for extent in size:
        elements *= extent % 2**64
        if elements >= 2**64:
            break
    if elements >= _INT64:
        raise RuntimeError("numel: integer multiplication overflow")
    for extent in size:
        if extent < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {extent}: {list(size)}")
    if contiguous_strides(size)[:1] >= (_INT64,):
        raise RuntimeError("Stride calculation overflowed")


def check_self(self: Any) -> None:
    """Raise torch's TypeError for what is no tensor, NotImplementedError for one without plain strides and elements."""
    if not isinstance(self, torch.Tensor):
        torch.as_strided_copy(self, (), ())  # says what it is in torch's words
    if self.layout is not torch.strided:
        raise NotImplementedError(f"as_strided_copy is not implemented for tensors of layout {self.layout}")
    if self.is_nested or self.is_quantized:
        kind = "nested" if self.is_nested else "quantized"
        raise NotImplementedError(f"as_strided_copy is not implemented for {kind} tensors")


def check_plan(plan: object) -> None:
    """Raise TypeError if `plan=` is neither a plan nor None."""
    if not (plan is None or isinstance(plan, AsStridedPlan)):
        raise TypeError(f"as_strided(): argument 'plan' must be AsStridedPlan, not {type(plan).__name__}")


def check_out(self: torch.Tensor, out: Any) -> None:
    """Raise torch's error for an `out` that is no tensor, nested, or of another dtype or device."""
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"as_strided_copy(): argument 'out' must be Tensor, not {type(out).__name__}")
    if out.is_nested:
        raise NotImplementedError("as_strided_copy is not implemented for nested tensors")
    if out.dtype != self.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {_cpp_name(self.dtype)}, but got {_cpp_name(out.dtype)} instead"
        )
    if out.device != self.device:
        raise RuntimeError(
            f"Attempting to copy from device {self.device} to device {out.device}, "
            "but cross-device copies are not allowed!"
        )


def _cpp_name(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name.startswith(("int", "uint")):  # of 1 to 7 bits
        name = f"dummy_{name[:-1]}1_7_t<{name[-1]}>"
    elif name.startswith("float"):
        name = name.capitalize()
    return _CPP_NAMES.get(dtype, f"c10::{name}")
