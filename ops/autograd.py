"""The derivative of as_strided: what each element of storage receives from every place it was copied to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Forward = Callable[[torch.Tensor, Sequence[int], Sequence[int], int | None], torch.Tensor]


def as_strided(
    self: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None, forward: Forward
) -> torch.Tensor:
    """`forward(self, size, stride, storage_offset)` as one differentiable operation.

    >>> x = torch.arange(6.0, requires_grad=True)
    >>> copy = as_strided(x, (3, 4), (1, 1), None, lambda self, *view: self.detach().as_strided(*view).clone())
    >>> torch.autograd.grad(copy.sum(), x)[0]
    tensor([1., 2., 3., 3., 2., 1.])

    self: a floating or complex tensor of any layout torch.as_strided_copy takes. `forward` is called once, below
    autograd, on `self`. Overlapping elements accumulate in the order torch uses, so that gradients are equal bit for
    bit; backward, double backward and forward mode are supported. Raises what `forward` raises.
    Source: NOTE [ as_strided Backward and layout-aware/agnostic autograd ] in torch's FunctionsManual.cpp.
    """
    return _AsStrided.apply(self, size, stride, storage_offset, forward)  # type: ignore[no-untyped-call]


def refuse_writing(name: str, *tensors: object) -> None:
    """Raise torch's RuntimeError if a call may not write the last of `tensors`, its `out`.

    That is so if gradients are recorded and any of them requires them, and for an inference tensor outside
    torch.inference_mode. Whatever is not a tensor is left to other checks.
    """
    out = tensors[-1]
    if isinstance(out, torch.Tensor):
        _refuse_inference(out)
    if torch.is_grad_enabled() and any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )


def mark_written(tensor: torch.Tensor) -> None:
    """Tell autograd that a kernel has written `tensor`: a backward pass that saved it then refuses to use it."""
    if not tensor.is_inference():  # those have no version to count
        torch.autograd.graph.increment_version(tensor)


def refuse_in_place(name: str, self: object) -> None:
    """Raise RuntimeError if gradients are recorded and `self`, about to be overwritten by an operator without a
    derivative, requires them: torch's text for a leaf. So does an inference tensor outside torch.inference_mode."""
    if not isinstance(self, torch.Tensor):
        return
    _refuse_inference(self)
    if torch.is_grad_enabled() and self.requires_grad:
        if self.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        raise RuntimeError(f"{name}() has no derivative: it cannot overwrite a tensor that requires grad")


def _refuse_inference(tensor: torch.Tensor) -> None:
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed."
            "You can make a clone to get a normal tensor before doing inplace update."
            "See https://github.com/pytorch/rfcs/pull/17 for more details."
        )


class _AsStrided(torch.autograd.Function):
    @staticmethod
    def forward(
        self: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None,
        compute: Forward,
    ) -> torch.Tensor:
        return compute(self, size, stride, storage_offset)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        self, size, stride, storage_offset, compute = inputs
        ctx.view = (size, stride, storage_offset)
        ctx.layout = (self.size(), self.stride(), self.storage_offset())
        ctx.compute = compute

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        size, stride, storage_offset = ctx.view
        self_size, self_stride, self_offset = ctx.layout
        offset = self_offset if storage_offset is None else storage_offset
        grad = as_strided_backward(grads[0], self_size, self_stride, self_offset, size, stride, offset)
        return grad, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor) -> torch.Tensor:
        # A tangent has its primal's storage layout (torch copies it into one where it differs): the same view applies.
        size, stride, storage_offset = ctx.view
        return as_strided(tangents[0], size, stride, storage_offset, ctx.compute)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        self: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None,
        compute: Forward,
    ) -> tuple[torch.Tensor, int]:
        size, stride = batched_view(self, in_dims[0], size, stride)
        return as_strided(self, size, stride, storage_offset, compute), 0


def batched_view(
    self: torch.Tensor, dim: int | None, size: Sequence[int], stride: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Size and stride of the one view that holds the view of every sample of `self` along `dim`, samples first.

    A storage offset stays what it is: under vmap it counts from where the first sample counts, as in torch.
    """
    assert dim is not None, "vmap calls a rule only when its tensor is batched"
    return (self.size(dim), *size), (self.stride(dim), *stride)


def as_strided_backward(
    grad: torch.Tensor,
    self_size: Sequence[int],
    self_stride: Sequence[int],
    self_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> torch.Tensor:
    """Gradient of `self`, given the gradient of its as_strided copy.

    A storage of zeros receives `grad` through the copy's geometry, and is then seen through the input's. Both steps are
    torch's own differentiable operators (`index_add` where places overlap, an `as_strided` view otherwise): that is
    what torch does, hence equal bits, and what makes double backward work.
    Where the input itself overlaps, every element gets its share of the storage's gradient.
    """
    if 0 in size or 0 in self_size:
        return grad.new_zeros(self_size)
    grad, spread = _without_broadcast(grad, size, stride)
    seen = [(length, step) for length, step in zip(self_size, self_stride, strict=True) if length != 1]

    # Only the storage between the lower offset and the higher end takes part.
    start = min(self_offset, offset)
    length = max(_extent(seen, self_offset - start), _extent(spread, offset - start))
    storage = grad.new_zeros(length)
    if may_overlap(spread):
        storage = storage.index_add(0, _places(spread, offset - start, length, grad.device), grad.reshape(-1))
    else:
        storage.as_strided(_sizes(spread), _strides(spread), offset - start).copy_(grad)
    if may_overlap(seen):
        places = _places(seen, self_offset - start, length, grad.device)
        sharers = torch.zeros_like(storage).index_add(0, places, grad.new_ones(1).expand(places.shape))
        storage = storage / sharers  # 0 / 0 outside what the input shows: never read
    return storage.as_strided(self_size, self_stride, self_offset - start)


Dimensions = list[tuple[int, int]]


def _without_broadcast(
    grad: torch.Tensor, size: Sequence[int], stride: Sequence[int]
) -> tuple[torch.Tensor, Dimensions]:
    """`grad` summed over dimensions of stride 0 and without those of size 1; (size, stride) of what is left."""
    left: Dimensions = []
    for dim in reversed(range(len(size))):
        if size[dim] == 1:
            grad = grad.squeeze(dim)
        elif stride[dim] == 0:
            grad = grad.sum(dim)
        else:
            left.insert(0, (size[dim], stride[dim]))
    return grad, left


def may_overlap(dimensions: Dimensions) -> bool:
    """False if a cheap test proves that no two indices share an address: each stride passes all smaller dimensions.

    >>> may_overlap([(3, 1), (4, 1)]), may_overlap([(3, 4), (4, 1)])
    (True, False)
    """
    reach = 0
    for length, step in sorted(dimensions, key=lambda dimension: dimension[1]):
        if step <= reach:
            return True
        reach += step * (length - 1)
    return False


def _extent(dimensions: Dimensions, offset: int) -> int:
    """Elements of storage from 0 to the last one addressed, inclusive."""
    return offset + sum((length - 1) * step for length, step in dimensions) + 1


def _places(dimensions: Dimensions, offset: int, length: int, device: torch.device) -> torch.Tensor:
    """Storage index of every element, flat."""
    indices = torch.arange(length, device=device)
    return indices.as_strided(_sizes(dimensions), _strides(dimensions), offset).reshape(-1)


def _sizes(dimensions: Dimensions) -> list[int]:
    return [length for length, _ in dimensions]


def _strides(dimensions: Dimensions) -> list[int]:
    return [step for _, step in dimensions]
