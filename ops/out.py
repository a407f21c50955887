"""torch's rules for `out=` tensors: resizing, and which overlaps of memory are refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

_INTERNAL = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
_PARTIAL = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def resize(out: torch.Tensor, shape: Sequence[int]) -> None:
    """Give `out` the shape of the result, with torch's warning if it was neither empty nor of that shape.

    A tensor that has the shape already keeps its strides.
    """
    if out.shape == tuple(shape):
        return
    if out.numel() > 0:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=3,
        )
    out.resize_(shape)


def is_expanded(tensor: torch.Tensor) -> bool:
    """Whether a dimension repeats the same memory."""
    return any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def refuse_internal_overlap(out: torch.Tensor) -> None:
    """Raise torch's RuntimeError for an expanded `out`, whose elements share memory."""
    if out.numel() > 0 and is_expanded(out):
        raise RuntimeError(_INTERNAL)


def refuse_partial_overlap(out: torch.Tensor, other: torch.Tensor) -> None:
    """Raise torch's RuntimeError if `out` and an input share some memory without being the same view of it.

    As in torch, only tensors without holes are looked at.
    """
    if out is other or out.numel() == 0 or other.numel() == 0 or not (is_dense(out) and is_dense(other)):
        return
    mine, theirs = memory_range(out), memory_range(other)
    if mine == theirs and out.stride() == other.stride():
        return
    if mine[0] < theirs[1] and theirs[0] < mine[1]:
        raise RuntimeError(_PARTIAL)


def refuse_missing_memory(tensor: torch.Tensor) -> None:
    """Raise torch's RuntimeError for a tensor whose storage has been resized below what its elements need."""
    storage = tensor.untyped_storage()
    needed = memory_range(tensor)[1] - storage.data_ptr()
    if tensor.numel() > 0 and needed > storage.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(tensor.shape)}, strides {list(tensor.stride())}, storage offset "
            f"{tensor.storage_offset()}, and itemsize {tensor.element_size()} requiring a storage size of {needed} "
            f"are out of bounds for storage of size {storage.nbytes()}"
        )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements fill a stretch of memory without holes or overlaps, in whatever order."""
    expected = 1
    for size, step in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda dim: dim[1]):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True


def memory_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First and one-past-last byte address a tensor's elements occupy; equal for an empty one."""
    start = tensor.data_ptr()
    return start, start + span(tensor)


def span(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last; 0 for an empty one."""
    if tensor.numel() == 0:
        return 0
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size()
