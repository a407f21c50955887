"""as_strided: a copy of any strided view of a tensor's storage, by one Triton kernel.

The way of one call: read and check the arguments, describe them as an AsStridedProblem, let tiling plan it, launch. All
of this but the launch is kept under the arguments, so that a repeated call costs one look-up.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ops import autograd, device, transforms
from ops import out as out_rules
from ops.as_strided_checks import check_bounds, check_out, check_plan, check_self, read_arguments
from ops.kernels import as_strided as row_kernels
from ops.kernels import as_strided_pack as pack_kernels
from ops.launch import Pointer, launch
from tiling import tuned
from tiling.as_strided import AsStridedPlan, AsStridedProblem
from tiling.as_strided import plan as heuristic
from tiling.as_strided_tiles import KERNELS as TILES

Sizes = Sequence[int] | torch.Tensor

# The type through which elements of a width are moved: gathers take floats and int8 only, and nothing is computed.
ELEMENT = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.int64}

# Integers of each width, as which torch's own copies keep every bit.
_WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

KERNELS: dict[str, Any] = {name: getattr(row_kernels, name, None) or getattr(pack_kernels, name) for name in TILES}

# Problems kept; the oldest half goes when there are more. A program of fixed shapes uses a few.
_KEPT = 4096


def as_strided(
    self: torch.Tensor,
    size: Sizes,
    stride: Sizes,
    storage_offset: int | torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
    plan: AsStridedPlan | None = None,
) -> torch.Tensor:
    """Copy of the elements `storage_offset + sum(index[i] * stride[i])` of the storage behind `self`, dense.

    >>> as_strided(torch.arange(6), (2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])

    Same values as `torch.as_strided(self, size, stride, storage_offset).clone()`, as torch.as_strided_copy.

    self: any tensor with strides; its own shape and strides do not matter, only its storage. Every dtype of 1, 2, 4, 8
        or 16 bytes is copied bit by bit: NaN payloads and bool bytes other than 0 and 1 survive. Conjugate and negative
        views are resolved first, and bounds are then those of the resolved copy.
    size, stride: integers (Python's or numpy's) in a sequence, or an int32/int64 tensor; strides in elements, not
        negative, any overlap. A tensor on a device costs a synchronisation.
    storage_offset: absolute, in elements; None means that of `self`.
    out: receives the result under torch's rules: same dtype, resized with a warning, strides kept. Memory shared with
        `self` is read before it is written. A dense `out` in any order of dimensions is written directly; one with
        holes gets the bits of a dense result, and a conjugate or negative view its values, by torch's own copy.
    plan: decisions to use instead of the planner's, from `plan_as_strided`.

    Raises torch's errors for whatever torch.as_strided_copy refuses, before anything is written; RuntimeError for a
    tensor on a device other than an NPU or the CPU (where the emulator serves). Differentiable.
    Source: torch.as_strided_copy, and the documented Ascend C operator AsStrided.
    """
    if transforms.active(self, *(() if out is None else (out,))):
        return transforms.as_strided(self, size, stride, storage_offset, out)
    if out is not None:
        autograd.refuse_writing("aten::as_strided_copy", self, out)
    elif isinstance(self, torch.Tensor) and self.requires_grad and torch.is_grad_enabled():
        sizes, strides, offset = read_arguments(size, stride, storage_offset)
        return autograd.as_strided(self, sizes, strides, offset, functools.partial(_forward, plan=plan))
    return compute(self, size, stride, storage_offset, out, plan)


def plan_as_strided(
    self: torch.Tensor,
    size: Sizes,
    stride: Sizes,
    storage_offset: int | torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
) -> AsStridedPlan | None:
    """What `as_strided` of the same arguments would do, without doing it; None for an empty result.

    >>> plan_as_strided(torch.zeros(10**6), (1000, 999), (1000, 1)).path.name
    'STRIDE_1'

    Raises what as_strided raises. `out` is neither resized nor written.
    """
    sizes, strides, offset = read_arguments(size, stride, storage_offset)
    check_self(self)
    self = self.resolve_conj().resolve_neg()
    call = _call(self, sizes, strides, _own_offset(self) if offset is None else offset)
    if out is None or call.plan is None:
        return call.plan
    check_out(self, out)
    if tuple(out.shape) != sizes or not _written_directly(self, call, out):
        return call.plan
    return _reordered(self, call, out).plan


@dataclass(frozen=True)
class _Call:
    """Everything about a call but its addresses. `start` is the first byte read, counted from the storage's."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    start: int
    reach: int
    plan: AsStridedPlan | None
    kernel: Any = None
    element: torch.dtype = torch.int8


