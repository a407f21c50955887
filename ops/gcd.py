"""`ops.gcd`: from tensors to a problem, from a problem to a plan, from a plan to a launch."""

from __future__ import annotations

from typing import Any

import torch

import tiling.gcd
from ops import autograd, transforms
from ops import device as devices
from ops import gcd_checks as checks
from ops import out as outs
from ops.gcd_launch import Ready
from tiling import layout, tuned
from tiling.gcd import GcdPlan, GcdProblem


def gcd(
    self: torch.Tensor, other: torch.Tensor, *, out: torch.Tensor | None = None, plan: GcdPlan | None = None
) -> torch.Tensor:
    """Element-wise greatest common divisor, broadcasting.

    >>> gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))
    tensor([4, 9])

    self, other: int8, uint8, int16, int32, int64, float16, bfloat16 or float32, any mix, any shape and strides; bool
        beside another of them. Negative views are resolved first.
    out: a tensor of any of these dtypes, uint16, uint32 or uint64 (integers are stored modulo 2^n, NaN as 0), or any
        other dtype torch can cast the result to, which costs one temporary. It is resized if its shape differs, unless
        it is an operand too.
    plan: what `plan_gcd` returned for the same call, possibly changed.

    Computed in torch.result_type(self, other). Integers: the gcd of the magnitudes, where 2^(n-1) wraps to -2^(n-1).
    Floats: magnitudes are truncated and saturate at 2^64 - 1; NaN or Inf gives NaN. gcd(0, 0) = 0. Returns `out` or a
    new tensor, dense, in the memory order of the operands if they share one. Not differentiable.

    Raises torch's TypeError, RuntimeError and NotImplementedError, all before anything is written; TypeError for what
    is no plan, ValueError for another call's. Source: torch.gcd, and the documented Ascend C operator Gcd.
    """
    tensors = (self, other) if out is None else (self, other, out)
    if transforms.active(*tensors):
        return transforms.gcd(self, other, out)
    if out is not None:
        autograd.refuse_writing("gcd", *tensors)
    return compute(self, other, out, plan)


