"""Kernels that are not this project's, at the device level: what runs is right, what does not is refused by name."""

from __future__ import annotations

import pytest
import torch

import emulator
from emulator.errors import UnsupportedOperationError
from tests.emulator import kernels


@pytest.fixture(autouse=True)
def device_level():
    with emulator.route("device"):
        yield


def test_softmax() -> None:
    x = torch.randn(7, 1000, generator=torch.Generator().manual_seed(1))
    out = torch.empty_like(x)
    kernels.softmax[(7,)](x, out, 1000, BLOCK=1024)
    assert torch.allclose(out, torch.softmax(x, 1), rtol=1e-5, atol=0)  # exp and the order of the sum are the host's


def test_atomic_updates_of_one_histogram() -> None:
    x = torch.randint(0, 16, (1000,), dtype=torch.int32)
    counts = torch.zeros(16, dtype=torch.int32)
    kernels.histogram[(8,)](x, counts, 1000, BINS=16, BLOCK=128)
    assert torch.equal(counts, torch.bincount(x, minlength=16).int())


def test_rows_by_index() -> None:
    table, index = torch.randn(50, 64), torch.randint(0, 50, (33,), dtype=torch.int32)
    out = torch.zeros(33, 64)
    kernels.gather_rows[(3,)](table, index, out, 33, COLUMNS=64, BLOCK=16)
    assert torch.equal(out, table[index.long()])


def test_cumsum_and_gather_in_a_tile() -> None:
    x = torch.randint(-100, 100, (512,), dtype=torch.int32)
    out = torch.empty_like(x)
    kernels.scan_vector[(1,)](x, out, LANES=512)
    assert torch.equal(out, torch.cumsum(x, 0, dtype=torch.int32))
    values, index, picked = torch.randn(64), torch.randint(0, 64, (64,), dtype=torch.int32), torch.empty(64)
    kernels.gather_tile[(1,)](values, index, picked, SOURCE=64, LANES=64)
    assert torch.equal(picked, values[index.long()])


def test_program_ids_of_a_three_dimensional_grid() -> None:
    out = torch.full((30,), -1, dtype=torch.int32)
    kernels.program_ids[(2, 3, 5)](out)
    assert out.tolist() == [x * 10000 + y * 100 + z for x in range(2) for y in range(3) for z in range(5)]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int16, torch.int64], ids=str
)
def test_sums_of_every_width(dtype: torch.dtype) -> None:
    x, y = ((torch.randn(1000) * 30).to(dtype) for _ in "xy")
    out = torch.empty_like(x)
    kernels.add[(4,)](x, y, out, 1000, BLOCK=256)
    assert torch.equal(out, x + y)


@pytest.mark.parametrize(
    ("source", "target"),
    [(torch.float32, torch.int8), (torch.float32, torch.bfloat16), (torch.int64, torch.float32)],
    ids=str,
)
def test_casts(source: torch.dtype, target: torch.dtype) -> None:
    x = (torch.randn(256) * 50).to(source)
    out = torch.empty(256, dtype=target)
    kernels.cast[(1,)](x, out, BLOCK=256)
    assert torch.equal(out, x.to(target))


def test_sorting_and_matrix_units_are_refused_by_name() -> None:
    x = torch.randn(64)
    with pytest.raises(UnsupportedOperationError, match=r"llvm\.hivm\.VBS32_f32.*device level"):
        kernels.sort_vector[(1,)](x, torch.empty_like(x), LANES=64, DESCENDING=False)
    a = torch.randn(16, 16)
    with pytest.raises(UnsupportedOperationError, match="PIPE_FIX"):
        kernels.matmul[(1,)](a, a, torch.zeros(16, 16), M=16, N=16, K=16)