_calls: dict[tuple[Any, ...], _Call] = {}
_generation = -1


def compute(
    self: torch.Tensor,
    size: Sizes,
    stride: Sizes,
    storage_offset: int | torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    plan: AsStridedPlan | None = None,
) -> torch.Tensor:
    """`as_strided` below autograd and PyTorch's dispatcher. Same arguments, results and errors."""
    sizes, strides = _plain(size), _plain(stride)
    if sizes is None or strides is None or not (storage_offset is None or type(storage_offset) is int):
        sizes, strides, storage_offset = read_arguments(size, stride, storage_offset)
    check_self(self)
    check_plan(plan)
    if self.is_conj() or self.is_neg():
        self = self.resolve_conj().resolve_neg()
    offset = _own_offset(self) if storage_offset is None else storage_offset
    if out is not None:
        return _write(self, _call(self, sizes, strides, offset), out, plan)
    call = _call(self, sizes, strides, offset, plan)
    result = torch.empty(sizes, dtype=self.dtype, device=self.device)
    if call.plan is not None:
        _run(self, call, result)
    return result


def _forward(
    self: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
    plan: AsStridedPlan | None,
) -> torch.Tensor:
    return compute(self, size, stride, storage_offset, None, plan)


_INTEGER = frozenset((int,))


def _plain(values: Any) -> tuple[int, ...] | None:
    """`values` as a tuple if they are Python integers and nothing else: True and 1.0 would find the entry of 1."""
    kind = type(values)
    if kind is list:
        values = tuple(values)
    elif kind is not tuple and kind is not torch.Size:
        return None
    return values if _INTEGER.issuperset(map(type, values)) else None


def _own_offset(self: torch.Tensor) -> int:
    return int(self.storage_offset())


