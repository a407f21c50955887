"""Modelled cycles per element of gcd's default plans: counted in the compiled module, and executed at the device level.

The static figure adds up, over the vector instructions of the final module, the public constants of each (start-up,
slope per 256-byte repeat, tail), with the trip counts that the worst case of a line takes. The executed one prices the
same constants while the module runs, waits included, on one core. Neither was measured on an NPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.table import Table

import ops
from emulator import cycles, toolchain
from ops.gcd_variants import variant_of
from tiling.gcd import GcdPlan, GcdProblem, plan
from tiling.platform import Cost, Platform, platform

TILES = 8  # of the default plan's size, on one core: the start-up of the first is spread over them


@dataclass(frozen=True)
class Line:
    """One speed line: a compute dtype whose values stay below `top` in magnitude, and the cycles to reach or beat.

    trips: run-time trip counts of the loops inside the tile loop, in order, for the static count; None where there is
    none (int64, whose second loop is most of the module).
    """

    dtype: str
    label: str
    top: float
    limit: float
    trips: tuple[int, ...] | None = ()


LINES = (
    Line("int8", "all values", 128, 0.60),
    Line("uint8", "all values", 256, 0.70),
    Line("int16", "all values", 2**15, 1.61),
    Line("float16", "all values", 65504, 2.63),
    # 4 pairs of int32 steps and 8 of float32 steps; up to 1000, 4 pairs of float32 steps (1000 < 2 P(9)).
    Line("int32", "full range", 2**31, 6.2, (4, 8)),
    Line("int32", "to 1000", 1000, 2.5, (0, 4)),
    Line("float32", "to 2^23", 2**23, 4.3, (9,)),
    Line("bfloat16", "to 2^23", 2**23, 4.3, (9,)),
    Line("int64", "to 1000", 1000, 3.2, None),
    Line("int64", "below 2^31", 2**31 - 256, 7.6, None),
    Line("int64", "full range", 2**63, 36, None),
)


def report(console: Console) -> bool:
    """Print the table; whether every line is met.

    Executed cycles judge: they see waits, and which start-ups overlap.
    """
    chip = platform()
    table = Table(title=f"gcd on {chip.chip}: modelled cycles per element and core, default plans, not measured")
    for heading in ("dtype", "values", "tile", "static", "executed", "reach or beat", "met"):
        table.add_column(heading, justify="left" if heading in ("dtype", "values") else "right")
    all_met = True
    for line in LINES:
        made = default_plan(line, chip)
        static = None if line.trips is None else static_cycles(made, line.trips, chip)
        executed = executed_cycles(line, made, chip)
        met = round(executed, 2) <= line.limit
        all_met &= met
        shown = "-" if static is None else f"{static:.2f}"
        table.add_row(
            line.dtype, line.label, str(made.cols), shown, f"{executed:.2f}", f"{line.limit:g}", "yes" if met else "NO"
        )
    console.print(table)
    return all_met


def main() -> int:
    """Print the table on its own; 1 if a line is missed."""
    return 0 if report(Console()) else 1


def default_plan(line: Line, chip: Platform) -> GcdPlan:
    """What the planner chooses for a large dense call of the line's dtype."""
    return plan(GcdProblem.dense((1 << 24,), line.dtype), chip)


# --- executed ---------------------------------------------------------------------------------------------------------


def executed_cycles(line: Line, made: GcdPlan, chip: Platform) -> float:
    """Cycles per element while TILES full tiles run at the device level on one core. Checks the result on the way."""
    count = TILES * made.cols
    first, second = _values(line, count, 1), _values(line, count, 2)
    problem = GcdProblem.dense((count,), line.dtype)
    here = plan(problem, chip, rows=made.rows, cols=made.cols, parts=made.parts, cores=1)
    with cycles.record(chip.costs, cores=1) as recorded:
        result = ops.gcd(first, second, plan=here)
    if line.dtype.startswith(("int", "uint")):
        wide = torch.gcd(first.long(), second.long()).to(first.dtype)
        assert torch.equal(result, wide), f"wrong values at the device level for {line.dtype}"
    return recorded.program_cycles / count


def _values(line: Line, count: int, seed: int) -> torch.Tensor:
    dtype = getattr(torch, line.dtype)
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        made = (torch.rand(count, generator=generator, dtype=torch.float64) * 2 - 1) * line.top
        return made.trunc().to(dtype)
    top = int(line.top)
    if dtype is torch.int64 and top == 2**63:
        return torch.randint(-(2**63) + 1, 2**63 - 1, (count,), generator=generator)
    low = 0 if dtype is torch.uint8 else 1 - top
    return torch.randint(low, top, (count,), generator=generator, dtype=torch.int64).to(dtype)


