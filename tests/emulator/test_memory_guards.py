"""Masked-off lanes touch no memory: tensors here end where a page that nobody may touch begins."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from emulator import EmulatorError
from tests.emulator import kernels

pytestmark = pytest.mark.usefixtures("routed")

PAGE = mmap.PAGESIZE
PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Fenced:
    """Tensors between two pages that may not be touched, at the end or at the start of what is between."""

    def __init__(self) -> None:
        self._mapped: list[tuple[mmap.mmap, int, int]] = []

    def tensor(self, values: torch.Tensor, at_end: bool = True) -> torch.Tensor:
        nbytes = values.numel() * values.element_size()
        inner = -(-nbytes // PAGE) * PAGE
        mapped = mmap.mmap(-1, inner + 2 * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        start = PAGE + (inner - nbytes if at_end else 0)
        array = np.frombuffer(mapped, dtype=np.uint8, count=nbytes, offset=start)
        tensor = torch.from_numpy(array).view(values.dtype).view(values.shape)
        tensor.copy_(values)
        for page in (address, address + PAGE + inner):
            assert _libc.mprotect(page, PAGE, PROT_NONE) == 0
        self._mapped.append((mapped, address, inner))
        return tensor

    def release(self) -> None:
        for _, address, inner in self._mapped:
            for page in (address, address + PAGE + inner):
                assert _libc.mprotect(page, PAGE, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.fixture
def fenced() -> Iterator[Fenced]:
    made = Fenced()
    yield made
    made.release()


FAR = 50_000_000  # elements: beyond any page mapped by accident


def test_the_fence_is_there(fenced: Fenced) -> None:
    tensor = fenced.tensor(torch.arange(16, dtype=torch.int32))
    assert tensor.tolist() == list(range(16))
    assert (tensor.data_ptr() + 64) % PAGE == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("at_end", [True, False])
def test_discrete_load(fenced: Fenced, dtype: torch.dtype, at_end: bool) -> None:
    n = 100
    x = fenced.tensor(torch.randn(64).to(dtype), at_end)
    index = torch.randint(0, 64, (n,), dtype=torch.int32)
    index[::3] = -FAR
    out = fenced.tensor(torch.zeros(n, dtype=dtype), at_end)
    kernels.gather_masked[(2,)](x, index, out, n, BLOCK=64)
    expected = torch.where(index >= 0, x[index.clamp(min=0).long()], torch.tensor(-1, dtype=dtype))
    assert torch.equal(out, expected)


def test_two_tensors_of_different_type_and_size(fenced: Fenced) -> None:
    """The front end gives views in sibling loops the same names: each must keep to its own tensor."""
    x = fenced.tensor(torch.randn(64))
    y = fenced.tensor(torch.randint(-9, 9, (4096,), dtype=torch.int8))
    index = torch.randint(0, 64, (64,), dtype=torch.int32)
    index[::3] = -FAR
    out = torch.zeros(64)
    kernels.gather_two[(1,)](x, y, index, out, 64, BLOCK=64)
    inside = index.clamp(min=0).long()
    assert torch.equal(out, torch.where(index >= 0, x[inside] + y[inside].float(), torch.tensor(-3.0)))


def test_discrete_load_without_other(fenced: Fenced) -> None:
    n = 100
    x = fenced.tensor(torch.randn(64))
    index = fenced.tensor(torch.randint(0, 64, (n,), dtype=torch.int32))
    out = fenced.tensor(torch.zeros(n))
    kernels.gather_masked_without_other[(2,)](x, index, out, n, BLOCK=64)
    assert torch.equal(out, x[index.long()])


@pytest.mark.parametrize("at_end", [True, False])
def test_rows_by_index(fenced: Fenced, at_end: bool) -> None:
    table = fenced.tensor(torch.randn(10, 8), at_end)
    index = torch.randint(0, 10, (50,), dtype=torch.int32)
    index[::4] = -FAR // 8
    out = fenced.tensor(torch.zeros(50, 8), at_end)
    kernels.gather_rows[(1,)](table, index, out, 50, COLUMNS=8, BLOCK=64)
    expected = torch.where((index >= 0)[:, None], table[index.clamp(min=0).long()], torch.zeros(()))
    assert torch.equal(out, expected)


def test_discrete_store(fenced: Fenced) -> None:
    n = 100
    x = torch.randn(n)
    index = torch.randperm(n, dtype=torch.int32)
    index[::3] = -FAR
    out = fenced.tensor(torch.zeros(n))
    kernels.scatter_masked[(2,)](x, index, out, n, BLOCK=64)
    expected = torch.zeros(n)
    kept = index >= 0
    expected[index[kept].long()] = x[kept]
    assert torch.equal(out, expected)


def test_masks_that_are_no_bound(fenced: Fenced) -> None:
    """Such a load becomes a load of the whole tile, and such a store a rewrite of the whole tile."""
    n = 90
    x = fenced.tensor(torch.randn(n))
    out = fenced.tensor(torch.full((n,), -1.0))
    kernels.copy_even_lanes[(2,)](x, out, n, BLOCK=64)
    expected = torch.full((n,), -1.0)
    expected[::2] = x[::2]
    assert torch.equal(out, expected)


def test_a_kernel_that_restores_old_lanes_itself() -> None:
    """It looks like the front end's masked store, but the old contents are from before another store."""
    x, out = torch.randn(64), torch.randn(64)
    expected = torch.where(torch.arange(64) % 3 == 0, torch.tensor(7.0), out)
    kernels.restore_lanes[(1,)](x, out, BLOCK=64)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("index", [2, FAR])
def test_scalar_load(fenced: Fenced, index: int) -> None:
    x = fenced.tensor(torch.arange(4, dtype=torch.int32))
    out = torch.zeros(1, dtype=torch.int32)
    kernels.load_scalar_masked[(1,)](x, torch.tensor([index], dtype=torch.int32), out)
    assert out.item() == (index if index < 4 else 7)


def test_a_view_reaches_its_whole_storage() -> None:
    storage = torch.arange(64, dtype=torch.float32)
    view = storage[32:]
    index = torch.arange(-32, 32, dtype=torch.int32)
    out = torch.zeros(64)
    kernels.gather_masked_without_other[(1,)](view, index, out, 64, BLOCK=64)
    assert torch.equal(out, storage)


def test_a_meta_tensor_is_refused() -> None:
    out = torch.zeros(64)
    with pytest.raises(EmulatorError, match="meta device"):
        kernels.copy_even_lanes[(1,)](torch.zeros(64, device="meta"), out, 64, BLOCK=64)
    assert not out.any()
