"""The probes of `bench calibrate`: which kernels, on which tiles.

A small and a large tile tell an instruction's start-up from its cost per repeat; tiles that are no multiple of a repeat
show the floor of counted masks. Together they determine every constant of the cycle model but those of instructions
that no kernel of this project is compiled to (`NOT_REACHED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from bench import probes

# Instructions that triton-ascend emits for none of its operations as used here.
NOT_REACHED = ("vrec", "vrsqrt", "vrelu")

FLOAT_KINDS = (
    *("add", "sub", "mul", "div", "max", "max scalar", "add scalar", "mul scalar"),
    *("abs", "exp", "log", "sqrt", "reciprocal root", "cast", "select", "two compares", "largest", "gather", "swap"),
)
INTEGER_KINDS = ("and", "or", "not", "shift", "max", "min", "max scalar", "min scalar")

SMALL, LARGE = 64, 4096  # float32: one repeat of 256 bytes, and 64
ODD = (100, 1000)

SPACE = 1 << 18  # elements of each tensor; the largest probe touches 256 rows of 64


@dataclass(frozen=True)
class Probe:
    """A kernel of bench/probes.py with its constants; `launch` runs it once, as one program."""

    name: str
    kernel: Any
    constexprs: Mapping[str, Any]
    arguments: tuple[str | int, ...]
    dtype: torch.dtype = torch.float32
    multibuffer: bool = True
    _tensors: dict[str, tuple[torch.Tensor, ...]] = field(default_factory=dict, repr=False, compare=False)

    def launch(self, turns: int, device: torch.device) -> None:
        """Run the probe with so many turns on a device; on the CPU under a route of the emulator."""
        key = str(device)
        if key not in self._tensors:
            ones = torch.ones(SPACE, dtype=self.dtype, device=device)
            self._tensors[key] = (ones, ones.clone(), torch.empty(SPACE, dtype=self.dtype, device=device))
        x, y, out = self._tensors[key]
        named = {"x": x, "y": y, "out": out, "turns": turns}
        arguments = [named[item] if isinstance(item, str) else item for item in self.arguments]
        self.kernel[(1,)](*arguments, multibuffer=self.multibuffer, **self.constexprs)


def vector_probe(kind: str, block: int, dtype: torch.dtype = torch.float32) -> Probe:
    """A chain of one kind of instruction on a tile of `block` elements."""
    name = f"{kind} {'int32 ' if dtype == torch.int32 else ''}{block}"
    return Probe(name, probes.vector_chain, {"KIND": kind, "BLOCK": block}, ("x", "y", "out", "turns"), dtype)


def pack_probe(kind: str, side: int) -> Probe:
    """A transpose or a split of a square tile."""
    shape = {"KIND": kind, "ROWS": side, "COLUMNS": side}
    return Probe(f"{kind} {side}x{side}", probes.pack_chain, shape, ("x", "out", "turns"))


def copy_probe(rows: int, columns: int, pitch: int, multibuffer: bool) -> Probe:
    """Tiles in and out, with or without double buffering."""
    name = f"copy {rows}x{columns}{'' if multibuffer else ', one buffer'}"
    shape = {"ROWS": rows, "COLUMNS": columns}
    return Probe(name, probes.copy_chain, shape, ("x", "out", "turns", pitch), multibuffer=multibuffer)


def scalar_probe(kind: str, block: int) -> Probe:
    """Reads by the scalar unit: one a turn of global memory, or two an element of the unified buffer."""
    shape = {"KIND": kind, "BLOCK": block}
    return Probe(f"scalar {kind} {block}", probes.scalar_chain, shape, ("x", "out", "turns"), torch.int32)


def probe_list() -> list[Probe]:
    """Every probe, fewest elements first within a kind."""
    listed = [vector_probe(kind, block) for kind in FLOAT_KINDS for block in (SMALL, LARGE)]
    listed += [vector_probe(kind, block, torch.int32) for kind in INTEGER_KINDS for block in (SMALL, LARGE)]
    listed += [vector_probe("add", block) for block in ODD]
    listed += [pack_probe(kind, side) for kind in ("transpose", "split", "largest of rows") for side in (16, 64)]
    listed += [pack_probe("join", side) for side in (8, 16, 32)]
    for multibuffer in (True, False):
        listed += [copy_probe(1, columns, columns, multibuffer) for columns in (64, 2048, 8192)]
        listed += [copy_probe(rows, 8, 64, multibuffer) for rows in (64, 256)]
    listed += [
        Probe(f"{count} loads", probes.load_many, {"COUNT": count, "BLOCK": SMALL}, ("x", "out", "turns"))
        for count in (2, 4, 8)
    ]
    listed += [
        Probe(f"8 stores {block}", probes.store_many, {"COUNT": 8, "BLOCK": block}, ("x", "out", "turns"))
        for block in (SMALL, 2048, 8192)
    ]
    listed += [scalar_probe("global", SMALL), scalar_probe("buffer", SMALL), scalar_probe("buffer", 1024)]
    return listed
