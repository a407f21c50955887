"""A program's pipeline as a Chrome or Perfetto trace: open it at ui.perfetto.dev.

>>> write(report.launches[0], report.costs, Path("out.json"))
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from emulator import replay
from emulator.cycles import Launch
from emulator.replay import PIPES, Costs


def events(launch: Launch, costs: Costs, program: int | None = None) -> list[dict[str, Any]]:
    """Trace events of one program (by default the first that ran): one track per pipe, times in microseconds.

    Raises ValueError if that program did not run.
    """
    chosen = [stream for stream in launch.streams if program is None or stream.program == program]
    if not chosen:
        raise ValueError(f"program {program} did not run; there are {[stream.program for stream in launch.streams]}")
    stream = chosen[0]
    per_microsecond = costs["clock"].value * 1e3
    title = f"{launch.kernel.name} program {stream.program}"
    made: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": title}}]
    for track, pipe in enumerate(PIPES):
        made.append({"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": pipe}})
        made.append({"ph": "M", "pid": 0, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}})
    made.extend(
        {
            "ph": "X",
            "pid": 0,
            "tid": PIPES.index(one.pipe),
            "name": one.name,
            "ts": one.start / per_microsecond,
            "dur": one.duration / per_microsecond,
            "args": {"cycles": one.duration, "line": one.line, "instruction": launch.kernel.instruction(one.line)},
        }
        for one in replay.timeline(stream.events, replay.values(costs))
    )
    return made


def write(launch: Launch, costs: Costs, path: Path, program: int | None = None) -> int:
    """Write the trace of one program; returns how many steps it has."""
    made = events(launch, costs, program)
    path.write_text(json.dumps({"traceEvents": made, "displayTimeUnit": "ns"}))
    return sum(event["ph"] == "X" for event in made)
