"""The calibration finds a model's constants again, and what it stores reaches the planner."""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench import calibrate, self_test
from bench.calibrate import Calibration
from bench.fitting import Fit
from bench.probe_list import NOT_REACHED, Probe, probe_list
from emulator import replay
from ops import device as devices
from tests.bench import fakes
from tiling.platform import MEASURED, platform

BASE = platform()


def quiet() -> Console:
    return Console(width=160, record=True)


def test_every_constant_of_the_cycle_model_is_recovered_within_5_percent(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    calibrate.add_arguments(parser)
    assert calibrate.run(parser.parse_args(["--self-test", "--seed", "7"])) == 0
    printed = capsys.readouterr().out
    assert "Nothing is measured and nothing stored" in printed
    assert "(at most 5%): met" in printed


def test_what_the_probes_do_not_reach_is_three_instructions() -> None:
    missed = {name.partition(".")[0] for name in replay.names() if not self_test.reached(name)}
    assert missed == set(NOT_REACHED) == {"vrec", "vrsqrt", "vrelu"}


def test_the_self_test_fails_on_a_constant_that_is_off() -> None:
    hidden = self_test.invented(BASE, 1)
    found = {name: cost.value for name, cost in hidden.items()}
    assert max(map(abs, self_test.recovery(found, hidden).values())) == 0
    found["dma_issue"] *= 1.06
    assert max(self_test.recovery(found, hidden).values()) > self_test.LIMIT


class NoisyClock:
    """The cycle model, each figure off by up to half a percent."""

    def __init__(self, costs: Any) -> None:
        self.exact = calibrate.ModelClock(costs)
        self.generator = random.Random(3)

    def __call__(self, probe: Probe) -> float:
        return self.exact(probe) * self.generator.uniform(0.995, 1.005)


def test_with_noise_what_is_trusted_is_within_20_percent_and_the_main_constants_within_5() -> None:
    hidden = self_test.invented(BASE, 11)
    found = calibrate.calibrate(NoisyClock(hidden), BASE, quiet())
    known = calibrate.trusted(found.fit)
    for name, value in known.items():
        assert value == pytest.approx(hidden[name].value, rel=0.2), name
    for name in ("vadd.slope", "vdiv.slope", "vmul.slope", "vconv.slope", "dma_latency", "dma_issue", "scalar_access"):
        assert known[name] == pytest.approx(hidden[name].value, rel=0.05), name


def made(values: dict[str, float], **options: Any) -> Calibration:
    measured = {"8 stores 2048": 8 * 400.0, "8 stores 8192": 8 * 592.0}
    measured |= {"copy 1x2048, one buffer": 800.0, "copy 1x8192, one buffer": 1184.0}
    errors = dict.fromkeys(values, 0.01) | options.pop("errors", {})
    return Calibration(measured, Fit(values, errors, options.pop("undetermined", ()), {}))


def test_planner_constants_follow_from_the_models() -> None:
    values = {"vgather.slope": 6.4, "vnchwconv.slope": 2.56, "burst_executed": 5.0, "dma_issue": 40.0}
    derived = calibrate.planner_constants(made(values), BASE)
    # stores: 192 cycles for 24576 bytes more; loads: as much again, in the copy with one buffer
    assert derived == pytest.approx(
        {
            "gather_lane": 0.1,
            "transpose_element": 0.02,
            "burst": 5.0,
            "mte2_issue": 40.0,
            "ub_to_gm": 128.0,
            "gm_to_ub": 128.0,
        }
    )


def test_what_is_not_known_well_is_not_used() -> None:
    values = {"burst_executed": 5.0, "dma_issue": 40.0, "vgather.slope": 2.0}
    found = made(values, errors={"dma_issue": 0.5}, undetermined=("vgather.slope",))
    assert calibrate.trusted(found.fit) == {"burst_executed": 5.0}
    assert set(calibrate.planner_constants(found, BASE)) == {"burst", "gm_to_ub", "ub_to_gm"}


def test_device_clock_takes_the_difference_of_two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 us of whatever a launch costs, and 0.02 us a turn: at 1.85 GHz 37 cycles."""
    launched: list[int] = []

    class Fake:
        name = "fake"

        def launch(self, turns: int, device: object) -> None:
            launched.append(turns)

    def times(call: Any, device: object) -> list[float]:
        call()
        return [5.0 + 0.02 * launched[-1]] * 5

    monkeypatch.setattr(calibrate, "call_times", times)
    clock = calibrate.DeviceClock(fakes.NPU, BASE)  # type: ignore[arg-type]
    assert clock(Fake()) == pytest.approx(37.0)  # type: ignore[arg-type]
    assert launched == list(calibrate.DEVICE_TURNS)


@pytest.mark.parametrize(("times", "message"), [([float("nan")], "no kernel time"), ([3.0], "no longer with more")])
def test_device_clock_refuses_nonsense(monkeypatch: pytest.MonkeyPatch, times: list[float], message: str) -> None:
    monkeypatch.setattr(calibrate, "call_times", lambda call, device: times)
    with pytest.raises(calibrate.ProbeError, match=message):
        calibrate.DeviceClock(fakes.NPU, BASE)(probe_list()[0])  # type: ignore[arg-type]


def test_a_probe_without_a_time_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = [probe for probe in probe_list() if probe.name in ("add 64", "add 4096", "mul 64", "mul 4096")]
    monkeypatch.setattr(calibrate, "probe_list", lambda: probes)
    exact = calibrate.ModelClock(BASE.costs)

    def clock(probe: Probe) -> float:
        if probe.name.startswith("mul"):
            raise calibrate.ProbeError(f"{probe.name}: no time")
        return exact(probe)

    console = quiet()
    found = calibrate.calibrate(clock, BASE, console)
    assert "left out: mul 64: no time" in console.export_text()
    assert set(found.measured) == {"add 64", "add 4096"}
    known = calibrate.trusted(found.fit)
    assert known["vadd.slope"] == pytest.approx(BASE.cost("vadd.slope"))
    assert "vmul.slope" not in known
    assert calibrate.planner_constants(found, BASE) == {}


def test_a_calibration_on_a_device_is_stored_and_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The device is the cycle model with invented constants, behind the profiler's interface."""
    hidden = self_test.invented(BASE, 2)
    exact = calibrate.ModelClock(hidden)
    monkeypatch.setenv("ASCEND_OPS_PROFILE", str(tmp_path / "profile.json"))
    monkeypatch.setattr(devices, "chip_of", lambda device: BASE.chip)
    monkeypatch.setattr(devices, "describe", lambda device: "a fake NPU")
    monkeypatch.setattr(calibrate, "DeviceClock", lambda device, base: exact)
    monkeypatch.setattr(calibrate, "launch_microseconds", lambda device: 9.5)
    monkeypatch.setattr(calibrate, "memory_bandwidth", lambda device, base: 1500.0)
    assert calibrate.calibrate_device(fakes.NPU, quiet(), store=False) is None  # type: ignore[arg-type]
    assert not (tmp_path / "profile.json").exists()
    path = calibrate.calibrate_device(fakes.NPU, quiet(), store=True)  # type: ignore[arg-type]
    assert path == tmp_path / "profile.json"
    loaded = devices.load_profile(BASE, path)
    assert loaded.profile != BASE.profile
    for name, value in {"launch": 9.5, "hbm_bandwidth": 1500.0, "vdiv.slope": hidden["vdiv.slope"].value}.items():
        assert loaded.cost(name) == pytest.approx(value, rel=1e-6)
        assert loaded.costs[name].status == MEASURED
    assert loaded.cost("burst") == pytest.approx(hidden["burst_executed"].value, rel=1e-6)
    assert loaded.costs["vrec.slope"] == BASE.costs["vrec.slope"]


def test_memory_bandwidth_counts_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "COPIED_BYTES", 1_000_000)
    monkeypatch.setattr(calibrate, "call_times", lambda call, device: [2.0])
    found = calibrate.memory_bandwidth(torch.device("cpu"), BASE)
    assert found == pytest.approx(2_000_000 / 2.0 / 1e3 / BASE.cost("hbm_efficiency"))
