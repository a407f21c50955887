"""What the tuner needs to know of an operator: its planner, its candidates, scratch data and the exact answer.

An operator's own module (`autotune/gcd.py`, `autotune/as_strided.py`) describes it; the tuner knows none by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ops.variants import Variant
from tiling.platform import Platform

Decisions = Mapping[str, int | bool | str]


class Plan(Protocol):
    """What the tuner reads of a plan."""

    @property
    def problem(self) -> Any: ...
    @property
    def kernel(self) -> str: ...
    @property
    def constexprs(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def multibuffer(self) -> bool: ...
    def decisions(self) -> Decisions: ...


class Scratch(Protocol):
    """One call's data, owned by the tuner: nothing of the user's is behind it.

    `out` is dense or strided as the call's output is. `run(plan)` computes into it and returns nothing.
    `expected(index)` gives the exact values at flat positions of `out` (an int64 tensor on the CPU),
    `same(actual, expected)` which of them count as equal: those of the same bits, and for an operator that makes NaNs,
    any two NaNs.
    """

    out: torch.Tensor

    def run(self, plan: Any) -> None: ...
    def expected(self, index: torch.Tensor) -> torch.Tensor: ...
    def same(self, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Operator:
    """One operator, as the tuner sees it.

    plan(problem, platform, **decisions): the planner; without decisions, the heuristic.
    choices(heuristic, platform): decisions worth trying, in any order, legal or not.
    scratch(problem, device): made-up data for a problem; scratch_of(tensors, device): copies of a call's own data, with
    the problem. variant(plan): what the compiler would be given, or None when there is nothing to compile.
    """

    name: str
    plan: Callable[..., Any]
    choices: Callable[[Any, Platform], Iterable[Decisions]]
    scratch: Callable[[Any, torch.device], Scratch]
    scratch_of: Callable[[Sequence[Any], torch.device], tuple[Any, Scratch]]
    variant: Callable[[Any], Variant | None] = lambda plan: None


_known: dict[str, Operator] = {}


def register(operator: Operator) -> None:
    """Make an operator known to `tune` by its name, in the place of any other of that name."""
    _known[operator.name] = operator


def operator(op: str | Callable[..., Any]) -> Operator:
    """The operator of a name or of a public function such as `ops.gcd`.

    Raises ValueError naming the operators there are.
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", repr(op))
    if name not in _known and name in ("gcd", "as_strided"):
        register(importlib.import_module(f"autotune.{name}").OPERATOR)
    if name not in _known:
        raise ValueError(f"no operator {name!r} to tune: expected one of {sorted({'gcd', 'as_strided', *_known})}")
    return _known[name]


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Which elements of two tensors of one dtype have the same bytes."""
    if actual.dtype != expected.dtype:
        raise TypeError(f"the output is {actual.dtype}, the reference {expected.dtype}")
    rows = [tensor.contiguous().reshape(-1, 1).view(torch.uint8) for tensor in (actual, expected)]
    return (rows[0] == rows[1]).all(dim=1)
