"""What single intrinsics give, against numpy on operands chosen for the corners of their meaning (SEMANTICS.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from emulator.device import options
from tests.emulator.device.program import ALL, MTE2, MTE3, Gm, Program, Ub, V, binary, unary

A, B, R = 0, 4096, 8192  # where operands and result lie
Array = np.ndarray[Any, Any]
F32, F16, S16, S32, S64 = np.float32, np.float16, np.int16, np.int32, np.int64
NAN, INF = float("nan"), float("inf")
TRUNCATE = 1 << 59 | 1 << 48


def result(body: Callable[[Program], object], dtype: Any, count: int, *operands: Array) -> Array:
    """`count` results after `body`, whose operands lie at A and B."""
    given = [torch.from_numpy(one.view(np.uint8).reshape(-1).copy()) for one in operands]
    program = Program()
    for index, (place, one) in enumerate(zip((A, B), given, strict=False)):
        program.load(place, index, one.numel())
    program.flag(MTE2, V)
    body(program)
    size = count * np.dtype(dtype).itemsize
    program.norm().flag(V, MTE3).store(len(given), R, size)
    out = torch.zeros(size, dtype=torch.uint8)
    program.run(*given, out)
    return out.numpy().view(dtype)


def whole(values: Any, dtype: Any, count: int) -> Array:
    """The values, repeated up to `count`."""
    return np.resize(np.asarray(values, dtype=dtype), count)


def same(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    assert np.array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{want.itemsize}")), (got[:12], want[:12])


# ---- arithmetic


@pytest.mark.parametrize(
    ("name", "dtype", "x", "y", "want"),
    [
        ("VADD.s16", S16, [32767, -32768], [1, -1], [-32768, 32767]),
        ("VMUL.s32", S32, [2**31 - 1, -(2**31)], [2, -1], [-2, -(2**31)]),
        ("VSUB.s32", S32, [-(2**31), 5], [1, 7], [2**31 - 1, -2]),
        ("VADD.f16", F16, [2048, 60000], [1, 60000], [2048, INF]),
        ("VMUL.f16", F16, [0.1, -0.0], [3, 5], [F16(F32(F16(0.1)) * F32(3)), -0.0]),
        ("VDIV.f32", F32, [1, -1, 7], [3, 0, 2], [F32(1) / F32(3), -INF, 3.5]),
        ("VDIV.f16", F16, [1, 2049], [3, 2], [F16(1) / F16(3), F16(2048) / F16(2)]),
        ("VMAX.f32", F32, [NAN, 1, -0.0], [2, NAN, -1], [2, 1, -0.0]),
        ("VMIN.s32", S32, [-5, 7], [3, 2], [-5, 2]),
    ],
)
def test_arithmetic(name: str, dtype: Any, x: list[float], y: list[float], want: list[float]) -> None:
    count = 512 // np.dtype(dtype).itemsize
    got = result(
        lambda p: p.call(name, Ub(R), Ub(A), Ub(B), binary(2)),
        dtype,
        count,
        whole(x, dtype, count),
        whole(y, dtype, count),
    )
    same(got, whole(want, dtype, count))


def test_options_change_arithmetic_as_they_say() -> None:
    x, y = whole([32767, -32768], S16, 128), whole([1, -1], S16, 128)
    with options(int_saturates=True):
        got = result(lambda p: p.call("VADD.s16", Ub(R), Ub(A), Ub(B), binary(1)), S16, 128, x, y)
    same(got, whole([32767, -32768], S16, 128))
    one, three = whole([1], F32, 64), whole([3], F32, 64)
    exact = F32(1) / F32(3)
    for mode, step in (("away", 1), ("toward", -1)):
        with options(division=mode):
            got = result(lambda p: p.call("VDIV.f32", Ub(R), Ub(A), Ub(B), binary(1)), F32, 64, one, three)
        same(got, (whole([exact], F32, 64).view(S32) + S32(step)).view(F32))
    with options(flush_subnormals=True):
        small = whole([1e-30], F32, 64)
        got = result(lambda p: p.call("VMUL.f32", Ub(R), Ub(A), Ub(B), binary(1)), F32, 64, small, small)
    same(got, whole([0], F32, 64))


@pytest.mark.parametrize("by", [0, 1, 15, 16, 31, 32, 40])
def test_shifts_by_the_width_and_beyond(by: int) -> None:
    x = whole([1, -1, 12345, -(2**31)], S32, 64)
    left = result(lambda p: p.call("VSHL.s32", Ub(R), Ub(A), by, unary(1)), S32, 64, x)
    right = result(lambda p: p.call("VSHR.s32", Ub(R), Ub(A), by, unary(1), 0), S32, 64, x)
    same(left, (x.astype(S64) << min(by, 62)).astype(S32) if by < 32 else np.zeros(64, S32))
    same(right, (x >> min(by, 31)).astype(S32))


# ---- conversions

ROUNDINGS = {"r": np.rint, "f": np.floor, "c": np.ceil, "z": np.trunc, "a": lambda x: np.trunc(x + np.copysign(0.5, x))}
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.4, -0.6, 100.0, -7.25]


@pytest.mark.parametrize("mode", ROUNDINGS)
def test_rounding_of_floats(mode: str) -> None:
    x = whole(HALVES, F32, 64)
    want = ROUNDINGS[mode](x)
    kept = result(lambda p: p.call(f"VCONV.f322f32{mode}.v220", Ub(R), Ub(A), unary(1)), F32, 64, x)
    same(kept, want.astype(F32))
    whole_numbers = result(lambda p: p.call(f"VCONV.f322s32{mode}.v220", Ub(R), Ub(A), unary(1)), S32, 64, x)
    same(whole_numbers, want.astype(S32))


def test_float_to_int_saturates_or_keeps_the_low_bits() -> None:
    x = whole([3e9, -3e9, NAN, 70000.0], F32, 64)
    config = unary(1, strides=(4, 8))
    got = result(lambda p: p.call("VCONV.f322s16z.v220", Ub(R), Ub(A), config), S16, 64, x)
    same(got, whole([32767, -32768, 0, 32767], S16, 64))
    got = result(lambda p: p.call("SET.CTRL", TRUNCATE).call("VCONV.f322s16z.v220", Ub(R), Ub(A), config), S16, 64, x)
    same(got, whole([x_ & 0xFFFF for x_ in (3_000_000_000, -3_000_000_000, 0, 70_000)], np.uint16, 64).view(S16))


def test_int_to_narrower_int() -> None:
    x = whole([40_000, -40_000, 7], S32, 64)
    config = unary(1, strides=(4, 8))
    got = result(lambda p: p.call("VCONV.s322s16.v220", Ub(R), Ub(A), config), S16, 64, x)
    same(got, whole([32767, -32768, 7], S16, 64))
    got = result(lambda p: p.call("SET.CTRL", TRUNCATE).call("VCONV.s322s16.v220", Ub(R), Ub(A), config), S16, 64, x)
    same(got, x.astype(S16))


def test_int_to_float_rounds_by_mode() -> None:
    odd = 2**24 + 1
    x = whole([odd, -odd], S32, 64)
    for mode, want in (("r", [odd - 1, 1 - odd]), ("c", [odd + 1, 1 - odd]), ("f", [odd - 1, -odd - 1])):
        got = result(lambda p, mode=mode: p.call(f"VCONV.s322f32{mode}.v220", Ub(R), Ub(A), unary(1)), F32, 64, x)
        same(got, whole(want, F32, 64))


# ---- masks and strides


def test_count_mode_ignores_the_repeat_field() -> None:
    x = np.arange(128, dtype=F32)
    got = result(
        lambda p: p.call("VADDS.f32", Ub(R), Ub(A), 0.0, unary(2)).call("BARRIER", V).count(70)
        .call("VADDS.f32", Ub(R), Ub(A), 1000.0, unary(1)), F32, 128, x,
    )  # fmt: skip
    same(got, np.where(np.arange(128) < 70, x + F32(1000), x))


def test_norm_mode_masks_every_repeat() -> None:
    x = np.arange(128, dtype=F32)
    got = result(
        lambda p: p.call("VADDS.f32", Ub(R), Ub(A), 0.0, unary(2)).call("BARRIER", V).norm(low=0b1010)
        .call("VADDS.f32", Ub(R), Ub(A), 1000.0, unary(2)), F32, 128, x,
    )  # fmt: skip
    chosen = np.isin(np.arange(128) % 64, (1, 3))
    same(got, np.where(chosen, x + F32(1000), x))


def test_strides_count_blocks() -> None:
    x = np.arange(256, dtype=F32)
    got = result(lambda p: p.call("VADD.f32", Ub(R), Ub(A), Ub(A), binary(1, (1, 2, 0), (8, 8, 8))), F32, 64, x)
    at = np.arange(64)
    same(got, x[at // 8 * 16 + at % 8] + x[at % 8])


# ---- compare, select, reduce


def test_compare_packs_bits_and_select_reads_them() -> None:
    x, y = np.arange(64, dtype=F32), whole([30, NAN], F32, 64)
    bits = result(lambda p: p.call("VCMPV.LT.f32", Ub(R), Ub(A), Ub(B), binary(1)), np.uint8, 8, x, y)
    same(bits, np.packbits(x < y, bitorder="little"))
    mask = result(
        lambda p: p.call("VCMPV.LT.f32", Ub(R + 1024), Ub(A), Ub(B), binary(1)).call("BARRIER", V)
        .call("SET.CMPMASK", Ub(R + 1024)).call("VSEL.f32.1", Ub(R), Ub(A), Ub(B), binary(1)), F32, 64, x, y,
    )  # fmt: skip
    same(mask, np.where(x < y, x, y).astype(F32))


def test_reductions() -> None:
    x = np.random.default_rng(5).permutation(128).astype(F32)
    config = 2 << 56 | 1 | 1 << 16 | 8 << 32
    largest = result(lambda p: p.call("VCMAX.f32.order.v220", Ub(R), Ub(A), config, 2), F32, 2, x)
    same(largest, x.reshape(2, 64).max(axis=1))
    blocks = result(lambda p: p.call("VCGADD.f32", Ub(R), Ub(A), config), F32, 16, x)
    same(blocks, x.reshape(16, 8).sum(axis=1))
    pairs = result(lambda p: p.call("VCPADD.f32", Ub(R), Ub(A), config), F32, 64, x)
    same(pairs, x.reshape(64, 2).sum(axis=1))


# ---- moves


@pytest.mark.parametrize(
    ("pattern", "start", "step"), [(1, 0, 2), (2, 1, 2), (3, 0, 4), (4, 1, 4), (6, 3, 4), (7, 0, 1)]
)
def test_packing_patterns(pattern: int, start: int, step: int) -> None:
    x = np.arange(128, dtype=np.uint32)
    config = 2 | 1 << 8 | pattern << 16 | 8 << 24
    kept = x[start::step]
    same(result(lambda p: p.call("VREDUCEv2.b32", Ub(R), Ub(A), Ub(A), config), np.uint32, kept.size, x), kept)


def test_gather_takes_byte_offsets() -> None:
    x = np.arange(100, dtype=np.uint32)
    order = np.random.default_rng(3).integers(0, 100, 64).astype(np.uint32)

    def body(program: Program) -> None:
        # the base travels in the configuration as the low half of the address
        program.count(64)
        program.gather("VGATHER.b32", Ub(R), Ub(B), Ub(A))

    same(result(body, np.uint32, 64, x, order * 4), x[order])


def test_broadcast_of_elements_to_blocks() -> None:
    x = np.arange(16, dtype=np.uint16)
    config = 2 << 56 | 1 | 8 << 32
    got = result(lambda p: p.call("VBRCB.b16", Ub(R), Ub(A), config), np.uint16, 256, x)
    same(got, np.repeat(x, 16))


def test_transposition_of_sixteen_blocks() -> None:
    x = np.arange(256, dtype=np.uint16)

    def body(program: Program) -> None:
        for index in range(0, 16, 2):
            for register, base in ((0, R), (2, A)):
                blocks = (Ub(base + 32 * index), Ub(base + 32 * (index + 1)))
                program.block_addresses(register + index // 8, index % 8, *blocks)
        program.call("S.VNCHWCONV.b16", 0, 2, 1 << 56)

    same(result(body, np.uint16, 256, x), x.reshape(16, 16).T.copy().reshape(-1))


def test_bursts_with_gaps_and_padding() -> None:
    """Three bursts of 20 bytes, 12 apart, padded by two elements on the left; rows start on 32 bytes."""
    x = np.arange(96, dtype=np.uint8)

    program = Program().call("SET.MOV.PAD.VAL", 7)
    program.call("MOV.OUT.TO.UB.ALIGN.b8.V220", Ub(R), Gm(0), 3 << 4 | 20 << 16 | 2 << 48, 12)
    program.call("BARRIER", ALL)
    for row in range(3):
        program.store(1, R + 32 * row, 22, 22 * row)
    given, out = torch.from_numpy(x), torch.zeros(66, dtype=torch.uint8)
    program.run(given, out)
    same(out.numpy(), np.concatenate([np.r_[[7, 7], x[32 * row : 32 * row + 20]] for row in range(3)]).astype(np.uint8))
