"""Compiler fault: a masked load whose tile is then reshaped to rows that are no multiple of 32 bytes.

bishengir-compile 1.2.0 (ascendnpu-ir 1.2.0), silent wrong results. The reshaped buffer is aligned row by row and
copied to a contiguous twin before the load; the load fills the twin, and what follows reads the other buffer. Without
a mask it is right (the load becomes two-dimensional), and with rows of 32 bytes or more, too. At the device level the
read of bytes that nothing ever wrote is reported.

Rule for the kernels of this project: a two-dimensional load, or a gather, never a masked load and a narrow reshape.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import emulator
from emulator.device import DeviceCheckError, options
from tests.findings.levels import differing, outputs


@triton.jit
def transpose_rows(x, n, out, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS * COLS)
    rows = tl.reshape(tl.load(x + at, mask=at < n), (ROWS, COLS))
    to = tl.arange(0, COLS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :]
    tl.store(out + to, tl.trans(rows))


def case(columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(64 * columns, generator=torch.Generator().manual_seed(columns))
    return x, x.reshape(64, columns).T.contiguous().reshape(-1)


def test_narrow_rows_are_wrong_and_reported() -> None:
    x, want = case(4)  # 16-byte rows
    with emulator.route("device"), pytest.raises(DeviceCheckError) as caught:
        transpose_rows[(1,)](x, x.numel(), torch.zeros_like(x), ROWS=64, COLS=4)
    assert {finding.check for finding in caught.value.findings} == {"poison"}
    with options(checks=False):
        linalg, device = outputs(transpose_rows, (1,), torch.zeros_like(x), x, x.numel(), ROWS=64, COLS=4)
    assert differing(linalg, want) == 0
    assert differing(device, want) > 0, "the compiler was repaired: see the rule above"


@pytest.mark.parametrize("columns", [8, 16])
def test_rows_of_32_bytes_are_right(columns: int) -> None:
    x, want = case(columns)
    linalg, device = outputs(transpose_rows, (1,), torch.zeros_like(x), x, x.numel(), ROWS=64, COLS=columns)
    assert differing(linalg, want) == 0
    assert differing(device, want) == 0
