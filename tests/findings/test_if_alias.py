"""Compiler fault: the memory planner gives a loop-carried tensor's buffer away while a value that is it is still read.

hivm-plan-memory of bishengir-compile 1.2.0 (ascendnpu-ir 1.2.0), silent wrong results. A tensor carried by a loop goes
into a region (an `if`, or an inner `for`) that may hand it through unchanged, and the region's result is read after the
carried tensor's new value was computed. The new value is planned into the old one's buffer: the planner does not see
that the region's result is that buffer. No flag or bounds check can see it, since the order of the program itself is
wrong; the comparison of the two levels does.

Rule for the kernels of this project: in a loop, read every result of a region that may hand a carried tensor through
before computing that tensor's next value. The `_read_first` kernels below follow it and are right.

Not affected, as tried here: `while` as the outer loop, the tensor handed through in the then-branch, `tl.where` on a
scalar, exchanged carried tensors, `if` outside a loop. An inner `while` does not compile.

A test of a fault that fails says that the compiler was repaired: then the rule may go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.findings.levels import differing, outputs

SIZE = 1024
STEPS = 3
TAKEN, NOT_TAKEN = -100.0, 100.0
HALF_TAKEN = -20.0  # nested: the outer branch only


@triton.jit
def branch(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b
        if tl.max(a) > limit:
            u = b * 0.5
        r = a - 1.0
        b = r * 3.0
        total = total + (u - b)  # the last read of u, which is the old b when the branch is not taken
        a = r
    tl.store(out + at, total)


@triton.jit
def branch_read_first(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b
        if tl.max(a) > limit:
            u = b * 0.5
        total = total + u
        r = a - 1.0
        b = r * 3.0
        total = total - b
        a = r
    tl.store(out + at, total)


@triton.jit
def nested(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b
        largest = tl.max(a)
        if largest > limit:  # noqa: SIM102 - two regions, one in the other, are the point
            if largest > limit + 50:
                u = b * 0.5
        r = a - 1.0
        b = r * 3.0
        total = total + (u - b)
        a = r
    tl.store(out + at, total)


@triton.jit
def loaded(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for step in range(steps):
        u = b
        if tl.max(a) > limit:
            u = tl.load(x + at)
        b = tl.load(x + BLOCK + at) * (step + 2)
        total = total + (u - b)
        a = a - 1.0
    tl.store(out + at, total)


@triton.jit
def two_results(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b
        v = a
        if tl.max(a) > limit:
            u = b * 0.5
            v = a * 0.25
        b = v * 3.0
        a = v - 1.0
        total = total + (u - b)
    tl.store(out + at, total)


@triton.jit
def inner_loop(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b
        for _ in range(limit):
            u = u * 0.5
        r = a - 1.0
        b = r * 3.0
        total = total + (u - b)
        a = r
    tl.store(out + at, total)


@triton.jit
def inner_loop_read_first(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b
        for _ in range(limit):
            u = u * 0.5
        total = total + u
        r = a - 1.0
        b = r * 3.0
        total = total - b
        a = r
    tl.store(out + at, total)


@triton.jit
def outer_while(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    step = 0
    while step < steps:
        u = b
        if tl.max(a) > limit:
            u = b * 0.5
        r = a - 1.0
        b = r * 3.0
        total = total + (u - b)
        a = r
        step += 1
    tl.store(out + at, total)


@triton.jit
def then_hands_through(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = b * 0.5
        if tl.max(a) > limit:
            u = b
        r = a - 1.0
        b = r * 3.0
        total = total + (u - b)
        a = r
    tl.store(out + at, total)


@triton.jit
def scalar_where(x, steps, limit, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + BLOCK + at)
    total = a
    for _ in range(steps):
        u = tl.where(tl.max(a) > limit, b * 0.5, b)
        r = a - 1.0
        b = r * 3.0
        total = total + (u - b)
        a = r
    tl.store(out + at, total)


Array = np.ndarray[Any, np.dtype[np.float32]]
F = np.float32


def walk(choose: Callable[[Array, Array, Array], Array], read_first: bool = False) -> Callable[[Array], Array]:
    """What the kernels mean: `choose(a, b, x)` is u."""

    def expected(x: Array) -> Array:
        a, b = x[:SIZE].copy(), x[SIZE:].copy()
        total = a.copy()
        for _ in range(STEPS):
            u = choose(a, b, x)
            r = a - F(1)
            b = r * F(3)
            total = (total + u) - b if read_first else total + (u - b)
            a = r
        return total

    return expected


def halve_if(limit: float) -> Callable[[Array, Array, Array], Array]:
    return lambda a, b, x: b * F(0.5) if a.max() > limit else b


def expected_loaded(limit: float) -> Callable[[Array], Array]:
    def expected(x: Array) -> Array:
        a, b = x[:SIZE].copy(), x[SIZE:].copy()
        total = a.copy()
        for step in range(STEPS):
            u = x[:SIZE] if a.max() > limit else b
            b = x[SIZE:] * F(step + 2)
            total = total + (u - b)
            a = a - F(1)
        return total

    return expected


def expected_two_results(limit: float) -> Callable[[Array], Array]:
    def expected(x: Array) -> Array:
        a, b = x[:SIZE].copy(), x[SIZE:].copy()
        total = a.copy()
        for _ in range(STEPS):
            taken = a.max() > limit
            u, v = (b * F(0.5), a * F(0.25)) if taken else (b, a)
            b, a = v * F(3), v - F(1)
            total = total + (u - b)
        return total

    return expected


WRONG = [
    ("branch not taken", branch, NOT_TAKEN, walk(halve_if(NOT_TAKEN))),
    ("nested, outer taken", nested, HALF_TAKEN, walk(lambda a, b, x: b)),
    ("nested, none taken", nested, NOT_TAKEN, walk(lambda a, b, x: b)),
    ("loaded in the branch", loaded, NOT_TAKEN, expected_loaded(NOT_TAKEN)),
    ("two results", two_results, NOT_TAKEN, expected_two_results(NOT_TAKEN)),
    ("inner loop, no turn", inner_loop, 0, walk(lambda a, b, x: b)),
    ("inner loop, two turns", inner_loop, 2, walk(lambda a, b, x: b * F(0.25))),
]
RIGHT = [
    ("branch taken", branch, TAKEN, walk(halve_if(TAKEN))),
    ("read first, not taken", branch_read_first, NOT_TAKEN, walk(halve_if(NOT_TAKEN), True)),
    ("read first, taken", branch_read_first, TAKEN, walk(halve_if(TAKEN), True)),
    ("inner loop read first, no turn", inner_loop_read_first, 0, walk(lambda a, b, x: b, True)),
    ("inner loop read first, two turns", inner_loop_read_first, 2, walk(lambda a, b, x: b * F(0.25), True)),
    ("outer while", outer_while, NOT_TAKEN, walk(halve_if(NOT_TAKEN))),
    ("then hands through", then_hands_through, TAKEN, walk(lambda a, b, x: b)),
    ("scalar where", scalar_where, NOT_TAKEN, walk(halve_if(NOT_TAKEN))),
]


def both(kernel: Any, limit: float, expected: Callable[[Array], Array]) -> tuple[int, int]:
    """Wrong elements at the linalg level, and at the device level."""
    x = torch.rand(2 * SIZE, generator=torch.Generator().manual_seed(0))
    want = torch.from_numpy(expected(x.numpy()))
    linalg, device = outputs(kernel, (1,), torch.zeros(SIZE), x, STEPS, limit, BLOCK=SIZE)
    return differing(linalg, want), differing(device, want)


@pytest.mark.parametrize(("name", "kernel", "limit", "expected"), WRONG, ids=[row[0] for row in WRONG])
def test_the_compiler_overwrites_what_is_still_read(
    name: str, kernel: Any, limit: float, expected: Callable[[Array], Array]
) -> None:
    linalg, device = both(kernel, limit, expected)
    assert linalg == 0
    assert device == SIZE, "the compiler was repaired: see the rule above"


@pytest.mark.parametrize(("name", "kernel", "limit", "expected"), RIGHT, ids=[row[0] for row in RIGHT])
def test_both_levels_are_right(name: str, kernel: Any, limit: float, expected: Callable[[Array], Array]) -> None:
    assert both(kernel, limit, expected) == (0, 0)
