"""What as_strided means: storage addressing, every dtype as bits, arguments of every kind, out of torch's own mouth."""

from __future__ import annotations

import importlib
import random
import threading

import numpy as np
import pytest
import torch

import ops
from tests.ops.as_strided_support import bits, expected_bits, random_storage, reach
from tiling import tuned
from tiling.as_strided import plan as decide
from tiling.platform import platform

# Every dtype of torch that holds whole bytes: quantised ones and those of 1 to 7 bits are other kinds of tensor.
NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 "
    "complex32 complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2"
)
DTYPES = [getattr(torch, name) for name in NAMES.split() if hasattr(torch, name)]

MODULE = importlib.import_module("ops.as_strided")  # the package has a function of that name

LAYOUTS = [
    ((4, 6), (6, 1), 0),
    ((3, 5), (7, 2), 3),
    ((5, 3), (1, 5), 1),
    ((4, 40), (0, 1), 2),
    ((40, 4), (1, 0), 2),
    ((9, 4), (1, 1), 0),
    ((50,), (2,), 1),
    ((), (), 7),
]


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_a_bit_copy(dtype):
    assert dtype.itemsize in (1, 2, 4, 8, 16)
    source = random_storage(random.Random(str(dtype)), 300, dtype)
    for size, stride, offset in LAYOUTS:
        result = ops.as_strided(source, size, stride, offset)
        assert result.dtype == dtype
        assert np.array_equal(bits(result), expected_bits(source, size, stride, offset)), (size, stride, offset)


def test_nan_payloads_and_odd_bool_bytes_survive():
    payloads = torch.tensor([0x7FC00001, 0x7F800001, -1, 0x7F812345, 0x7FFFFFFF, 0x7F80FFFF], dtype=torch.int32)
    for size, stride in (((3,), (2,)), ((2, 3), (1, 2)), ((6,), (1,)), ((6, 40), (1, 0)), ((40, 6), (0, 1))):
        copied = ops.as_strided(payloads.view(torch.float32), size, stride)
        assert torch.equal(copied.view(torch.int32), torch.as_strided_copy(payloads, size, stride))
    # torch normalises these bytes to 1; this is a bit copy, and says so.
    odd = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).view(torch.bool)
    assert ops.as_strided(odd, (4,), (1,)).view(torch.uint8).tolist() == [0, 1, 2, 255]


