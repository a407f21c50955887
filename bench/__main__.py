"""`python -m bench COMMAND`: measure, compare, sweep, calibrate and look.

Each command lives in a module of its own with `add_arguments(parser)` and `run(args) -> int`, and is imported only when
it is called: `--help` answers at once, and a missing optional package stops nothing but the command that needs it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Command(NamedTuple):
    """Where a command lives and what it does, in one line."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "compare": Command("bench.compare", "both operators, checked and timed beside torch on the same device"),
    "env": Command("bench.env", "what a bug report needs: versions, chip, compiler, caches, variables"),
    "sweep": Command("bench.sweep", "many cases, resumable, over several processes or devices; --regret ranks plans"),
    "plot": Command("bench.plot", "figures from the results of compare and sweep"),
    "calibrate": Command("bench.calibrate", "measure a chip's constants and store them as its platform profile"),
    "first-contact": Command("bench.first_contact", "everything in order on a machine with a new NPU"),
    "overhead": Command("bench.overhead", "Python time of a call before the launch"),
    "gcd-speed": Command("bench.gcd_speed", "the speed lines of gcd: modelled cycles and emulator ratios"),
    "as-strided-speed": Command("bench.as_strided_speed", "the speed lines of as_strided: modelled cycles and ratios"),
    "gate": Command("bench.gate", "compile every reachable kernel variant and reject bad code"),
    "cycles": Command("bench.cycles", "modelled cycles of one call, by pipe"),
}

# Which extra of the distribution brings a package that a command may find missing.
EXTRAS = {
    "rich": "bench",
    "matplotlib": "bench",
    "filelock": "autotune",
    "llvmlite": "emulator",
    "ascendnpuir": "emulator",
}


def overview() -> str:
    """The text of `python -m bench --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m bench COMMAND [options]",
            "",
            *lines,
            "",
            "python -m bench COMMAND --help lists a command's options.",
        ]
    )


def missing_module_message(name: str, error: ModuleNotFoundError) -> str:
    """One line that says which module the command `name` lacks and how to get it."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRAS:
        return f"bench {name} needs {package}: pip install 'ascend-triton-ops[{EXTRAS[package]}]'"
    return f"bench {name} needs the module {error.name}, which is not installed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (2 for a wrong command line or a missing module)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"bench: no command {name!r}\n\n{overview()}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(COMMANDS[name].module)
        parser = argparse.ArgumentParser(
            prog=f"python -m bench {name}",
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)
        return int(module.run(parser.parse_args(rest)))
    except ModuleNotFoundError as error:
        print(missing_module_message(name, error), file=sys.stderr)
        return 2
    except ImportError as error:
        # Importing ops with upstream triton in place of triton-ascend: the text holds the repair command.
        print(f"bench {name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
