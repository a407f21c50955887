"""gcd of DTensors on 2 and 4 gloo processes, against torch.gcd of the whole tensors."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

import ops

SHAPES = (((7, 5), (7, 5)), ((8, 6), (6,)), ((8, 1), (1, 12)), ((8, 6), ()))


def numbers(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randint(-(10**6), 10**6, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def placements_of(shape: tuple[int, ...]) -> list[Placement]:
    return [Replicate(), *(Shard(dim) for dim in range(len(shape)))]


def check_every_placement(mesh) -> None:
    others = [Replicate()] * (mesh.ndim - 1)
    for left, right in SHAPES:
        a, b = numbers(left, 1), numbers(right, 2)
        expected = torch.gcd(a, b)
        for one, two in itertools.product(placements_of(left), placements_of(right)):
            sharded = distribute_tensor(a, mesh, [one, *others]), distribute_tensor(b, mesh, [*others, two])
            result = ops.gcd(*sharded)
            assert torch.equal(result.full_tensor(), expected), (left, right, one, two)


def check_where_no_communication_is_needed(mesh) -> None:
    for left, right, one, two, placed in (
        ((8, 6), (8, 6), Shard(0), Shard(0), Shard(0)),
        ((8, 6), (6,), Shard(0), Replicate(), Shard(0)),
        ((8, 6), (6,), Shard(1), Shard(0), Shard(1)),
        ((8, 1), (1, 12), Replicate(), Shard(1), Shard(1)),
        ((8, 6), (8, 6), Replicate(), Replicate(), Replicate()),
    ):
        a, b = distribute_tensor(numbers(left, 1), mesh, [one]), distribute_tensor(numbers(right, 2), mesh, [two])
        with CommDebugMode() as communication:
            result = ops.gcd(a, b)
        assert result.placements == (placed,)
        assert communication.get_total_counts() == 0


def check_partial_and_in_place(mesh, rank: int, world: int) -> None:
    others = [Replicate()] * (mesh.ndim - 1)
    if mesh.ndim == 1:
        partial = DTensor.from_local(torch.full((4,), rank + 1, dtype=torch.int32), mesh, [Partial()])
        other = torch.tensor([2, 4, 5, 3], dtype=torch.int32)
        result = ops.gcd(partial, distribute_tensor(other, mesh, [Replicate()]))
        total = torch.full((4,), world * (world + 1) // 2, dtype=torch.int32)
        assert torch.equal(result.full_tensor(), torch.gcd(total, other))

    a, b = numbers((8, 6), 1), numbers((8, 6), 2)
    sharded = distribute_tensor(a.clone(), mesh, [Shard(0), *others])
    assert ops.gcd_(sharded, distribute_tensor(b, mesh, [Shard(1), *others])) is sharded
    assert sharded.placements == (Shard(0), *others)
    assert torch.equal(sharded.full_tensor(), torch.gcd(a, b))


def run(rank: int, world: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    try:
        line = init_device_mesh("cpu", (world,))
        check_every_placement(line)
        check_where_no_communication_is_needed(line)
        check_partial_and_in_place(line, rank, world)
        if world == 4:
            square = init_device_mesh("cpu", (2, 2))
            check_every_placement(square)
            check_partial_and_in_place(square, rank, world)
    finally:
        dist.destroy_process_group()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", [2, 4])
def test_gcd_of_dtensors(world: int, tmp_path: Path) -> None:
    mp.spawn(run, (world, str(tmp_path / "rendezvous")), world)
