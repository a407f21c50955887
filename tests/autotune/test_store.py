"""Writing the store: many processes at once, files in the way, and what another process sees."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import autotune
from autotune import operators, store
from tests.autotune.double import ROOT, DoubleProblem, Faults, TableMeasure, double
from tests.tiling.test_tuned import Row, document, entry, plan
from tiling import aside, tuned
from tiling.platform import platform

CHIP = platform()

FORK = multiprocessing.get_context("fork")  # a fresh interpreter would spend its time importing torch


def write_many(number: int) -> None:
    for at in range(12):
        store.save(CHIP.chip, [entry(Row(1000 * number + at), 16)], {f"failed {number} {at}": "reason"})


def tune_many() -> None:
    operators.register(double(Faults()))
    for size in range(1, 11):
        result = autotune.tune("double", DoubleProblem(size), TableMeasure(lambda plan: 300.0 - plan.block))
        assert result.plan.block == 256


def run_at_once(targets: Sequence[tuple[Callable[..., None], tuple[int, ...]]]) -> None:
    processes = [FORK.Process(target=target, args=arguments) for target, arguments in targets]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def stored() -> tuned.Document:
    return tuned.read(tuned.path(CHIP.chip), CHIP.chip)


def test_what_is_saved_is_read_back():
    file = store.save(CHIP.chip, [entry(Row(1), 16), entry(Row(2), 32)], {"x": "why"})
    assert file == tuned.path(CHIP.chip)
    assert sorted(item.decisions["block"] for item in stored().entries.values()) == [16, 32]
    assert store.failures(CHIP.chip) == {"x": "why"}


def test_saving_adds_and_replaces():
    store.save(CHIP.chip, [entry(Row(1), 16), entry(Row(2), 16)])
    store.save(CHIP.chip, [entry(Row(2), 32), entry(Row(3), 48)])
    assert {item.problem: item.decisions["block"] for item in stored().entries.values()} == {
        "int32[1]": 16,
        "int32[2]": 32,
        "int32[3]": 48,
    }


def test_eight_processes_writing_at_once_lose_nothing():
    run_at_once([(write_many, (number,)) for number in range(8)])
    document = stored()
    assert {item.elements for item in document.entries.values()} == {
        1000 * number + at for number in range(8) for at in range(12)
    }
    assert len(document.failed) == 96
    assert not list(tuned.directory().glob("*.tmp"))


def test_two_processes_tuning_the_same_problems_at_once_store_each_once():
    run_at_once([(tune_many, ()), (tune_many, ())])
    assert sorted(item.elements for item in stored().entries.values()) == list(range(1, 11))


READER = """
import sys, time
from tests.tiling.test_tuned import CHIP, Row, plan
from tiling import aside, tuned
def now():
    found = tuned.resolve("row", Row(1000), CHIP, plan)
    return found.block if found else None
print(now(), flush=True)
sys.stdin.readline()
deadline = time.monotonic() + 1.2
while now() is None and time.monotonic() < deadline:
    tuned.generation()
    time.sleep(0.01)
print(now(), flush=True)
"""


def test_a_tuning_in_one_process_changes_the_plan_in_another_within_a_second():
    reader = subprocess.Popen(
        [sys.executable, "-c", READER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    assert reader.stdin is not None
    assert reader.stdout.readline().strip() == "None"
    store.save(CHIP.chip, [entry(Row(1000), 256)])
    reader.stdin.write("go\n")
    reader.stdin.flush()
    assert reader.stdout.readline().strip() == "256"
    assert reader.wait(10) == 0


def test_the_writing_process_sees_its_own_tuning_at_once():
    assert tuned.resolve("row", Row(1000), CHIP, plan) is None
    store.save(CHIP.chip, [entry(Row(1000), 256)])
    found = tuned.resolve("row", Row(1000), CHIP, plan)
    assert found is not None
    assert found.block == 256


WHOLE = json.dumps(document(entry(Row(1000), 16)))


@pytest.mark.parametrize(
    "text",
    ["", "not json", WHOLE[:100], json.dumps(document() | {"schema": 99}), json.dumps(document() | {"toolchain": "x"})],
    ids=["empty", "noise", "truncated", "another schema", "another toolchain"],
)
def test_an_unusable_file_is_moved_aside_by_the_writer(text: str):
    file = tuned.path(CHIP.chip)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.warns(RuntimeWarning, match="are ignored") as caught:
        store.save(CHIP.chip, [entry(Row(1), 16)])
    assert len(caught) == 1
    (kept,) = file.parent.glob("*.unusable-*")
    assert kept.read_text() == text
    assert len(stored().entries) == 1


def test_a_directory_that_cannot_be_made_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "occupied").write_text("mine")
    monkeypatch.setenv(tuned.DIRECTORY_VARIABLE, str(tmp_path / "occupied" / "inside"))
    with pytest.warns(RuntimeWarning, match="cannot be stored"):
        assert store.save(CHIP.chip, [entry(Row(1), 16)]) is None
    assert store.save(CHIP.chip, [entry(Row(1), 16)]) is None
    assert (tmp_path / "occupied").read_text() == "mine"


def test_a_lock_that_is_never_free_is_given_up(monkeypatch: pytest.MonkeyPatch):
    from filelock import FileLock

    monkeypatch.setattr(store, "LOCK_SECONDS", 0.1)
    tuned.directory().mkdir(parents=True)
    started = time.monotonic()
    with FileLock(aside.lock_path(tuned.path(CHIP.chip))), pytest.warns(RuntimeWarning, match="cannot be stored"):
        assert store.save(CHIP.chip, [entry(Row(1), 16)]) is None
    assert time.monotonic() - started < 5


def test_a_writer_killed_while_writing_leaves_the_old_file_whole(monkeypatch: pytest.MonkeyPatch):
    store.save(CHIP.chip, [entry(Row(1), 16)])
    before = tuned.path(CHIP.chip).read_bytes()

    def killed(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.save(CHIP.chip, [entry(Row(2), 16)])
    assert tuned.path(CHIP.chip).read_bytes() == before
    assert not list(tuned.directory().glob("*.tmp"))
