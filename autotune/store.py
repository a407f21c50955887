"""Writing stored tunings: merge under a file lock, then put a whole new file in the place of the old one.

The schema and the path are `tiling.tuned`'s, which is also what reads them in every process that only uses tunings.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from tiling import tuned
from tiling.aside import identity, lock_path, set_aside, warn_unusable

# A writer holds the lock for some milliseconds; whoever waits longer than this waits for a stopped process.
LOCK_SECONDS = 60.0

_warned: set[Path] = set()


def save(chip: str, entries: Iterable[tuned.Entry], failed: Mapping[str, str] | None = None) -> Path | None:
    """Add entries (and failed candidates) to the file of a chip; what other processes added meanwhile is kept.

    Returns the file, or None after one warning when it may not be written: a read-only file or directory, or a lock
    that is never free. An unusable file in the way is moved aside with a warning, not overwritten.
    """
    file = tuned.path(chip)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if _is_read_only(file):
            raise PermissionError(f"{file} is read-only")
        with FileLock(lock_path(file), timeout=LOCK_SECONDS):
            document = _read_or_set_aside(file, chip)
            document.entries |= {entry.key: entry for entry in entries}
            document.failed |= failed or {}
            _replace(file, json.dumps(document.to_json(chip), indent=1))
    except (OSError, Timeout) as error:
        if file not in _warned:
            _warned.add(file)
            warnings.warn(f"tunings cannot be stored in {file}: {error}", RuntimeWarning, stacklevel=2)
        return None
    _warned.discard(file)
    tuned.reload()
    return file


def failures(chip: str) -> dict[str, str]:
    """The candidates noted as failed for a chip, by key, with the reason; none when the file cannot be used."""
    try:
        return tuned.read(tuned.path(chip), chip).failed
    except (tuned.UnusableStoreError, OSError):
        return {}


def _is_read_only(file: Path) -> bool:
    """Whether somebody took the write permission away. Replacing a file would not ask, and root is always permitted."""
    return file.exists() and not file.stat().st_mode & 0o222


def _read_or_set_aside(file: Path, chip: str) -> tuned.Document:
    seen = identity(file)
    try:
        return tuned.read(file, chip)
    except (tuned.UnusableStoreError, OSError) as error:
        kept = set_aside(file, seen)
        warn_unusable(file, error, kept)
        if kept is None:
            raise PermissionError(f"an unusable file is in the way and cannot be moved: {error}") from None
        return tuned.Document()


def _replace(file: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())  # else a crash of the machine may leave an empty file under the final name
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
