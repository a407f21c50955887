"""Runs one kernel at both levels of the emulator on the same data."""

from __future__ import annotations

from typing import Any

import torch

import emulator

LEVELS = ("linalg", "device")


def outputs(kernel: Any, grid: tuple[int, ...], out: torch.Tensor, *arguments: Any, **constexprs: Any) -> list[Any]:
    """The output of `kernel[grid](*arguments, out, ...)` at the linalg level and at the device level."""
    results = []
    for level in LEVELS:
        result = out.clone()
        with emulator.route(level):
            kernel[grid](*arguments, result, **constexprs)
        results.append(result)
    return results


def differing(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many elements differ in any bit."""
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return int((a.view(kind) != b.view(kind)).sum())
