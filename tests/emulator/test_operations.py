"""What kernels compute at the linalg level, against numpy and torch."""

from __future__ import annotations

import ctypes
import ctypes.util
import threading

import numpy as np
import pytest
import torch
import triton

import emulator
from tests.emulator import kernels

pytestmark = pytest.mark.usefixtures("routed")


def test_programs_see_their_place_in_the_grid() -> None:
    out = torch.full((2 * 3 * 5,), -1, dtype=torch.int32)
    kernels.program_ids[(2, 3, 5)](out)
    expected = [x * 10000 + y * 100 + z for x in range(2) for y in range(3) for z in range(5)]
    assert out.tolist() == expected


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_cumsum_of_integers_wraps(dtype: torch.dtype) -> None:
    x = torch.randint(-100, 100, (512,), dtype=dtype)
    out = torch.empty_like(x)
    kernels.scan_vector[(1,)](x, out, LANES=512)
    assert torch.equal(out, torch.cumsum(x, 0, dtype=dtype))


def test_cumsum_of_floats_adds_in_order() -> None:
    x = torch.randn(512)
    out = torch.empty_like(x)
    kernels.scan_vector[(1,)](x, out, LANES=512)
    assert np.array_equal(out.numpy(), np.cumsum(x.numpy(), dtype=np.float32))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum_along_an_axis(axis: int, reverse: bool) -> None:
    x = torch.randint(-1000, 1000, (8, 16), dtype=torch.int32)
    out = torch.empty_like(x)
    kernels.scan_rows[(1,)](x, out, ROWS=8, COLUMNS=16, AXIS=axis, REVERSE=reverse)
    source = x.flip(axis) if reverse else x
    expected = torch.cumsum(source, axis, dtype=torch.int32)
    assert torch.equal(out, expected.flip(axis) if reverse else expected)


def test_cumprod() -> None:
    x = torch.randint(-3, 4, (64,), dtype=torch.int32)
    out = torch.empty_like(x)
    kernels.multiply_scan[(1,)](x, out, LANES=64)
    assert torch.equal(out, torch.cumprod(x, 0, dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float32])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype: torch.dtype, descending: bool) -> None:
    x = torch.randn(256).mul(100).to(dtype)
    out = torch.empty_like(x)
    kernels.sort_vector[(1,)](x, out, LANES=256, DESCENDING=descending)
    assert torch.equal(out, x.sort(descending=descending).values)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_rows(descending: bool) -> None:
    x = torch.randn(8, 32)
    out = torch.empty_like(x)
    kernels.sort_rows[(1,)](x, out, ROWS=8, COLUMNS=32, DESCENDING=descending)
    assert torch.equal(out, x.sort(dim=1, descending=descending).values)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_puts_nan_where_torch_does(descending: bool) -> None:
    x = torch.randn(64)
    x[[3, 40, 41]] = float("nan")
    x[[5, 6]] = torch.tensor([float("inf"), -float("inf")])
    out = torch.empty_like(x)
    kernels.sort_vector[(1,)](x, out, LANES=64, DESCENDING=descending)
    assert np.array_equal(out.numpy(), x.sort(descending=descending).values.numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16, torch.float32])  # what tl.gather takes
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_gather_from_a_tile(dtype: torch.dtype, index_dtype: torch.dtype) -> None:
    x = torch.randn(256).mul(100).to(dtype)
    index = torch.randint(0, 256, (64,), dtype=index_dtype)
    out = torch.empty(64, dtype=dtype)
    kernels.gather_tile[(1,)](x, index, out, SOURCE=256, LANES=64)
    assert torch.equal(out, x[index.long()])


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_along_an_axis(axis: int) -> None:
    x = torch.randn(8, 16)
    index = torch.randint(0, x.shape[axis], (8, 16), dtype=torch.int32)
    out = torch.empty_like(x)
    kernels.gather_tile_2d[(1,)](x, index, out, ROWS=8, COLUMNS=16, AXIS=axis)
    assert torch.equal(out, torch.gather(x, axis, index.long()))


def test_gather_outside_the_tile_stays_inside_memory() -> None:
    x = torch.arange(256, dtype=torch.float32)
    index = torch.tensor([0, 255, 256, -1, 2**31 - 1, -(2**31), 7, 8], dtype=torch.int32)
    out = torch.empty(8)
    kernels.gather_tile[(1,)](x, index, out, SOURCE=256, LANES=8)
    assert out[[0, 1, 6, 7]].tolist() == [0, 255, 7, 8]


