"""The launch: one compiled kernel for every value, views of storage, locks, hooks, and the device and stream used."""

import contextlib
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl

from ops import device as devices
from ops import launch as launches
from ops.launch import data_pointer, launch, storage_pointer

CPU = torch.device("cpu")


@triton.jit(do_not_specialize=["n", "step"], do_not_specialize_on_alignment=["x", "out"])
def _advance(x, out, n: tl.int32, step: tl.int64, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        lane = tile * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + lane, mask=lane < n, care_padding=False)
        tl.store(out + lane, value + step.to(tl.int32), mask=lane < n)


def advance(x, out, n, step, grid=2, block=64):
    launch(_advance, grid, (x, out, n, step), (("BLOCK", block),), multibuffer=True, device=CPU)


@pytest.fixture(autouse=True)
def fresh():
    launches.forget()
    yield
    launches.forget()


def test_one_compiled_kernel_serves_every_value():
    # 1 and 16 are the values Triton would specialise on; an unaligned pointer likewise.
    source = torch.arange(257, dtype=torch.int32)
    for n, step, first in ((256, 1, 0), (16, 16, 0), (1, 5, 0), (100, -7, 1), (0, 3, 0)):
        x = source[first:]
        out = torch.full((256,), -1, dtype=torch.int32)
        advance(x, out, n, step)
        assert torch.equal(out[:n], x[:n] + step)
        assert (out[n:] == -1).all()
    assert len(launches._compiled) == 1


def test_constexprs_and_dtypes_are_kept_apart():
    x = torch.arange(64, dtype=torch.int32)
    out = torch.empty_like(x)
    advance(x, out, 64, 1, block=64)
    advance(x, out, 64, 1, block=32)
    advance(x.to(torch.int16), out, 64, 1, block=32)
    assert torch.equal(out, x + 1)
    assert len(launches._compiled) == 3


def test_pointers_see_the_storage_as_another_dtype():
    x = torch.arange(8, dtype=torch.int64)[2:]
    out = torch.zeros(16, dtype=torch.int32)
    advance(storage_pointer(x, torch.int32), out, 16, 0)
    assert torch.equal(out.view(torch.int64), torch.arange(8))
    advance(data_pointer(x, torch.int32), out, 12, 0)
    assert torch.equal(out[:12].view(torch.int64), x)
    low, high = data_pointer(x).gm_range()
    assert (low, high) == (x.data_ptr() - 16, x.data_ptr() + 48)


def test_first_calls_from_many_threads_compile_once():
    compiled = []
    advance(torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), 1, 0, block=16)  # makes the binder
    function = _advance.compile
    lock = threading.Lock()

    def counting(*args, **kwargs):
        with lock:
            compiled.append(1)
        return function(*args, **kwargs)

    _advance.compile = counting
    try:
        x = torch.arange(1000, dtype=torch.int32)
        outs = [torch.empty_like(x) for _ in range(32)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda out: advance(x, out, 1000, 3, block=128), outs))
        assert all(torch.equal(out, x + 3) for out in outs)
        assert len(compiled) == 1
    finally:
        _advance.compile = function


def test_profiler_hooks_take_tritons_own_launch():
    x = torch.arange(64, dtype=torch.int32)
    out = torch.empty_like(x)
    advance(x, out, 64, 1)
    (kept,) = launches._compiled.values()
    seen = []
    type(kept).launch_enter_hook = lambda metadata: seen.append(metadata.get()["name"])
    try:
        advance(x, out, 64, 2)
    finally:
        type(kept).launch_enter_hook = None
    assert len(seen) == 1
    assert torch.equal(out, x + 2)


def test_a_device_that_is_not_served_is_named():
    with pytest.raises(RuntimeError, match="'meta'"):
        launch(_advance, 1, (), (("BLOCK", 64),), multibuffer=True, device=torch.device("meta"))


Device = namedtuple("Device", "type index")


class FakeKernel:
    """Stands for a @triton.jit function: records what it was launched with, as the object it would have compiled to."""

    launch_enter_hook = None
    launch_exit_hook = None
    function = "function"
    packed_metadata = "packed"

    def __init__(self):
        self.launches = []

    def __getitem__(self, grid):
        def first(*args, **options):
            self.launches.append(("triton", grid, devices.npu().current, args, options))
            return self

        return first

    def run(self, gx, gy, gz, stream, function, packed, metadata, enter, leave, *args):
        self.launches.append(("kept", (gx, gy, gz), devices.npu().current, stream, args))


class FakeNpu:
    """Two NPUs of which the first is current, each with a stream of its own."""

    current = 0

    def current_stream(self, device):
        return SimpleNamespace(npu_stream=100 + self.current)

    @contextlib.contextmanager
    def device(self, device):
        before, self.current = self.current, device.index
        yield
        self.current = before


def test_an_npu_tensor_runs_under_its_own_guard_and_stream(monkeypatch):
    npu = FakeNpu()
    monkeypatch.setattr(devices, "npu", lambda: npu)
    kernel = FakeKernel()
    second = Device("npu", 1)
    x = torch.zeros(4)
    for _ in range(2):
        launch(kernel, 3, (x, 4), (("BLOCK", 8),), multibuffer=False, device=second)
    assert kernel.launches == [
        ("triton", (3,), 1, (x, 4), {"multibuffer": False, "BLOCK": 8}),
        ("kept", (3, 1, 1), 1, 101, (x, 4)),
    ]
    assert npu.current == 0


def test_graph_capture_is_refused_before_anything_is_compiled(monkeypatch):
    npu = FakeNpu()
    npu.is_current_stream_capturing = lambda: True
    monkeypatch.setattr(devices, "npu", lambda: npu)
    kernel = FakeKernel()
    with pytest.raises(RuntimeError, match="graph capture"):
        launch(kernel, 1, (), (), multibuffer=True, device=Device("npu", 0))
    assert kernel.launches == []
