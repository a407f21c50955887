"""Random kernels of integer arithmetic, loops and branches against the same program in numpy."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

LANES = 48
HEADER = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"


class _Program:
    """Statements over int32 tiles, as Triton source and as a function on numpy arrays."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.triton: list[str] = []
        self.numpy: list[str] = []

    def build(self) -> None:
        tiles = ["a", "b", "c"]
        for _ in range(self.random.randint(2, 5)):
            self.statement(tiles, "    ", depth=0)
        results = self.random.sample(tiles, 3)
        for place, name in enumerate(results):
            self.triton.append(f"    tl.store(out + {place} * LANES + offsets, {name})")
        self.numpy.append(f"    return np.stack([{', '.join(results)}])")

    def statement(self, tiles: list[str], indent: str, depth: int) -> None:
        kind = self.random.choice(["assign", "assign", "assign", "loop", "branch", "swap"] if depth < 2 else ["assign"])
        if kind == "assign":
            target = self.random.choice([*tiles, self.new(tiles)] if depth == 0 else tiles)
            self.assign(target, tiles, indent)
            if target not in tiles:
                tiles.append(target)
        elif kind == "swap":
            first, second = self.random.sample(tiles, 2)
            left, right = self.expression(tiles), self.expression(tiles)
            self.triton.append(f"{indent}{first}, {second} = {left[0]}, {right[0]}")
            self.numpy.append(f"{indent}{first}, {second} = {left[1]}, {right[1]}")
        elif kind == "loop":
            counter = f"i{depth}"
            self.both(f"{indent}for {counter} in range(turns + {self.random.randint(0, 2)}):")
            for _ in range(self.random.randint(1, 4)):
                self.statement(tiles, indent + "    ", depth + 1)
        else:
            bit = self.random.randint(0, 1)
            self.both(f"{indent}if (turns + {f'i{depth - 1}' if depth else '0'}) % 2 == {bit}:")
            self.assign(self.random.choice(tiles), tiles, indent + "    ")
            if self.random.random() < 0.5:
                self.both(f"{indent}else:")
                self.assign(self.random.choice(tiles), tiles, indent + "    ")

    def new(self, tiles: list[str]) -> str:
        self.names += 1
        return f"t{self.names}"

    def both(self, line: str) -> None:
        self.triton.append(line)
        self.numpy.append(line)

    def assign(self, target: str, tiles: list[str], indent: str) -> None:
        triton, numpy = self.expression(tiles)
        self.triton.append(f"{indent}{target} = {triton}")
        self.numpy.append(f"{indent}{target} = {numpy}")

    def expression(self, tiles: list[str], depth: int = 0) -> tuple[str, str]:
        if depth == 3 or self.random.random() < 0.25:
            if self.random.random() < 0.2:
                value = self.random.randint(-5, 5)
                return f"tl.full((LANES,), {value}, tl.int32)", f"np.full(LANES, {value}, np.int32)"
            name = self.random.choice(tiles)
            return name, name
        x, y = (self.expression(tiles, depth + 1) for _ in range(2))
        kind = self.random.choice(["+", "-", "*", "&", "|", "^", "min", "max", "where", "sum", "reduce"])
        if kind in "+-*&|^":
            return f"({x[0]} {kind} {y[0]})", f"({x[1]} {kind} {y[1]})"
        if kind in ("min", "max"):
            return f"tl.{kind}imum({x[0]}, {y[0]})", f"np.{kind}imum({x[1]}, {y[1]})"
        if kind == "where":
            return f"tl.where({x[0]} > {y[0]}, {x[0]}, {y[0]} + 1)", f"np.where({x[1]} > {y[1]}, {x[1]}, {y[1]} + 1)"
        if kind == "sum":
            return f"({x[0]} + tl.sum({y[0]}))", f"({x[1]} + np.sum({y[1]}, dtype=np.int32))"
        return f"({x[0]} - tl.max({y[0]}))", f"({x[1]} - np.max({y[1]}))"


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check(seed: int, folder: Path) -> None:
    program = _Program(seed)
    program.build()
    loads = "".join(f"    {name} = tl.load({name}p + offsets)\n" for name in "abc")
    source = HEADER + "def fuzzed(ap, bp, cp, out, turns, LANES: tl.constexpr):\n    offsets = tl.arange(0, LANES)\n"
    path = folder / f"fuzz_{seed}.py"
    path.write_text(source + loads + "\n".join(program.triton) + "\n")
    scope: dict[str, Any] = {"np": np, "LANES": LANES}
    reference = "def reference(a, b, c, turns):\n" + "\n".join(program.numpy) + "\n"
    exec(reference, scope)
    kernel = _load(path).fuzzed
    generator = torch.Generator().manual_seed(seed)
    for turns in (0, 1, 2, 3):
        x = torch.randint(-(2**31), 2**31 - 1, (3, LANES), dtype=torch.int32, generator=generator)
        out = torch.zeros(3, LANES, dtype=torch.int32)
        kernel[(1,)](x[0], x[1], x[2], out, turns, LANES=LANES)
        with np.errstate(all="ignore"):
            expected = scope["reference"](*x.numpy(), turns)
        assert np.array_equal(out.numpy(), expected), f"seed {seed}, turns {turns}:\n{path.read_text()}\n{reference}"


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("seed", range(4))
def test_random_kernels(seed: int, tmp_path: Path) -> None:
    _check(seed, tmp_path)


@pytest.mark.thorough
@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_random_kernels(seed: int, tmp_path: Path) -> None:
    _check(seed, tmp_path)
