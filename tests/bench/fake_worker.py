"""A worker whose tasks do what their case's name says; every run is logged in the file FAKE_WORKER_LOG names."""

from __future__ import annotations

import os
import time

from bench.results import Row
from bench.tasks import Task, TaskError
from bench.worker import main


def run(task: Task) -> list[Row]:
    """Fail, crash, hang, print, or measure something made up."""
    with open(os.environ["FAKE_WORKER_LOG"], "a", encoding="utf-8") as log:
        log.write(f"{task.case.name}\n")
    name = task.case.name
    if name.startswith("fail"):
        raise TaskError("made to fail\nsecond line")
    if name.startswith("crash"):
        os._exit(3)
    if name.startswith("hang"):
        time.sleep(600)
    if name.startswith("slow"):
        time.sleep(0.3)
    print("a library prints to stdout")
    made = Row(
        op=task.case.op,
        case=name,
        dtype=task.case.dtype,
        provider="this project",
        metric="modelled time",
        unit="us",
        p20=1.0,
        p50=2.0,
        p80=3.0,
        device="a fake device",
        note=os.environ.get("RANK", ""),
    )
    return [made]


if __name__ == "__main__":
    main(run)
