"""What the tests of as_strided share: bytes of a tensor, storages of random bytes, expected bytes, random layouts."""

from __future__ import annotations

import ctypes
import math
import random

import numpy as np
import torch

from ops.reference import as_strided_reference

WIDTHS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}

POISON = 0xEE


def bits(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's elements as rows of bytes, read from memory so that no value is interpreted."""
    dense = tensor.contiguous()
    raw = ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size())
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, dense.element_size())


def random_storage(rng: random.Random, elements: int, dtype: torch.dtype) -> torch.Tensor:
    """A one-dimensional tensor of random bytes: every bit pattern of every dtype occurs."""
    generator = np.random.default_rng(rng.getrandbits(32))
    raw = torch.from_numpy(generator.integers(0, 256, elements * dtype.itemsize, dtype=np.uint8))
    return raw.clone().view(dtype)


def storage_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The whole storage behind a tensor, as rows of its dtype's bytes."""
    storage = tensor.untyped_storage()
    raw = np.frombuffer(ctypes.string_at(storage.data_ptr(), storage.nbytes()), dtype=np.uint8)
    itemsize = tensor.dtype.itemsize
    return raw[: raw.size // itemsize * itemsize].reshape(-1, itemsize)


def expected_bits(tensor: torch.Tensor, size, stride, offset: int) -> np.ndarray:
    """What as_strided must give, byte by byte, from the reference."""
    raw = storage_bytes(tensor)
    picked = as_strided_reference(np.arange(len(raw)), size, stride, offset).reshape(-1)
    return raw[picked]


def reach(size, stride, offset: int = 0) -> int:
    """Elements a storage needs for a view."""
    return offset + 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))


def poison_outside(tensor: torch.Tensor, size, stride, offset: int) -> None:
    """Overwrite every element of a 1-d tensor that a view does not visit."""
    kept = np.zeros(tensor.numel(), dtype=bool)
    kept[as_strided_reference(np.arange(tensor.numel()), size, stride, offset)] = True
    raw = tensor.view(torch.uint8).numpy().reshape(tensor.numel(), -1)
    raw[~kept] = POISON


KINDS = ("dense", "permuted", "sliding", "zero", "step", "diagonal", "arbitrary", "long")


def random_layout(rng: random.Random) -> tuple[str, tuple[int, ...], tuple[int, ...], int]:
    """A kind of layout, then a size, stride and offset of that kind: rank 1 to 8, at most 20,000 elements."""
    kind = rng.choice(KINDS)
    rank = rng.choice([1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8])
    extents = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33] if rank < 6 else [1, 2, 2, 3, 3, 4]
    if kind == "long":
        extents = [1, 2, 3, 50, 300]
    size = [1] * rank
    while not 1 < math.prod(size) <= 20_000:
        size = [rng.choice(extents) for _ in range(rank)]
    stride = [0] * rank
    order = list(reversed(range(rank)))
    if kind == "permuted":
        rng.shuffle(order)
    step = {"step": rng.choice([2, 2, 3, 4, 7, 8]), "long": rng.choice([1, 1, 2, 3])}.get(kind, 1)
    for dim in order:
        if kind == "zero" and rng.random() < 0.5:
            continue
        stride[dim] = step
        step *= size[dim] * rng.choice([1, 1, 2] if kind in ("long", "step") else [1])
        step += rng.choice([0, 0, 1, 5]) if kind in ("permuted", "dense") else 0
    if kind == "sliding":
        stride = [rng.choice([1, 1, 2]) for _ in range(rank)]
    elif kind == "diagonal":
        stride = [rng.choice([33, 129, 1001]) + dim for dim in range(rank)]
    elif kind == "arbitrary":
        stride = [rng.choice([0, 1, 2, 3, 5, 40, 1000]) for _ in range(rank)]
    return kind, tuple(size), tuple(stride), rng.choice([0, 0, 1, 8, 13, 16])
