"""The two operators as torch custom operators, for whatever works on PyTorch's graph of operators.

    torch.ops.ascend_ops.gcd(self, other)                       gcd.out(input, other, *, out)     gcd_(self, other)
    torch.ops.ascend_ops.as_strided_copy(self, size, stride, storage_offset=None)
    torch.ops.ascend_ops.as_strided_copy.out(input, size, stride, storage_offset=None, *, out)

torch.compile, torch.export, vmap, torch.func and DTensor see these. `ops.gcd` and `ops.as_strided` are the front door:
they call an operator of this file only where PyTorch has to see one (ops/transforms.py), and the kernels registered
here are the functions that the front door calls otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ops import autograd, gcd_checks, transforms
from ops.as_strided import compute as as_strided_kernel
from ops.as_strided_checks import check_bounds
from ops.gcd import compute as gcd_kernel
from ops.gcd import compute_ as gcd_in_place_kernel
from ops.gcd import result_stride

NAMESPACE = "ascend_ops"

# The first argument of the out variants has torch.gcd's public name, `input`, for a reason: torch 2.13's inductor turns
# a functional operator into its out variant where their arguments match by name, and then flattens lists of ints
# (as_strided_copy would get 8 arguments) and refuses symbolic sizes.
_SCHEMAS = {
    "gcd": "(Tensor self, Tensor other) -> Tensor",
    "gcd.out": "(Tensor input, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
    "gcd_": "(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    "as_strided_copy": "(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    "as_strided_copy.out": (
        "(Tensor input, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None, *, Tensor(a!) out) -> Tensor(a!)"
    ),
}

KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "gcd": gcd_kernel,
    "gcd.out": gcd_kernel,
    "gcd_": gcd_in_place_kernel,
    "as_strided_copy": as_strided_kernel,
    "as_strided_copy.out": as_strided_kernel,
}


def _tags(name: str) -> tuple[torch.Tag, ...]:
    # as_strided addresses storage, so a tracer must not hand it a tensor with other strides. The tags by which
    # torch.compile functionalises writing operators are newer than the oldest torch this project accepts.
    tags = ["pt2_compliant_tag", "pointwise" if name.startswith("gcd") else "needs_exact_strides"]
    tags += ["out"] if name.endswith(".out") else ["inplace"] if name.endswith("_") else []
    return tuple(getattr(torch.Tag, tag) for tag in tags if hasattr(torch.Tag, tag))


# --- autograd -------------------------------------------------------------------------------------------------------


def _gcd_autograd(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    # Piecewise constant: the result is marked non-differentiable, as torch does for integer results.
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ascend_ops.gcd.default(self, other)


def _gcd_out_autograd(self: torch.Tensor, other: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    autograd.refuse_writing("gcd", self, other, out)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ascend_ops.gcd.out(self, other, out=out)


def _gcd_in_place_autograd(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    autograd.refuse_in_place("gcd_", self)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ascend_ops.gcd_.default(self, other)


def _as_strided_autograd(
    self: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError(
            "torch.func differentiates ops.as_strided, not torch.ops.ascend_ops.as_strided_copy: call the former"
        )
    return autograd.as_strided(self, size, stride, storage_offset, _as_strided_below_autograd)


def _as_strided_below_autograd(
    self: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> torch.Tensor:
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ascend_ops.as_strided_copy.default(self, size, stride, storage_offset)


def _as_strided_out_autograd(
    self: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: torch.Tensor,
) -> torch.Tensor:
    autograd.refuse_writing("aten::as_strided_copy", self, out)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ascend_ops.as_strided_copy.out(self, size, stride, storage_offset, out=out)


_AUTOGRAD: dict[str, Callable[..., torch.Tensor]] = {
    "gcd": _gcd_autograd,
    "gcd.out": _gcd_out_autograd,
    "gcd_": _gcd_in_place_autograd,
    "as_strided_copy": _as_strided_autograd,
    "as_strided_copy.out": _as_strided_out_autograd,
}

# --- fake tensors: the result's dtype, shape, strides and device, without data ----------------------------------------


def _gcd_fake(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    dtype, shape = _gcd_result(self, other)
    owner = other if self.dim() == 0 else self  # a 0-d operand may stay on the CPU
    return owner.new_empty_strided(shape, result_stride(self, other), dtype=dtype)


def _gcd_out_fake(self: torch.Tensor, other: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    dtype, shape = _gcd_result(self, other)
    gcd_checks.castable(dtype, out.dtype)
    return _written(out, shape, other.device if self.dim() == 0 else self.device)


def _gcd_in_place_fake(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return _gcd_out_fake(self, other, out=self)


def _gcd_result(self: torch.Tensor, other: torch.Tensor) -> tuple[torch.dtype, torch.Size]:
    if self.device != other.device and self.dim() > 0 and other.dim() > 0:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{self.device} and {other.device}!"
        )
    return gcd_checks.promoted(self, other), gcd_checks.broadcast(self, other)


def _as_strided_fake(
    self: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    # Everything is checked but the bounds, as in torch: a traced tensor's storage is not that of the call.
    if transforms.symbolic((*size, *stride, storage_offset)):
        if len(size) != len(stride):
            raise RuntimeError("mismatch in length of strides and shape")
    else:
        check_bounds(tuple(size), tuple(stride), storage_offset or 0, self.element_size(), storage_bytes=2**64)
    return self.new_empty(size)


def _as_strided_out_fake(
    self: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: torch.Tensor,
) -> torch.Tensor:
    return _written(out, _as_strided_fake(self, size, stride, storage_offset).shape, self.device)


def _written(out: torch.Tensor, shape: torch.Size, device: torch.device) -> torch.Tensor:
    if out.device != device:
        raise RuntimeError(
            f"Attempting to copy from device {device} to device {out.device}, but cross-device copies are not allowed!"
        )
    # An operator may not change the metadata of its arguments while it is traced: no resizing here.
    if out.shape != shape:
        raise RuntimeError(f"out has shape {list(out.shape)}, and a traced call cannot resize it to {list(shape)}")
    return out


_FAKE: dict[str, Callable[..., torch.Tensor]] = {
    "gcd": _gcd_fake,
    "gcd.out": _gcd_out_fake,
    "gcd_": _gcd_in_place_fake,
    "as_strided_copy": _as_strided_fake,
    "as_strided_copy.out": _as_strided_out_fake,
}

# --- vmap: one call for the whole batch -----------------------------------------------------------------------------


def _gcd_vmap(
    info: Any, in_dims: tuple[int | None, int | None], self: torch.Tensor, other: torch.Tensor
) -> tuple[torch.Tensor, int]:
    operands = list(zip((self, other), in_dims, strict=True))
    rank = max(operand.dim() - (dim is not None) for operand, dim in operands)
    return torch.ops.ascend_ops.gcd.default(*(_batch_first(operand, dim, rank) for operand, dim in operands)), 0


def _batch_first(tensor: torch.Tensor, dim: int | None, rank: int) -> torch.Tensor:
    """`tensor` with the batch in front of `rank` dimensions, padded by ones so that samples broadcast as they would."""
    if dim is None:
        return tensor
    tensor = tensor.movedim(dim, 0)
    return tensor.reshape(tensor.shape[:1] + (1,) * (rank + 1 - tensor.dim()) + tensor.shape[1:])


def _as_strided_vmap(
    info: Any,
    in_dims: tuple[int | None, ...],
    self: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> tuple[torch.Tensor, int]:
    size, stride = autograd.batched_view(self, in_dims[0], size, stride)
    return torch.ops.ascend_ops.as_strided_copy.default(self, size, stride, storage_offset), 0


_VMAP: dict[str, Callable[..., Any]] = {"gcd": _gcd_vmap, "as_strided_copy": _as_strided_vmap}

# --------------------------------------------------------------------------------------------------------------------

_library = torch.library.Library(NAMESPACE, "DEF")
for _name, _schema in _SCHEMAS.items():
    _library.define(_name + _schema, tags=_tags(_name))
    # One kernel for every device: it refuses by itself the devices and layouts that it does not serve.
    _library.impl(_name, KERNELS[_name], "CompositeExplicitAutograd")
    _library.impl(_name, _AUTOGRAD[_name], "Autograd")
    torch.library.register_fake(f"{NAMESPACE}::{_name}", _FAKE[_name], lib=_library)
    if _name in _VMAP:
        torch.library.register_vmap(f"{NAMESPACE}::{_name}", _VMAP[_name], lib=_library)
