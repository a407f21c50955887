"""Helper threads for grids that are worth more than one thread: made on first use, dropped by a fork.

The calling thread always takes part, so a launch never waits for a helper that is busy elsewhere.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence

STACK_BYTES = 64 * 1024 * 1024  # virtual; a kernel's tiles live on the stack
_threads: int | None = None


def get_num_threads() -> int:
    """Threads that one launch may use: ASCEND_EMULATOR_THREADS, by default the CPUs this process may run on."""
    global _threads
    if _threads is None:
        text = os.environ.get("ASCEND_EMULATOR_THREADS", "")
        try:
            _threads = max(1, int(text)) if text else len(os.sched_getaffinity(0))
        except ValueError:
            raise ValueError(f"ASCEND_EMULATOR_THREADS={text!r} is not a number") from None
    return _threads


def set_num_threads(count: int) -> None:
    """Set how many threads one launch may use, the calling one included.

    >>> set_num_threads(1)
    """
    global _threads
    if count < 1:
        raise ValueError(f"expected at least one thread, got {count}")
    _threads = count


class Job:
    """One function, run once by a helper unless it is withdrawn first."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._claimed = threading.Lock()
        self._done = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        if not self._claimed.acquire(blocking=False):
            return
        try:
            self._work()
        except BaseException as error:  # handed to the thread that waits
            self.error = error
        finally:
            self._done.set()

    def finish(self, withdraw: bool = True) -> None:
        """Wait until the job is over, or take it back if that is wanted and nobody has begun it."""
        if not (withdraw and self._claimed.acquire(blocking=False)):
            self._done.wait()


def wait(jobs: Sequence[Job], withdraw: bool = True, stop: Callable[[], None] = lambda: None) -> None:
    """Wait for jobs, even through Ctrl-C: they work on memory that the caller may free as soon as we return.

    Jobs that nobody has begun are withdrawn if `withdraw`; `stop` is called at an interrupt, to make the others short.
    Raises the first error of a job, or the interrupt.
    """
    errors: list[BaseException] = []
    for job in jobs:
        errors += _outlast(job, withdraw, stop)
        if job.error is not None:
            errors.append(job.error)
    if errors:
        raise errors[0]


def _outlast(job: Job, withdraw: bool, stop: Callable[[], None]) -> list[BaseException]:
    """Wait for one job; returns the interrupts that came meanwhile."""
    try:
        job.finish(withdraw)
    except KeyboardInterrupt as interrupt:
        stop()
        return [interrupt, *_outlast(job, withdraw, stop)]
    return []


class Pool:
    """Threads that take jobs from one queue."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._size = 0
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], object], size: int) -> Job:
        """Queue a job, with at least `size` threads to serve the queue."""
        job = Job(work)
        if self._size < size:
            self._grow(size)
        self._jobs.put(job)
        return job

    def _grow(self, size: int) -> None:
        with self._lock:
            before = threading.stack_size(STACK_BYTES)
            try:
                while self._size < size:
                    threading.Thread(target=self._serve, name="ascend-emulator", daemon=True).start()
                    self._size += 1
            finally:
                threading.stack_size(before)

    def _serve(self) -> None:
        while True:
            self._jobs.get().run()


_pool = Pool()


def submit(work: Callable[[], object], size: int) -> Job:
    """Give a job to the process's helper threads, of which there shall be `size`."""
    return _pool.submit(work, size)


def _forget() -> None:
    global _pool
    _pool = Pool()  # a child of fork has the queue but not the threads that serve it


os.register_at_fork(after_in_child=_forget)
