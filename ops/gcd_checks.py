"""Which calls of gcd are refused, with torch's exception types and texts, before anything is written."""

from __future__ import annotations

import torch

from ops import device as devices
from ops import out as outs
from tiling.gcd import GcdPlan, GcdProblem

COMPUTE: dict[torch.dtype, str] = {
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
}
LOADED = COMPUTE | {torch.bool: "bool"}
STORED = COMPUTE | {torch.uint16: "uint16", torch.uint32: "uint32", torch.uint64: "uint64"}

# How torch's messages call dtypes; those not here are capitalised (float8_e5m2 is Float8_e5m2).
_NAMES: dict[torch.dtype, str] = {
    torch.bool: "Bool",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype in torch's error texts.

    >>> dtype_name(torch.float64)
    'Double'
    """
    return _NAMES.get(dtype) or str(dtype).removeprefix("torch.").capitalize()


def types(self: object, other: object, out: object = None) -> None:
    """Raise torch's TypeError for what is no tensor."""
    named = [("'input' (position 1)", self), ("'other' (position 2)", other)]
    if out is not None:
        named.append(("'out'", out))
    for name, value in named:
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"gcd(): argument {name} must be Tensor, not {type(value).__name__}")


def operands(self: object, other: object, out: object = None) -> None:
    """Raise TypeError for what is no tensor, NotImplementedError for a sparse, nested or quantized one, RuntimeError
    for mixed devices or for memory that a tensor no longer has."""
    types(self, other, out)
    tensors = [tensor for tensor in (self, other, out) if isinstance(tensor, torch.Tensor)]
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise NotImplementedError(f"gcd is not implemented for tensors of layout {tensor.layout}")
        if tensor.is_nested:
            raise NotImplementedError("gcd is not implemented for nested tensors")
        if tensor.is_quantized:
            raise NotImplementedError(f"gcd is not implemented for quantized tensors, here {tensor.dtype}")
    # torch lets a 0-d operand stay on the CPU.
    placed = [t.device for t in tensors if t is out or t.dim() > 0 or t.device.type != "cpu"] or [tensors[0].device]
    if len(set(placed)) > 1:
        found = " and ".join(dict.fromkeys(str(device) for device in placed))
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {found}!")
    for tensor in tensors:
        if devices.is_served(tensor.device):
            outs.refuse_missing_memory(tensor)
    if not devices.is_served(placed[0]):
        raise NotImplementedError(f"gcd runs on tensors on 'npu' or 'cpu', not on {placed[0].type!r}")


def promoted(self: torch.Tensor, other: torch.Tensor) -> torch.dtype:
    """torch.result_type of the operands. Raises NotImplementedError, naming the dtype, unless it is one of the eight.

    A uint16, uint32 or uint64 beside another integer raises torch's own RuntimeError.
    """
    dtype = torch.result_type(self, other)
    refused = [dtype] if dtype not in COMPUTE else [x.dtype for x in (self, other) if x.dim() and x.dtype not in LOADED]
    if refused:
        raise NotImplementedError(f"\"gcd\" not implemented for '{dtype_name(refused[0])}'")
    return dtype


def loadable(self: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands, negative views resolved, and a 0-d one cast to the dtype computed in if no kernel does that.

    None loads uint16 or float64, and none narrows what is not a scalar, as a 0-d operand beside an expanded tensor is.
    Such a 0-d operand does not raise the dtype inside its category: int8[n] with a 0-d uint16 is int8, as in torch.
    """
    self, other = self.resolve_neg(), other.resolve_neg()
    dtype = torch.result_type(self, other)
    if dtype not in COMPUTE:
        return self, other
    return _cast_alone(self, other, dtype), _cast_alone(other, self, dtype)


def _cast_alone(operand: torch.Tensor, beside: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    cast = operand.dim() == 0 and (operand.dtype not in LOADED or outs.is_expanded(beside))
    return operand.to(dtype) if cast else operand


def broadcast(self: torch.Tensor, other: torch.Tensor) -> torch.Size:
    """The shape both operands broadcast to. Raises torch's RuntimeError if there is none."""
    a, b = tuple(self.shape), tuple(other.shape)
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    shape = []
    for dim, (m, n) in enumerate(zip(a, b, strict=True)):
        if m != n and m != 1 and n != 1:
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {dim}"
            )
        shape.append(n if m == 1 else m)
    return torch.Size(shape)


def keeps_shape(out: torch.Tensor, shape: torch.Size) -> None:
    """Raise torch's RuntimeError if `out`, an operand, would have to be resized to the result's shape."""
    if out.shape != shape:
        raise RuntimeError(f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(shape)}")


def planned(plan: object, problem: GcdProblem) -> None:
    """Raise TypeError if `plan=` is neither a plan nor None, ValueError if it is one for another problem."""
    if plan is None:
        return
    if not isinstance(plan, GcdPlan):
        raise TypeError(f"gcd(): argument 'plan' must be GcdPlan, not {type(plan).__name__}")
    if plan.problem != problem:
        raise ValueError(f"the plan was made for {plan.problem!r}, this call is {problem!r}")


def castable(result: torch.dtype, out: torch.dtype) -> None:
    """Raise torch's RuntimeError if a result cannot be cast to out's dtype.

    The eight dtypes and uint16, uint32 and uint64 always can (wider than torch's rule), others if torch says so.
    """
    if out not in STORED and not torch.can_cast(result, out):
        raise RuntimeError(
            f"result type {dtype_name(result)} can't be cast to the desired output type {dtype_name(out)}"
        )


def writable(out: torch.Tensor, self: torch.Tensor, other: torch.Tensor) -> None:
    """Raise torch's RuntimeError for an out that overlaps itself, or an operand in part."""
    outs.refuse_internal_overlap(out)
    outs.refuse_partial_overlap(out, self)
    outs.refuse_partial_overlap(out, other)


def must_wait(out: torch.Tensor, operand: torch.Tensor) -> bool:
    """Whether writing out while the operand is read could change what is read.

    Exactly the same view can be written in place. Anything else that shares memory, which torch does not look into
    (views with holes, expanded operands, another dtype), is computed into a temporary first.
    """
    if operand is out:
        return False
    mine, theirs = outs.memory_range(out), outs.memory_range(operand)
    if mine[0] >= theirs[1] or theirs[0] >= mine[1]:
        return False
    same = mine == theirs and out.dtype is operand.dtype
    return not (same and out.shape == operand.shape and out.stride() == operand.stride())
