"""Measure a chip's constants with small kernels and store them as its platform profile, so that plans follow the chip.

Each probe (bench/probes.py) does one thing over and over: a vector instruction, a transfer, a scalar access. Two runs
that differ in their number of turns give the cycles of one turn, free of whatever a launch costs. The device level
tells which instructions a turn consists of; the fit finds the constants with which the cycle model gives the measured
times. An instruction's head and tail always come as a pair, so only their sum is measured and keeps its split.

On an NPU the times are the profiler's. Without one, this command tests its own fit: it invents constants, lets the
cycle model run the probes with them, and must find them again within 5 %. Then nothing is stored.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from autotune.device import call_times
from bench import env, self_test
from bench.console import make_console
from bench.fitting import Fit, Observation, fit
from bench.probe_list import Probe, probe_list
from bench.timing import quantiles
from emulator import cycles, replay
from ops import device as devices
from tiling.platform import COSTS, Cost, Platform, platform

# Turns of the two runs whose difference counts. On a device many: a turn may take some ten nanoseconds.
MODEL_TURNS = (6, 14)
DEVICE_TURNS = (200, 2200)

TRUSTED = 0.1  # a constant is stored if its relative standard error is at most this
MISFIT = 0.5  # a probe further off than this is named: the model lacks something the chip does

SIZES = (2048, 8192)  # elements of the tiles that tell a rate from a latency

COPIED_BYTES = 1 << 28  # copied by all cores to see the memory's bandwidth; more than the L2 holds
LAUNCHES = 1000


class ProbeError(RuntimeError):
    """A probe that gave no usable time; the text says which and why."""


# Cycles of one turn of a probe. Raises ProbeError where there are none.
Clock = Callable[[Probe], float]


@dataclass(frozen=True)
class Calibration:
    """What was measured, in cycles a turn by probe, and the constants of the cycle model that fit it."""

    measured: dict[str, float]
    fit: Fit


def add_arguments(parser: Any) -> None:
    """Options of the command."""
    parser.add_argument("--dry-run", action="store_true", help="store nothing")
    parser.add_argument("--self-test", action="store_true", help="test the fit on the cycle model, also on an NPU")
    parser.add_argument("--seed", type=int, default=0, help="of the constants that the self-test invents")


def run(args: Any) -> int:
    """Calibrate, or test the fit; 1 if the self-test does not find its constants again."""
    console = make_console()
    if devices.npu() is None or args.self_test:
        console.print(
            "No NPU is used: a self-test of the fit on the cycle model. Nothing is measured and nothing stored.",
            markup=False,
        )
        return 0 if self_test.run(args.seed, console) else 1
    device = devices.default_device()
    path = calibrate_device(device, console, store=not args.dry_run)
    console.print(f"stored: {path}" if path else "a dry run: nothing stored", markup=False)
    return 0


def calibrate_device(device: torch.device, console: Console, *, store: bool) -> Path | None:
    """Calibrate the chip of an NPU and store its profile; returns the file."""
    base = platform(devices.chip_of(device))
    console.print(f"Device: {devices.describe(device)}; {env.one_line()}", markup=False)
    found = calibrate(DeviceClock(device, base), base, console)
    constants = trusted(found.fit) | planner_constants(found, base)
    constants |= {"launch": launch_microseconds(device), "hbm_bandwidth": memory_bandwidth(device, base)}
    console.print(constants_table(base, found.fit, constants))
    for name, misfit in found.fit.residuals.items():
        if abs(misfit) > MISFIT:
            console.print(f"the model is off by {misfit:+.0%} on the probe {name!r}", markup=False)
    return devices.store_profile(base, constants) if store else None


def calibrate(clock: Clock, base: Platform, console: Console) -> Calibration:
    """Time every probe with `clock` and fit the constants of the cycle model, starting from those of `base`.

    A probe without a usable time is named and left out; the fit then says which constants nothing determines.
    """
    measured: dict[str, float] = {}
    observations = []
    probes = probe_list()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("probes", total=len(probes))
        for probe in probes:
            try:
                measured[probe.name] = clock(probe)
            except ProbeError as error:
                console.print(f"left out: {error}", markup=False)
            else:
                observations.append(Observation(probe.name, measured[probe.name], prediction(probe, base)))
            progress.advance(task)
    start = {name: base.cost(name) for name in replay.names() if base.cost(name) > 0}
    pairs = [(f"{name}.head", f"{name}.tail") for name in replay.classes()]
    return Calibration(measured, fit(observations, start, pairs))


@functools.cache
def streams(name: str) -> tuple[bytes, bytes]:
    """The steps of the two runs of a probe at the device level; what they cost is for a replay to say."""
    probe = next(probe for probe in probe_list() if probe.name == name)
    found = []
    for turns in MODEL_TURNS:
        with cycles.record(COSTS, cores=1) as report:
            probe.launch(turns, torch.device("cpu"))
        ((stream,),) = (launch.streams for launch in report.launches)
        found.append(stream.events)
    return found[0], found[1]


def cycles_of_a_turn(of: tuple[bytes, bytes], constants: tuple[float, ...]) -> float:
    """The difference of two runs by the cycle model, for one turn."""
    short, long = (replay.replay(stream, constants).total for stream in of)
    return (long - short) / (MODEL_TURNS[1] - MODEL_TURNS[0])


def prediction(probe: Probe, base: Platform) -> Callable[[Mapping[str, float]], float]:
    """Cycles of one turn of the probe, as a function of the model's constants."""
    both = streams(probe.name)
    return lambda constants: cycles_of_a_turn(both, replay.values(base.costs, constants))


