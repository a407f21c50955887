"""A process that runs tasks: one JSON task a line in, one JSON answer a line out, after a first line that it is ready.

A process of its own for each job of a sweep: a crash or a hang takes one row with it, not the sweep.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from bench.tasks import Runner, Task, TaskError, run_task

# What measuring can raise beyond TaskError, reported as the row's failure. A fault of Python itself, such as a
# NameError, ends the worker with its traceback on stderr.
FAILURES = (TaskError, RuntimeError, ValueError, ArithmeticError, OSError, MemoryError)

READY = "{}\n"


def serve(tasks: TextIO, answers: TextIO, runner: Runner = run_task) -> None:
    """Write READY, then run every task of a stream and write `{"rows": [...]}` or `{"error": "..."}` for it."""
    answers.write(READY)
    answers.flush()
    for line in tasks:
        try:
            rows = runner(Task.from_json(json.loads(line)))
            answer: dict[str, Any] = {"rows": [row.to_json() for row in rows]}
        except FAILURES as error:
            text = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
            answer = {"error": text}
        answers.write(json.dumps(answer, allow_nan=False) + "\n")
        answers.flush()


def take_device() -> None:
    """Use the NPU of this process's place on its machine, as torchrun numbers it."""
    from ops import device as devices

    module = devices.npu()
    if module is not None and "LOCAL_RANK" in os.environ:
        module.set_device(int(os.environ["LOCAL_RANK"]))


def main(runner: Runner = run_task) -> None:
    """Serve standard input. What libraries print goes to stderr, so that answers stay apart."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    take_device()
    serve(sys.stdin, answers, runner)


if __name__ == "__main__":
    main()
