"""Calls from many threads and processes: right results, one compilation, workers that do not hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import ops
from ops import device as devices
from ops import launch as launching

ROOT = Path(__file__).parent.parent.parent


def integers(seed: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(-100, 100, shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def call_both(seed: int) -> bool:
    """One call of each operator, of a dtype and size that follow from the seed, checked against torch."""
    dtype = (torch.int8, torch.int16, torch.int32)[seed % 3]
    a, b = integers(seed, 7 + seed % 5, 60, dtype=dtype), integers(seed + 1, 60, dtype=dtype)
    size, stride = (5, 11 + seed % 7), (13, 1 + seed % 2)
    return torch.equal(ops.gcd(a, b), torch.gcd(a, b)) and torch.equal(
        ops.as_strided(a, size, stride, seed % 4), torch.as_strided_copy(a, size, stride, seed % 4)
    )


def test_eight_threads_get_right_results() -> None:
    start = threading.Barrier(8)

    def work(thread: int) -> list[bool]:
        start.wait(30)
        return [call_both(thread * 100 + turn) for turn in range(40)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert all(all(answers) for answers in results)


def test_threads_write_only_their_own_out() -> None:
    x = torch.arange(4096, dtype=torch.int32)
    outs = torch.full((16, 4096 + 64), -7, dtype=torch.int32)

    def work(row: int) -> None:
        for _ in range(10):
            ops.gcd(x, torch.full_like(x, row + 1), out=outs[row, 32:-32])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    for row in range(16):
        assert torch.equal(outs[row, 32:-32], torch.gcd(x, torch.full_like(x, row + 1)))
    assert (outs[:, :32] == -7).all()
    assert (outs[:, -32:] == -7).all()


def script(code: str, cache: Path, timeout: float = 200) -> str:
    """Run Python code in a process of its own with empty compile caches; what it prints."""
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "XDG_CACHE_HOME": str(cache / "user"),
        "PYTHONPATH": str(ROOT),
    }
    cache.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment, cwd=cache, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_96_first_calls_at_once_compile_one_kernel(tmp_path: Path) -> None:
    printed = script(
        """
        import threading
        import torch, ops
        from emulator import toolchain

        start, right = threading.Barrier(96), []
        x = torch.arange(1, 1001, dtype=torch.int32)

        def work(index):
            other = torch.full_like(x, index + 1)
            start.wait(60)
            right.append(torch.equal(ops.gcd(x, other), torch.gcd(x, other)))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(96)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        lowered = toolchain.runs()
        ops.gcd(x, x)
        print(len(right), all(right), toolchain.runs() == lowered)
        print(lowered)
        """,
        tmp_path / "many",
    )
    first, runs = printed.splitlines()
    assert first == "96 True True"
    alone = script(
        """
        import torch, ops
        from emulator import toolchain

        x = torch.arange(1, 1001, dtype=torch.int32)
        ops.gcd(x, x)
        print(toolchain.runs())
        """,
        tmp_path / "one",
    )
    assert runs == alone.strip()


class Calls(Dataset):
    """Every item is a call of gcd and the verdict on one call of each operator, both made in a worker."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, bool]:
        return ops.gcd(integers(index, 30), integers(index + 1, 30)), call_both(index)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers_call_the_operators(method: str) -> None:
    assert call_both(0)  # a forked worker inherits whatever a first call leaves behind
    big = torch.arange(1 << 20, dtype=torch.int32)
    assert torch.equal(ops.gcd(big, big), big)  # and whatever threads large work starts
    loader = DataLoader(Calls(), batch_size=3, num_workers=2, multiprocessing_context=method, timeout=150)
    results, verdicts = (torch.cat(parts) for parts in zip(*loader, strict=True))
    assert verdicts.tolist() == [True] * 12
    assert torch.equal(results, torch.stack([torch.gcd(integers(i, 30), integers(i + 1, 30)) for i in range(12)]))


