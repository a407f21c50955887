"""Results in long format, one figure a row, as JSON and CSV that later tools can read without knowing the command."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

SCHEMA = 1


class ResultsError(ValueError):
    """A results file that cannot be read as one; the text names the file and what is wrong with it."""


@dataclass(frozen=True)
class Row:
    """One figure: what ran (op, case, dtype, plan, provider), what was taken (metric, unit, quantiles) and where.

    `ok` is the outcome of the check against the exact reference, None where nothing was checked (a modelled figure of a
    sampled grid, a roof). A figure that could not be taken is None, never NaN, inf or 0. `threads` is the number of CPU
    threads, None for a default or a device. `bytes` counts each element read once and each written once.
    """

    op: str
    case: str
    dtype: str
    provider: str
    metric: str
    unit: str
    p20: float | None = None
    p50: float | None = None
    p80: float | None = None
    elements: int = 0
    bytes: int = 0
    gb_per_s: float | None = None
    ok: bool | None = None
    plan: str = ""
    note: str = ""
    threads: int | None = None
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    timestamp: str = ""

    def __post_init__(self) -> None:
        for name in ("p20", "p50", "p80", "gb_per_s"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                object.__setattr__(self, name, None)

    def to_json(self) -> dict[str, Any]:
        """The row as plain data; `Row.from_json` is its inverse."""
        return {**asdict(self), "versions": dict(self.versions)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """A row from plain data. Raises ResultsError naming fields that are unknown or missing."""
        known = {item.name for item in fields(cls)}
        unknown, missing = set(data) - known, _REQUIRED - set(data)
        if unknown or missing:
            raise ResultsError(f"not a result row: unknown {sorted(unknown)}, missing {sorted(missing)}")
        return cls(**data)


_REQUIRED = {"op", "case", "dtype", "provider", "metric", "unit"}


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def stamp(rows: Iterable[Row], device: str, versions: Mapping[str, str]) -> list[Row]:
    """The rows with device, versions and time filled in where a row does not say otherwise."""
    moment = now()
    return [
        replace(
            row,
            device=row.device or device,
            versions=row.versions or versions,
            timestamp=row.timestamp or moment,
        )
        for row in rows
    ]


def write_json(path: Path, rows: Iterable[Row]) -> None:
    """Write `{"schema": 1, "rows": [...]}`; strict JSON, so no NaN can slip in."""
    document = {"schema": SCHEMA, "rows": [row.to_json() for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Write one line a row under a header line. Empty cells are figures not taken; versions are JSON in their cell."""
    names = [item.name for item in fields(Row)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        for row in rows:
            cells = row.to_json()
            cells["versions"] = json.dumps(cells["versions"], sort_keys=True)
            writer.writerow({name: "" if value is None else value for name, value in cells.items()})


def read(path: Path) -> list[Row]:
    """Rows of a .json or .csv results file. Raises ResultsError for anything that is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: {error}") from error
    try:
        return _rows_of_csv(text) if path.suffix == ".csv" else _rows_of_json(text)
    except (ValueError, TypeError, KeyError) as error:
        raise ResultsError(f"{path}: {error}") from error


def _rows_of_json(text: str) -> list[Row]:
    document = json.loads(text)
    if not isinstance(document, dict) or "rows" not in document:
        raise ResultsError("no result rows in it")
    if document.get("schema") != SCHEMA:
        raise ResultsError(f"schema {document.get('schema')!r}, this version reads {SCHEMA}")
    return [Row.from_json(item) for item in document["rows"]]


def _rows_of_csv(text: str) -> list[Row]:
    parsers: dict[str, Any] = {
        "p20": float,
        "p50": float,
        "p80": float,
        "gb_per_s": float,
        "elements": int,
        "bytes": int,
        "threads": int,
        "ok": {"True": True, "False": False}.__getitem__,
        "versions": json.loads,
    }
    rows = []
    for cells in csv.DictReader(text.splitlines()):
        data: dict[str, Any] = {}
        for name, cell in cells.items():
            if name in parsers:
                data[name] = parsers[name](cell) if cell != "" else None
            else:
                data[name] = cell
        rows.append(Row.from_json(data))
    return rows


def write(rows: Iterable[Row], json_path: str | None, csv_path: str | None) -> None:
    """Write the files that `--json` and `--csv` ask for."""
    rows = list(rows)
    if json_path:
        write_json(Path(json_path), rows)
    if csv_path:
        write_csv(Path(csv_path), rows)


def add_output_arguments(parser: Any) -> None:
    """The two options that every command with results has."""
    parser.add_argument("--json", metavar="PATH", help="write the results as JSON, one object a figure")
    parser.add_argument("--csv", metavar="PATH", help="write the results as CSV, one line a figure")
