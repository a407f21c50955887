"""A repeated call is planned once, with and without out=, until the stored tunings change."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ops
import tiling.gcd
from tiling import tuned


@pytest.mark.parametrize("into", [False, True])
def test_planned_once_until_the_tunings_change(monkeypatch: pytest.MonkeyPatch, into: bool) -> None:
    planned: list[Any] = []
    plan = tiling.gcd.plan

    def counting(problem: Any, *rest: Any, **decisions: Any) -> Any:
        planned.append(problem)
        return plan(problem, *rest, **decisions)

    monkeypatch.setattr(tiling.gcd, "plan", counting)
    a, b = torch.tensor([12, 18, 35]), torch.tensor([8, 27, 49])
    out = torch.empty_like(a) if into else None
    tuned.reload()  # whatever other tests planned is forgotten
    for _ in range(3):
        assert ops.gcd(a, b, out=out).tolist() == [4, 9, 7]
    assert len(planned) == 1
    tuned.reload()
    assert ops.gcd(a, b, out=out).tolist() == [4, 9, 7]
    assert len(planned) == 2