@pytest.mark.timeout(240)
def test_a_fork_amid_first_calls_leaves_a_working_child(tmp_path: Path) -> None:
    """Locks that another thread held when the process forked must not be held for ever in the child."""
    printed = script(
        """
        import os, signal, threading, time
        import torch, ops

        x = torch.arange(64, dtype=torch.int16)
        busy = threading.Thread(target=lambda: ops.gcd(x, x))
        busy.start()
        children = []
        while busy.is_alive() and len(children) < 12:
            child = os.fork()
            if child == 0:
                signal.alarm(120)
                torch.set_num_threads(1)
                ok = torch.equal(ops.gcd(x, x), x) and ops.as_strided(x, (2,), (3,)).tolist() == [0, 3]
                os._exit(0 if ok else 1)
            children.append(child)
            time.sleep(0.05)
        busy.join()
        print(len(children) > 0, [os.waitpid(child, 0)[1] for child in children] == [0] * len(children))
        """,
        tmp_path / "cache",
    )
    assert printed.split() == ["True", "True"]


def test_the_tensors_device_reaches_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard and stream are chosen from the device handed to the launch (test_launch.py): it is the tensor's own."""
    seen = []
    x = torch.arange(12, dtype=torch.int32)

    def record(kernel, grid, args, constexprs, *, multibuffer, device) -> None:
        seen.append(device)

    monkeypatch.setattr(sys.modules["ops.launch"], "launch", record)
    monkeypatch.setattr(sys.modules["ops.as_strided"], "launch", record)
    ops.gcd(x, x)
    ops.gcd_(x, x)
    ops.as_strided(x, (3,), (2,))
    assert seen == [x.device] * 3


class Npus:
    """Two NPUs, the first current in every thread; each thread has a current stream per device, as in torch_npu."""

    def __init__(self) -> None:
        self.thread = threading.local()
        self.capturing: set[int] = set()

    @property
    def current(self) -> int:
        return getattr(self.thread, "current", 0)

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        before, self.thread.current = self.current, device.index
        try:
            yield
        finally:
            self.thread.current = before

    def current_stream(self, device: Any) -> SimpleNamespace:
        return SimpleNamespace(npu_stream=(self.current, device.index, threading.get_ident()))

    def is_current_stream_capturing(self) -> bool:
        return self.current in self.capturing


class Launched:
    """Stands for a kernel and for what it compiles to; notes stream and arguments of every launch."""

    launch_enter_hook = launch_exit_hook = None
    function = packed_metadata = None

    def __init__(self) -> None:
        self.streams: list[Any] = []

    def __getitem__(self, grid: tuple[int]) -> Callable[..., Launched]:
        return lambda *args, **options: self

    def run(self, gx: int, gy: int, gz: int, stream: Any, *rest: Any) -> None:
        self.streams.append(stream)


@pytest.fixture
def npus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Npus]:
    fake = Npus()
    monkeypatch.setattr(devices, "npu", lambda: fake)
    yield fake
    launching.forget()


Device = namedtuple("Device", "type index")


def on_npu(kernel: Launched, index: int) -> None:
    device: Any = Device("npu", index)
    launching.launch(kernel, 1, (1,), (), multibuffer=True, device=device)


def test_every_thread_launches_on_its_own_stream_of_the_tensors_device(npus: Npus) -> None:
    kernel = Launched()
    on_npu(kernel, 1)  # the first call goes through Triton

    def work(_: int) -> int:
        on_npu(kernel, 1)
        assert npus.current == 0
        return threading.get_ident()

    with ThreadPoolExecutor(8) as pool:
        threads = list(pool.map(work, range(32)))
    assert sorted(kernel.streams) == sorted((1, 1, thread) for thread in threads)


def test_a_capture_counts_on_the_tensors_own_device(npus: Npus) -> None:
    kernel = Launched()
    npus.capturing = {0}
    on_npu(kernel, 1)
    on_npu(kernel, 1)
    assert len(kernel.streams) == 1
    npus.capturing = {1}
    with pytest.raises(RuntimeError, match="graph capture"):
        on_npu(kernel, 1)
    assert len(kernel.streams) == 1
    assert npus.current == 0