# --- counted in the module --------------------------------------------------------------------------------------------


@dataclass
class _Region:
    """A loop or branch of the module: how often it runs, the vector calls in it, the regions inside."""

    head: str
    weight: float = 1
    calls: list[str] = field(default_factory=list)
    inside: list[_Region] = field(default_factory=list)


def static_cycles(made: GcdPlan, trips: tuple[int, ...], chip: Platform) -> float:
    """Cycles per element of one full tile, summed over the vector instructions of the plan's module."""
    variant = variant_of(made)
    options = {"multibuffer": variant.multibuffer}
    linalg = toolchain.lower_to_linalg(variant.function, dict(variant.signature), dict(variant.constexprs), options)
    module = toolchain.compile_hivm(linalg, chip=chip.chip, multibuffer=variant.multibuffer)
    tile_loop = next(region for region in _parse(module.text).inside if "scf.for" in region.head)
    return _sum(tile_loop, iter(trips), chip.costs, itself=1) / made.cols


def _parse(text: str) -> _Region:
    root = _Region("module")
    stack = [root]
    shapes: dict[str, str] = {}  # static shape behind each memref value, through casts that hide it
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("}"):
            stack.pop()
        made = re.match(r"(%\w+) = (?:memref\.\w+|hivm\.hir\.pointer_cast|arith\.select)\b(.*)$", line)
        if made:
            static = re.findall(r"memref<((?:\d+x)+\w+)[,>]", made.group(2))
            known = [shapes[name] for name in re.findall(r"%\w+", made.group(2)) if name in shapes]
            if static or known:
                shapes[made.group(1)] = static[-1] if static else known[0]
        call = re.search(r"call @(\w+)\(([^)]*)\)", line)
        if call:
            operands = [shapes[name] for name in re.findall(r"%\w+", call.group(2)) if name in shapes]
            stack[-1].calls.append(" ".join([call.group(1), *operands]))
        if line.endswith("{"):
            if re.search(r"scf\.(for|if)|else \{", line):
                stack[-1].inside.append(_Region(line))
                stack.append(stack[-1].inside[-1])
            else:
                stack.append(stack[-1])  # the module and its functions
    return root


def _sum(region: _Region, trips: Iterator[int], costs: Mapping[str, Cost], itself: float) -> float:
    total = sum(_price(call, costs) for call in region.calls)
    for inner in region.inside:
        vector = [call for call in _all_calls(inner) if not call.startswith("broadcast_scalar")]
        # A branch with nothing but a fill serves partial tiles; a full one skips it. `else` belongs to large tiles.
        weight = 0.0 if not vector or "else {" in inner.head else 1.0
        if "scf.for" in inner.head:
            constant = re.search(r"to %c(\d+)\w* step", inner.head)
            weight = float(constant.group(1)) if constant else float(next(trips, 0))
        total += _sum(inner, trips, costs, weight) if weight else 0.0
    return total * itself


def _all_calls(region: _Region) -> list[str]:
    return region.calls + [call for inner in region.inside for call in _all_calls(inner)]


# Templates by the start of their name, longest first, and the instruction whose constants they have.
_INSTRUCTIONS = {
    "vcast": "vconv",
    "vsel": "vsel",
    "vcmp": "vcmp",
    "vshl": "vshift",
    "vshr": "vshift",
    "broadcast_scalar": "vdup",
    "enablevc_reduce": "vcmax",
    "copy_ubuf": "vcopy",
}
_IN_COUNT_MODE = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vand", "vor")


def _price(call: str, costs: Mapping[str, Cost]) -> float:
    template, *operands = call.split(" ")
    if template.startswith(("load_gm", "store_ubuf")):
        return 0.0  # other pipes, which overlap
    base = next((name for start, name in _INSTRUCTIONS.items() if template.startswith(start)), "")
    if not base:
        found = re.match(r"([a-z0-9]+?)(?=_(?:vs|sv|vv|1d|2d|3d)_?)", template)
        base = found.group(1) if found else template
    sizes = [_bytes(operand) for operand in operands if not operand.endswith("xi1")]
    repeats = -(-max(sizes, default=0) // 256)
    floor = costs["count_mode_floor"].value if base in _IN_COUNT_MODE else 0
    start = costs[f"{base}.head"].value + costs[f"{base}.tail"].value + costs["mask_and_barrier"].value
    return start + floor + costs[f"{base}.slope"].value * repeats


def _bytes(shape: str) -> float:
    *extents, kind = shape.split("x")
    return math.prod(int(extent) for extent in extents) * int(kind.strip("bfi")) / 8


if __name__ == "__main__":
    raise SystemExit(main())
