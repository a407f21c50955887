"""Stand-ins for the project's operators and for a device, so that the bench is tested without either."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from bench.cases import Case
from bench.inputs import Inputs, expected
from bench.providers import Call, Provider, RefusalError

NPU = SimpleNamespace(type="npu", index=0)


def exact(case: Case, inputs: Inputs) -> Call:
    """Always right."""
    result = expected(case, inputs)
    return lambda: result.clone()


def off_by_one_bit(case: Case, inputs: Inputs) -> Call:
    """Wrong in the last element."""
    result = expected(case, inputs)
    result.reshape(-1).view(torch.uint8)[-1] ^= 1
    return lambda: result


def refusing(case: Case, inputs: Inputs) -> Call:
    """Runs nothing."""
    raise RefusalError("not implemented for 'Half'")


def failing(case: Case, inputs: Inputs) -> Call:
    """Raises when it is run."""

    def call() -> torch.Tensor:
        raise RuntimeError("ub overflow\nsecond line")

    return call


def provider(prepare: object, name: str = "fake") -> Provider:
    """A provider around one of the functions above."""
    return Provider(name, prepare)  # type: ignore[arg-type]