def _call(
    self: torch.Tensor,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    plan: AsStridedPlan | None = None,
    alignment: int = 16,
) -> _Call:
    """The kept description of a call, made and checked at its first occurrence.

    alignment: bytes (at most 16) that divide the output's address; torch allocates on 64 or more.
    """
    global _generation
    if _generation != tuned.generation():
        _calls.clear()
        _generation = tuned.generation()
    storage = self.untyped_storage()
    bytes_there = storage.nbytes()
    itemsize = self.element_size()
    address = storage.data_ptr() + offset * itemsize
    alignment = _low_bit(address | alignment)
    key = (size, stride, offset, self.dtype, self.device, bytes_there, alignment, plan)
    call = _calls.get(key)
    if call is None:
        size, stride, _ = read_arguments(size, stride, offset)
        check_bounds(size, stride, offset, itemsize, bytes_there)
        call = _describe(self, size, stride, offset, itemsize, alignment, plan)
        if len(_calls) >= _KEPT:
            for old in list(itertools.islice(_calls, _KEPT // 2)):
                _calls.pop(old, None)
        _calls[key] = call
    return call


def _low_bit(value: int) -> int:
    return value & -value


def _describe(
    self: torch.Tensor,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    itemsize: int,
    alignment: int,
    plan: AsStridedPlan | None,
) -> _Call:
    if 0 in size:
        return _Call(size, stride, offset * itemsize, 0, None)
    if itemsize not in (1, 2, 4, 8, 16):
        raise NotImplementedError(f"as_strided_copy is not implemented for {self.dtype}: {itemsize} bytes an element")
    if not device.is_served(self.device):
        raise RuntimeError(
            f"as_strided runs on tensors on an NPU or, through the emulator, on the CPU; this one is on {self.device}"
        )
    platform = device.platform_of(self.device)
    problem = AsStridedProblem(size, stride, offset, itemsize, alignment)
    if plan is not None:
        if plan.problem != problem:
            # A plan is made for one problem; what carries over to another are its decisions.
            plan = heuristic(problem, platform, **plan.decisions())
    else:
        plan = tuned.resolve("as_strided", problem, platform, heuristic) or heuristic(problem, platform)
    reach = 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    return _Call(size, stride, offset * itemsize, reach * itemsize, plan, KERNELS[plan.kernel], ELEMENT[plan.width])


def _run(self: torch.Tensor, call: _Call, result: torch.Tensor) -> None:
    """Launch a planned call; `result` is dense in the order of the plan."""
    plan = call.plan
    assert plan is not None
    storage = self.untyped_storage()
    low = storage.data_ptr()
    high = low + storage.nbytes()
    source = low + call.start
    target = result.data_ptr()
    target_end = target + result.numel() * result.element_size()
    read = Pointer(source, call.element, low, high, self)
    written = Pointer(target, call.element, target, target_end, result)
    arguments = (read, written, *plan.args)
    if not plan.host:
        launch(call.kernel, plan.grid, arguments, plan.constexprs, multibuffer=True, device=self.device)
        return
    # The host walks what a kernel cannot: dimensions beyond its outer ones.
    for index in itertools.product(*[range(count) for count, _, _ in plan.host]):
        read.address = source + sum(i * step for i, (_, step, _) in zip(index, plan.host, strict=True))
        written.address = target + sum(i * step for i, (_, _, step) in zip(index, plan.host, strict=True))
        launch(call.kernel, plan.grid, arguments, plan.constexprs, multibuffer=True, device=self.device)


def _write(self: torch.Tensor, call: _Call, out: torch.Tensor, plan: AsStridedPlan | None) -> torch.Tensor:
    """Put the result into `out` under torch's rules."""
    check_out(self, out)
    # The source may be what is resized: hold on to its storage as it is now.
    source = self.detach()
    out_rules.resize(out, call.size)
    out_rules.refuse_internal_overlap(out)
    out_rules.refuse_missing_memory(out)
    if call.plan is None:
        return out
    if _written_directly(source, call, out):
        _run(source, _reordered(source, call, out, plan), out)
    else:
        if plan is not None:
            call = _call(source, call.size, call.stride, call.start // source.element_size(), plan)
        temporary = torch.empty(call.size, dtype=source.dtype, device=source.device)
        _run(source, call, temporary)
        if _is_plain(out):
            _run(temporary, _reordered(temporary, _call(temporary, call.size, temporary.stride(), 0), out), out)
        elif out.is_conj() or out.is_neg():
            out.copy_(temporary)
        else:
            _copy_bits(temporary, out)
    autograd.mark_written(out)
    return out


def _copy_bits(source: torch.Tensor, target: torch.Tensor) -> None:
    """torch's own strided store, into a target with holes. As integers: a copy of bools would make any byte 0 or 1."""
    if source.dtype.is_complex:
        source, target = torch.view_as_real(source), torch.view_as_real(target)
    word = _WORD[source.element_size()]
    target.view(word).copy_(source.view(word))


def _is_plain(out: torch.Tensor) -> bool:
    """Whether the kernels can write `out`: without holes, in any order of its dimensions."""
    return out_rules.is_dense(out) and not out.is_conj() and not out.is_neg()


def _written_directly(self: torch.Tensor, call: _Call, out: torch.Tensor) -> bool:
    """Whether `out` can take the result as it is computed: it is plain and shares no memory with what is read."""
    low, high = out_rules.memory_range(out)
    first = self.untyped_storage().data_ptr() + call.start
    return _is_plain(out) and (high <= first or first + call.reach <= low)


def _reordered(self: torch.Tensor, call: _Call, out: torch.Tensor, plan: AsStridedPlan | None = None) -> _Call:
    """The call with its dimensions in the order in which `out` lies in memory."""
    if plan is None and out.is_contiguous() and out.data_ptr() % 16 == 0:
        return call
    steps = out.stride()
    order = sorted(range(len(call.size)), key=lambda dim: -steps[dim])
    size = tuple(call.size[dim] for dim in order)
    stride = tuple(call.stride[dim] for dim in order)
    return _call(self, size, stride, call.start // self.element_size(), plan, _low_bit(out.data_ptr() | 16))
