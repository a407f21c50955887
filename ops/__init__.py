"""Gcd and AsStrided on torch tensors, computed by Triton-Ascend kernels.

>>> import torch, ops
>>> ops.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))
tensor([4, 9])
>>> ops.as_strided(torch.arange(6), (2, 2), (1, 2))
tensor([[0, 2],
        [1, 3]])
"""

from ops import toolchain as _toolchain

_toolchain.require_triton_ascend()

from ops import library as _library  # noqa: E402, F401 - registers the custom operators
from ops.as_strided import as_strided, plan_as_strided  # noqa: E402 - only with the right triton installed
from ops.gcd import gcd, gcd_, plan_gcd  # noqa: E402
from ops.override import override_aten  # noqa: E402
from ops.precompile import precompile  # noqa: E402

__all__ = ["as_strided", "gcd", "gcd_", "override_aten", "plan_as_strided", "plan_gcd", "precompile"]
