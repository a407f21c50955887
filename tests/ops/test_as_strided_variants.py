"""Every kernel as_strided can ask for, through the Ascend compiler: no element loop, no overflow, two buffers."""

from __future__ import annotations

import pytest

from emulator import inspect, toolchain
from ops.variants import Variant, variants
from tiling.as_strided_tiles import KERNELS, count
from tiling.platform import DEFAULT_CHIP, UB_BYTES

ALL = variants("as_strided")


def check(variant: Variant) -> None:
    linalg = toolchain.lower_to_linalg(
        variant.function, dict(variant.signature), dict(variant.constexprs), {"multibuffer": variant.multibuffer}
    )
    module = toolchain.compile_hivm(linalg, chip=DEFAULT_CHIP, multibuffer=variant.multibuffer)
    assert not module.overflow, f"{variant.name}: ub overflow, {module.ub_bytes} bytes"
    assert not module.multibuffer_dropped, f"{variant.name}: the compiler dropped double buffering"
    assert inspect.scalar_loops(module) == [], variant.name
    assert module.ub_bytes <= UB_BYTES


@pytest.mark.parametrize(
    "variant",
    [pytest.param(each, id=each.name, marks=[] if each.quick else [pytest.mark.thorough]) for each in ALL],
)
def test_compiles_to_good_code(variant):
    check(variant)


def test_the_list_is_what_plans_choose_from():
    assert len(ALL) == count() == len({variant.name for variant in ALL})
    assert len(ALL) <= 165
    assert {variant.kernel for variant in ALL} == set(KERNELS)
    assert {variant.kernel for variant in ALL if variant.quick} == set(KERNELS)


def test_nothing_is_specialised():
    """Neither integers equal to 1 or divisible by 16 nor aligned pointers select another compiled kernel."""
    for variant in ALL:
        for param in variant.function.params:
            if param.is_constexpr:
                continue
            if param.name in "xy":
                assert param.do_not_specialize_on_alignment
            else:
                assert param.do_not_specialize
                assert param.annotation_type in ("i32", "i64")


def test_plain_kernels_have_few_arguments():
    # Triton's own launch costs half a microsecond per argument beyond five.
    for variant in ALL:
        assert len(variant.signature) <= (34 if variant.kernel.endswith("_deep") else 17), variant.name
