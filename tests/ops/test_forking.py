"""A fork waits for blocks that hold it back, and for nothing else."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ops.forking import no_fork

pytestmark = pytest.mark.timeout(60)


def forked() -> int:
    """Fork a child that enters the block itself and leaves; its exit status."""
    child = os.fork()
    if child == 0:
        with no_fork():
            os._exit(0)
    return os.waitpid(child, 0)[1]


def test_a_fork_waits_for_the_blocks_of_other_threads() -> None:
    entered, order = threading.Event(), []

    def hold() -> None:
        with no_fork():
            entered.set()
            time.sleep(0.3)
            order.append("left")

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(10)
    assert forked() == 0
    order.append("forked")
    thread.join()
    assert order == ["left", "forked"]


def test_a_thread_that_forks_inside_its_own_block_does_not_wait_for_itself() -> None:
    with no_fork(), no_fork():
        assert forked() == 0


def test_blocks_of_two_threads_do_not_hold_back_each_other() -> None:
    together = threading.Barrier(2, timeout=10)

    def meet() -> None:
        with no_fork():
            together.wait()

    thread = threading.Thread(target=meet)
    thread.start()
    meet()
    thread.join()


def test_a_block_left_by_an_exception_lets_forks_go_on() -> None:
    with pytest.raises(KeyError), no_fork():
        raise KeyError
    assert forked() == 0
