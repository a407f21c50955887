"""Which driver serves a launch, when an NPU's driver and the emulator live in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import triton
import triton.language as tl

import emulator
from emulator import backend, router, toolchain
from tests.emulator.fake_npu import FakeDriver
from tests.emulator.test_grids import run_python
from tiling.platform import VECTOR_CORES


@pytest.fixture
def npu() -> Iterator[FakeDriver]:
    """A fake NPU's driver, active as Triton found it, before any launch on a CPU."""
    before = triton.runtime.driver.active
    fake = FakeDriver()
    triton.runtime.driver.set_active(fake)
    yield fake
    triton.runtime.driver.set_active(before)


@pytest.fixture
def doubled() -> Callable[..., object]:
    """A kernel that nobody has launched yet."""

    @triton.jit
    def double(x, out, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + offsets, tl.load(x + offsets) * 2)

    return double


def test_nothing_is_touched_before_the_first_launch_on_a_cpu(npu: FakeDriver, doubled) -> None:
    x = torch.ones(16)
    doubled[(1,)](x, x, BLOCK=16)
    assert triton.runtime.driver.active is npu
    assert len(npu.launches) == 1
    with emulator.route():
        pass
    assert isinstance(triton.runtime.driver.active, router.Router)
    doubled[(3,)](x, x, BLOCK=16)
    assert len(npu.launches) == 2


def test_two_drivers_in_many_threads(npu: FakeDriver, doubled) -> None:
    """Triton reads the active driver several times a launch: no launch may see one driver here and another there."""
    turns, each = 150, 4
    start = threading.Barrier(2 * each)

    def on_cpu(seed: int) -> int:
        x = torch.full((64,), float(seed))
        right = 0
        start.wait()
        for turn in range(turns):
            out = torch.zeros(64)
            with emulator.route():
                doubled[(4,)](x + turn, out, BLOCK=16)
            right += torch.equal(out, (x + turn) * 2)
        return right

    def on_npu(seed: int) -> int:
        x = torch.zeros(64)
        start.wait()
        for _ in range(turns):
            doubled[(seed,)](x, x, BLOCK=16)
        return 0 if x.any() else turns

    with ThreadPoolExecutor(2 * each) as threads:
        jobs = [threads.submit(on_cpu, seed) for seed in range(each)]
        jobs += [threads.submit(on_npu, seed + 1) for seed in range(each)]
        assert [job.result() for job in jobs] == [turns] * (2 * each)
    assert sorted(grid for _, grid, _ in npu.launches) == sorted(list(range(1, each + 1)) * turns)


def test_a_route_ends_with_its_block_and_nests(npu: FakeDriver, doubled) -> None:
    x, out = torch.ones(16), torch.zeros(16)
    with emulator.route():
        with emulator.route("linalg"):
            doubled[(1,)](x, out, BLOCK=16)
        doubled[(1,)](x, out, BLOCK=16)
        assert not npu.launches
    doubled[(1,)](x, out, BLOCK=16)
    assert len(npu.launches) == 1
    with pytest.raises(ZeroDivisionError), emulator.route():
        raise ZeroDivisionError
    doubled[(1,)](x, out, BLOCK=16)
    assert len(npu.launches) == 2


def test_install_changes_the_default_and_uninstall_restores_it(npu: FakeDriver, doubled) -> None:
    x, out = torch.ones(16), torch.zeros(16)
    emulator.install()
    try:
        doubled[(1,)](x, out, BLOCK=16)
        assert torch.equal(out, x * 2)
        assert not npu.launches
    finally:
        emulator.uninstall()
    doubled[(1,)](x, out, BLOCK=16)
    assert len(npu.launches) == 1


def test_a_driver_activated_later_is_served_too(npu: FakeDriver, doubled) -> None:
    with emulator.route():
        pass
    second = FakeDriver()
    triton.runtime.driver.set_active(second)
    x = torch.ones(16)
    with emulator.route():
        doubled[(1,)](x, x, BLOCK=16)
    doubled[(1,)](x, x, BLOCK=16)
    assert (len(npu.launches), len(second.launches)) == (0, 1)


def test_the_levels_have_devices_of_their_own() -> None:
    assert router.driver("linalg").get_current_device() == "emulator:linalg"
    with pytest.raises(ValueError, match="unknown emulator level 'cycles': expected one of linalg, device"):
        emulator.route("cycles")


def test_the_level_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_EMULATOR_LEVEL", raising=False)
    assert emulator.default_level() == "linalg"
    monkeypatch.setenv("ASCEND_EMULATOR_LEVEL", "device")
    assert emulator.default_level() == "device"


def test_the_chip_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, chip in (("", "Ascend910B3"), ("Ascend910B1", "Ascend910B1")):
        monkeypatch.setenv("ASCEND_EMULATOR_CHIP", value)
        assert backend.EmulatorDriver("linalg").get_current_target().arch == chip
    monkeypatch.setenv("ASCEND_EMULATOR_CHIP", "Ascend310P")
    with pytest.raises(ValueError, match="unknown chip 'Ascend310P'"):
        backend.EmulatorDriver("linalg")


def test_chips_have_the_cores_that_plans_are_made_for() -> None:
    for chip, cores in VECTOR_CORES.items():
        assert backend.vector_cores(chip) == cores


def test_concurrent_first_calls_compile_once(
    doubled, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    callers = 96
    start = threading.Barrier(callers)
    runs = toolchain.runs()

    def call(seed: int) -> bool:
        x, out = torch.full((32,), float(seed)), torch.zeros(32)
        start.wait()
        with emulator.route():
            doubled[(2,)](x, out, BLOCK=16)
        return torch.equal(out, x * 2)

    with ThreadPoolExecutor(callers) as threads:
        assert all(threads.map(call, range(callers)))
    assert toolchain.runs() - runs == 4  # one front end, three passes


def test_users_own_kernels() -> None:
    """Vector add, softmax, a gather and an atomic kernel, as a user would run them."""
    done = run_python(
        """
emulator.install()
x, y = torch.randn(2, 98432)
out = torch.empty(98432)
kernels.add[(97,)](x, y, out, 98432, BLOCK=1024)
assert torch.equal(out, x + y)

rows = torch.randn(50, 1000)
soft = torch.empty_like(rows)
kernels.softmax[(50,)](rows, soft, 1000, BLOCK=1024)
torch.testing.assert_close(soft, torch.softmax(rows, 1), rtol=1e-5, atol=1e-7)

table, index = torch.randn(30, 8), torch.randint(0, 30, (100,), dtype=torch.int32)
picked = torch.empty(100, 8)
kernels.gather_rows[(2,)](table, index, picked, 100, COLUMNS=8, BLOCK=64)
assert torch.equal(picked, table[index.long()])

values = torch.randint(0, 16, (5000,), dtype=torch.int32)
counts = torch.zeros(16, dtype=torch.int32)
kernels.histogram[(20,)](values, counts, 5000, BINS=16, BLOCK=256)
assert torch.equal(counts, torch.bincount(values, minlength=16).int())
print("ok")
"""
    )
    assert done.stdout.split() == ["ok"], done.stderr
