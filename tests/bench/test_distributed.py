"""One process needs no group; on NPUs each process takes its own device and hccl; values survive the way through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import distributed, worker
from bench.distributed import Group


class FakeNpu:
    """What torch.npu is asked for here."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def set_device(self, index: int) -> None:
        self.taken.append(index)


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> FakeNpu:
    fake = FakeNpu()
    monkeypatch.setattr(distributed.devices, "npu", lambda: fake)
    return fake


def test_without_torchrun_everything_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with Group() as group:
        assert (group.rank, group.size) == (0, 1)
        assert group.share([1, 2, 3]) == [1, 2, 3]
        assert group.broadcast({"a": 1}) == {"a": 1}
        assert group.gather("x") == ["x"]
        assert not torch.distributed.is_initialized()


def test_shares_cover_a_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    shares = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        shares.append(Group().share(list(range(8))))
    assert sorted(item for share in shares for item in share) == list(range(8))


PROGRAM = """
import json, sys
from bench.distributed import Group
with Group() as group:
    values = [{"rank": rank, "text": "ü" * (1 + 1000 * rank), "rest": [None, 1.5, []]} for rank in range(3)]
    mine = values[group.rank]
    found = [group.broadcast(mine), group.gather(mine), group.gather([])]
    assert found == [values[0], values, [[], [], []]], found
"""


def test_values_of_any_length_reach_every_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(Path(distributed.__file__).parents[1])}
    done = subprocess.run(launcher, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_npus_use_hccl_and_their_own_device(monkeypatch: pytest.MonkeyPatch, npu: FakeNpu) -> None:
    started: list[tuple[str, Any]] = []
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_RANK", "1")

    def start(backend: str, timeout: Any) -> None:
        started.append((backend, timeout))

    monkeypatch.setattr(torch.distributed, "init_process_group", start)
    monkeypatch.setattr(distributed.torch, "device", lambda kind, index=None: (kind, index))
    with Group() as group:
        assert group.device == ("npu", 1)  # type: ignore[comparison-overlap]
    assert npu.taken == [1]
    assert started == [("hccl", distributed.PATIENCE)]


def test_a_worker_takes_the_device_of_its_place(monkeypatch: pytest.MonkeyPatch, npu: FakeNpu) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    worker.take_device()
    assert npu.taken == []
    monkeypatch.setenv("LOCAL_RANK", "3")
    worker.take_device()
    assert npu.taken == [3]
