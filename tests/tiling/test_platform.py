"""The platform table: chips, costs with their ranges, and replacing constants."""

import dataclasses

import pytest

from tiling.platform import COSTS, GUESS, MEASURED, PLACEHOLDER, PUBLISHED, VECTOR_CORES, Cost, platform


def test_core_classes():
    assert {chip for chip, cores in VECTOR_CORES.items() if cores == 48} == {
        "Ascend910B1",
        "Ascend910B2",
        "Ascend910B2C",
        "Ascend910_9381",
        "Ascend910_9382",
        "Ascend910_9391",
        "Ascend910_9392",
    }
    assert set(VECTOR_CORES.values()) == {40, 48}


@pytest.mark.parametrize("name", sorted(COSTS))
def test_every_cost_says_where_it_comes_from(name):
    cost = COSTS[name]
    assert cost.low <= cost.value <= cost.high
    assert cost.source
    assert cost.unit
    assert cost.status in (MEASURED, PUBLISHED, PLACEHOLDER, GUESS)


def test_unknown_chip_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown chip 'Ascend310'.*Ascend910B3"):
        platform("Ascend310")


def test_unknown_cost_is_named():
    with pytest.raises(KeyError, match="no cost named 'warp'"):
        platform().cost("warp")
    with pytest.raises(KeyError, match="warp"):
        platform().with_costs({"warp": COSTS["burst"]}, "mine")


def test_replaced_costs_keep_plans_apart():
    base = platform()
    burst = dataclasses.replace(COSTS["burst"], value=4.0, status=MEASURED)
    changed = base.with_costs({"burst": burst}, "mine")
    assert changed.cost("burst") == 4.0
    assert base.cost("burst") == COSTS["burst"].value
    assert changed != base
    assert hash(changed) != hash(base)


def test_a_guess_is_not_called_measured():
    assert not Cost(1, "cycles", "nowhere", GUESS, 0, 2).measured
    assert Cost(1, "cycles", "a board", PUBLISHED, 1, 1).measured
