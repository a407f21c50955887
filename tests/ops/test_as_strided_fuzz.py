"""Random views at both levels of the emulator, chosen and forced kernels, with guard zones around the output.

Every case is made from `seed/index`; the seed is printed, and ASCEND_OPS_FUZZ_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import secrets

import numpy as np
import pytest
import torch

import emulator
import ops
from ops import device
from tests.ops.as_strided_support import (
    WIDTHS,
    bits,
    expected_bits,
    poison_outside,
    random_layout,
    random_storage,
    reach,
)
from tiling.as_strided import choices

GUARD = 0x5A
ZONE = 256  # bytes on either side of the output


def seed() -> str:
    return os.environ.get("ASCEND_OPS_FUZZ_SEED") or secrets.token_hex(4)


def guarded(shape, dtype: torch.dtype, shift: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A dense tensor inside a larger one that is filled with GUARD; `shift` elements off the usual alignment."""
    count = int(np.prod(shape))
    zone = ZONE // dtype.itemsize + shift
    whole = torch.full(((count + 2 * zone) * dtype.itemsize,), GUARD, dtype=torch.uint8).view(dtype)
    return whole, whole[zone : zone + count].view(shape)


def untouched(whole: torch.Tensor, inside: torch.Tensor) -> bool:
    first = (inside.data_ptr() - whole.data_ptr()) // whole.element_size()
    around = torch.cat([whole[:first], whole[first + inside.numel() :]])
    return bool((bits(around) == GUARD).all())


def run_case(name: str, forced: bool) -> set[str]:
    """One random case, by the chosen kernel or by every kernel that can serve it; returns the kernels."""
    rng = random.Random(name)
    kind, size, stride, offset = random_layout(rng)
    dtype = WIDTHS[rng.choice(list(WIDTHS))]
    source = random_storage(rng, reach(size, stride, offset) + rng.choice([0, 1, 5]), dtype)
    poison_outside(source, size, stride, offset)
    before = bits(source)
    expected = expected_bits(source, size, stride, offset)
    assert np.array_equal(bits(torch.as_strided_copy(source, size, stride, offset)), expected), name
    shift = rng.choice([0, 0, 1, 3])
    chosen = ops.plan_as_strided(source, size, stride, offset, out=guarded(size, dtype, shift)[1])
    families = {}
    for each in choices(chosen.problem, device.platform_of(source.device)) if forced else [chosen]:
        families.setdefault(each.family, []).append(each)
    for tiles in families.values():
        plan = rng.choice(tiles)
        whole, out = guarded(size, dtype, shift)
        case = f"{name}: {kind} {dtype} size {size} stride {stride} offset {offset}\n{plan!r}"
        ops.as_strided(source, size, stride, offset, out=out, plan=plan if forced else None)
        assert np.array_equal(bits(out), expected), case
        assert untouched(whole, out), case
    assert np.array_equal(bits(source), before), name
    assert np.array_equal(bits(ops.as_strided(source, size, stride, offset)), expected), name
    return set(families)


@pytest.mark.parametrize("part", range(3))
def test_chosen_kernels(part):
    run = seed()
    print("seed", run)
    for index in range(100):
        run_case(f"{run}/chosen/{part}/{index}", forced=False)


def test_every_legal_kernel():
    run = seed()
    print("seed", run)
    served = set().union(*[run_case(f"{run}/forced/{index}", forced=True) for index in range(100)])
    assert len(served) >= 7, served  # of eight; the rarest can serve one case in sixteen


@pytest.mark.parametrize("forced", [False, True], ids=["chosen", "forced"])
def test_device_level(forced):
    run = seed()
    print("seed", run)
    with emulator.route("device"):
        for index in range(8):
            run_case(f"{run}/device/{forced}/{index}", forced)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(30))
def test_chosen_kernels_at_length(part):
    run = seed()
    print("seed", run)
    for index in range(100):
        run_case(f"{run}/chosen at length/{part}/{index}", forced=False)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(10))
def test_every_legal_kernel_at_length(part):
    run = seed()
    print("seed", run)
    for index in range(100):
        run_case(f"{run}/forced at length/{part}/{index}", forced=True)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(10))
def test_device_level_at_length(part):
    run = seed()
    print("seed", run)
    with emulator.route("device"):
        for index in range(40):
            run_case(f"{run}/device at length/{part}/{index}", forced=index % 2 == 0)
