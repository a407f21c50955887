"""What is read off a final module: loops over elements, templates, buffers, chip."""

from __future__ import annotations

import triton
import triton.language as tl

from emulator import inspect, toolchain
from tests.emulator import kernels

F32 = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}


@triton.jit
def remainder(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) % tl.load(y + at))


@triton.jit
def scale_rows(x, y, out, rows, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(rows):
        factor = tl.load(y + row)
        tl.store(out + row * BLOCK + at, tl.load(x + row * BLOCK + at) * factor)


def module(function, signature, **constexprs):
    return toolchain.compile_hivm(toolchain.lower_to_linalg(function, signature, constexprs), chip="Ascend910B3")


def test_remainder_of_integers_is_a_loop_over_elements() -> None:
    (loop,) = inspect.scalar_loops(module(remainder, dict.fromkeys(F32, "*i32"), BLOCK=1024))
    assert loop.accesses == 3
    assert loop.what.startswith("scf.for")


def test_scalar_beside_a_row_is_no_loop_over_elements() -> None:
    assert inspect.scalar_loops(module(scale_rows, {**F32, "rows": "i32"}, BLOCK=1024)) == []


def test_templates_and_buffers() -> None:
    compiled = module(kernels.add, {**F32, "n": "i32"}, BLOCK=1024)
    calls = inspect.template_calls(compiled)
    assert calls["vadd_1d_float"] == 1
    assert calls["load_gm_to_ubuf_1d_float"] == 2
    assert inspect.ub_bytes(compiled) == 2 * 4096  # the sum goes over one of the operands
    assert inspect.ub_bytes(compiled) == inspect.ub_bytes(compiled.text)


def test_chip() -> None:
    linalg = toolchain.lower_to_linalg(kernels.add, {**F32, "n": "i32"}, {"BLOCK": 1024})
    b3, b1 = (toolchain.compile_hivm(linalg, chip=f"Ascend910{name}") for name in ("B3", "B1"))
    assert (inspect.vector_cores(b3), inspect.vector_cores(b1)) == (40, 48)
    assert inspect.ub_size(b3) == inspect.ub_size(b1) == 196_608
    assert b3.text != b1.text
    assert inspect.without_chip(b3) == inspect.without_chip(b1)
