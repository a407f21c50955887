"""Writing the store: many processes at once, files in the way, and what another process sees."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune import store
from tests.autotune.double import ROOT
from tests.tiling.test_tuned import Row, document, entry, plan
from tiling import tuned
from tiling.platform import platform

CHIP = platform()

WRITER = """
import sys
from autotune import store
from tests.tiling.test_tuned import CHIP, Row, entry
number = int(sys.argv[1])
for at in range(int(sys.argv[2])):
    store.save(CHIP.chip, [entry(Row(1000 * number + at), 16)], {f"failed {number} {at}": "reason"})
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


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
    writers = [start(WRITER, number, 12) for number in range(8)]
    assert [writer.wait(120) for writer in writers] == [0] * 8
    document = stored()
    assert {item.elements for item in document.entries.values()} == {
        1000 * number + at for number in range(8) for at in range(12)
    }
    assert len(document.failed) == 96
    assert not list(tuned.directory().glob("*.tmp"))


READER = """
import sys, time
from tests.tiling.test_tuned import CHIP, Row, plan
from tiling import tuned
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
    reader = start(READER)
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
    with FileLock(tuned.lock_path(tuned.path(CHIP.chip))), pytest.warns(RuntimeWarning, match="cannot be stored"):
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
