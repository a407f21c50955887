"""Whether a call has to go through PyTorch's dispatcher instead of straight to a plan.

A plain call of `ops.gcd` or `ops.as_strided` on plain tensors skips the dispatcher. Under torch.compile, torch.export,
torch.func, a dispatch mode or on a tensor subclass, the same call has to be one operator of PyTorch's, so that the
tracer, the transform or the subclass sees it: the public functions then call `torch.ops.ascend_ops`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.overrides import has_torch_function

from ops import autograd, gcd_checks
from ops.as_strided_checks import read_arguments


def active(*tensors: object) -> bool:
    """Whether anything of PyTorch's wants to see a call on `tensors` as an operator.

    True under a tracer, forward-mode AD, a torch.func transform, a torch_dispatch or torch_function mode, for meta
    tensors and for tensor subclasses; False for anything that is not a tensor. Costs about 0.5 us.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or has_torch_function(tensors)
        or any(_dispatches(tensor) for tensor in tensors)
    )


def _dispatches(tensor: object) -> bool:
    if type(tensor) is torch.Tensor:
        return tensor.is_meta
    if not isinstance(tensor, torch.Tensor):
        return False
    return tensor.is_meta or torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python)


def gcd(self: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """`ops.gcd` as one operator of PyTorch's."""
    gcd_checks.types(self, other, out)
    _teach_sharding()
    operator = torch.ops.ascend_ops.gcd
    return operator(self, other) if out is None else operator.out(self, other, out=out)


def gcd_(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`ops.gcd_` as one operator of PyTorch's."""
    gcd_checks.types(self, other)
    _teach_sharding()
    return torch.ops.ascend_ops.gcd_(self, other)


def as_strided(
    self: torch.Tensor,
    size: Sequence[int] | torch.Tensor,
    stride: Sequence[int] | torch.Tensor,
    storage_offset: int | torch.Tensor | None,
    out: torch.Tensor | None,
) -> torch.Tensor:
    """`ops.as_strided` as one operator of PyTorch's; under torch.func, as a function with rules of its own."""
    sizes: Any = size
    strides: Any = stride
    offset: Any = storage_offset
    if not (torch.compiler.is_compiling() or symbolic(size) or symbolic(stride) or symbolic((storage_offset,))):
        sizes, strides, offset = read_arguments(size, stride, storage_offset)
    operator = torch.ops.ascend_ops.as_strided_copy
    if out is not None:
        return operator.out(self, sizes, strides, offset, out=out)
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        return autograd.as_strided(self, sizes, strides, offset, operator.default)
    return operator.default(self, sizes, strides, offset)


def symbolic(values: object) -> bool:
    """Whether a tracer's symbols are among `values`: those stay what they are, unread."""
    return isinstance(values, Sequence) and any(isinstance(value, torch.SymInt) for value in values)


def _teach_sharding() -> None:
    """Registers how gcd is sharded, once something has imported DTensor. A traced call finds it done by then."""
    if not torch.compiler.is_compiling() and "torch.distributed.tensor" in sys.modules:
        importlib.import_module("ops.sharding")
