"""Compiler fault: a scalar tl.atomic_xchg becomes a load, and nothing is written.

bishengir-compile 1.2.0 (ascendnpu-ir 1.2.0), silent wrong results: the final module reads the old value and has no
store to the slot at all. The linalg level, which runs what the front end made of it, exchanges. No kernel of this
project uses atomics.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.findings.levels import outputs


@triton.jit
def exchange(value, slot):
    tl.atomic_xchg(slot, value)


def test_exchange_is_lost() -> None:
    linalg, device = outputs(exchange, (1,), torch.zeros(1, dtype=torch.int32), 7)
    assert linalg.item() == 7
    assert device.item() == 0, "the compiler was repaired"
