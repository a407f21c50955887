"""A plan of gcd as a launch: kernel, pointers and integer arguments, prepared once and repeated."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import torch

from ops import forking, launch
from tiling import layout
from tiling.gcd import GcdPlan
from tiling.gcd_layout import HOST


class Call(Protocol):
    """What is read of a checked call: the layout of its result, and the bytes each operand spans."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    needs: tuple[int, int]


# Stored as the bits of a signed integer of the width.
_STORED_AS = {
    torch.uint8: torch.int8,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}


class Ready:
    """Everything a repeated call needs: its plan as kernel, grid, constexprs and integer arguments."""

    __slots__ = (
        "constexprs",
        "device",
        "dtype",
        "ints",
        "kernel",
        "needs",
        "offsets",
        "plain",
        "plan",
        "shape",
        "stride",
        "swapped",
    )

    def __init__(self, call: Call, plan: GcdPlan | None) -> None:
        self.plan = plan
        self.needs = call.needs
        self.shape, self.stride, self.dtype, self.device = call.shape, call.stride, call.dtype, call.device
        if plan is None:
            return
        self.kernel = kernel_of(plan)
        self.constexprs = plan.constexprs
        self.ints = integers(plan)
        self.offsets = _host_offsets(plan)
        problem = plan.problem
        self.swapped = plan.swapped
        self.plain = not (plan.copied or plan.temporary or len(self.offsets) > 1 or problem.out_dtype.startswith("u"))

    def run(self, self_: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> None:
        """Queue the launch (or, beyond the kernel's dims, launches) of one call."""
        plan = self.plan
        assert plan is not None
        if self.plain and self_.device == other.device:
            pair = (other, self_) if self.swapped else (self_, other)
            args = (*pair, out, *self.ints)
            launch.launch(
                self.kernel, plan.grid, args, self.constexprs, multibuffer=plan.multibuffer, device=self.device
            )
            return
        target = (
            out if plan.temporary is None else torch.empty(self.shape, dtype=_dtype(plan.temporary), device=self.device)
        )
        loaded = [self_.to(self.device), other.to(self.device)]  # a 0-d operand may be on the CPU
        for name, dims in plan.arrangement.copies:
            index = ("self", "other").index(name)
            loaded[index] = _dense(loaded[index], dims)
        if plan.swapped:
            loaded.reverse()
        for at in self.offsets:
            args = (
                _seen(loaded[0], at[0]),
                _seen(loaded[1], at[1]),
                _seen(target, at[2], _STORED_AS.get(target.dtype)),
                *self.ints,
            )
            launch.launch(
                self.kernel, plan.grid, args, self.constexprs, multibuffer=plan.multibuffer, device=self.device
            )
        if target is not out:
            out.copy_(target)


def _dense(tensor: torch.Tensor, dims: layout.Dims) -> torch.Tensor:
    from ops.as_strided import compute as as_strided

    return as_strided(tensor, [dim[0] for dim in dims], [dim[1] for dim in dims], int(tensor.storage_offset()))


def _seen(tensor: torch.Tensor, offset: int, dtype: torch.dtype | None = None) -> Any:
    if dtype is None and offset == 0:
        return tensor
    pointer = launch.data_pointer(tensor, dtype)
    pointer.address += offset * tensor.element_size()
    return pointer


def _dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def kernel_of(plan: GcdPlan) -> Any:
    """The @triton.jit function of a plan."""
    with forking.no_fork():
        from ops.kernels import gcd as kernels

    return getattr(kernels, plan.kernel)


def pointer_dtypes(plan: GcdPlan) -> tuple[torch.dtype, torch.dtype, torch.dtype]:
    """Element dtypes of the kernel's three pointers."""
    problem = plan.problem
    loaded = [_dtype(problem.self_dtype), _dtype(problem.other_dtype)]
    if plan.swapped:
        loaded.reverse()
    stored = _dtype(plan.temporary or problem.out_dtype)
    return loaded[0], loaded[1], _STORED_AS.get(stored, stored)


def integers(plan: GcdPlan) -> tuple[int, ...]:
    """The kernel's integer arguments."""
    a = plan.arrangement
    if plan.kernel == "gcd_linear":
        return (a.cols[0],)
    around = ((1, 0, 0, 0),) * (HOST - len(a.outer)) + a.outer
    per_operand = itertools.chain.from_iterable(zip(*around, strict=True))
    return (a.rows[0], a.cols[0], a.rows[1], a.rows[2], a.rows[3], a.cols[3], *per_operand)


def _host_offsets(plan: GcdPlan) -> list[tuple[int, int, int]]:
    """Where each launch starts: one launch unless there are more dims than the kernel takes."""
    dims = plan.arrangement.host_dims
    steps = itertools.product(*(range(dim[0]) for dim in dims))
    strides = [dim[1:] for dim in dims]
    return [
        tuple(sum(i * stride[operand] for i, stride in zip(index, strides, strict=True)) for operand in range(3))  # type: ignore[misc]
        for index in steps
    ]
