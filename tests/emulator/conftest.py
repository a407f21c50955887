"""Every test here runs its kernels on the linalg level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import emulator


@pytest.fixture
def routed() -> Iterator[None]:
    """Launches inside the test go to the linalg level."""
    with emulator.route("linalg"):
        yield
