"""Lets existing code reach this project's operators through torch's own names, inside a with block."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ops import library

_DISPATCH_KEYS = {"npu": "PrivateUse1", "cpu": "CPU"}


@contextmanager
def override_aten(devices: str | Sequence[str] = ("npu",)) -> Iterator[None]:
    """Serve torch.gcd, Tensor.gcd, gcd_ and torch.as_strided_copy, with their out variants, by this project.

    >>> with override_aten(devices=("cpu",)):
    ...     torch.gcd(torch.tensor([12.5, 18.0]), torch.tensor([8.0, 27.0]))
    tensor([4., 9.])

    devices: "npu", "cpu" or a sequence of them; tensors elsewhere are not affected. Registrations are the process's:
    other threads see them too, and blocks may nest. On leaving, also by an exception, torch's own kernels serve again.
    Dtypes, results and errors inside are those of `ops.gcd` and `ops.as_strided`; derivatives stay torch's.
    torch.as_strided is a view, never a copy, and is not touched; neither is code torch.compile has already traced.
    Raises ValueError for another device.
    Source: torch.library.Library, "IMPL" of the aten namespace.
    """
    devices = (devices,) if isinstance(devices, str) else devices
    unknown = [device for device in devices if device not in _DISPATCH_KEYS]
    if unknown:
        raise ValueError(f"cannot override aten on {', '.join(map(repr, unknown))}: expected 'npu' or 'cpu'")
    with torch.library._scoped_library("aten", "IMPL") as registrations:
        with warnings.catch_warnings():
            # Displacing a kernel is what was asked for.
            warnings.filterwarnings("ignore", message="Warning only once for all operators", category=UserWarning)
            for device in dict.fromkeys(devices):
                for name, kernel in library.KERNELS.items():
                    registrations.impl(name, kernel, _DISPATCH_KEYS[device])
        yield
