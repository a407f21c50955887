"""Both levels of the emulator on every variant of the kernels: the same random bits, the same result in every bit.

The linalg level runs what the front end made of a kernel, the device level what the whole compiler made of it. A
difference, or a report of the checks, is a fault of the compiler, of the emulator or of the kernel: none is expected.
"""

from __future__ import annotations

import pytest
import torch

import emulator
from bench.gate import quick_subset
from emulator.device import options
from ops.variants import Variant, variants
from tests.emulator.device.calls import call_of

EVERY = variants()
QUICK = quick_subset(EVERY)


def agree(variant: Variant) -> None:
    call = call_of(variant)
    with emulator.route("linalg"):
        linalg = call.run()
    with emulator.route("device"):
        device = call.run()
    if call.expected is not None:
        assert torch.equal(linalg, call.expected)
    assert torch.equal(linalg, device), f"{int((linalg != device).sum())} bytes differ"


@pytest.mark.parametrize("variant", QUICK, ids=[variant.name for variant in QUICK])
def test_levels_agree(variant: Variant) -> None:
    agree(variant)


@pytest.mark.thorough
@pytest.mark.parametrize("variant", EVERY, ids=[variant.name for variant in EVERY])
def test_levels_agree_on_every_variant(variant: Variant) -> None:
    agree(variant)


@pytest.mark.thorough
@pytest.mark.parametrize("division", ["random", "away", "toward"])
@pytest.mark.parametrize("variant", QUICK, ids=[variant.name for variant in QUICK])
def test_an_inexact_division_changes_nothing(variant: Variant, division: str) -> None:
    if variant.op != "gcd":
        pytest.skip("as_strided does not divide")
    call = call_of(variant)
    with emulator.route("device"):
        exact = call.run()
        with options(division=division):
            assert torch.equal(call.run(), exact)