def test_round_goes_half_away_from_zero() -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0, -0.0, 1e30, float("inf"), -7.4])
    x = torch.cat([x, torch.zeros(4)])
    out = torch.empty_like(x)
    kernels.round_half_away[(1,)](x, out, BLOCK=16)
    values = x.numpy()
    expected = np.copysign(np.floor(np.abs(values.astype(np.float64)) + 0.5), values).astype(np.float32)
    assert np.array_equal(out.numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_floats_round_once_per_operation(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    bits = torch.randint(-(2**15), 2**15, (2, 2048), dtype=torch.int16, generator=generator)
    a, b = bits.view(dtype)
    finite = torch.isfinite(a) & torch.isfinite(b)
    a, b = torch.where(finite, a, 1), torch.where(finite, b, 1)
    out = torch.empty(6, 2048, dtype=dtype)
    kernels.arithmetic[(1,)](a, b, out, BLOCK=2048)
    wide = (a.float() * b.float()).to(dtype).float()
    expected = torch.stack(
        [
            (a.float() + b.float()).to(dtype),
            (a.float() - b.float()).to(dtype),
            (a.float() * b.float()).to(dtype),
            (a.float() / b.float()).to(dtype),
            (wide + a.float()).to(dtype),
            torch.maximum(a, b),
        ]
    )
    same = (out.view(torch.int16) == expected.view(torch.int16)) | (out.isnan() & expected.isnan())
    # the sign of a zero is maximum's own business
    same[5] |= out[5] == expected[5]
    assert same.all()


def test_dot() -> None:
    a = torch.randint(-8, 8, (16, 32)).float()
    b = torch.randint(-8, 8, (32, 16)).float()
    c = torch.empty(16, 16)
    kernels.matmul[(1,)](a, b, c, M=16, N=16, K=32)
    assert torch.equal(c, a @ b)


@pytest.mark.parametrize("multibuffer", [True, False])
def test_compile_options_are_accepted(multibuffer: bool) -> None:
    x, y = torch.randn(2, 3000)
    out = torch.empty(3000)
    kernels.add[(triton.cdiv(3000, 1024),)](x, y, out, 3000, BLOCK=1024, multibuffer=multibuffer)
    assert torch.equal(out, x + y)


def test_arguments_that_become_constants_are_not_passed() -> None:
    x, y = torch.randn(2, 1)
    out = torch.empty(1)
    kernels.add[(1,)](x, y, out, 1, BLOCK=16)
    assert torch.equal(out, x + y)


def test_libdevice_functions_are_the_c_library_s() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    x = torch.cat([torch.rand(60) * 4, torch.tensor([0.0, 1e-20, 50.0, 1e30])])
    out = torch.empty(5, 64)
    kernels.tangents[(1,)](x, out, BLOCK=64)
    for row, name in ((0, "tanhf"), (1, "log1pf"), (4, "powf")):
        function = getattr(libm, name)
        function.restype = ctypes.c_float
        function.argtypes = [ctypes.c_float] * (2 if name == "powf" else 1)
        assert out[row].tolist() == [function(*[value] * len(function.argtypes)) for value in x.tolist()], name
    assert torch.equal(out[2], 1 / x)
    assert torch.equal(out[3], x.clamp(min=0))


def test_a_libdevice_function_without_a_body_is_refused_by_name() -> None:
    x = torch.ones(64, dtype=torch.int32)
    with pytest.raises(emulator.UnsupportedOperationError, match="__hmf_powi"):
        kernels.power[(1,)](x, x, BLOCK=64)


def test_a_kernel_may_be_called_like_a_c_function() -> None:
    x, out = torch.randn(64), torch.empty(64)
    kernels.memcpy[(1,)](x, out, BLOCK=64)
    assert torch.equal(out, x)
    kernels.exp[(1,)](x, out, BLOCK=64)
    torch.testing.assert_close(out, x.exp(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("tiles", [2, 12])
def test_tiles_that_need_more_stack_than_a_thread_has(tiles: int) -> None:
    """16 KiB a tile and more: run by a thread with a small stack, by the main one, and on the heap if need be."""
    x = torch.randint(-4, 4, (16384 + 16,)).float()
    expected = sum(torch.cumsum(x[tile : tile + 16384], 0) for tile in range(tiles))
    found: list[torch.Tensor] = []

    def launch() -> None:
        out = torch.empty(16384)
        with emulator.route("linalg"):
            kernels.many_large_tiles[(1,)](x, out, BLOCK=16384, TILES=tiles)
        found.append(out)

    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    launch()
    assert all(torch.equal(out, expected) for out in found)
    assert len(found) == 2


def test_autotuned_kernels() -> None:
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])(
        kernels.scale
    )
    x, out = torch.randn(1000), torch.empty(1000)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
    assert torch.equal(out, x * 3)
