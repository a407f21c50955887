"""Worker processes for a sweep's tasks: as many as there are jobs, restarted when one dies or takes too long."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.results import Row
from bench.tasks import Task

START_SECONDS = 300.0  # for imports and for the device to wake up

COMMAND = (sys.executable, "-m", "bench.worker")


@dataclass
class Worker:
    """A worker process and the task it has, if any."""

    process: subprocess.Popen[bytes]
    task: Task | None = None
    started: float = 0.0
    ready: bool = False
    unread: bytes = field(default=b"", repr=False)

    def give(self, task: Task) -> None:
        """Hand it a task."""
        assert self.process.stdin is not None
        self.task, self.started = task, time.monotonic()
        self.process.stdin.write(json.dumps(task.to_json()).encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """End the process and everything it started; it is in a process group of its own."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@dataclass(frozen=True)
class Finished:
    """A task and its rows, or the reason why it has none."""

    task: Task
    rows: list[Row]
    error: str | None = None


class Pool:
    """Runs tasks in worker processes; a context manager that leaves no process behind.

    A task may take `timeout` seconds, which begin when its worker is ready: imports on a busy machine do not count.
    """

    def __init__(self, jobs: int, timeout: float, command: Sequence[str] = COMMAND) -> None:
        self.jobs = jobs
        self.timeout = timeout
        self.command = list(command)
        self.workers: list[Worker] = []
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()
        self.workers.clear()
        self.selector.close()

    def run(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        """Run tasks and yield each as it finishes, in whatever order that is."""
        waiting = list(reversed(tasks))
        while waiting or any(worker.task for worker in self.workers):
            while waiting and (worker := self._idle(len(waiting))) is not None:
                self._give(worker, waiting)
            yield from self._collect()

    def _give(self, worker: Worker, waiting: list[Task]) -> None:
        task = waiting.pop()
        try:
            worker.give(task)
        except BrokenPipeError:  # it died while it had nothing to do: the task is still to be done
            worker.task = None
            self._lost(worker, "its process ended")
            waiting.append(task)

    def _idle(self, wanted: int) -> Worker | None:
        for worker in self.workers:
            if worker.task is None:
                return worker
        if len(self.workers) >= min(self.jobs, wanted + len(self.workers)):
            return None
        # Its own session, so that Ctrl-C reaches only this process, which then decides what happens to the workers.
        process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        worker = Worker(process)
        self.workers.append(worker)
        self.selector.register(process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        return worker

    def _collect(self) -> Iterator[Finished]:
        for key, _ in self.selector.select(timeout=0.5):
            worker: Worker = key.data
            chunk = os.read(key.fd, 1 << 16)
            worker.unread += chunk
            if not chunk:
                finished = self._lost(worker, "its process ended")
                if finished:
                    yield finished
            while b"\n" in worker.unread:
                line, _, worker.unread = worker.unread.partition(b"\n")
                if worker.ready:
                    yield self._answered(worker, json.loads(line))
                worker.ready, worker.started = True, time.monotonic()
        for worker in list(self.workers):
            limit = self.timeout if worker.ready else self.timeout + START_SECONDS
            if worker.task and time.monotonic() - worker.started > limit:
                finished = self._lost(worker, f"it took longer than {self.timeout:g} s")
                if finished:
                    yield finished

    def _answered(self, worker: Worker, answer: dict[str, Any]) -> Finished:
        task, worker.task = worker.task, None
        assert task is not None
        if "error" in answer:
            return Finished(task, [], answer["error"])
        return Finished(task, [Row.from_json(row) for row in answer["rows"]])

    def _lost(self, worker: Worker, reason: str) -> Finished | None:
        """Drop a worker; its task, if any, has failed."""
        self.selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        self.workers.remove(worker)
        worker.end()
        code = worker.process.returncode
        ending = f" (exit code {code})" if reason.endswith("ended") else ""
        return None if worker.task is None else Finished(worker.task, [], reason + ending)
