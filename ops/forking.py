"""Makes a fork wait for first calls under way, so that no child inherits a lock whose holder it does not have.

A first call imports, compiles and writes caches under a dozen locks, ours, Triton's and Python's. A process forked
meanwhile (a DataLoader worker started beside a thread that computes) would wait for them for ever. The logging module
treats its own lock in the same way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_condition = threading.Condition(threading.Lock())
_under_way = 0
_thread = threading.local()


@contextmanager
def no_fork() -> Iterator[None]:
    """Hold back forks by other threads inside the block. Blocks of several threads do not hold back each other."""
    global _under_way
    with _condition:
        _under_way += 1
    _thread.depth = _own() + 1
    try:
        yield
    finally:
        _thread.depth -= 1
        with _condition:
            _under_way -= 1
            _condition.notify_all()


def _own() -> int:
    depth: int = getattr(_thread, "depth", 0)
    return depth


def _before_fork() -> None:
    _condition.acquire()
    while _under_way > _own():  # a thread that forks in its own first call does not wait for itself
        _condition.wait()


def _after_fork() -> None:
    _condition.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
