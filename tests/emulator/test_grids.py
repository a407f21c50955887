"""How a grid runs: several threads, faults, interrupts, forks, atomics in order."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import emulator
from emulator import pool
from tests.emulator import kernels

LARGE_STACK = "from emulator import launcher; launcher._MAIN_STACK_BYTES = launcher._THREAD_STACK_BYTES = -1"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = emulator.get_num_threads()
    emulator.set_num_threads(request.param)
    yield request.param
    emulator.set_num_threads(before)


def run_python(code: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, in which a crash or a hang is a result and not the end of the tests."""
    prelude = (
        "import os, signal, sys, threading, time\nimport torch\nimport emulator\nfrom tests.emulator import kernels\n"
    )
    return subprocess.run(
        [sys.executable, "-c", prelude + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


@pytest.mark.usefixtures("routed")
def test_every_program_runs_once(threads: int) -> None:
    programs = 5000
    x = torch.zeros(programs * 64)
    kernels.spin[(programs,)](x, 40, BLOCK=64)
    single = torch.zeros(64)
    emulator.set_num_threads(1)
    kernels.spin[(1,)](single, 40, BLOCK=64)
    assert torch.equal(x.view(programs, 64), single.expand(programs, 64))


@pytest.mark.usefixtures("routed")
def test_assertion_names_the_program(threads: int) -> None:
    programs = 4000
    x = torch.ones(programs * 64)
    x[2345 * 64 + 17] = -1
    out = torch.zeros_like(x)
    with pytest.raises(
        emulator.KernelAssertionError, match=r"'checked', program \(2345, 0, 0\): values must not be neg"
    ):
        kernels.checked[(programs,)](x, out, BLOCK=64, debug=True)
    x[2345 * 64 + 17] = 1
    kernels.checked[(programs,)](x, out, BLOCK=64, debug=True)
    assert torch.equal(out, x)


@pytest.mark.usefixtures("routed")
def test_assertion_stops_the_grid() -> None:
    programs = 20000
    x = torch.full((programs * 64,), -1.0)
    out = torch.zeros_like(x)
    with pytest.raises(emulator.KernelAssertionError):
        kernels.checked[(programs,)](x, out, BLOCK=64, debug=True)
    assert (out == 0).sum() > x.numel() // 2


def test_error_in_a_helper_thread_reaches_the_caller() -> None:
    done = threading.Event()

    def fail() -> None:
        done.set()
        raise ZeroDivisionError("in a helper")

    job = pool.submit(fail, 1)
    assert done.wait(10)
    with pytest.raises(ZeroDivisionError, match="in a helper"):
        pool.wait([job])


@pytest.mark.usefixtures("routed")
def test_atomics_run_in_order(threads: int) -> None:
    programs = 3000  # of some 50 us each: enough to be shared, were it not for the order
    slot = torch.full((1,), -1, dtype=torch.int32)
    seen = torch.zeros(programs, dtype=torch.int32)
    kernels.exchange[(programs,)](slot, seen, torch.zeros(1024), 500, BLOCK=1024)
    assert seen.tolist() == list(range(-1, programs - 1))
    assert slot.item() == programs - 1


@pytest.mark.usefixtures("routed")
def test_atomic_add_loses_nothing(threads: int) -> None:
    n = 2_000_000
    x = torch.randint(0, 16, (n,), dtype=torch.int32)
    counts = torch.zeros(16, dtype=torch.int32)
    kernels.histogram[(-(-n // 1024),)](x, counts, n, BINS=16, BLOCK=1024)
    assert counts.tolist() == torch.bincount(x, minlength=16).tolist()


@pytest.mark.parametrize(("threads", "stack"), [(1, ""), (2, ""), (2, LARGE_STACK)], ids=["one", "two", "large stack"])
def test_ctrl_c_ends_a_long_grid(threads: int, stack: str) -> None:
    done = run_python(
        f"""
{stack}
emulator.set_num_threads({threads})
emulator.install()
x = torch.zeros(65535 * 64)
kernels.spin[(2,)](x, 1, BLOCK=64)
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    kernels.spin[(65535,)](x, 100_000, BLOCK=64)  # minutes of work
except KeyboardInterrupt:
    print("interrupted after", time.monotonic() - start)
before = x.clone()
time.sleep(0.2)
assert torch.equal(x, before)  # nobody writes any more
y = torch.zeros(500 * 64)
kernels.spin[(500,)](y, 1000, BLOCK=64)
print("again", bool((y > 0).all()))
""",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("interrupted after")
    assert float(done.stdout.split()[2]) < 10
    assert "again True" in done.stdout


def test_a_forked_child_launches_too() -> None:
    done = run_python(
        """
torch.set_num_threads(1)  # torch's own OpenMP does not survive a fork
emulator.set_num_threads(2)
emulator.install()
def launch():
    x = torch.zeros(2000 * 64)
    kernels.spin[(2000,)](x, 300, BLOCK=64)
    return bool((x > 0).all())
assert launch()
child = os.fork()
if child == 0:
    signal.alarm(20)
    y = torch.randn(100)
    out = torch.zeros(100)
    kernels.add[(1,)](y, y, out, 100, BLOCK=128)  # compiles in the child, too
    helped = launch() and any(thread.name == "ascend-emulator" for thread in threading.enumerate())
    os._exit(0 if helped and torch.equal(out, y + y) else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), launch())
""",
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "True"]


@pytest.mark.usefixtures("routed")
def test_an_empty_grid_does_nothing() -> None:
    out = torch.full((4,), 7, dtype=torch.int32)
    kernels.program_ids[(0, 1, 1)](out)
    assert out.tolist() == [7] * 4


def test_thread_count_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least one thread"):
        emulator.set_num_threads(0)


def test_thread_count_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_threads", None)
    monkeypatch.setenv("ASCEND_EMULATOR_THREADS", "many")
    with pytest.raises(ValueError, match="ASCEND_EMULATOR_THREADS='many' is not a number"):
        emulator.get_num_threads()
    monkeypatch.setenv("ASCEND_EMULATOR_THREADS", "3")
    assert emulator.get_num_threads() == 3
    monkeypatch.setattr(pool, "_threads", None)
    monkeypatch.delenv("ASCEND_EMULATOR_THREADS")
    assert emulator.get_num_threads() == len(os.sched_getaffinity(0))
