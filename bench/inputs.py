"""Tensors for a case and the check of a result against the exact reference. Seeds follow from the case's id."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import torch

from bench.cases import AsStridedCase, Case, GcdCase, Shape
from ops.reference import gcd_reference


@dataclass(frozen=True)
class Inputs:
    """Tensors of one call: (self, other) for gcd, (self,) for as_strided, and a given out tensor, if any."""

    tensors: tuple[torch.Tensor, ...]
    out: torch.Tensor | None = None


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of that name."""
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name!r} is not a torch dtype")
    return dtype


def make_inputs(case: Case, device: torch.device) -> Inputs:
    """Tensors for the case on a device: the same values every time and on every machine."""
    seed = zlib.crc32(case.id.encode())
    generator = np.random.default_rng(seed)
    if isinstance(case, AsStridedCase):
        return Inputs((_storage(case, generator).to(device),))
    pairs = zip(case.shapes, case.dtypes, strict=True)
    lhs, rhs = (_operand(shape, dtype, case, generator, device) for shape, dtype in pairs)
    out = None if case.out is None else torch.empty(case.size, dtype=torch_dtype(case.out), device=device)
    return Inputs((lhs, rhs), out)


def _storage(case: AsStridedCase, generator: np.random.Generator) -> torch.Tensor:
    dtype = torch_dtype(case.dtype)
    count = max(1, case.offset + case.span)
    raw = torch.from_numpy(generator.integers(0, 256, count * dtype.itemsize, dtype=np.uint8))
    # A bool holds 0 or 1 here; that other bytes survive is tested elsewhere.
    return (raw & 1).view(torch.bool) if dtype == torch.bool else raw.view(dtype)


def _operand(
    shape: Shape, dtype: str, case: GcdCase, generator: np.random.Generator, device: torch.device
) -> torch.Tensor:
    if case.layout == "transposed" and len(shape) >= 2:
        swapped = (*shape[:-2], shape[-1], shape[-2])
        return _values(swapped, dtype, case.bits, generator).to(device).transpose(-1, -2)
    if case.layout == "sliced" and shape:
        longer = (*shape[:-1], shape[-1] + 23)
        return _values(longer, dtype, case.bits, generator).to(device)[..., : shape[-1]]
    return _values(shape, dtype, case.bits, generator).to(device)


def _values(shape: Shape, dtype: str, bits: int | None, generator: np.random.Generator) -> torch.Tensor:
    kind = torch_dtype(dtype)
    if kind.is_floating_point:
        # Integers below 2^15 are finite in every float dtype; float32 and bfloat16 reach 2^24 without losing any.
        limit = 1 << (bits or (15 if kind == torch.float16 else 24))
        low, high = -limit + 1, limit - 1
    else:
        info = torch.iinfo(kind)
        low, high = info.min, info.max
        if bits is not None:
            low, high = max(low, -(1 << bits) + 1), min(high, (1 << bits) - 1)
    integers = generator.integers(low, high, size=shape, dtype=np.int64, endpoint=True)
    return torch.from_numpy(np.asarray(integers)).to(kind)


def expected(case: Case, inputs: Inputs) -> torch.Tensor:
    """The exact result on the CPU, from code that shares nothing with the kernels."""
    if isinstance(case, AsStridedCase):
        storage = inputs.tensors[0].cpu()
        view = torch.as_strided(storage, case.size, case.stride, case.offset)
        return view.clone(memory_format=torch.contiguous_format)
    lhs, rhs = (tensor.cpu() for tensor in inputs.tensors)
    return gcd_reference(lhs, rhs, None if case.out is None else torch_dtype(case.out))


def wrong_elements(actual: torch.Tensor, reference: torch.Tensor, any_nan: bool = False) -> int:
    """How many elements differ in any bit; all of them if shape or dtype differ. `any_nan`: NaNs equal each other."""
    actual = actual.cpu()
    if actual.shape != reference.shape or actual.dtype != reference.dtype:
        return max(1, reference.numel())
    if reference.numel() == 0:
        return 0
    left, right = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (actual, reference))
    if torch.equal(left, right):
        return 0
    differing = (left != right).reshape(-1, reference.dtype.itemsize).any(dim=1)
    if any_nan:
        differing &= ~(torch.isnan(actual) & torch.isnan(reference)).reshape(-1)
    return int(differing.sum())


def wrong_results(case: Case, actual: torch.Tensor, reference: torch.Tensor) -> int:
    """How many results of a case are wrong. A copy keeps the bits of a NaN; the NaN that gcd makes may be any."""
    return wrong_elements(actual, reference, any_nan=isinstance(case, GcdCase))
