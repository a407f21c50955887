"""Public bug reports about strided copies and the compiler they are made with, each tried here.

The names carry the report: a repository and its issue or pull request.
"""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest
import torch

import emulator
import ops
from ops.kernels import as_strided as row_kernels
from ops.kernels import as_strided_pack as pack_kernels
from tests.ops.as_strided_support import bits


def same(source: torch.Tensor, size, stride, offset=None) -> None:
    result = ops.as_strided(source, size, stride, offset)
    assert torch.equal(result, torch.as_strided_copy(source, size, stride, offset)), (size, stride, offset)


def test_pytorch_39224_negative_strides():
    with pytest.raises(RuntimeError, match=r"Negative strides are not supported at the moment, got strides: \[-42\]"):
        ops.as_strided(torch.arange(16), (4,), (-42,), 8)


def test_pytorch_39419_size_and_stride_of_different_length():
    with pytest.raises(RuntimeError, match="mismatch in length of strides and shape"):
        ops.as_strided(torch.arange(24), (2, 3), (6,))


def test_executorch_16982_out_of_bounds_read():
    source = torch.arange(100.0)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 400"):
        ops.as_strided(source, [50, 5], [5, 50], 2)
    with pytest.raises(RuntimeError, match="out of bounds"):
        ops.as_strided(source, [5, 2], [50, 10], 2)
    with pytest.raises(RuntimeError, match="overflowed"):
        ops.as_strided(source, [2**33, 2], [2**33, 1], 2)


def test_pytorch_140171_reaches_outside_the_view():
    base = torch.arange(20)
    assert ops.as_strided(base[:10], (10,), (1,), 5).tolist() == list(range(5, 15))


def test_candle_548_steps_overlaps_and_expansion():
    same(torch.arange(64.0), (1024, 4096), (0, 0), 5)
    same(torch.arange(1000.0), (500,), (2,))
    same(torch.arange(6.0), (3, 4), (1, 1))


def test_vllm_42684_rows_of_a_slice():
    base = torch.arange(64_000.0).view(64, 1000)[:, :777]
    same(base, (64, 777), base.stride())


def test_vllm_32417_strides_of_size_one_dimensions():
    source = torch.arange(4608.0)
    same(source, (1, 32, 128), (4608, 128, 1))
    same(source, (1, 32, 1, 100), (7, 128, 9999, 1))


@pytest.mark.parametrize("inner", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_flagtree_1245_narrow_stores_lose_nothing(inner, dtype):
    size, stride = (50, 20, inner), (20 * inner * 3, inner * 3, 2)
    source = torch.arange(50 * 20 * inner * 3).remainder(100).to(dtype)
    expected = torch.as_strided_copy(source, size, stride)
    for level in ("linalg", "linalg", "device"):
        out = torch.full(size, 111, dtype=dtype)
        with emulator.route(level):
            ops.as_strided(source, size, stride, out=out)
        assert torch.equal(out, expected)


@pytest.mark.parametrize(
    ("size", "stride"), [((5, 7), (0, 1)), ((33, 17), (0, 0)), ((33, 17), (1, 0)), ((33, 17), (0, 3))]
)
@pytest.mark.parametrize("level", ["linalg", "device"])
def test_triton_ascend_1509_stride_zero_at_the_border(size, stride, level):
    with emulator.route(level):
        same(torch.arange(100.0), size, stride)


@pytest.mark.parametrize("inner", [16, 32])
def test_triton_ascend_1673_large_inner_strides(inner):
    same(torch.arange(128.0 * 64 * inner), (128, 64), (64 * inner, inner))


def test_triton_ascend_984_empty_after_a_warm_call():
    source = torch.arange(24.0)
    same(source, (4, 3), (6, 2))
    assert ops.as_strided(source, (4, 0), (6, 2)).shape == (4, 0)
    same(source, (), ())
    same(source, (4, 3), (6, 2))


def test_triton_ascend_2062_bool_is_moved_as_bytes():
    source = torch.arange(1000).remainder(3).eq(0)
    for size, stride in (
        ((300,), (3,)),
        ((20, 30), (31, 1)),
        ((30, 20), (1, 40)),
        ((20, 40), (1, 0)),
        ((9, 8), (1, 1)),
    ):
        same(source, size, stride)


def test_triton_ascend_1416_nothing_is_staged_in_global_memory():
    """A tile is loaded from the input and stored to the output, never stored and loaded again."""
    loads = stores = 0
    for module in (row_kernels, pack_kernels):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called not in ("load_unfilled", "tl.store"):
                assert called != "tl.load"
                continue
            names = {name.id for name in ast.walk(node.args[0]) if isinstance(name, ast.Name)}
            assert not names & ({"source", "x"} if called == "tl.store" else {"target", "y"}), ast.unparse(node)
            loads += called == "load_unfilled"
            stores += called == "tl.store"
    assert loads == stores == 9


def test_masks_are_bounds():
    """Masks are `index < bound`, joined by `&`: anything else becomes a scalar loop or an unmasked store."""

    def bound(node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.BitAnd) and bound(node.left) and bound(node.right)
        return isinstance(node, ast.Compare) and [type(op) for op in node.ops] == [ast.Lt]

    seen = 0
    for module in (row_kernels, pack_kernels):
        for function in ast.walk(ast.parse(inspect.getsource(module))):
            if not isinstance(function, ast.FunctionDef):
                continue
            named = {
                target.id: node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.keyword) and node.arg == "mask":
                    value = named[node.value.id] if isinstance(node.value, ast.Name) else node.value
                    assert bound(value), ast.unparse(value)
                    seen += 1
    assert seen == 18


def test_gather_lanes_beyond_the_block_stay_inside_the_buffer():
    """The largest block for a small view: the device level checks every lane's address, masked or not."""
    source = torch.arange(40.0)
    plan = ops.plan_as_strided(source, (3, 2), (17, 5))
    from tiling.as_strided import choices
    from tiling.platform import platform

    largest = max(
        (each for each in choices(plan.problem, platform(), kernel="gather")), key=lambda each: each.constexprs[1][1]
    )
    assert largest.constexprs == (("SPAN", 8192), ("BLOCK", 4096))
    with emulator.route("device"):
        result = ops.as_strided(source, (3, 2), (17, 5), plan=largest)
    assert torch.equal(result, torch.as_strided_copy(source, (3, 2), (17, 5)))


def test_signalling_nans_are_not_quieted():
    """Scalar float arithmetic on moved data would quiet them: float16 and float32, through every kernel."""
    half = torch.arange(0x7C01, 0x7E00, 7, dtype=torch.int32).to(torch.int16)
    single = torch.arange(0x7F800001, 0x7FC00000, 40_503, dtype=torch.int64).to(torch.int32)
    for raw, dtype in ((half, torch.float16), (single, torch.float32)):
        for size, stride in (((20,), (3,)), ((4, 40), (1, 0)), ((40, 4), (0, 1)), ((17, 20), (1, 2)), ((30,), (2,))):
            result = ops.as_strided(raw.view(dtype), size, stride)
            assert np.array_equal(bits(result), bits(torch.as_strided_copy(raw, size, stride))), (dtype, size, stride)
