"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

TABLE_WIDTH = 170  # every column of the widest table on one line


def make_console() -> Console:
    """A console wide enough for the tables where the output is no terminal (a pipe, a CI log)."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)
