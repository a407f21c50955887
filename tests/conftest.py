"""Options shared by all tests: `--thorough` runs the exhaustive ones as well."""

from __future__ import annotations

import signal

import pytest

# A shell starts background jobs with SIGINT ignored, and every process below inherits that; tests send it to theirs.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="also run the exhaustive tests (make test-all)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough"):
        return
    skip = pytest.mark.skip(reason="exhaustive: runs with --thorough (make test-all)")
    for item in items:
        if "thorough" in item.keywords:
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what passing tests have to say: they record it under the name "summary"."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
