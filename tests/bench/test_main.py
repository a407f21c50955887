"""The command line itself: quick help, lazy imports, clear errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import __main__ as cli


def test_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert f"  {name} " in printed
        assert command.summary in printed


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from bench.__main__ import main; main(['--help']);"
        "print([m for m in ('torch', 'triton', 'rich', 'matplotlib', 'ops') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_unknown_command_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["comparre"]) == 2
    captured = capsys.readouterr()
    assert "no command 'comparre'" in captured.err
    assert "compare" in captured.err


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("matplotlib", "bench plot needs matplotlib: pip install 'ascend-triton-ops[bench]'"),
        ("llvmlite.binding", "bench plot needs llvmlite: pip install 'ascend-triton-ops[emulator]'"),
        ("bench.plot", "bench plot needs the module bench.plot, which is not installed"),
    ],
)
def test_missing_module_names_the_extra(module: str, expected: str) -> None:
    error = ModuleNotFoundError(f"No module named {module!r}", name=module)
    assert cli.missing_module_message("plot", error) == expected


def test_missing_package_is_one_clear_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delitem(sys.modules, "bench.compare", raising=False)
    monkeypatch.delitem(sys.modules, "bench.console", raising=False)
    assert cli.main(["compare"]) == 2
    assert "pip install 'ascend-triton-ops[bench]'" in capsys.readouterr().err


def test_broken_triton_prints_the_repair(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(name: str) -> None:
        raise ImportError("triton-ascend is missing: repair it with pip")

    monkeypatch.setattr(cli.importlib, "import_module", broken)
    assert cli.main(["compare"]) == 2
    assert "repair it with pip" in capsys.readouterr().err