def gcd_(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`gcd(self, other)` written into `self`, whose shape must be the broadcast one.

    >>> a = torch.tensor([12, 18])
    >>> gcd_(a, torch.tensor(8))
    tensor([4, 2])

    Computed in torch.result_type(self, other), cast to self's dtype. Raises as `gcd`, and torch's RuntimeError if
    `self` is expanded or smaller than the result. Source: torch.Tensor.gcd_.
    """
    if transforms.active(self, other):
        return transforms.gcd_(self, other)
    autograd.refuse_in_place("gcd_", self)
    return compute_(self, other)


def plan_gcd(self: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None = None) -> GcdPlan:
    """The plan `gcd(self, other, out=out)` would run with; nothing is launched or written.

    >>> plan_gcd(torch.ones(1000, 1000).int(), torch.ones(1000).int()).kernel
    'gcd_tiled'

    Raises as `gcd`, and ValueError for an empty result, which needs no plan.
    """
    _, _, call = _validated(self, other, out)
    return _plan_of(call.problem, call.device)


def compute(
    self: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None = None, plan: GcdPlan | None = None
) -> torch.Tensor:
    """`gcd` below autograd and transforms."""
    if out is not None or plan is not None:
        return _compute_into(self, other, out, plan)
    _follow_tunings()
    try:
        key = (
            self.dtype,
            other.dtype,
            self.shape,
            other.shape,
            self.stride(),
            other.stride(),
            self.device,
            other.device,
        )
        ready = None if self.is_neg() or other.is_neg() else _ready.get(key)
    except (AttributeError, RuntimeError):  # no tensor, or one without strides: the checks say what it is
        ready = None
    if ready is None:
        first, second, call = _validated(self, other, None)
        if first is not self or second is not other:
            return compute(first, second)
        # What cannot be allocated is torch's error, not the planner's.
        torch.empty_strided(call.shape, call.stride, dtype=call.dtype, device=call.device)
        ready = Ready(call, None if call.empty else _plan_of(call.problem, call.device))
        if len(_ready) >= _KEPT:
            _ready.clear()
        _ready[key] = ready
    result = torch.empty_strided(ready.shape, ready.stride, dtype=ready.dtype, device=ready.device)
    if ready.plan is not None:
        # A storage can be resized, to nothing even, since a call of the same key was checked.
        if self.untyped_storage().nbytes() < ready.needs[0] + self.storage_offset() * self.itemsize or (
            other.untyped_storage().nbytes() < ready.needs[1] + other.storage_offset() * other.itemsize
        ):
            checks.operands(self, other)
        ready.run(self, other, result)
    return result


def compute_(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`gcd_` below autograd and transforms."""
    if _repeat_into(self, other, self):
        return self
    checks.operands(self, other)
    checks.keeps_shape(self, checks.broadcast(self, other))
    return compute(self, other, self)


def result_stride(self: torch.Tensor, other: torch.Tensor) -> tuple[int, ...]:
    """Strides of the tensor `gcd(self, other)` makes: those of the operands if both have them and are dense."""
    if self.shape == other.shape and self.stride() == other.stride() and outs.is_dense(self):
        return tuple(self.stride())
    return layout.contiguous_strides(checks.broadcast(self, other))


class _Call:
    """A call that passed every check, and the problem it is."""

    __slots__ = ("device", "dtype", "empty", "needs", "problem", "shape", "stride")

    def __init__(self, self_: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None, dtype: torch.dtype) -> None:
        self.shape = checks.broadcast(self_, other)
        self.empty = 0 in self.shape
        self.device = other.device if self_.dim() == 0 and self_.device.type == "cpu" else self_.device
        self.dtype = dtype if out is None else out.dtype
        if out is None:
            self.stride = result_stride(self_, other)
        elif out.shape == self.shape:
            self.stride = tuple(out.stride())
        else:
            self.stride = layout.contiguous_strides(self.shape)
        self.needs = outs.span(self_), outs.span(other)
        self.problem = GcdProblem(
            self_dtype=checks.LOADED[self_.dtype],
            other_dtype=checks.LOADED[other.dtype],
            compute=checks.COMPUTE[dtype],
            out_dtype=str(self.dtype).removeprefix("torch."),
            shape=tuple(self.shape),
            self_stride=layout.broadcast_strides(self_.shape, self_.stride(), self.shape),
            other_stride=layout.broadcast_strides(other.shape, other.stride(), self.shape),
            out_stride=self.stride,
        )


def _validated(
    self: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, _Call]:
    """The operands as the kernels load them, and the call they make."""
    read_too = out is self or out is other
    checks.operands(self, other, out)
    self, other = checks.loadable(self, other)
    dtype = checks.promoted(self, other)
    call = _Call(self, other, out, dtype)
    if out is not None:
        if read_too:
            checks.keeps_shape(out, call.shape)
        checks.castable(dtype, out.dtype)
        checks.writable(out, self, other)
    return self, other, call


def _compute_into(
    self: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None, plan: GcdPlan | None
) -> torch.Tensor:
    if out is not None and plan is None and _repeat_into(self, other, out):
        return out
    given = self, other
    self, other, call = _validated(self, other, out)
    checks.planned(plan, call.problem)
    if out is None:
        out = torch.empty_strided(call.shape, call.stride, dtype=call.dtype, device=call.device)
        repeatable = False
    else:
        same_shape = out.shape == call.shape
        outs.resize(out, call.shape)
        repeatable = plan is None and same_shape and self is given[0] and other is given[1]
    if call.empty:
        return out
    if out.is_neg() or checks.must_wait(out, self) or checks.must_wait(out, other):
        # The same problem into memory of its own: nothing but bits is left to torch, and the sign of a negative view.
        between = torch.empty_strided(call.shape, call.stride, dtype=out.dtype, device=out.device)
        return out.copy_(_compute_into(self, other, between, plan))
    autograd.mark_written(out)
    key = (call.problem, call.device, plan)
    _follow_tunings()
    ready = _ready_into.get(key)
    if ready is None:
        ready = Ready(call, plan or _plan_of(call.problem, call.device))
        if len(_ready_into) >= _KEPT:
            _ready_into.clear()
        _ready_into[key] = ready
    if repeatable and not (self.is_neg() or other.is_neg()):
        if len(_repeats) >= _KEPT:
            _repeats.clear()
        _repeats[_key_into(self, other, out)] = _Repeat(ready, self, other, out)
    ready.run(self, other, out)
    return out


def _key_into(self: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> tuple[Any, ...]:
    return (
        *(self.dtype, other.dtype, out.dtype, self.shape, other.shape, out.shape),
        *(self.stride(), other.stride(), out.stride(), self.device, other.device, out.device),
    )


def _repeat_into(self: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> bool:
    """Run a call whose description was checked before, if its memory is as harmless as it can be: apart, or in place.

    False leaves everything to the checks.
    """
    _follow_tunings()
    try:
        repeat = None if self.is_neg() or other.is_neg() or out.is_neg() else _repeats.get(_key_into(self, other, out))
    except (AttributeError, RuntimeError):
        return False
    if repeat is None or not repeat.allowed(self, other, out):
        return False
    autograd.mark_written(out)
    repeat.ready.run(self, other, out)
    return True


def _plan_of(problem: GcdProblem, device: torch.device) -> GcdPlan:
    platform = devices.platform_of(device)
    return tuned.resolve("gcd", problem, platform, tiling.gcd.plan) or tiling.gcd.plan(problem, platform)


class _Repeat:
    """A call with an out that passed the checks, and what its memory must still be like."""

    __slots__ = ("in_place", "reach", "ready")

    def __init__(self, ready: Ready, self_: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> None:
        self.ready = ready
        self.reach = [end - start for start, end in map(outs.memory_range, (self_, other, out))]
        self.in_place = [
            x.dtype == out.dtype and x.shape == out.shape and x.stride() == out.stride() for x in (self_, other)
        ]

    def allowed(self, self_: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> bool:
        """Whether all memory is there, and each operand is apart from out or exactly out."""
        for tensor, reach in zip((self_, other, out), self.reach, strict=True):
            if tensor.untyped_storage().nbytes() < reach + tensor.storage_offset() * tensor.itemsize:
                return False
        start = out.data_ptr()
        end = start + self.reach[2]
        for operand, reach, in_place in zip((self_, other), self.reach, self.in_place, strict=False):
            at = operand.data_ptr()
            if at < end and start < at + reach and not (in_place and at == start):
                return False
        return True


_KEPT = 4096  # calls remembered; a program with more shapes than that pays for planning again now and then
_ready: dict[tuple[Any, ...], Ready] = {}
_ready_into: dict[tuple[Any, ...], Ready] = {}
_repeats: dict[tuple[Any, ...], _Repeat] = {}
_generation = -1


def _follow_tunings() -> None:
    """Forget every plan when the stored tunings have changed."""
    global _generation
    now = tuned.generation()
    if now != _generation:
        _ready.clear()
        _ready_into.clear()
        _repeats.clear()
        _generation = now
