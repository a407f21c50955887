"""What a tile of an AsStrided kernel costs, in modelled cycles of each pipe, from the constants of a Platform.

The pipes of a vector core (MTE2 loads, the vector unit, MTE3 stores, the scalar unit) overlap in a double-buffered
loop, so a tile takes as long as its slowest pipe. No figure here was measured on an NPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiling.platform import Platform

BLOCK_BYTES = 32  # DMA bursts occupy whole blocks of the unified buffer
# The part of the faster pipes' cycles that a tile still waits for, at flags and barriers. Without it, tiles bound by
# the same pipe would count as equal however much the others have to do.
EXPOSED = 0.1
REPEAT_BYTES = 256  # one repeat of a vector instruction


@dataclass(frozen=True)
class Transfer:
    """A DMA in or out: how many instructions, how many bursts of how many bytes each."""

    instructions: float
    bursts: float
    burst_bytes: float

    @property
    def bytes(self) -> float:
        """Bytes moved, every burst rounded up to whole blocks."""
        return self.bursts * math.ceil(self.burst_bytes / BLOCK_BYTES) * BLOCK_BYTES


@dataclass(frozen=True)
class Cycles:
    """Modelled cycles of one tile per pipe."""

    mte2: float
    vector: float
    mte3: float
    scalar: float

    @property
    def slowest(self) -> float:
        """Cycles of the pipe that a double-buffered loop waits for."""
        return max(self.mte2, self.vector, self.mte3, self.scalar)

    @property
    def step(self) -> float:
        """Cycles from one tile of a double-buffered loop to the next: the slowest pipe, and some of what it hides."""
        hidden = self.mte2 + self.vector + self.mte3 + self.scalar - self.slowest
        return self.slowest + EXPOSED * hidden


@dataclass(frozen=True)
class Estimate:
    """Modelled cost of a plan: `tile` for a full tile, `total` cycles from start to end, and what bounds them.

    `per_element` is cycles of each pipe per output element of the call on one core, start-up of the loop spread over
    the elements: the figure in which kernels are compared. `score` orders plans: of several that cost
    about the same, the one that strains the cores less and has larger tiles comes first.
    """

    tile: Cycles
    total: float
    per_element: Cycles
    bound: str
    score: float


def load_cycles(platform: Platform, transfer: Transfer) -> float:
    """MTE2 cycles of a load."""
    moving = max(transfer.bytes / platform.cost("gm_to_ub"), transfer.bursts * _burst(platform, transfer))
    return transfer.instructions * platform.cost("mte2_issue") + moving


def store_cycles(platform: Platform, transfer: Transfer) -> float:
    """MTE3 cycles of a store."""
    moving = max(transfer.bytes / platform.cost("ub_to_gm"), transfer.bursts * _burst(platform, transfer))
    return transfer.instructions * platform.cost("mte3_issue") + moving


def _burst(platform: Platform, transfer: Transfer) -> float:
    # A single burst is the instruction itself.
    return platform.cost("burst") if transfer.bursts > transfer.instructions else 0.0


def vector_cycles(platform: Platform, elements: float, width: int, name: str = "vcopy") -> float:
    """Cycles of one vector instruction over `elements` of `width` bytes."""
    repeats = math.ceil(elements * width / REPEAT_BYTES)
    return platform.cost(f"{name}.head") + platform.cost(f"{name}.tail") + repeats * platform.cost(f"{name}.slope")


def gather_cycles(platform: Platform, lanes: int, source: int, width: int) -> float:
    """Cycles to gather `lanes` elements from `source` ones: lane numbers to byte offsets, then one lane at a time.

    One-byte elements are converted to two bytes before and back after, which is exact.
    """
    offsets = vector_cycles(platform, lanes, 4, "vmuls") + vector_cycles(platform, lanes, 4, "vadds")
    casts = 0.0
    if width == 1:
        casts = vector_cycles(platform, source, 2, "vconv") + vector_cycles(platform, lanes, 2, "vconv")
    return offsets + lanes * platform.cost("gather_lane") + casts


def lane_table_cycles(platform: Platform, lanes: int, levels: int) -> float:
    """Cycles to build the lane table, once per program: `levels` divisions with remainder, then the clamp."""
    quotient = ("vconv", "vadds", "vdiv", "vconv", "vmuls", "vsub", "vmuls", "vadd")
    level = sum(vector_cycles(platform, lanes, 4, name) for name in quotient)
    return levels * level + 3 * vector_cycles(platform, lanes, 4, "vmuls")


def estimate(
    platform: Platform,
    tile: Cycles,
    *,
    prologue: float,
    tiles: int,
    cores: int,
    launches: int,
    elements: int,
    traffic: float,
) -> Estimate:
    """Cost of `launches` launches of `tiles` equal tiles dealt to `cores` programs.

    prologue: cycles once per program. elements: outputs of the call. traffic: bytes that cross GM in one launch, all
    cores together.
    """
    # The first tile passes the pipes one after another, and both ends wait once for memory.
    fill = tile.mte2 + tile.vector + tile.mte3 - tile.slowest
    rounds = math.ceil(tiles / cores)
    busiest = prologue + fill + rounds * tile.step + 2 * platform.cost("dma_latency")
    rate = platform.cost("hbm_bandwidth") * platform.cost("hbm_efficiency") / platform.cost("clock")
    memory = traffic / rate
    scale = tiles * launches / elements
    per_element = Cycles(
        tile.mte2 * scale,
        tile.vector * scale + prologue * cores * launches / elements,
        tile.mte3 * scale,
        tile.scalar * scale,
    )
    names = {"MTE2": tile.mte2, "vector": tile.vector, "MTE3": tile.mte3, "scalar": tile.scalar}
    bound = "HBM" if memory > busiest else max(names, key=lambda name: names[name])
    # Launches beyond the first wait for the host: microseconds at the clock in GHz are a thousand cycles each.
    waiting = (launches - 1) * platform.cost("launch") * platform.cost("clock") * 1000
    total = launches * max(busiest, memory) + waiting
    # Half a memory latency per tile on top: the figures that are published for one DMA lie between its issue and its
    # latency, so of two equal plans the one with fewer, larger tiles is the safer.
    strain = busiest / 10 + rounds * platform.cost("dma_latency") / 2
    return Estimate(tile, total, per_element, bound, total + launches * strain)
