"""Arguments that must be refused, and a guarded output: shared by the tests of bad input and of hostile calls."""

from __future__ import annotations

import numpy as np
import torch

SENTINEL = 77


def guarded(size: int = 6, dtype: torch.dtype = torch.int32) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in the middle of a buffer of sentinels, and the buffer."""
    buffer = torch.full((size + 64,), SENTINEL, dtype=dtype)
    return buffer[32 : 32 + size], buffer


def ints(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def sparse() -> torch.Tensor:
    return torch.eye(6, dtype=torch.int32).to_sparse()


def compressed() -> torch.Tensor:
    return torch.eye(6, dtype=torch.int32).to_sparse_csr()


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.arange(6.0), 1.0, 0, torch.quint8)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.arange(3), torch.arange(2)])


def mkldnn() -> torch.Tensor:
    return torch.arange(6.0).to_mkldnn()


def meta() -> torch.Tensor:
    return torch.empty(6, dtype=torch.int32, device="meta")


def deleted() -> torch.Tensor:
    x = ints(6)
    x.untyped_storage().resize_(0)
    return x


def half_deleted() -> torch.Tensor:
    x = ints(6)
    x.untyped_storage().resize_(12)
    return x


def readable(tensor: torch.Tensor) -> bool:
    """Whether a tensor has plain elements, and memory for all of them."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta or tensor.is_quantized:
        return False
    last = tensor.storage_offset() + sum(
        (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return (last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()
