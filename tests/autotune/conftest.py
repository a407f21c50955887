"""The operator "double" of tests.autotune.double, and a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from autotune import operators, tuner
from tests.autotune.double import DoubleProblem, DoubleScratch, Faults, plan_double
from tiling import tuned


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(tuned.DIRECTORY_VARIABLE, str(tmp_path / "tuned"))
    monkeypatch.setattr(tuner, "_failures", {})
    monkeypatch.setattr(tuner, "_given_up", set())
    tuned.reload()
    yield
    tuned.set_resolver(None)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Registers the operator "double" for the test, and returns what makes it misbehave."""
    faults = Faults()

    def scratch(problem: DoubleProblem, device: torch.device) -> DoubleScratch:
        made = DoubleScratch(torch.arange(problem.size, dtype=torch.int32, device=device), faults)
        faults.scratches.append(made)
        return made

    def scratch_of(tensors: Sequence[torch.Tensor], device: torch.device) -> tuple[DoubleProblem, DoubleScratch]:
        made = DoubleScratch(tensors[0].to(device, copy=True), faults)
        faults.scratches.append(made)
        return DoubleProblem(tensors[0].numel()), made

    monkeypatch.setattr(operators, "_known", dict(operators._known))
    operators.register(
        operators.Operator(
            name="double",
            plan=plan_double,
            choices=lambda heuristic, platform: [{"block": block} for block in (32, 64, 128, 256, 2048)],
            scratch=scratch,
            scratch_of=scratch_of,
        )
    )
    return faults
