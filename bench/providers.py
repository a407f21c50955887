"""Who runs a case: this project, the library's built-in operator, and the measured roofs beside them.

A provider turns a case and its tensors into a function without arguments, ready to be timed. What a provider cannot
run it refuses with `RefusalError`, so that a row says n/a and why.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench.cases import AsStridedCase, Case, GcdCase
from bench.inputs import Inputs, torch_dtype

PROJECT = "this project"
BUILTIN = "torch"
COPY_ROOF = "contiguous copy"
ADD_ROOF = "elementwise add"
MEMORY_FLOOR = "memory floor"  # of a modelled figure: the case's bytes at the bandwidth of the cost table

Call = Callable[[], torch.Tensor]


class RefusalError(Exception):
    """A provider that does not run a case; the text says why, in the provider's own words."""


@dataclass(frozen=True)
class Provider:
    """A name for tables and results, and how it runs a case."""

    name: str
    prepare: Callable[[Case, Inputs], Call]


def _operators() -> Any:
    """The package of the operators, imported at the first call: the built-in and the roofs are timed without it."""
    return importlib.import_module("ops")


def project_call(case: Case, inputs: Inputs) -> Call:
    """This project's operator on the tensors."""
    ops = _operators()
    if isinstance(case, AsStridedCase):
        (storage,) = inputs.tensors
        return lambda: ops.as_strided(storage, case.size, case.stride, case.offset)
    lhs, rhs = inputs.tensors
    if inputs.out is None:
        return lambda: ops.gcd(lhs, rhs)
    return lambda: ops.gcd(lhs, rhs, out=inputs.out)


def project_plan_object(case: Case, inputs: Inputs) -> Any:
    """The plan that the project makes for the case; None for an empty result."""
    if case.elements == 0:
        return None
    ops = _operators()
    if isinstance(case, AsStridedCase):
        return ops.plan_as_strided(inputs.tensors[0], case.size, case.stride, case.offset)
    return ops.plan_gcd(*inputs.tensors, out=inputs.out)


def project_plan(case: Case, inputs: Inputs) -> str:
    """Kernel and decisions that the project plans for the case, on one line."""
    plan = project_plan_object(case, inputs)
    return "empty: nothing is launched" if plan is None else describe_plan(plan)


def describe_plan(plan: Any) -> str:
    """`kernel(decision=value, ...)` of any plan."""
    decisions = plan.decisions()
    shown = ", ".join(f"{name}={value}" for name, value in decisions.items() if name != "kernel")
    return f"{plan.kernel}({shown})"


def builtin_call(case: Case, inputs: Inputs) -> Call:
    """The library's own operator: torch.gcd, or the as_strided view made contiguous.

    `.contiguous()` of a view that is contiguous copies nothing, so the copy is asked for by clone.
    """
    if isinstance(case, AsStridedCase):
        (storage,) = inputs.tensors
        return lambda: torch.as_strided(storage, case.size, case.stride, case.offset).clone(
            memory_format=torch.contiguous_format
        )
    lhs, rhs = inputs.tensors
    out = inputs.out
    call: Call = (lambda: torch.gcd(lhs, rhs)) if out is None else (lambda: torch.gcd(lhs, rhs, out=out))
    try:
        with warnings.catch_warnings(record=True):
            call()
    except (NotImplementedError, RuntimeError) as error:
        # Some dtypes are refused by the built-in; a fault of another kind says so in the same place.
        raise RefusalError(str(error).splitlines()[0]) from error
    return call


def roof_call(case: Case, inputs: Inputs) -> Call:
    """What bounds the case from below on this device: a contiguous copy of its bytes, or an elementwise add.

    as_strided: a copy of half the case's bytes, which reads and writes all of them. gcd: an add of tensors of the
    same shapes and dtypes, which moves the same bytes and computes next to nothing.
    """
    if isinstance(case, GcdCase):
        lhs, rhs = inputs.tensors
        result = torch.empty(case.size, dtype=torch.result_type(lhs, rhs), device=lhs.device)
        return lambda: torch.add(lhs, rhs, out=result)
    (storage,) = inputs.tensors
    count = case.bytes // (2 * torch_dtype(case.dtype).itemsize)
    source = torch.zeros(max(1, count), dtype=storage.dtype, device=storage.device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def roof_name(case: Case) -> str:
    """Which roof stands beside the case."""
    return ADD_ROOF if isinstance(case, GcdCase) else COPY_ROOF


PROVIDERS: tuple[Provider, ...] = (Provider(PROJECT, project_call), Provider(BUILTIN, builtin_call))

_FALLBACK = re.compile(r"is not (?:currently )?supported (?:by|on) (?:the )?NPU", re.IGNORECASE)


def name_builtin(kernels: Sequence[str], warned: Sequence[str] = ()) -> str:
    """What torch_npu's built-in really ran, from the kernels its profiler saw and the warnings it gave.

    gcd runs an aclnn kernel or falls back to the CPU with one warning; as_strided runs AsStrided (with Transpose when
    the last stride is 256 or more), ViewCopy for tiny outputs, or the copy kernel of aclnnInplaceCopy.

        >>> name_builtin(["aclnnGcd_Gcd_Gcd"])
        'aclnnGcd'
        >>> name_builtin(["AsStrided", "Transpose"])
        'AsStrided + Transpose'
        >>> name_builtin([], ["kernel [gcd.out] is not supported by NPU currently"])
        'CPU fallback'
    """
    if any(_FALLBACK.search(text) for text in warned):
        return "CPU fallback"
    if not kernels:
        return "no kernel on the device (CPU fallback?)"
    return " + ".join(dict.fromkeys(_short_kernel_name(name) for name in kernels))


def _short_kernel_name(name: str) -> str:
    """aclnnGcd_GcdAiCore_Gcd -> aclnnGcd; AsStrided_1a2b3c_high_performance -> AsStrided; others as they are."""
    return re.sub(r"(?:AiCore|AiCpu)?(?:_.*|\d+)?$", "", name) or name
