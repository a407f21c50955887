"""Splitting a sweep over the processes of torchrun and merging what they found, as JSON through torch.distributed.

hccl on NPUs, gloo elsewhere. A process without torchrun around it is rank 0 of 1 and needs none of this.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any, TypeVar

import torch

from ops import device as devices

T = TypeVar("T")

# Ranks wait for the slowest one at the end; rows differ in length by hours, so no default of minutes will do.
PATIENCE = timedelta(days=7)


class Group:
    """The processes that share a sweep."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = torch.device("cpu")

    def __enter__(self) -> Group:
        if self.size > 1:
            module = devices.npu()
            if module is not None:
                local = int(os.environ.get("LOCAL_RANK", "0"))
                module.set_device(local)
                self.device = torch.device("npu", local)
            backend = "hccl" if module is not None else "gloo"
            torch.distributed.init_process_group(backend, timeout=PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        if self.size > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def share(self, items: list[T]) -> list[T]:
        """This process's part of a list that is the same in all processes."""
        return items[self.rank :: self.size]

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value, JSON data, in every process."""
        if self.size == 1:
            return value
        payload = json.dumps(value).encode() if self.rank == 0 else b""
        length = torch.tensor([len(payload)], dtype=torch.int64, device=self.device)
        torch.distributed.broadcast(length, 0)
        content = self._padded(payload, int(length))
        torch.distributed.broadcast(content, 0)
        return json.loads(bytes(content.cpu().tolist()))

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, JSON data, in the order of ranks, in every process."""
        if self.size == 1:
            return [value]
        payload = json.dumps(value).encode()
        lengths = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        torch.distributed.all_gather(lengths, torch.tensor([len(payload)], dtype=torch.int64, device=self.device))
        longest = max(int(length) for length in lengths)
        contents = [self._padded(b"", longest) for _ in range(self.size)]
        torch.distributed.all_gather(contents, self._padded(payload, longest))
        return [
            json.loads(bytes(content[: int(length)].cpu().tolist()))
            for content, length in zip(contents, lengths, strict=True)
        ]

    def _padded(self, payload: bytes, length: int) -> torch.Tensor:
        return torch.tensor(list(payload.ljust(length, b"\0")), dtype=torch.uint8, device=self.device)
