"""Who listens to the launches of the device level: the cycle model, through `emulator.cycles.record`."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emulator.device.kernel import Kernel, Stream


class Recorder(Protocol):
    """Chooses the programs of a launch to run, and is given the steps that they took."""

    def choose(self, total: int) -> Sequence[int] | None:
        """Which of `total` programs run; None for all."""

    def add(self, kernel: Kernel, total: int, streams: Sequence[Stream]) -> None:
        """The steps of the programs that ran, of a launch of `total`."""


current: ContextVar[Recorder | None] = ContextVar("device_recorder", default=None)
