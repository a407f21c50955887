"""A Triton kernel on CPU tensors at the device level: right results, and errors that say where."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import emulator
from emulator.device import DeviceCheckError, UnifiedBufferOverflowError


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def add_without_mask(x, y, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


def operands(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    x, y = (torch.randn(n, generator=generator) for _ in range(2))
    return x, y, torch.full((n,), float("nan"))


@pytest.mark.parametrize("n", [1, 7, 1000, 1024, 98_433])
def test_result_is_exact(n: int) -> None:
    x, y, out = operands(n)
    with emulator.route("device"):
        add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    assert torch.equal(out, x + y)


def test_install_selects_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, out = operands(5000)
    emulator.install(level="device")
    try:
        add[(5,)](x, y, out, 5000, BLOCK=1024)
    finally:
        emulator.uninstall()
    assert torch.equal(out, x + y)
    monkeypatch.setenv("ASCEND_EMULATOR_LEVEL", "device")
    assert emulator.default_level() == "device"


def test_access_outside_the_tensors_is_named() -> None:
    x, y, out = operands(2000)  # two programs: the second reads 48 elements too many
    with emulator.route("device"), pytest.raises(DeviceCheckError) as caught:
        add_without_mask[(2,)](x, y, out, BLOCK=1024)
    finding = caught.value.findings[0]
    assert (finding.check, finding.kernel, finding.program) == ("gm bounds", "add_without_mask", 1)
    assert finding.instruction.startswith("call @load_gm_to_ubuf_1d_float")
    assert hex(x.data_ptr() + 8000) in str(finding)  # where the tensor ends
    assert f"line {finding.line}" in str(caught.value)


def test_tiles_that_do_not_fit_are_one_clear_error() -> None:
    x, y, out = operands(1 << 17)
    with emulator.route("device"), pytest.raises(UnifiedBufferOverflowError, match=r"'add' needs \d+ bytes"):
        add[(1,)](x, y, out, x.numel(), BLOCK=1 << 17)


def test_many_threads_give_one_result() -> None:
    before = emulator.get_num_threads()
    x, y, _ = operands(50_000)
    results = []
    try:
        for threads in (1, 2, 7):
            emulator.set_num_threads(threads)
            out = torch.full_like(x, float("nan"))
            with emulator.route("device"):
                add[(49,)](x, y, out, x.numel(), BLOCK=1024)
            results.append(out)
    finally:
        emulator.set_num_threads(before)
    assert all(torch.equal(out, x + y) for out in results)
