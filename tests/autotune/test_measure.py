"""The measures: which one `auto` is, and how a profile becomes the times of calls."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from autotune import device as device_measure
from autotune import host
from autotune.choice import choose
from autotune.device import DeviceMeasure, call_times, split_at
from autotune.host import HostMeasure, quantiles
from ops import device as devices
from tests.autotune.double import DoubleProblem, Faults, plan_double
from tiling.platform import platform

CLEAR = ("Fill", 90.0)
NPU = torch.device("cpu")  # stands in for an NPU; every question about it goes to the fakes below


# --- which measure ---------------------------------------------------------------------------------------------------


def test_the_host_measure_is_chosen_by_name():
    assert isinstance(choose("host", None), HostMeasure)


def test_auto_is_the_device_if_there_is_an_npu_of_the_chip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "npu", lambda: SimpleNamespace())
    monkeypatch.setattr(devices, "default_device", lambda: NPU)
    monkeypatch.setattr(devices, "chip_of", lambda device: "Ascend910B1")
    assert choose("auto", None).name == "device"
    assert choose("auto", platform("Ascend910B1")).name == "device"


def test_the_device_measure_needs_an_npu():
    with pytest.raises(RuntimeError, match="needs an NPU"):
        choose("device", None)


# --- a profile cut into calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernels", "calls", "expected"),
    [
        ([CLEAR, ("gcd", 5.0), CLEAR, ("gcd", 6.0)], 2, [[("gcd", 5.0)], [("gcd", 6.0)]]),
        ([CLEAR, ("AsStrided", 5.0), ("Transpose", 2.0)], 1, [[("AsStrided", 5.0), ("Transpose", 2.0)]]),
        ([CLEAR, CLEAR], 2, [[], []]),
    ],
    ids=["one kernel a call", "two kernels a call", "no kernel: computed on the host"],
)
def test_kernels_are_told_apart_by_the_clearing_of_the_l2(kernels, calls, expected):
    assert split_at(kernels, ["Fill"], calls) == expected


def test_a_clearing_of_several_kernels_is_one_cut():
    kernels = [("Memset", 1.0), CLEAR, ("gcd", 5.0), ("Memset", 1.0), CLEAR, ("gcd", 6.0)]
    assert split_at(kernels, ["Memset", "Fill"], 2) == [[("gcd", 5.0)], [("gcd", 6.0)]]


def test_a_profile_that_does_not_show_the_calls_is_not_cut():
    assert split_at([("gcd", 1.0)], [], 1) is None
    assert split_at([("gcd", 1.0), CLEAR], ["Fill"], 1) is None
    assert split_at([CLEAR, ("gcd", 1.0)], ["Fill"], 2) is None


class FakeNpu:
    """Records what runs between the start and the end of a profile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, float]] = []
        monkeypatch.setattr(devices, "clear_l2", lambda device: self.log.append(CLEAR))
        monkeypatch.setattr(devices, "synchronize", lambda device: None)
        monkeypatch.setattr(devices, "profile_kernels", self.profile)

    def profile(self, run, device):
        before = len(self.log)
        run()
        return self.log[before:]


def test_every_kernel_of_a_call_counts_and_the_clearing_does_not(monkeypatch: pytest.MonkeyPatch):
    npu = FakeNpu(monkeypatch)
    durations = itertools.count(1)

    def call():
        npu.log += [("gcd", float(next(durations))), ("cast", 0.5)]

    times = call_times(call, NPU, calls=4)
    first = device_measure.WARM_UP + 1
    assert times == [first + at + 0.5 for at in range(4)]


def test_without_clearings_in_the_profile_each_call_is_profiled_alone(monkeypatch: pytest.MonkeyPatch):
    npu = FakeNpu(monkeypatch)
    cleared = []
    monkeypatch.setattr(devices, "clear_l2", cleared.append)
    times = call_times(lambda: npu.log.append(("gcd", 2.0)), NPU, calls=4)
    assert times == [2.0] * 4
    assert len(cleared) == 1 + 4 + 4


def test_the_device_measure_gives_median_band_and_host_time(monkeypatch: pytest.MonkeyPatch, faults: Faults):
    npu = FakeNpu(monkeypatch)
    cost = {64: 5.0, 128: 3.0, 256: 0.0}

    def run(plan):
        if cost[plan.block]:
            npu.log.append(("double", cost[plan.block]))

    plans = [plan_double(DoubleProblem(10), platform(), block=block) for block in cost]
    figures = DeviceMeasure(NPU).figures(SimpleNamespace(run=run), plans)
    assert [getattr(figure, "microseconds", figure) for figure in figures] == [
        5.0,
        3.0,
        "the profiler reported no kernel time on the device",
    ]
    assert figures[0].host_microseconds > 0


@pytest.mark.parametrize("broken", [math.nan, math.inf, 0.0])
def test_a_time_that_is_no_time_is_no_figure(broken: float):
    assert device_measure._figure([broken] * 6 + [1.0] * 4, 1.0) == "the profiler reported no kernel time on the device"


# --- the host's clock ------------------------------------------------------------------------------------------------


def test_quantiles_of_samples():
    figure = quantiles([5.0, 1.0, 3.0, 2.0, 4.0], host=None)
    assert (figure.microseconds, figure.low, figure.high) == (3.0, 2.0, 4.0)
    assert figure.noise == pytest.approx(1 / 3)
    assert quantiles([3.0] * 5, host=None).noise == 0.02


def test_the_host_measure_runs_plans_in_rounds(monkeypatch: pytest.MonkeyPatch, faults: Faults):
    monkeypatch.setattr(host, "SAMPLE_SECONDS", 0.0)
    order = []
    scratch = SimpleNamespace(run=lambda plan: order.append(plan.block))
    plans = [plan_double(DoubleProblem(10), platform(), block=block) for block in (64, 128)]
    figures = HostMeasure().figures(scratch, plans)
    assert [figure.microseconds > 0 for figure in figures] == [True, True]
    assert order == [64, 128] * (host.ROUNDS + 1)
