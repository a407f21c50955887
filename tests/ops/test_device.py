"""Devices, with a stand-in for torch.npu: chip names, stored profiles, capture, guard and the profiler's table."""

import contextlib
import json
from types import SimpleNamespace

import pytest
import torch

from ops import device as devices
from tiling.platform import MEASURED, platform

NPU = SimpleNamespace(type="npu", index=1)


class FakeNpu:
    """What ops.device asks of torch.npu."""

    def __init__(self, capturing=False):
        self.capturing = capturing
        self.log = []

    def get_device_name(self, index):
        return "Ascend910B1"

    def current_device(self):
        return 0

    def is_current_stream_capturing(self):
        return self.capturing

    def current_stream(self, device):
        return SimpleNamespace(npu_stream=0x1234)

    def synchronize(self, device):
        self.log.append(("synchronize", device))

    @contextlib.contextmanager
    def device(self, device):
        self.log.append(("enter", device))
        yield
        self.log.append(("leave", device))


@pytest.fixture
def fake(monkeypatch):
    module = FakeNpu()
    monkeypatch.setattr(devices, "npu", lambda: module)
    return module


def test_cpu_stands_for_the_chip_of_the_environment(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.delenv("ASCEND_EMULATOR_CHIP", raising=False)
    assert devices.platform_of(cpu).chip == "Ascend910B3"
    monkeypatch.setenv("ASCEND_EMULATOR_CHIP", "Ascend910B1")
    assert devices.platform_of(cpu).vector_cores == 48
    assert "not an NPU" in devices.describe(cpu)


def test_npu_is_asked_for_its_name_stream_and_guard(fake):
    assert devices.chip_of(NPU) == "Ascend910B1"
    assert devices.stream_of(NPU) == 0x1234
    with devices.guard(NPU):
        fake.log.append("inside")
    devices.synchronize(NPU)
    assert fake.log == [("enter", NPU), "inside", ("leave", NPU), ("synchronize", NPU)]


def test_an_npu_tensor_without_torch_npu_names_the_extra(monkeypatch):
    monkeypatch.setattr(devices, "npu", lambda: None)
    with pytest.raises(RuntimeError, match=r"ascend-triton-ops\[npu\]"):
        devices.stream_of(NPU)


def test_graph_capture_is_refused(fake):
    devices.refuse_capture(NPU)
    fake.capturing = True
    with pytest.raises(RuntimeError, match="graph capture"):
        devices.refuse_capture(NPU)


def test_stored_profile_changes_the_platform(fake, monkeypatch, tmp_path):
    path = tmp_path / "profile.json"
    monkeypatch.setenv("ASCEND_OPS_PROFILE", str(path))
    assert devices.platform_of(NPU).cost("burst") == platform().cost("burst")
    assert devices.store_profile(platform("Ascend910B1"), {"burst": 3.5}) == path
    calibrated = devices.platform_of(NPU)
    assert calibrated.cost("burst") == 3.5
    assert calibrated.costs["burst"].status == MEASURED
    assert calibrated != platform("Ascend910B1")
    devices._platform_of.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        json.dumps({"chip": "Ascend910B4", "costs": {}}),
        json.dumps({"chip": "Ascend910B3", "costs": {"warp": {}}}),
        json.dumps({"chip": "Ascend910B3"}),
        json.dumps([]),
    ],
)
def test_unusable_profile_is_ignored_with_one_warning(tmp_path, text):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.warns(UserWarning, match="is ignored") as caught:
        assert devices.load_profile(platform(), path) == platform()
    assert len(caught) == 1


def test_kernel_details_are_read_in_order_of_start(tmp_path):
    for name, rows in {"one": [("b", 20, 2.5), ("a", 10, 1.5)], "two": [("c", 5, 4.0)]}.items():
        (tmp_path / name).mkdir()
        lines = ["Name,Type,Start Time(us),Duration(us)"] + [f"{n},AIV,{start},{took}" for n, start, took in rows]
        (tmp_path / name / "kernel_details.csv").write_text("\n".join(lines))
    assert devices.read_kernel_details(tmp_path) == [("a", 1.5), ("b", 2.5), ("c", 4.0)]


def test_profiler_refuses_a_cpu():
    with pytest.raises(RuntimeError, match="needs an NPU"):
        devices.profile_kernels(lambda: None, torch.device("cpu"))
