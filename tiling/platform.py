"""What a chip is, as far as tiling cares: vector cores, unified buffer, and the one cost table of the project.

Every cost carries its unit, where it comes from, how far it can be trusted and the range it may plausibly lie in, so
that a decision or a modelled figure that rests on a guess can say so. `python -m bench calibrate` replaces values by
measured ones on a real chip.

    >>> platform("Ascend910B3").vector_cores
    40
    >>> platform("Ascend910B3").cost("dma_latency")
    264
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

DEFAULT_CHIP = "Ascend910B3"

# Status of a cost, from best to worst.
MEASURED = "measured on this chip"
PUBLISHED = "measured by others"
PLACEHOLDER = "placeholder"
GUESS = "guess"

_CALIBRATED = "pto-isa costmodel/a2a3/vector_compute.hpp, calibrated on 910B3"
_UNCALIBRATED = "pto-isa costmodel/a2a3/vector_compute.hpp, no calibration note"
_CORE = "pto-isa costmodel/a2a3/core.hpp"


@dataclass(frozen=True)
class Cost:
    """One constant: `value` in `unit`, its `source`, its `status` and the range `low..high` it may plausibly lie in."""

    value: float
    unit: str
    source: str
    status: str
    low: float
    high: float

    @property
    def measured(self) -> bool:
        """Whether somebody measured it, here or elsewhere; anything else is shown as a band."""
        return self.status in (MEASURED, PUBLISHED)


def _vector(head: float, slope: float, tail: float, source: str, status: str) -> dict[str, Cost]:
    """Cost of a vector instruction: head when the pipe was empty, slope per 256-byte repeat, tail at the next wait."""
    # An uncalibrated slope may be off by a factor of two either way; start-up costs likewise.
    spread = 1.25 if status == PUBLISHED else 2.0
    return {
        part: Cost(value, unit, source, status, value / spread, value * spread)
        for part, value, unit in (
            ("head", head, "cycles"),
            ("slope", slope, "cycles/repeat"),
            ("tail", tail, "cycles"),
        )
    }


_VECTOR_TABLE: tuple[tuple[str, float, float, float, str, str], ...] = (
    ("vadd", 10, 2, 14, _CALIBRATED, PUBLISHED),
    ("vsub", 10, 2, 14, _CALIBRATED, PUBLISHED),
    ("vmul", 10, 2, 15, _CALIBRATED, PUBLISHED),
    ("vdiv", 11, 4, 19, _CALIBRATED, PUBLISHED),
    ("vmax", 10, 2, 14, _CALIBRATED, PUBLISHED),
    ("vmin", 10, 2, 14, _CALIBRATED, PUBLISHED),
    ("vmaxs", 10, 1, 13, _CALIBRATED, PUBLISHED),
    ("vmins", 14, 1, 16, _UNCALIBRATED, PLACEHOLDER),
    ("vmuls", 11, 1, 15, _CALIBRATED, PUBLISHED),
    ("vln", 13, 2, 20, _CALIBRATED, PUBLISHED),
    ("vand", 8, 2, 12, _CALIBRATED, PUBLISHED),
    ("vor", 8, 2, 12, _CALIBRATED, PUBLISHED),
    ("vexp", 13, 2, 18, _CALIBRATED, PUBLISHED),
    ("vabs", 13, 1, 16, _UNCALIBRATED, PLACEHOLDER),
    ("vadds", 13, 1, 18, _UNCALIBRATED, PLACEHOLDER),
    ("vsel", 13, 2, 14, _UNCALIBRATED, PLACEHOLDER),
    ("vsqrt", 14, 2, 25, _UNCALIBRATED, PLACEHOLDER),
    ("vrec", 10, 1, 14, _UNCALIBRATED, PLACEHOLDER),
    ("vrsqrt", 10, 1, 14, _UNCALIBRATED, PLACEHOLDER),
    ("vrelu", 10, 1, 13, _UNCALIBRATED, PLACEHOLDER),
    ("vcopy", 11, 1, 13, _UNCALIBRATED, PLACEHOLDER),
    ("vdup", 11, 1, 13, _UNCALIBRATED, PLACEHOLDER),
    ("vnot", 8, 2, 12, _UNCALIBRATED, PLACEHOLDER),
    ("vconv", 14, 2, 18, _CORE + ", 'temporary common model'", PLACEHOLDER),
    ("vcmp", 6, 2, 0, _CORE + ", default", PLACEHOLDER),
    ("vshift", 6, 2, 0, _CORE + ", default", PLACEHOLDER),
    ("vreducev2", 14, 14, 20, _CORE + ", slope not checked for short repeats", PLACEHOLDER),
    ("vgather", 14, 2, 10, _CORE + ", 'slope unverified'", PLACEHOLDER),
    ("vnchwconv", 6, 2, 0, _CORE + ", default", PLACEHOLDER),
    ("vcmax", 13, 2, 18, "as vexp: no public figure for reductions", GUESS),
    ("vother", 6, 2, 0, _CORE + ", default", PLACEHOLDER),
)


def _costs() -> dict[str, Cost]:
    table: dict[str, Cost] = {}
    for name, head, slope, tail, source, status in _VECTOR_TABLE:
        for part, cost in _vector(head, slope, tail, source, status).items():
            table[f"{name}.{part}"] = cost
    # The planner prices these two per lane; as far as a lane may cost, the slope per repeat may reach.
    for name, lanes in (("vgather.slope", 64), ("vnchwconv.slope", 64)):  # 64 lanes; 256 elements at a quarter cycle
        table[name] = replace(table[name], high=float(lanes))
    fitted = "linear fit to pto-isa tests/costmodel/st tload: within 0.3 % on 8 of 10 rows"
    pto_dma = "pto-isa costmodel/a2a3: 100.9 and 188.46 GiB/s per core at 1.85 GHz"
    assumed = "no public figure"
    table |= {
        "clock": Cost(1.85, "GHz", "pto-isa arch_config.hpp:21 (public runs quote 1.8)", PUBLISHED, 1.8, 1.85),
        "hbm_bandwidth": Cost(1600, "GB/s", "ops-math complex_v3 README (910B3)", PUBLISHED, 1400, 1800),
        "hbm_efficiency": Cost(0.8, "fraction", "1.1-1.4 TB/s of 1.6 reached by others", PUBLISHED, 0.7, 0.9),
        "count_mode_floor": Cost(16, "cycles", "pto-isa core.hpp:145", PUBLISHED, 0, 16),
        "mask_and_barrier": Cost(4, "cycles/op", "set_mask_count, mask, norm, barrier: one issue each", GUESS, 2, 8),
        "dma_latency": Cost(264, "cycles", fitted, PUBLISHED, 200, 330),
        "dma_bytes_per_cycle": Cost(128, "B/cycle", fitted, PUBLISHED, 58.6, 128),
        "dma_issue": Cost(48, "cycles", "set from one row of triton-ascend test_index_select", GUESS, 24, 96),
        "gm_to_ub": Cost(58.6, "B/cycle", pto_dma, PUBLISHED, 40, 128),
        "ub_to_gm": Cost(109, "B/cycle", pto_dma, PUBLISHED, 60, 128),
        "mte2_issue": Cost(60, "cycles", assumed, GUESS, 30, 264),
        "mte3_issue": Cost(40, "cycles", assumed, GUESS, 20, 264),
        "burst": Cost(8, "cycles/burst", assumed, GUESS, 1, 20),
        "burst_executed": Cost(1, "cycles/burst", "lower bound: one burst a cycle", GUESS, 1, 20),
        "gather_lane": Cost(1, "cycles/lane", assumed, GUESS, 0.05, 1),
        "transpose_element": Cost(0.25, "cycles/element", "vnchwconv, no public figure", GUESS, 0.05, 1),
        "scalar_access": Cost(8, "cycles", "4-13 from ops-math complex_v3 (12.4 cycles per element)", GUESS, 4, 13),
        "scalar_gm": Cost(40, "cycles/element", assumed, GUESS, 20, 120),
        "scalar_issue": Cost(1, "cycles", assumed, GUESS, 1, 2),
        "loop_scalar": Cost(100, "cycles/iteration", "scalar index code of one loop turn", GUESS, 30, 300),
        "launch": Cost(12, "us", "triton-ascend#1675: 8.6-23.7 us per enqueue on 910B2", PUBLISHED, 8, 24),
    }
    return table


COSTS: Mapping[str, Cost] = MappingProxyType(_costs())

# Vector cores per chip, as VECTOR_CORE_COUNT in the modules bishengir-compile makes for them; a test holds them to it.
VECTOR_CORES: Mapping[str, int] = MappingProxyType(
    {
        "Ascend910B1": 48,
        "Ascend910B2": 48,
        "Ascend910B2C": 48,
        "Ascend910B3": 40,
        "Ascend910B4": 40,
        "Ascend910_9362": 40,
        "Ascend910_9372": 40,
        "Ascend910_9381": 48,
        "Ascend910_9382": 48,
        "Ascend910_9391": 48,
        "Ascend910_9392": 48,
    }
)

UB_BYTES = 196_608  # 192 KiB per vector core on every A2/A3 chip


@dataclass(frozen=True)
class Platform:
    """A chip for which plans are made: its vector cores, its unified buffer in bytes, and the cost table.

    Hashable on everything a plan depends on, so that plans can be cached on (problem, platform).
    """

    chip: str
    vector_cores: int
    ub_bytes: int = UB_BYTES
    costs: Mapping[str, Cost] = field(default_factory=lambda: COSTS, hash=False, compare=False, repr=False)
    profile: str = "default"

    def cost(self, name: str) -> float:
        """Value of one constant of the cost table. Raises KeyError naming the constants there are."""
        try:
            return self.costs[name].value
        except KeyError:
            raise KeyError(f"no cost named {name!r}; there are {', '.join(sorted(self.costs))}") from None

    def with_costs(self, changed: Mapping[str, Cost], profile: str) -> Platform:
        """The same chip with some constants replaced. `profile` names the set, so that cached plans are kept apart."""
        unknown = set(changed) - set(self.costs)
        if unknown:
            raise KeyError(f"no cost named {', '.join(sorted(unknown))}")
        return replace(self, costs=MappingProxyType({**self.costs, **changed}), profile=profile)


def platform(chip: str = DEFAULT_CHIP) -> Platform:
    """The platform of a chip with the public constants.

    Raises ValueError for a chip that is not an Atlas A2/A3 one; the text lists those that are.
    """
    try:
        cores = VECTOR_CORES[chip]
    except KeyError:
        raise ValueError(f"unknown chip {chip!r}: expected one of {', '.join(VECTOR_CORES)}") from None
    return Platform(chip, cores)
