"""Every kernel as_strided can ask for, through the Ascend compiler: no element loop, no overflow, two buffers."""

from __future__ import annotations

import pytest

from emulator import inspect, toolchain
from ops.variants import Variant, variants
from tiling.as_strided import AsStridedProblem, choices
from tiling.as_strided_tiles import KERNELS, count
from tiling.platform import DEFAULT_CHIP, UB_BYTES, platform

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


VIEWS = [
    ((10**6,), (1,)),
    ((1000, 3, 50), (1000, 100, 1)),
    ((1000, 1000), (0, 1)),
    ((1000, 1000), (1, 0)),
    ((300, 300), (1, 300)),
    ((10**5,), (3,)),
    ((10**5,), (2,)),
    ((10**4, 8), (1, 1)),
    ((1000, 3, 4), (100, 30, 3)),
    ((10**5,), (101,)),
]


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_the_buffers_of_a_plan_are_those_of_the_compiler(itemsize):
    """Itemised bytes against the memory plan of the module: never less, and little more where buffers are shared."""
    compiled = {(variant.kernel, variant.signature[0][1], variant.constexprs): variant for variant in ALL}
    elements = {1: "*i8", 2: "*fp16", 4: "*fp32", 8: "*i64"}
    for size, stride in VIEWS:
        plan = choices(AsStridedProblem(size, stride, 0, itemsize), platform())[0]
        variant = compiled[plan.kernel, elements[plan.width], plan.constexprs]
        linalg = toolchain.lower_to_linalg(variant.function, dict(variant.signature), dict(variant.constexprs))
        planned, used = sum(size for _, size in plan.ub), toolchain.compile_hivm(linalg).ub_bytes
        assert 0.97 * used <= planned <= 1.25 * used, (plan, used)


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
