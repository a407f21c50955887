"""Look-up of stored tunings: what wins, what is ignored, what a running process sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tiling import aside, tuned, versions
from tiling.platform import Platform, platform

ROOT = Path(__file__).resolve().parents[2]
CHIP = platform()


@dataclass(frozen=True)
class Row:
    """A problem of one size and one dtype."""

    size: int
    dtype: str = "int32"

    def key(self) -> str:
        return f"{self.dtype}[{self.size}]"

    def pattern(self) -> str:
        return self.dtype

    @property
    def elements(self) -> int:
        return self.size


@dataclass(frozen=True)
class RowPlan:
    problem: Row
    block: int
    cores: int = 0

    @property
    def cycles(self) -> float:
        return 10_000.0 if self.block == SLOW else 1000.0 + self.block


SLOW = 2048


def plan(problem: Row, where: Platform, block: int = 64, cores: int = 40) -> RowPlan:
    if block % 16:
        raise ValueError(f"block {block} is not a multiple of 16")
    return RowPlan(problem, block, cores)


def entry(problem: Row, block: int, measure: str = "model", **changed: object) -> tuned.Entry:
    made = tuned.Entry(
        op="row",
        measure=measure,
        problem=problem.key(),
        pattern=problem.pattern(),
        elements=problem.elements,
        cores=CHIP.vector_cores,
        source=tuned.source_hash("row"),
        profile="default",
        decisions={"block": block},
        microseconds=1.0,
        low=0.5,
        high=2.0,
        heuristic_microseconds=2.0,
        confirmed=False,
        device="none",
        written="2026-01-01T00:00:00",
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def document(*entries: tuned.Entry) -> dict[str, object]:
    return {
        "schema": tuned.SCHEMA,
        "chip": CHIP.chip,
        "toolchain": tuned.toolchain(),
        "entries": {item.key: item.to_json() for item in entries},
        "failed": {},
    }


def store(*entries: tuned.Entry) -> Path:
    """Write a store as a writer would: a new file put in the place of the old one."""
    file = tuned.path(CHIP.chip)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name("fresh")
    fresh.write_text(json.dumps(document(*entries)))
    os.replace(fresh, file)
    return file


def resolve(problem: Row, where: Platform = CHIP) -> int | None:
    found = tuned.resolve("row", problem, where, plan)
    return None if found is None else found.block


def reloaded(problem: Row) -> int | None:
    tuned.reload()
    return resolve(problem)


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv(tuned.DIRECTORY_VARIABLE, str(tmp_path / "tuned"))
    tuned.reload()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    tuned.set_resolver(None)


def test_nothing_stored_leaves_the_decision_to_the_heuristic():
    assert resolve(Row(1000)) is None


def test_an_exact_entry_is_used():
    store(entry(Row(1000), 128))
    tuned.reload()
    assert resolve(Row(1000)) == 128


def test_a_device_entry_wins_over_a_model_entry_and_a_host_entry_is_never_used():
    store(entry(Row(1000), 128), entry(Row(1000), 256, "device"), entry(Row(3), 512, "host"))
    tuned.reload()
    assert resolve(Row(1000)) == 256
    assert resolve(Row(3)) is None
    asked = tuned.find("row", Row(3), CHIP, measures=("host",))
    assert [found.decisions["block"] for found in asked] == [512]


def test_the_nearest_size_class_of_the_same_pattern_serves():
    store(entry(Row(1 << 10), 16), entry(Row(1 << 13), 32), entry(Row(1 << 12, "int8"), 48))
    tuned.reload()
    assert resolve(Row(1 << 11)) == 16
    assert resolve(Row(1 << 12)) == 32
    assert resolve(Row(1 << 12, "int8")) == 48
    assert resolve(Row(1 << 12, "int64")) is None


def test_an_exact_entry_comes_before_a_nearer_measure():
    store(entry(Row(1024), 16), entry(Row(1025), 32, "device"))
    tuned.reload()
    assert resolve(Row(1024)) == 16
    assert resolve(Row(1026)) == 32


@pytest.mark.parametrize("classes", [-3, -2, 2, 3])
def test_a_far_size_class_does_not_serve(classes):
    store(entry(Row(1 << 10), 16))
    tuned.reload()
    assert resolve(Row(1 << (10 + classes))) == (16 if abs(classes) <= tuned.REACH else None)


@pytest.mark.parametrize("changed", [{"source": "another"}, {"cores": 48}, {"profile": "calibrated"}])
def test_an_entry_of_another_source_core_count_or_profile_is_void(changed):
    store(entry(Row(1000), 128, **changed))
    tuned.reload()
    assert resolve(Row(1000)) is None


def test_a_device_entry_does_not_depend_on_the_cost_profile():
    store(entry(Row(1000), 128, "device"))
    tuned.reload()
    assert resolve(Row(1000), replace(CHIP, profile="calibrated")) == 128


def test_a_neighbour_that_does_not_suit_is_passed_over_silently():
    store(entry(Row(1 << 10), 17), entry(Row(1 << 12), 32))
    tuned.reload()
    assert resolve(Row((1 << 10) + 1)) == 32


def test_a_neighbour_does_not_say_how_many_cores():
    store(entry(Row(1 << 10), 32, decisions={"block": 32, "cores": 1}))
    tuned.reload()
    assert tuned.resolve("row", Row(1 << 10), CHIP, plan) == RowPlan(Row(1 << 10), 32, 1)
    assert tuned.resolve("row", Row(1 << 11), CHIP, plan) == RowPlan(Row(1 << 11), 32, 40)


def test_a_neighbour_the_planner_doubts_is_passed_over():
    store(entry(Row(1 << 10), SLOW), entry(Row(1 << 12), 32))
    tuned.reload()
    assert resolve(Row(1 << 10)) == SLOW
    assert resolve(Row((1 << 10) + 1)) == 32


def test_a_neighbour_that_confirmed_the_heuristic_leaves_the_decision_to_it():
    store(entry(Row(1 << 10), 32, confirmed=True), entry(Row(1 << 12), 48))
    tuned.reload()
    assert resolve(Row(1 << 10)) == 32
    assert resolve(Row((1 << 10) + 1)) is None


@pytest.mark.parametrize("decisions", [{"block": 17}, {"blok": 16}])
def test_an_own_entry_that_does_not_suit_warns_once(decisions):
    store(entry(Row(1000), 16, decisions=decisions))
    tuned.reload()
    with pytest.warns(RuntimeWarning, match=r"row does not suit int32\[1000\]"):
        assert resolve(Row(1000)) is None
    assert resolve(Row(1000)) is None


# --- changes while a process runs ------------------------------------------------------------------------------------


def test_generation_changes_with_the_file_within_a_second():
    store(entry(Row(1000), 16))
    tuned.reload()
    assert resolve(Row(1000)) == 16
    before = tuned.generation()
    store(entry(Row(1000), 32))
    deadline = time.monotonic() + tuned.SECONDS_BETWEEN_LOOKS + 0.2
    while tuned.generation() == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tuned.generation() != before
    assert resolve(Row(1000)) == 32


def test_reload_sees_a_change_at_once():
    store(entry(Row(1000), 16))
    tuned.reload()
    assert resolve(Row(1000)) == 16
    store(entry(Row(1000), 32))
    before = tuned.generation()
    tuned.reload()
    assert tuned.generation() != before
    assert resolve(Row(1000)) == 32


def test_a_removed_file_is_forgotten():
    file = store(entry(Row(1000), 16))
    tuned.reload()
    assert resolve(Row(1000)) == 16
    file.unlink()
    tuned.reload()
    assert resolve(Row(1000)) is None


def test_at_most_one_stat_a_second(monkeypatch):
    store(entry(Row(1000), 16))
    tuned.reload()
    resolve(Row(1000))
    stats = []
    monkeypatch.setattr(tuned, "identity", lambda file, real=aside.identity: stats.append(file) or real(file))
    start = time.monotonic()
    for _ in range(20_000):
        tuned.generation()
        if time.monotonic() - start > 0.9:
            break
    assert len(stats) <= 1


# --- files that cannot be used ---------------------------------------------------------------------------------------

WHOLE = json.dumps(document(entry(Row(1000), 16)))
UNUSABLE = {
    "empty": "",
    "noise": "\x00\x01 not json",
    "truncated": WHOLE[: len(WHOLE) // 2],
    "a list": "[]",
    "another schema": json.dumps(document() | {"schema": tuned.SCHEMA + 1}),
    "another chip": json.dumps(document() | {"chip": "Ascend910B1"}),
    "another toolchain": json.dumps(document() | {"toolchain": "triton-ascend 9"}),
    "no entries": json.dumps({k: v for k, v in document().items() if k != "entries"}),
    "a field missing": json.dumps(document() | {"entries": {"x": {"op": "row"}}}),
    "a field of another type": json.dumps(
        document() | {"entries": {"x": entry(Row(1), 1).to_json() | {"cores": "40"}}}
    ),
    "nested too deep": "[" * 200_000,
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_warns_once_and_is_moved_aside_whole(text):
    file = tuned.path(CHIP.chip)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.warns(RuntimeWarning, match="are ignored") as caught:
        assert reloaded(Row(1000)) is None
    assert len(caught) == 1
    assert resolve(Row(1000)) is None
    assert not file.exists()
    (kept,) = file.parent.glob("*.unusable-*")
    assert kept.read_text() == text
    store(entry(Row(1000), 16))
    tuned.reload()
    assert resolve(Row(1000)) == 16


def test_a_folder_in_the_place_of_the_file_is_moved_aside():
    file = tuned.path(CHIP.chip)
    (file / "inside").mkdir(parents=True)
    with pytest.warns(RuntimeWarning, match="are ignored"):
        assert reloaded(Row(1000)) is None
    (kept,) = file.parent.glob("*.unusable-*")
    assert (kept / "inside").is_dir()


def test_a_file_where_the_directory_should_be_is_left_alone(tmp_path, monkeypatch):
    occupied = tmp_path / "occupied"
    occupied.write_text("mine")
    monkeypatch.setenv(tuned.DIRECTORY_VARIABLE, str(occupied))
    with pytest.warns(RuntimeWarning, match="left where it is"):
        assert reloaded(Row(1000)) is None
    assert resolve(Row(1000)) is None
    assert occupied.read_text() == "mine"


def test_a_read_only_file_is_read():
    file = store(entry(Row(1000), 16))
    file.chmod(0o444)
    tuned.reload()
    assert resolve(Row(1000)) == 16


def test_a_file_a_writer_is_busy_with_is_left_to_the_writer():
    filelock = pytest.importorskip("filelock", reason="needs the autotune extra")
    file = tuned.path(CHIP.chip)
    file.parent.mkdir(parents=True)
    file.write_text("garbage")
    with filelock.FileLock(aside.lock_path(file)), pytest.warns(RuntimeWarning, match="left where it is"):
        assert reloaded(Row(1000)) is None
    assert file.read_text() == "garbage"


def test_a_file_replaced_in_between_is_not_moved_aside():
    file = store()
    seen = aside.identity(file)
    store(entry(Row(1000), 16))
    assert aside.set_aside(file, seen) is None
    assert file.exists()


# --- the resolver ----------------------------------------------------------------------------------------------------


def test_the_resolver_answers_after_the_exact_entry_and_before_a_neighbour():
    store(entry(Row(1000), 16))
    tuned.reload()
    asked = []

    def tune(op, problem, where, plan_function):
        asked.append((op, problem, where))
        return plan_function(problem, where, block=256) if problem.size == 1001 else None

    assert tuned.set_resolver(tune) is None
    assert resolve(Row(1000)) == 16
    assert asked == []
    assert resolve(Row(1001)) == 256
    assert resolve(Row(1002)) == 16
    assert resolve(Row(1 << 20)) is None
    assert asked == [("row", Row(size), CHIP) for size in (1001, 1002, 1 << 20)]
    assert tuned.set_resolver(None) is tune
    assert resolve(Row(1001)) == 16


def test_the_resolver_is_not_asked_about_its_own_calls():
    depth = []

    def tune(op, problem, where, plan_function):
        depth.append(problem)
        assert resolve(Row(7)) is None
        return plan_function(problem, where)

    tuned.set_resolver(tune)
    assert resolve(Row(1000)) == 64
    assert depth == [Row(1000)]


def test_a_failing_resolver_leaves_no_trace():
    def fail(op, problem, where, plan_function):
        raise KeyError("inside")

    tuned.set_resolver(fail)
    for _ in range(2):
        with pytest.raises(KeyError, match="inside"):
            resolve(Row(1000))


def test_setting_a_resolver_changes_the_generation():
    before = tuned.generation()
    tuned.set_resolver(None)
    assert tuned.generation() != before


def test_threads_see_one_answer_while_the_file_changes():
    store(entry(Row(1000), 16))
    tuned.reload()
    answers = set()
    failures = []

    def ask():
        try:
            for _ in range(300):
                answers.add(resolve(Row(1000)))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for block in (32, 48, 64):
        store(entry(Row(1000), block))
        tuned.reload()
    for thread in threads:
        thread.join()
    assert not failures
    assert answers <= {16, 32, 48, 64}
    assert resolve(Row(1000)) == 64


# --- keys, paths, weight ---------------------------------------------------------------------------------------------


def test_keys_differ_in_everything_that_makes_a_tuning_void():
    first = entry(Row(1000), 16)
    others = [
        replace(first, **change)
        for change in ({"op": "x"}, {"measure": "device"}, {"cores": 48}, {"source": "x"}, {"problem": "x"})
    ]
    assert len({item.key for item in [first, *others]}) == len(others) + 1
    assert replace(first, decisions={"block": 32}).key == first.key


def test_the_path_names_chip_and_toolchain(tmp_path):
    name = tuned.path("Ascend910B3").name
    assert name.startswith("Ascend910B3-triton-ascend-3.2.0")
    assert tuned.path("Ascend910B1") != tuned.path("Ascend910B3")
    assert tuned.path("Ascend910B3").parent == tmp_path / "tuned"


def test_without_the_variable_the_path_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv(tuned.DIRECTORY_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tuned.directory().is_relative_to(tmp_path)


def test_reading_imports_nothing_heavy():
    code = (
        "import sys; from tiling import tuned; from tiling.platform import platform\n"
        "tuned.path('Ascend910B3'); tuned.generation(); tuned.source_hash('gcd')\n"
        "print(sorted({'torch', 'triton', 'numpy', 'filelock', 'llvmlite'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_source_hash_follows_the_operators_files_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "_ROOT", tmp_path)
    hashes = []
    for name in ("tiling/gcd.py", "ops/kernels/gcd.py", "ops/kernels/gcd_wide.py", "ops/kernels/intrinsics.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1")
        versions.source_hash.cache_clear()
        hashes.append(tuned.source_hash("gcd"))
    (tmp_path / "tiling/as_strided.py").write_text("x = 2")
    versions.source_hash.cache_clear()
    assert tuned.source_hash("gcd") == hashes[-1]
    versions.source_hash.cache_clear()
    assert len(set(hashes)) == len(hashes)


def test_a_child_forked_while_a_thread_reads_does_not_hang():
    store(entry(Row(1000), 16))
    tuned.reload()
    held = threading.Event()
    release = threading.Event()

    def hold():
        with tuned._state.lock:
            held.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        tuned.reload()
        os._exit(0 if resolve(Row(1000)) == 16 else 1)
    deadline = time.monotonic() + 10
    status = None
    while status is None and time.monotonic() < deadline:
        done, code = os.waitpid(child, os.WNOHANG)
        status = code if done else None
        time.sleep(0.01)
    release.set()
    thread.join()
    assert status == 0