@dataclass(frozen=True)
class ModelClock:
    """A chip whose constants are known: the cycle model with `costs`."""

    costs: Mapping[str, Cost]

    def __call__(self, probe: Probe) -> float:
        return cycles_of_a_turn(streams(probe.name), replay.values(self.costs))


@dataclass(frozen=True)
class DeviceClock:
    """An NPU: kernel times from the profiler, in cycles of the platform's clock."""

    device: torch.device
    base: Platform

    def __call__(self, probe: Probe) -> float:
        medians = []
        for turns in DEVICE_TURNS:
            call = functools.partial(probe.launch, turns, self.device)
            taken = quantiles(call_times(call, self.device))
            if taken is None:
                raise ProbeError(f"the profiler gave no kernel time for the probe {probe.name!r}")
            medians.append(taken.p50)
        microseconds = (medians[1] - medians[0]) / (DEVICE_TURNS[1] - DEVICE_TURNS[0])
        if microseconds <= 0:
            raise ProbeError(f"the probe {probe.name!r} took no longer with more turns: {medians} us")
        return microseconds * self.base.cost("clock") * 1e3


def trusted(found: Fit) -> dict[str, float]:
    """The constants that the measurements determine well enough to be used."""
    return {
        name: value
        for name, value in found.values.items()
        if name not in found.undetermined and found.errors[name] <= TRUSTED
    }


# The planner's name for a constant of the model, and how much of it: a gather repeat is 64 lanes of 4 bytes, a repeat
# of the transposing conversion 16 rows of eight 4-byte elements. A burst and the issue of a load mean the same in both.
PLANNER = {
    "gather_lane": ("vgather.slope", 1 / 64),
    "transpose_element": ("vnchwconv.slope", 1 / 128),
    "burst": ("burst_executed", 1.0),
    "mte2_issue": ("dma_issue", 1.0),
}


def planner_constants(found: Calibration, base: Platform) -> dict[str, float]:
    """The planner's own constants: its formulas count what the model replays more coarsely.

    Loads and stores have one rate in the model and two in the planner, so these are taken from the probes themselves.
    The issue of a store cannot be told from its latency (the compiler waits after each) and keeps its value.
    """
    known = trusted(found.fit)
    derived = {name: known[source] * part for name, (source, part) in PLANNER.items() if source in known}
    rates = [
        f"{kind}{block}{rest}" for kind, rest in (("8 stores ", ""), ("copy 1x", ", one buffer")) for block in SIZES
    ]
    if all(name in found.measured for name in rates):
        few, many, small, large = (found.measured[name] for name in rates)
        more_bytes = (SIZES[1] - SIZES[0]) * 4
        store = (many - few) / 8 / more_bytes  # cycles a byte
        load = (large - small) / more_bytes - store
        derived |= {name: 1 / cost for name, cost in (("gm_to_ub", load), ("ub_to_gm", store)) if cost > 0}
    return {name: value for name, value in derived.items() if name in base.costs}


def launch_microseconds(device: torch.device) -> float:
    """Microseconds from one launch to the next where the device has next to nothing to do."""
    probe = probe_list()[0]
    probe.launch(1, device)
    devices.synchronize(device)
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        probe.launch(1, device)
    devices.synchronize(device)
    return (time.perf_counter() - begin) / LAUNCHES * 1e6


def memory_bandwidth(device: torch.device, base: Platform) -> float:
    """GB/s of the memory at the planner's efficiency, from a contiguous copy by all cores."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    taken = quantiles(call_times(lambda: target.copy_(source), device))
    if taken is None:
        raise RuntimeError("the profiler gave no kernel time for a contiguous copy")
    return 2 * COPIED_BYTES / taken.p50 / 1e3 / base.cost("hbm_efficiency")


def constants_table(base: Platform, found: Fit, constants: Mapping[str, float]) -> Table:
    """Every constant that was looked for: its value before and now, how well it is known, whether it is used."""
    table = Table(header_style="bold")
    table.add_column("constant")
    for heading in ("before", "now"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    table.add_column("standard error", justify="right")
    table.add_column("used")
    for name in [*found.values, *(name for name in constants if name not in found.values)]:
        value = constants.get(name, found.values.get(name, base.cost(name)))
        error = found.errors.get(name)
        known = "n/a" if error is None or name in found.undetermined else f"{error:.1%}"
        used = "yes" if name in constants else "no: no probe determines it" if known == "n/a" else "no: not well known"
        table.add_row(name, f"{base.cost(name):.4g}", f"{value:.4g}", base.costs[name].unit, known, used)
    return table
