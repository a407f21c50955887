"""A sweep goes on after Ctrl-C, a kill, a crash; repeats nothing; splits over processes and merges."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import cases, results, sweep
from bench.cases import GcdCase

ROOT = Path(__file__).resolve().parents[2]
WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


class Bed:
    """A folder with a case file, a journal and the log of what the workers ran."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.cases, self.journal, self.log = (folder / name for name in ("cases.json", "journal.jsonl", "log"))
        listed = [GcdCase(name, ("int8", "int8"), ((4,), (4,))) for name in names]
        self.cases.write_text(json.dumps([cases.case_to_json(case) for case in listed]))
        self.options = ["--cases", str(self.cases), "--journal", str(self.journal), "--measure", "model"]

    def ran(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def run(self, *options: str) -> int:
        parser = argparse.ArgumentParser()
        sweep.add_arguments(parser)
        return sweep.run(parser.parse_args([*self.options, *options]), WORKER)

    def start(self, *options: str, launcher: tuple[str, ...] = (sys.executable,)) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("fake_sweep.py")
        return subprocess.Popen(
            [*launcher, str(program), *self.options, *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAKE_WORKER_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_second_run_does_no_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bed = Bed(tmp_path, ["a", "b", "c"])
    assert bed.run("--json", str(tmp_path / "one.json")) == 0
    assert sorted(bed.ran()) == ["a", "b", "c"]
    assert bed.run("--json", str(tmp_path / "two.json")) == 0
    assert sorted(bed.ran()) == ["a", "b", "c"]
    assert "3 rows, 3 already done" in capsys.readouterr().out
    assert results.read(tmp_path / "one.json") == results.read(tmp_path / "two.json")
    assert [row.case for row in results.read(tmp_path / "two.json")] == ["a", "b", "c"]


def test_fresh_measures_anew(tmp_path: Path) -> None:
    bed = Bed(tmp_path, ["a"])
    assert [bed.run(), bed.run("--fresh")] == [0, 0]
    assert bed.ran() == ["a", "a"]


def test_failures_crashes_and_hangs_cost_their_own_row_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bed = Bed(tmp_path, ["fail", "a", "crash", "b", "hang", "c"])
    assert bed.run("--timeout", "4", "--json", str(tmp_path / "r.json")) == 1
    assert [row.case for row in results.read(tmp_path / "r.json")] == ["a", "b", "c"]
    printed = capsys.readouterr().out
    assert "failed: gcd/int8/fail: made to fail\n" in printed
    assert "failed: gcd/int8/crash: its process ended (exit code 3)" in printed
    assert "failed: gcd/int8/hang: it took longer than 4 s" in printed
    # Only what failed is tried again.
    bed.log.unlink()
    assert bed.run("--timeout", "4", "--case", "fail", "--case", "/a", "--case", "crash") == 1
    assert sorted(bed.ran()) == ["crash", "fail"]


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    bed = Bed(tmp_path, [f"slow{i}" for i in range(6)])
    assert bed.run("--jobs", "3") == 0
    assert sorted(bed.ran()) == [f"slow{i}" for i in range(6)]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_sweep_resumes_without_repeating_finished_rows(tmp_path: Path, ending: signal.Signals) -> None:
    names = [f"slow{i}" for i in range(12)]
    bed = Bed(tmp_path, names)
    running = bed.start()
    deadline = time.monotonic() + 60
    while len(sweep.Journal(bed.journal).read()) < 2:
        assert time.monotonic() < deadline, running.stderr
        time.sleep(0.02)
    running.send_signal(ending)
    printed, _ = running.communicate(timeout=60)
    if ending != signal.SIGKILL:
        assert running.returncode == 130
        assert "the same command does the rest" in printed
    done = {row.case for rows in sweep.Journal(bed.journal).read().values() for row in rows}
    assert 2 <= len(done) < 12
    time.sleep(0.5)  # a worker that outlived its sweep would write its log now
    bed.log.unlink()
    assert bed.run("--json", str(tmp_path / "r.json")) == 0
    assert set(bed.ran()) == set(names) - done
    assert len(bed.ran()) == len(names) - len(done)
    assert [row.case for row in results.read(tmp_path / "r.json")] == names


def test_torchrun_splits_the_rows_and_merges_them(tmp_path: Path) -> None:
    names = [f"case{i}" for i in range(7)]
    bed = Bed(tmp_path, names)
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    running = bed.start("--json", str(tmp_path / "r.json"), launcher=launcher)
    printed, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert sorted(bed.ran()) == names
    rows = results.read(tmp_path / "r.json")
    assert [row.case for row in rows] == names
    assert [row.note for row in rows] == ["0", "1", "0", "1", "0", "1", "0"]
    assert printed.count("7 rows, 0 already done") == 1
    assert bed.run() == 0
    assert sorted(bed.ran()) == names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--measure", "host", "--jobs", "2"], "use --jobs 1"),
        (["--store"], "--store goes with --regret"),
        (["--case", "nothing"], "no case matches"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Bed(tmp_path, ["a"]).run(*options) == 2
    assert message in capsys.readouterr().out


def test_task_keys_follow_what_a_figure_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import tasks
    from bench.tasks import Task

    case = GcdCase("x", ("int8", "int8"), ((4,), (4,)))
    first = Task(case, "model").key
    assert Task(case, "model").key == first
    others = [Task(case, "host"), Task(case, "model", tune=True), Task(GcdCase("y", case.dtypes, case.shapes), "model")]
    assert len({first, *(task.key for task in others)}) == 4
    monkeypatch.setattr(tasks, "sources", lambda: "changed")
    assert Task(case, "model").key != first
    assert Task.from_json(json.loads(json.dumps(others[1].to_json()))) == others[1]


def test_no_worker_outlives_its_pool(tmp_path: Path) -> None:
    from bench.pool import Pool
    from bench.tasks import Task

    hanging = Task(GcdCase("hang", ("int8", "int8"), ((4,), (4,))), "model")
    with Pool(1, 600.0, WORKER) as pool:
        worker = pool._idle(1)
        assert worker is not None
        worker.give(hanging)
        pid = worker.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
