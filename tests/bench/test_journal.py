"""Nothing that was finished is lost, and nothing torn is taken for finished."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.journal import Journal
from bench.results import Row


def row(case: str, p50: float = 1.0) -> Row:
    return Row(op="gcd", case=case, dtype="int8", provider="p", metric="m", unit="us", p50=p50)


def test_round_trip_last_entry_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "deep" / "sweep.jsonl")
    assert journal.read() == {}
    journal.append("a", [row("x"), row("y")])
    journal.append("b", [])
    journal.append("a", [row("x", 5.0)])
    assert journal.read() == {"a": [row("x", 5.0)], "b": []}


@pytest.mark.parametrize("keep", range(1, 60, 7))
def test_a_torn_last_line_is_skipped_and_what_follows_is_kept(tmp_path: Path, keep: int) -> None:
    journal = Journal(tmp_path / "sweep.jsonl")
    journal.append("a", [row("x")])
    whole = journal.path.read_bytes()
    journal.append("b", [row("y")])
    journal.path.write_bytes(journal.path.read_bytes()[: len(whole) + keep])
    with pytest.warns(UserWarning, match="1 unreadable line"):
        assert journal.read() == {"a": [row("x")]}
    journal.append("c", [row("z")])
    with pytest.warns(UserWarning, match="1 unreadable line"):
        assert journal.read() == {"a": [row("x")], "c": [row("z")]}


@pytest.mark.parametrize("line", ["[]", "3", '{"key": "a"}', '{"key": "a", "rows": [{"op": "gcd"}]}', "\x00\xff"])
def test_foreign_lines_are_skipped(tmp_path: Path, line: str) -> None:
    journal = Journal(tmp_path / "sweep.jsonl")
    journal.path.write_text(line + "\n")
    journal.append("b", [row("y")])
    with pytest.warns(UserWarning, match="unreadable"):
        assert journal.read() == {"b": [row("y")]}


def test_eight_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    program = (
        "import sys; from pathlib import Path; from bench.journal import Journal; from bench.results import Row\n"
        "for i in range(25):\n"
        "    row = Row(op='gcd', case='x' * 3000, dtype='int8', provider='p', metric='m', unit='us')\n"
        "    Journal(Path(sys.argv[1])).append(f'{sys.argv[2]}-{i}', [row])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(path), str(writer)]) for writer in range(8)]
    assert [process.wait() for process in running] == [0] * 8
    assert set(Journal(path).read()) == {f"{writer}-{i}" for writer in range(8) for i in range(25)}
    assert all(json.loads(line) for line in path.read_text().splitlines())
