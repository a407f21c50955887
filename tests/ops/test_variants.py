"""Every gcd variant goes through the Ascend compiler: no loop over elements, no overflow, double buffering kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator import inspect, toolchain
from ops.variants import Variant, variants


def params() -> Iterator[object]:
    for variant in variants("gcd"):
        yield pytest.param(variant, id=variant.name, marks=() if variant.quick else pytest.mark.thorough)


@pytest.mark.parametrize("variant", list(params()))
def test_compiles_as_planned(variant: Variant) -> None:
    options = {"multibuffer": variant.multibuffer}
    linalg = toolchain.lower_to_linalg(variant.function, dict(variant.signature), dict(variant.constexprs), options)
    module = toolchain.compile_hivm(linalg, chip="Ascend910B3", multibuffer=variant.multibuffer)
    assert not module.overflow, module.stderr
    assert not module.multibuffer_dropped, module.stderr
    loops = inspect.scalar_loops(module)
    assert not loops, f"loops over elements: {loops}"
    assert 0 < inspect.ub_bytes(module) <= inspect.ub_size(module)


@pytest.mark.parametrize("op", ["gcd", "as_strided"])
def test_names_are_unique(op: str) -> None:
    names = [variant.name for variant in variants(op)]
    assert len(names) == len(set(names))
    assert any(variant.quick for variant in variants(op))
