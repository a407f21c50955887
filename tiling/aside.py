"""Files that cannot be used: renamed out of the way under the writers' lock, so that nothing is lost silently."""

from __future__ import annotations

import fcntl
import os
import time
import warnings
from pathlib import Path

Identity = tuple[int, int, int]


def identity(file: Path) -> Identity | None:
    """Inode, time and size of a file: what tells one version from the next. None when it cannot be looked at."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def lock_path(file: Path) -> Path:
    """The lock that guards replacing or moving `file`; autotune.store takes it through filelock."""
    return file.with_name(file.name + ".lock")


def set_aside(file: Path, seen: Identity | None) -> Path | None:
    """Rename an unusable file so that it is kept and no longer in the way. The caller holds the lock.

    Returns the new path, or None when the file is no longer the one `seen` or the directory cannot be written.
    """
    if seen is None or identity(file) != seen:
        return None
    kept = file.with_name(f"{file.name}.unusable-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}-{seen[0]}")
    try:
        os.rename(file, kept)
    except OSError:
        return None
    return kept


def set_aside_if_free(file: Path, seen: Identity | None) -> Path | None:
    """`set_aside` under the writers' lock, unless a writer holds it: then that writer deals with the file.

    flock on the same path is what filelock does on POSIX, so the two exclude each other.
    """
    try:
        descriptor = os.open(lock_path(file), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return set_aside(file, seen)
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)


def warn_unusable(file: Path, reason: object, kept: Path | None) -> None:
    """The one warning a file that cannot be used gives."""
    fate = f"kept as {kept.name}" if kept else "left where it is"
    warnings.warn(f"tunings in {file} are ignored ({reason}); the file is {fate}", RuntimeWarning, stacklevel=3)
