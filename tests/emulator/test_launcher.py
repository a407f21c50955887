"""Arguments of every kind, and launches from many threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import emulator
from tests.emulator import kernels

pytestmark = pytest.mark.usefixtures("routed")


class Raw:
    """A pointer that is no tensor, as ops.launch passes them."""

    def __init__(self, tensor: torch.Tensor, start: int, low: int, high: int) -> None:
        self.dtype = tensor.dtype
        self._tensor = tensor
        self._base = tensor.data_ptr()
        self._bytes = start, low, high

    def data_ptr(self) -> int:
        return self._base + self._bytes[0]

    def gm_range(self) -> tuple[int, int]:
        return self._base + self._bytes[1], self._base + self._bytes[2]


def test_scalars_of_every_width() -> None:
    out = torch.zeros(6, dtype=torch.int64)
    kernels.store_scalars[(1,)](out, -128, -32768, -(2**31), -(2**63), 2.5, 2**64 - 1)
    assert out.tolist() == [-128, -32768, -(2**31), -(2**63), 10, -1]
    kernels.store_scalars[(1,)](out, 127, 32767, 2**31 - 1, 2**63 - 1, -0.25, 0)
    assert out.tolist() == [127, 32767, 2**31 - 1, 2**63 - 1, -1, 0]


def test_a_value_that_does_not_fit_is_refused() -> None:
    out = torch.zeros(6, dtype=torch.int64)
    with pytest.raises(emulator.EmulatorError, match=r"'store_scalars': arguments .* do not fit"):
        kernels.store_scalars[(1,)](out, 128, 0, 0, 0, 0.5, 0)


def test_a_pointer_with_a_range() -> None:
    """Lanes outside the range read 0, inside it, on either side of the address, what is there."""
    memory = torch.arange(64, dtype=torch.float32)
    index = torch.arange(-16, 16, dtype=torch.int32)
    out = torch.empty(32)
    pointer = Raw(memory, start=128, low=96, high=160)  # elements 24 to 39, counted from element 32
    kernels.gather_masked_without_other[(1,)](pointer, index, out, 32, BLOCK=32)
    expected = [32.0 + place if -8 <= place < 8 else 0.0 for place in range(-16, 16)]
    assert out.tolist() == expected


def test_many_threads_share_the_helpers() -> None:
    before = emulator.get_num_threads()
    emulator.set_num_threads(3)

    def launch(seed: int) -> bool:
        right = True
        with emulator.route("linalg"):
            for turn in range(10):
                x = torch.full((400 * 64,), float(seed))
                kernels.spin[(400,)](x, 50 + turn, BLOCK=64)
                right &= bool((x == x[0]).all()) and float(x[0]) != seed
        return right

    try:
        with ThreadPoolExecutor(8) as callers:
            assert all(callers.map(launch, range(8)))
    finally:
        emulator.set_num_threads(before)
