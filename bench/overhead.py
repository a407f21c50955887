"""Python time of a call before its launch, beside Triton's own launch and the built-in operator.

Small calls, with one thread. "before the launch": everything from the public function down to the kernel's start, which
is left out. "kernel[grid]": what Triton spends on the same launch; "kept kernel": what the launch costs through the
compiled kernel that this project keeps. On a CPU the kernels themselves run in the emulator, in about a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table

from bench import env, results, timing
from bench.cases import AsStridedCase, Case, GcdCase, same
from bench.console import make_console
from bench.inputs import make_inputs
from bench.providers import BUILTIN, PROJECT, RefusalError, builtin_call, project_call
from bench.timing import Quantiles
from ops import device as devices
from ops import launch

LIMIT_US = 15.0  # what a repeated call may spend in Python before the launch

BEFORE, WHOLE, GRID, KEPT = "before the launch", "whole call", "kernel[grid]", "kept kernel"


def overhead_cases() -> list[Case]:
    """Calls so small that their overhead is what they cost."""
    return [
        same("int32", 16, "16 elements"),
        same("int8", 16, "16 elements"),
        same("int64", 16, "16 elements"),
        GcdCase("4x4 with a row", ("int32", "int32"), ((4, 4), (4,))),
        GcdCase("mixed into out", ("int8", "float32"), ((16,), (16,)), bits=7, out="int8"),
        AsStridedCase("contiguous 16", "float32", (16,), (1,)),
        AsStridedCase("rows 4x4", "float32", (4, 4), (8, 1)),
        AsStridedCase("stride 3, 16", "float32", (16,), (3,)),
        AsStridedCase("transpose 16x16", "float32", (16, 16), (1, 16)),
    ]


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    results.add_output_arguments(parser)
    parser.add_argument("--strict", action="store_true", help=f"exit 1 above {LIMIT_US:g} us before a launch")


def run(args: Any) -> int:
    """Measure and print; with --strict, 1 if a call spends more than the limit before its launch."""
    console = make_console()
    device = devices.default_device()
    measured = [(case, measure(case, device)) for case in overhead_cases()]
    names = (BEFORE, WHOLE, GRID, KEPT, BUILTIN)
    table = Table(header_style="bold")
    table.add_column("case")
    table.add_column("dtype")
    for name in names:
        table.add_column(escape(name), justify="right")
    for case, times in measured:
        table.add_row(f"{case.op} {case.name}", case.dtype, *(str(times.get(name) or "n/a") for name in names))
    console.print(f"Device: {devices.describe(device)}; {env.one_line()}", markup=False)
    console.print(table)
    worst = max((times[BEFORE].p50 for _, times in measured if times.get(BEFORE)), default=0.0)  # type: ignore[union-attr]
    met = 0 < worst <= LIMIT_US
    console.print(f"before the launch: at most {worst:.1f} us of {LIMIT_US:g} us: {'met' if met else 'MISSED'}")
    results.write(to_rows(measured, device), args.json, args.csv)
    return 1 if args.strict and not met else 0


@dataclass
class Silent:
    """Stands in for a kept compiled kernel: takes a launch's arguments and does nothing."""

    function: Any
    packed_metadata: Any
    arguments: tuple[Any, ...] = ()

    launch_enter_hook = None
    launch_exit_hook = None

    def run(self, *arguments: Any) -> None:
        self.arguments = arguments


@contextmanager
def silenced() -> Iterator[dict[Any, Silent]]:
    """Inside, kept kernels are not started; yields what takes their place, by the key they are kept under."""
    kept = dict(launch._compiled)
    silent = {key: Silent(compiled.function, compiled.packed_metadata) for key, compiled in kept.items()}
    launch._compiled.update(silent)
    try:
        yield silent
    finally:
        launch._compiled.update(kept)


def measure(case: Case, device: torch.device) -> dict[str, Quantiles | None]:
    """Times of the parts of one call, by name, in microseconds."""
    inputs = make_inputs(case, device)
    call = project_call(case, inputs)
    launch.forget()
    call()  # compiles, and leaves this call's kernels as the only ones kept

    def timed(name: str, function: Callable[[], object]) -> dict[str, Quantiles | None]:
        wait = (lambda: devices.synchronize(device)) if device.type == "npu" else None
        with timing.thread_count(1):
            return timing.phases(
                {name: function}, rounds=5, block_seconds=0.02, single_thread=wait is None, synchronize=wait
            )

    found = timed(WHOLE, call)
    with silenced() as silent:
        found |= timed(BEFORE, call)
    started = {key: item for key, item in silent.items() if item.arguments}
    if len(started) == 1:  # a call of several launches has no single launch to set beside it
        ((key, item),) = started.items()
        grid_call, kept_call = launches(key, item, device)
        found |= timed(GRID, grid_call) | timed(KEPT, kept_call)
    try:
        found |= timed(BUILTIN, builtin_call(case, inputs))
    except RefusalError:
        found[BUILTIN] = None
    return found


def launches(key: tuple[Any, ...], item: Silent, device: torch.device) -> tuple[Callable[[], object], ...]:
    """The launch that `item` took, through Triton's kernel[grid] and through the kept kernel."""
    kernel, constexprs, multibuffer = key[:3]
    (
        grid,
        _,
        _,
        stream,
        *_,
    ) = item.arguments
    arguments = item.arguments[9:]
    compiled = launch._compiled[key]
    options = {"multibuffer": multibuffer, **dict(constexprs)}

    def through_triton() -> None:
        with launch._route(device):
            kernel[(grid,)](*arguments, **options)

    def through_kept() -> None:
        compiled.run(grid, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments)

    return through_triton, through_kept


def to_rows(measured: list[tuple[Case, dict[str, Quantiles | None]]], device: torch.device) -> list[results.Row]:
    """Long-format rows, one a part."""
    rows = [
        results.Row(
            op=case.op,
            case=case.name,
            dtype=case.dtype,
            provider=BUILTIN if name == BUILTIN else PROJECT,
            metric=WHOLE if name == BUILTIN else name,
            unit="us",
            p20=taken.p20 if taken else None,
            p50=taken.p50 if taken else None,
            p80=taken.p80 if taken else None,
            elements=case.elements,
            bytes=case.bytes,
            threads=1,
        )
        for case, times in measured
        for name, taken in times.items()
    ]
    return results.stamp(rows, devices.describe(device), env.versions())
