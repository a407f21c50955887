"""The operator "double" of tests.autotune.double, and a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune import operators, tuner
from tests.autotune.double import Faults, double
from tiling import tuned


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(tuned.DIRECTORY_VARIABLE, str(tmp_path / "tuned"))
    monkeypatch.setattr(tuner, "_failures", {})
    monkeypatch.setattr(tuner, "_given_up", set())
    monkeypatch.setattr(tuner, "_unstored", {})
    tuned.reload()
    yield
    tuned.set_resolver(None)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Registers the operator "double" for the test, and returns what makes it misbehave."""
    faults = Faults()
    monkeypatch.setattr(operators, "_known", dict(operators._known))
    operators.register(double(faults))
    return faults
