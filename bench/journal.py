"""What a sweep has finished so far, on disk after every row, so that neither Ctrl-C nor a kill loses any of it.

One JSON object a line. A writer holds a file lock for the one line it appends; a line torn by a kill is skipped when
reading, and the next writer starts on a line of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.results import ResultsError, Row


class Journal:
    """Finished tasks by key, each with its rows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, list[Row]]:
        """Rows of every finished task; the last entry of a key counts. Unreadable lines are skipped, with a warning."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return {}
        finished: dict[str, list[Row]] = {}
        skipped = 0
        for line in text.splitlines():
            if not line:
                continue
            try:
                entry = json.loads(line)
                finished[entry["key"]] = [Row.from_json(item) for item in entry["rows"]]
            except (ValueError, TypeError, KeyError, ResultsError):
                skipped += 1
        if skipped:
            warnings.warn(f"{self.path}: {skipped} unreadable line(s) skipped", stacklevel=2)
        return finished

    def append(self, key: str, rows: Iterable[Row]) -> None:
        """Record one finished task; it is on disk when this returns."""
        entry = json.dumps({"key": key, "rows": [row.to_json() for row in rows]}, allow_nan=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            prefix = b"" if _ends_with_newline(stream) else b"\n"
            stream.write(prefix + entry.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def _ends_with_newline(stream: Any) -> bool:
    size = stream.seek(0, os.SEEK_END)
    if size == 0:
        return True
    stream.seek(size - 1)
    return bool(stream.read(1) == b"\n")
