"""Compiling ahead of the first call: which kernels a list of calls needs, and compiling those in parallel."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import torch

from ops import device as devices
from ops import launch
from ops.as_strided import ELEMENT, KERNELS, plan_as_strided
from ops.gcd import plan_gcd
from ops.gcd_launch import integers, kernel_of, pointer_dtypes
from tiling import as_strided, gcd, tuned
from tiling.as_strided import AsStridedPlan, AsStridedProblem
from tiling.gcd import GcdPlan, GcdProblem

Call = GcdProblem | AsStridedProblem | GcdPlan | AsStridedPlan | Sequence[Any]
Progress = Callable[[int, int, str], None]


def print_progress(done: int, total: int, name: str) -> None:
    """One line to stderr; on a terminal the same line again and again."""
    end = "\n" if done == total or not sys.stderr.isatty() else "\r"
    print(f"compiled {done}/{total} {name}".ljust(60), end=end, file=sys.stderr, flush=True)


def precompile(
    calls: Iterable[Call],
    *,
    device: torch.device | str | None = None,
    jobs: int | None = None,
    progress: Progress | None = print_progress,
) -> int:
    """Compile the kernels that `calls` will need, so that no first call waits for the compiler.

    >>> a = torch.zeros(1000, dtype=torch.int16)
    >>> precompile([(a, a), (a, (10, 10), (1, 10))], progress=None)
    2

    calls: problems or plans of `tiling`, or the tensors of a call: (self, other) for gcd, (self, size, stride) or
        (self, size, stride, storage_offset) for as_strided.
    device: for problems and plans, which carry none; by default an NPU if there is one, else the CPU. Tensors are
        compiled for where they are.
    jobs: how many compile at once; by default one per CPU. progress: called with (done, total, name); None is silent.

    Returns how many kernels there were, those already in the cache included. Raises what the calls themselves would,
    before anything is compiled, and the first compile error after the others have ended.
    """
    default = devices.default_device() if device is None else torch.device(device)
    kernels = list(dict.fromkeys(kernel for call in calls for kernel in _kernels(call, default)))
    done = 0
    counting = threading.Lock()

    def compile_one(kernel: _Kernel) -> None:
        nonlocal done
        launch.precompile(
            kernel.function,
            (*kernel.pointers, *[0] * kernel.integers),
            kernel.constexprs,
            multibuffer=kernel.multibuffer,
            device=kernel.device,
        )
        with counting:
            done += 1
            if progress is not None:
                progress(done, len(kernels), kernel.function.__name__)

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        pending = [pool.submit(compile_one, kernel) for kernel in kernels]
        try:
            failures = [error for each in as_completed(pending) if (error := each.exception()) is not None]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failures:
        raise failures[0]
    return len(kernels)


@dataclass(frozen=True)
class _Kernel:
    """What one compiled object depends on."""

    function: Any
    pointers: tuple[torch.dtype, ...]
    integers: int
    constexprs: launch.Constexprs
    multibuffer: bool
    device: torch.device


def _kernels(call: Call, device: torch.device) -> Iterable[_Kernel]:
    if isinstance(call, (list, tuple)):
        call, device = _planned(call)
    platform = devices.platform_of(device)
    if isinstance(call, GcdProblem):
        call = tuned.resolve("gcd", call, platform, gcd.plan) or gcd.plan(call, platform)
    elif isinstance(call, AsStridedProblem):
        heuristic = as_strided.plan
        call = tuned.resolve("as_strided", call, platform, heuristic) or heuristic(call, platform)
    if isinstance(call, AsStridedPlan):
        element = ELEMENT[call.width]
        yield _Kernel(
            KERNELS[call.kernel], (element, element), len(call.args), call.constexprs, call.multibuffer, device
        )
    elif isinstance(call, GcdPlan):
        yield _Kernel(
            kernel_of(call),
            pointer_dtypes(call),
            len(integers(call)),
            call.constexprs,
            call.multibuffer,
            device,
        )
        yield from _copies(call, device)
    else:
        raise TypeError(f"precompile(): expected problems, plans or the tensors of a call, not {type(call).__name__}")


def _planned(call: Sequence[Any]) -> tuple[GcdPlan | AsStridedPlan, torch.device]:
    if len(call) == 2:
        return plan_gcd(*call), call[0].device
    plan = plan_as_strided(*call)
    if plan is None:
        raise ValueError("precompile(): an empty result needs no kernel")
    return plan, call[0].device


def _copies(plan: GcdPlan, device: torch.device) -> Iterable[_Kernel]:
    """The as_strided kernels that make operands dense which the gcd kernels do not read as they are."""
    names = {"self": plan.problem.self_dtype, "other": plan.problem.other_dtype}
    for name, dims in plan.arrangement.copies:
        itemsize = getattr(torch, names[name]).itemsize
        problem = AsStridedProblem(tuple(dim[0] for dim in dims), tuple(dim[1] for dim in dims), 0, itemsize)
        yield from _kernels(problem, device)
