"""The cycle model beside every published figure it can be held to, the bad ones included.

Single instructions: pto-isa's tests of its cost model. Whole kernels: the times in triton-ascend's
third_party/ascend/unittest/pytest_ut/test_index_select.py, which does not say for which of its implementations, by
which timer or on which chip (it says 48 cores). The kernel here is this project's own and moves one row at a time, so
those rows compare two programs for one task, launch overhead on one side only.

    python -c "from bench.published import markdown; print(markdown())"
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from emulator import cycles, replay
from tiling.platform import Platform, platform


@dataclass(frozen=True)
class Comparison:
    """One published figure, what the model says instead, and the band of the model's unmeasured constants."""

    what: str
    published: float
    modelled: float
    low: float
    high: float
    unit: str

    @property
    def ratio(self) -> float:
        """Modelled over published."""
        return self.modelled / self.published


# name, class of instruction, repeats of 256 bytes, published cycles
VECTOR = (
    ("TADD f32 64x64", "vadd", 64, 160),
    ("TADD half 16x256", "vadd", 32, 92),
    ("TDIV f32 64x64", "vdiv", 64, 288),
    ("TDIV half 64x64", "vdiv", 64, 304),
    ("TABS f32 64x64", "vabs", 64, 68),
    ("TABS half 16x256", "vabs", 32, 36),
    ("TEXP f32 64x64", "vexp", 64, 159),
    ("TEXP half 64x64", "vexp", 64, 95),
    ("TCVT f32 to half 4x64", "vconv", 4, 33),
    ("TSEL f32 4x64", "vsel", 4, 67),
    ("TADDS f32 32x64", "vadds", 32, 57),
)

# name, DMAs one after another, bytes of each, published cycles
LOADS = (
    ("TLOAD c01, 1 of 65536 B", 1, 128 * 128 * 4, 776),
    ("TLOAD c02, 8 of 8192 B", 8, 32 * 64 * 4, 2624),
    ("TLOAD c03, 1 of 65024 B", 1, 128 * 127 * 4, 773),
    ("TLOAD c04, 1 of 32512 B", 1, 128 * 127 * 2, 519),
    ("TLOAD c05, 1 of 16256 B", 1, 128 * 127, 392),
    ("TLOAD c06, 32 of 512 B", 32, 2 * 128 * 2, 8576),
    ("TLOAD c07, 32 of 512 B", 32, 2 * 128 * 2, 8576),
    ("TLOAD c08, 8 of 7680 B", 8, 32 * 60 * 4, 2497),
    ("TLOAD c09, 32 of 1024 B", 32, 64 * 4 * 4, 8704),
    ("TLOAD c10, 8 of 8160 B, unaligned rows", 8, 255 * 8 * 4, 8352),
)

# row width in float32, rows selected, published microseconds
SELECTIONS = (
    (240, 375_144, 1984),
    (37, 324_344, 266),
    (16, 1_971_940, 1104),
    (37, 1_022_226, 1965),
    (37, 1_022_226, 3500),
    (16, 3_943_880, 3636),
    (32, 3_943_880, 3678),
    (64, 3_943_880, 5392),
    (240, 1_992_337, 10_000),
    (240, 1_971_940, 10_100),
    (32, 270_244, 155),
    (8, 21_329, 44),
    (32, 512, 40),
    (8, 2048, 31),
    (16, 1024, 27),
    (32, 2_928_000, 553),
    (8, 278_400, 76),
    (16, 48_000, 38),
)
CORES = 48
_LONGEST = 2000  # rows that one core really selects here; beyond, its time grows with their number


def comparisons(chip: Platform | None = None) -> Iterator[Comparison]:
    """Every published figure with the model's."""
    where = chip or platform("Ascend910B1")
    yield from instructions(where)
    yield from selections(where)


def instructions(chip: Platform) -> Iterator[Comparison]:
    """Single instructions, in cycles."""
    for name, kind, repeats, published in VECTOR:
        yield _instruction(chip, name, replay.steps(replay.vector(kind, repeats), replay.barrier("V")), published)
    for name, count, size, published in LOADS:
        one = replay.dma("MTE2", 1, size) + replay.flag("MTE2", "S")
        yield _instruction(chip, name, replay.steps([one] * count), published)


def _instruction(chip: Platform, name: str, stream: bytes, published: float) -> Comparison:
    fast, slow = replay.corners(chip.costs)
    now, low, high = (replay.replay(stream, replay.values(chip.costs, changed)).total for changed in ({}, fast, slow))
    return Comparison(name, published, now, low, high, "cycles")


@triton.jit  # type: ignore[untyped-decorator]
def _select_rows(source, indices, out, count, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, WIDTH)
    for row in range(count):
        chosen = tl.load(indices + row)
        tl.store(out + row * WIDTH + at, tl.load(source + chosen * WIDTH + at))


def selections(chip: Platform) -> Iterator[Comparison]:
    """index_select of whole rows, in microseconds: the time of the core that has the most of them."""
    for width, rows, published in SELECTIONS:
        share = -(-rows // CORES)
        run = min(share, _LONGEST)
        source = torch.arange(64 * width, dtype=torch.float32).view(64, width)
        indices = (torch.arange(run) * 37 % 64).to(torch.int32)
        out = torch.empty(run, width)
        with cycles.record(chip.costs, cores=1) as report:
            _select_rows[(1,)](source, indices, out, run, WIDTH=width)
        if not torch.equal(out, source[indices.long()]):
            raise AssertionError(f"wrong rows of width {width}")
        grown = share / run
        low, high = report.band
        yield Comparison(
            f"index_select {rows} rows of {width}",
            published,
            report.microseconds * grown,
            low * grown,
            high * grown,
            "us",
        )


def markdown(chip: Platform | None = None) -> str:
    """All comparisons as a table for the README, and how many of them are near."""
    found = list(comparisons(chip))
    lines = ["| what | published | modelled | band | modelled / published |", "|---|---|---|---|---|"]
    for one in found:
        band = f"{one.low:.0f} to {one.high:.0f}" if one.high > one.low else ""
        lines.append(f"| {one.what} | {one.published:g} {one.unit} | {one.modelled:.0f} | {band} | {one.ratio:.2f} |")
    near = sum(0.9 <= one.ratio <= 1.1 for one in found)
    double = sum(0.5 <= one.ratio <= 2 for one in found)
    lines.append("")
    lines.append(f"{near} of {len(found)} within 10 %, {double} within a factor of two.")
    return "\n".join(lines)
