"""Sharding of gcd over a device mesh: importing this module tells torch.distributed.tensor how.

`ops.gcd` imports it when the first DTensor arrives. Needs torch.distributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

Acceptable = tuple[list[Placement], list[Placement]]


@register_sharding([torch.ops.ascend_ops.gcd.default, torch.ops.ascend_ops.gcd_.default])  # type: ignore[untyped-decorator]
def gcd_sharding(self: Any, other: Any) -> list[Acceptable]:
    """Placements under which shards can be computed alone, for one dimension of the mesh: (output, inputs) pairs.

    Any dimension of the result may be sharded, with both inputs sharded along it, or replicated where they are
    broadcast. No pair takes a partial input, so DTensor reduces those first: a gcd of partial sums is not a partial
    gcd of sums.
    """
    shapes = (tuple(self.shape), tuple(other.shape))
    rank = max(map(len, shapes))
    everywhere: list[Acceptable] = [([Replicate()], [Replicate(), Replicate()])]
    return everywhere + [([Shard(dim)], [_placement(shape, dim, rank) for shape in shapes]) for dim in range(rank)]


def _placement(shape: Sequence[int], dim: int, rank: int) -> Placement:
    own = dim - (rank - len(shape))
    return Replicate() if own < 0 or shape[own] == 1 else Shard(own)
