"""Loops of a HIVM module that work on one element at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ElementLoop:
    """A loop that loads or stores memory and calls no template: its first and last line, head and access count."""

    line: int
    end: int
    what: str
    accesses: int


@dataclass
class _Block:
    line: int
    loop: bool
    what: str
    accesses: int = 0
    calls: int = 0


def element_loops(text: str) -> list[ElementLoop]:
    """All such loops of a module. A loop over tiles or rows calls templates, and may read a scalar beside."""
    found = []
    blocks: list[_Block] = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.strip()
        if code.startswith("}") and blocks:
            block = blocks.pop()
            if block.loop:
                if block.accesses and not block.calls:
                    found.append(ElementLoop(block.line, number, block.what, block.accesses))
            elif blocks:
                blocks[-1].accesses += block.accesses  # an if inside a loop belongs to the loop
            if blocks:
                blocks[-1].calls += block.calls
        if code.endswith("{"):
            loop = re.search(r"\bscf\.(for|while|parallel)\b", code)
            again = code.startswith("}") and " do {" in code  # the second half of a while
            blocks.append(_Block(number, bool(loop) or again, re.sub(r" : .*$| -> .*$", "", code)))
        elif blocks:
            blocks[-1].accesses += bool(re.search(r"\bmemref\.(load|store)\b", code))
            blocks[-1].calls += bool(re.search(r"\bcall @", code))
    return found
