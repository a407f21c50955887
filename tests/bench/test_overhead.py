"""The parts of a call are taken without starting its kernel, and everything is put back."""

from __future__ import annotations

import argparse

import pytest
import torch

from bench import overhead
from bench.cases import AsStridedCase
from bench.timing import Quantiles
from ops import launch

CASE = AsStridedCase("contiguous 16", "float32", (16,), (1,))


def test_parts_of_a_call() -> None:
    found = overhead.measure(CASE, torch.device("cpu"))
    names = (overhead.WHOLE, overhead.BEFORE, overhead.GRID, overhead.KEPT, overhead.BUILTIN)
    assert set(found) == set(names)
    assert all(found.values())
    # Nothing silent is left behind: the kept kernel works again.
    assert launch._compiled
    assert not any(isinstance(kept, overhead.Silent) for kept in launch._compiled.values())


def test_a_silenced_kernel_writes_nothing() -> None:
    import ops

    source, target = torch.arange(16.0), torch.full((16,), -1.0)
    ops.as_strided(source, (16,), (1,), out=torch.empty(16))
    with overhead.silenced() as silent:
        ops.as_strided(source, (16,), (1,), out=target)
    assert any(item.arguments for item in silent.values())
    assert torch.equal(target, torch.full((16,), -1.0))
    ops.as_strided(source, (16,), (1,), out=target)
    assert torch.equal(target, source)


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    overhead.add_arguments(parser)
    return parser.parse_args(list(options))


@pytest.mark.parametrize(("before", "strict", "code"), [(14.9, True, 0), (15.1, True, 1), (15.1, False, 0)])
def test_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], before: float, strict: bool, code: int
) -> None:
    monkeypatch.setattr(overhead, "overhead_cases", lambda: [CASE])
    made = {overhead.BEFORE: Quantiles(before, before, before), overhead.BUILTIN: None}
    monkeypatch.setattr(overhead, "measure", lambda case, device: made)
    assert overhead.run(parsed(*(["--strict"] if strict else []))) == code
    assert ("met" if before <= 15 else "MISSED") in capsys.readouterr().out