BASE = torch.arange(120, dtype=torch.float32)
VIEWS = {
    "base": BASE,
    "transposed": BASE.view(10, 12).t(),
    "sliced": BASE[30:90:2],
    "column": BASE.view(10, 12)[:, 5],
    "expanded": BASE[:4].expand(7, 4),
    "empty": BASE[:0],
    "zero-dimensional": BASE[17],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("offset", [None, 0, 20])
def test_the_storage_is_addressed_whatever_the_view(name, offset):
    view = VIEWS[name]
    result = ops.as_strided(view, (3, 5), (6, 1), offset)
    assert torch.equal(result, torch.as_strided_copy(view, (3, 5), (6, 1), offset))
    assert (result.storage_offset(), result.stride()) == (0, (5, 1))
    assert result.data_ptr() != view.data_ptr()


@pytest.mark.parametrize("rank", [0, 1, 2, 8, 9, 16, 40, 64])
def test_rank(rank):
    rng = random.Random(rank)
    size = [1] * rank
    for place in rng.sample(range(rank), min(rank, 9)):
        size[place] = 2
    stride = [rng.choice([0, 1, 3, 7, 50, 77]) for _ in range(rank)]
    source = random_storage(rng, reach(size, stride), torch.int16)
    result = ops.as_strided(source, size, stride)
    assert torch.equal(result, torch.as_strided_copy(source, size, stride))


def test_more_dimensions_than_a_kernel_takes():
    powers = random.Random(3).sample(range(18), 18)
    size, stride = (2,) * 18, tuple(3 * 2**power for power in powers)
    source = torch.arange(reach(size, stride), dtype=torch.int32)
    plan = ops.plan_as_strided(source, size, stride)
    assert plan.host
    assert torch.equal(ops.as_strided(source, size, stride), torch.as_strided_copy(source, size, stride))


@pytest.mark.parametrize(("size", "offset"), [((0,), 0), ((0,), 999), ((3, 0, 2), 5), ((0, 0), 0)])
def test_empty_results_need_neither_bounds_nor_a_launch(monkeypatch, size, offset):
    ops.as_strided(BASE, (4,), (2,))
    monkeypatch.setattr(MODULE, "launch", lambda *_, **__: pytest.fail("launched"))
    result = ops.as_strided(BASE, size, (1,) * len(size), offset)
    assert (result.shape, result.dtype) == (torch.Size(size), BASE.dtype)
    assert ops.plan_as_strided(BASE, size, (1,) * len(size), offset) is None


SPELLINGS = {
    "tuple": tuple,
    "list": list,
    "torch.Size": torch.Size,
    "numpy int64": lambda values: [np.int64(value) for value in values],
    "numpy int32": lambda values: tuple(np.int32(value) for value in values),
    "int32 tensor": lambda values: torch.tensor(values, dtype=torch.int32),
    "int64 tensor": lambda values: torch.tensor(values, dtype=torch.int64),
    "0-d tensors": lambda values: [torch.tensor(value) for value in values],
    "range": lambda values: range(values[0], values[1] + (1 if values[1] > values[0] else -1), values[1] - values[0]),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_size_and_stride_in_every_spelling(spelling):
    read = SPELLINGS[spelling]
    assert torch.equal(
        ops.as_strided(BASE, read((3, 4)), read((7, 2)), 1), torch.as_strided_copy(BASE, (3, 4), (7, 2), 1)
    )


@pytest.mark.parametrize(
    "offset", [5, np.int64(5), np.int32(5), torch.tensor(5), torch.tensor([5], dtype=torch.int32)], ids=repr
)
def test_offset_in_every_spelling(offset):
    assert ops.as_strided(BASE, (3,), (2,), offset).tolist() == [5.0, 7.0, 9.0]


def test_equal_keys_are_not_equal_arguments():
    assert ops.as_strided(BASE, (1,), (1,), 1).tolist() == [1.0]
    for size, stride, offset in (((True,), (1,), 1), ((1.0,), (1,), 1), ((1,), (1.0,), 1), ((1,), (1,), True)):
        with pytest.raises(TypeError):
            ops.as_strided(BASE, size, stride, offset)


@pytest.mark.parametrize("make", ["conj", "neg", "both", "conj of slice", "conj of transpose"])
def test_conjugate_and_negative_views_are_resolved_first(make):
    base = torch.complex(torch.arange(24.0), torch.arange(24.0) * 3 + 1)
    view = {
        "conj": lambda: base.conj(),
        "neg": lambda: base.conj().imag,
        "both": lambda: base.conj().imag[2:].view(11, 2).t(),
        "conj of slice": lambda: base[4:20:3].conj(),
        "conj of transpose": lambda: base.view(4, 6).t().conj(),
    }[make]()
    assert view.is_conj() or view.is_neg()
    result = ops.as_strided(view, (2, 2), (1, 2))
    assert torch.equal(result, torch.as_strided_copy(view, (2, 2), (1, 2)))
    assert not result.is_conj()
    assert not result.is_neg()


def test_bounds_of_a_conjugate_view_are_those_of_the_resolved_copy():
    view = torch.zeros(20, dtype=torch.complex64)[::2].conj()
    for function in (torch.as_strided_copy, ops.as_strided):
        with pytest.raises(RuntimeError, match="storage of size 80"):
            function(view, (2,), (1,), 12)


def test_the_input_is_not_modified_and_new_data_is_read():
    source = torch.arange(50.0)
    before = source.clone()
    first = ops.as_strided(source, (7,), (3,), 2)
    assert torch.equal(source, before)
    source += 1
    assert torch.equal(ops.as_strided(source, (7,), (3,), 2), first + 1)


def test_a_grown_or_shrunk_storage_is_checked_again():
    source = torch.arange(10.0)
    assert ops.as_strided(source, (5,), (2,)).tolist() == [0, 2, 4, 6, 8]
    source.untyped_storage().resize_(20)
    with pytest.raises(RuntimeError, match="storage of size 20"):
        ops.as_strided(source, (5,), (2,))


def test_storage_that_starts_at_an_odd_address():
    raw = np.arange(257, dtype=np.uint8)
    source = torch.from_numpy(raw[1:])
    assert source.data_ptr() % 2 != raw.ctypes.data % 2
    plan = ops.plan_as_strided(source, (8, 16), (32, 1))
    assert (plan.problem.alignment, plan.width) == (1, 1)
    result = ops.as_strided(source, (8, 16), (32, 1))
    assert torch.equal(result, torch.as_strided_copy(source, (8, 16), (32, 1)))


def test_a_plan_is_made_without_a_launch(monkeypatch):
    monkeypatch.setattr(MODULE, "launch", lambda *_, **__: pytest.fail("launched"))
    source = torch.zeros(2_000_000)
    plan = ops.plan_as_strided(source, (1000, 1000), (1003, 1))
    assert (plan.path.name, plan.family, plan.cores) == ("STRIDE_1", "rows", 40)
    with pytest.raises(RuntimeError, match="out of bounds"):
        ops.plan_as_strided(source, (2001, 1000), (1003, 1))


def test_a_plan_can_be_given():
    source = torch.arange(3000, dtype=torch.int32)
    for kernel in ("gather", "bursts"):
        plan = ops.plan_as_strided(source, (900,), (3,))
        forced = decide(plan.problem, platform(), kernel=kernel)
        assert torch.equal(ops.as_strided(source, (900,), (3,), plan=forced), source[::3][:900])


def test_a_plan_of_other_sizes_gives_its_decisions():
    source = torch.arange(9000, dtype=torch.int32)
    plan = ops.plan_as_strided(source, (900,), (3,))
    assert torch.equal(ops.as_strided(source, (800,), (3,), plan=plan), source[::3][:800])


def test_one_compiled_kernel_serves_every_value():
    """The JIT turns integers equal to 1 or divisible by 16 into constants; these kernels must not be compiled anew."""
    source = torch.arange(40_000, dtype=torch.int32)
    first = ops.plan_as_strided(source, (1000, 3), (7, 2))
    views = [
        ((1000, 3), (7, 2), 0),
        ((16, 3), (7, 2), 0),
        ((1024, 3), (16, 5), 16),
        ((1000, 3), (6, 1), 1),
        ((2, 2), (9, 7), 7),
    ]
    caches = []
    for size, stride, offset in views:
        plan = ops.plan_as_strided(source, size, stride, offset)
        forced = decide(plan.problem, platform(), kernel="gather", tile=first.tile)
        assert forced.kernel == first.kernel
        result = ops.as_strided(source, size, stride, offset, plan=forced)
        assert torch.equal(result, torch.as_strided_copy(source, size, stride, offset))
        caches.append(sum(len(kernels) for kernels in MODULE.KERNELS[first.kernel].cache.values()))
    assert len(set(caches)) == 1, caches


def test_a_tuned_plan_wins_over_the_heuristic():
    source = torch.arange(3000, dtype=torch.int32)
    heuristic = ops.plan_as_strided(source, (900,), (3,))
    before = tuned.set_resolver(lambda op, problem, chip, planner: planner(problem, chip, kernel="bursts"))
    try:
        assert ops.plan_as_strided(source, (900,), (3,)).family == "bursts"
        assert torch.equal(ops.as_strided(source, (900,), (3,)), source[::3][:900])
    finally:
        tuned.set_resolver(before)
    assert ops.plan_as_strided(source, (900,), (3,)) == heuristic


def test_only_so_many_calls_are_kept(monkeypatch):
    monkeypatch.setattr(MODULE, "_KEPT", 8)
    MODULE._calls.clear()
    source = torch.arange(100)
    for length in range(1, 40):
        assert torch.equal(ops.as_strided(source, (length,), (2,)), source[::2][:length])
    assert len(MODULE._calls) <= 8


def test_calls_from_many_threads():
    source = torch.arange(10_000, dtype=torch.int64)
    wrong: list[tuple[int, int]] = []

    def work(number: int) -> None:
        for step in range(1, 20):
            size = (50 + number, 3)
            if not torch.equal(
                ops.as_strided(source, size, (step, 1), number), torch.as_strided_copy(source, size, (step, 1), number)
            ):
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_gradients_accumulate_over_overlaps():
    source = torch.arange(6.0, requires_grad=True)
    ops.as_strided(source, (3, 4), (1, 1)).sum().backward()
    assert source.grad.tolist() == [1, 2, 3, 3, 2, 1]
