"""First contact runs end to end on the emulator, and stops at the first failure with what to report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench import first_contact, results
from bench.first_contact import Step, StepError, Visit
from bench.published_cases import published_cases


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    first_contact.add_arguments(parser)
    return parser.parse_args(list(options))


def test_all_steps_on_the_emulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists are cut to a few cases; everything else is as a user runs it."""
    few = {"int8", "int32", "float32"}
    for name in ("compare_cases", "sweep_cases"):
        whole = getattr(first_contact.case_lists, name)()
        kept = [case for case in whole if case.dtype in few and case.elements <= 2**14]
        monkeypatch.setattr(first_contact.case_lists, name, lambda kept=kept: kept)
    monkeypatch.setattr(first_contact, "published_cases", lambda: published_cases()[::20])
    monkeypatch.setenv("PYTHONPATH", str(Path(first_contact.__file__).parents[1]))  # for the sweep's workers
    assert first_contact.run(parsed("--quick", "--out", str(tmp_path))) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    places = [printed.index(f"{number} of 6: {step.name}") for number, step in enumerate(first_contact.STEPS, 1)]
    assert places == sorted(places)
    assert "every bit right" in printed
    assert "first contact is complete" in printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["stopped_at"] is None
    assert "not an NPU" in report["device"]
    assert {row.op for row in results.read(tmp_path / "compare.json")} == {"gcd", "as_strided"}
    assert {row.metric for row in results.read(tmp_path / "sweep.json")} >= {"modelled time"}


@pytest.mark.thorough
def test_a_quick_first_contact_as_a_user_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(first_contact.__file__).parents[1]))
    assert first_contact.run(parsed("--quick", "--out", str(tmp_path))) == 0


def test_it_stops_at_the_first_failure_and_says_what_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def fail(visit: Visit) -> None:
        raise StepError("case 7 is wrong")

    steps = (
        Step("first", lambda visit: taken.append("first"), "nothing"),
        Step("second", fail, "the case"),
        Step("third", lambda visit: taken.append("third"), "nothing"),
    )
    monkeypatch.setattr(first_contact, "STEPS", steps)
    assert first_contact.run(parsed("--out", str(tmp_path))) == 1
    assert taken == ["first"]
    printed = capsys.readouterr().out
    for wanted in ("stopped at 'second': StepError: case 7 is wrong", "Look at: the case", str(tmp_path)):
        assert wanted in printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["stopped_at"], report["error"]) == ("second", "StepError: case 7 is wrong")
    assert report["environment"]["packages"]["torch"]


def test_a_command_that_fails_is_a_failed_step() -> None:
    with pytest.raises(StepError, match="`python -m bench compare --case no-such-case` exited with 2"):
        first_contact.bench("compare", "--case", "no-such-case")


def test_published_cases_cover_both_operators_and_every_width() -> None:
    listed = published_cases()
    assert len([case for case in listed if case.op == "gcd"]) >= 50
    assert {case.dtype for case in listed if case.op == "as_strided"} >= {"float16", "float32", "int64"}
    assert len({case.id for case in listed}) == len(listed)


def test_without_the_files_there_are_no_published_cases(tmp_path: Path) -> None:
    assert published_cases(tmp_path) == []
