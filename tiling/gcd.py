"""Tiling of Gcd: what a call asks for (`GcdProblem`), what was decided for it (`GcdPlan`), and the decision (`plan`).

    >>> from tiling.platform import platform
    >>> p = GcdProblem.dense((1000, 1000), "int32")
    >>> plan(p, platform()).kernel
    'gcd_linear'

The documented host tiling stays visible: output storage words (int8 four elements a word, 16-bit dtypes two, int64 half
an element), at least 256 words a core, chunk borders on multiples of 16 words, a linear path for dense operands of one
shape, stride 0 for broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiling import layout
from tiling.gcd_layout import HOST, SCATTERED, Arrangement, arrange
from tiling.gcd_tiles import BYTES, TWO_LOOPS, Tile, cycles, linear_tiles, tiled_tiles, ub_budget, ub_items
from tiling.platform import Platform

WORD_BYTES = 4
WORDS_PER_CORE = 256
WORDS_PER_CHUNK_BORDER = 16

Decision = int | bool | str


@dataclass(frozen=True)
class GcdProblem:
    """One call: dtypes, the dtype it is computed in, the broadcast shape, and each operand's strides over that shape.

    Strides count elements and are 0 where an operand is repeated. `out_dtype` is any dtype name; one that the kernels
    do not store makes the plan use a temporary.

        >>> GcdProblem("int8", "int32", "int32", "int32", (2, 3), (3, 1), (0, 1), (3, 1)).elements
        6
    """

    self_dtype: str
    other_dtype: str
    compute: str
    out_dtype: str
    shape: tuple[int, ...]
    self_stride: tuple[int, ...]
    other_stride: tuple[int, ...]
    out_stride: tuple[int, ...]

    @classmethod
    def dense(cls, shape: Sequence[int], dtype: str) -> GcdProblem:
        """Two dense operands of one shape and dtype, and such an out."""
        stride = layout.contiguous_strides(shape)
        return cls(dtype, dtype, dtype, dtype, tuple(shape), stride, stride, stride)

    @property
    def elements(self) -> int:
        """Output elements."""
        return math.prod(self.shape)

    @property
    def dims(self) -> layout.Dims:
        """(size, self stride, other stride, out stride), slowest first as given."""
        return tuple(zip(self.shape, self.self_stride, self.other_stride, self.out_stride, strict=True))

    def dtypes(self) -> str:
        """self,other->out@compute, as in keys and texts."""
        return f"{self.self_dtype},{self.other_dtype}->{self.out_dtype}@{self.compute}"

    def key(self) -> str:
        """Stable name of what the kernels see: problems whose merged dims agree share it, and with it tuned decisions.

        >>> GcdProblem.dense((10, 10), "int8").key() == GcdProblem.dense((100,), "int8").key()
        True
        """
        return f"{self.dtypes()} " + " ".join(":".join(map(str, dim)) for dim in _canonical(self).dims)

    def pattern(self) -> str:
        """Everything but sizes and magnitudes: dtypes and the kinds of operand over the merged dims."""
        arrangement = _canonical(self)
        steps = ("01*"[min(s, 2)] if s >= 0 else "-" for dim in arrangement.dims for s in dim[1:])
        return f"{self.dtypes()} rank {len(arrangement.dims)} {''.join(steps)}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` gives the problem back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.__dict__.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GcdProblem:
        """The problem `to_json` wrote. Raises TypeError for missing or unknown fields."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**fields)


@dataclass(frozen=True)
class GcdPlan:
    """What was decided for a problem.

    `kernel` is the @triton.jit function, `grid` how many programs run it. A tile is `rows` x `cols` elements, handled
    in `parts` sub-tiles where magnitudes are large. `swapped`: the kernel gets (other, self). `copied`: operands first
    made dense by the project's own as_strided kernels. `temporary`: dtype of the one temporary between the kernel and
    an out of a dtype the kernels do not store. `arrangement`: the merged dims and what each means to the kernel;
    `row_dim`: which of the possible ones it is.
    """

    problem: GcdProblem
    kernel: str
    grid: int
    rows: int
    cols: int
    parts: int
    multibuffer: bool
    arrangement: Arrangement
    row_dim: int
    temporary: str | None
    ub: tuple[tuple[str, int], ...]
    tiles: int
    cycles: float
    reason: str = field(compare=False)

    @property
    def swapped(self) -> bool:
        """Whether the kernel gets (other, self): the broadcast operand is always its second."""
        return self.arrangement.swapped

    @property
    def copied(self) -> tuple[str, ...]:
        """Operands that the as_strided kernels make dense first."""
        return tuple(name for name, _ in self.arrangement.copies)

    @property
    def constexprs(self) -> tuple[tuple[str, Decision], ...]:
        """The kernel's compile-time arguments."""
        compute = ("COMPUTE", self.problem.compute)
        if self.kernel == "gcd_linear":
            return (compute, ("OTHER", self.arrangement.other), ("BLOCK", self.cols), ("PARTS", self.parts))
        kinds = (("SELF", self.arrangement.self), ("OTHER", self.arrangement.other), ("OUT", self.arrangement.out))
        return (compute, *kinds, ("ROWS", self.rows), ("COLS", self.cols), ("PARTS", self.parts))

    def decisions(self) -> dict[str, Decision]:
        """What `plan(problem, platform, **decisions)` needs to make this plan again."""
        return {
            "row_dim": self.row_dim,
            "rows": self.rows,
            "cols": self.cols,
            "parts": self.parts,
            "cores": self.grid,
            "multibuffer": self.multibuffer,
        }

    def __repr__(self) -> str:
        a = self.arrangement
        tile = f"{self.cols}" if self.kernel == "gcd_linear" else f"{self.rows}x{self.cols}"
        buffers = ", ".join(f"{name} {size}" for name, size in self.ub)
        lines = [
            f"GcdPlan {self.problem.dtypes()} over {'x'.join(map(str, self.problem.shape)) or '1 element'}",
            f"  kernel   {self.kernel}, operands {a.self} and {a.other}, out {a.out}{', swapped' if a.swapped else ''}",
            f"  dims     {' '.join(':'.join(map(str, dim)) for dim in a.dims)} (size:self:other:out)",
            f"  tile     {tile}{f' in {self.parts} parts where large' if self.parts > 1 else ''}, {self.tiles} tiles "
            f"on {self.grid} cores, {'double' if self.multibuffer else 'single'} buffering",
            f"  UB       {sum(size for _, size in self.ub)} bytes: {buffers}",
        ]
        if a.copies:
            lines.append(f"  copied   {' and '.join(self.copied)} made dense by as_strided")
        if self.temporary:
            lines.append(f"  out      {self.problem.out_dtype} through one {self.temporary} temporary")
        if a.host_dims:
            lines.append(f"  host     {math.prod(dim[0] for dim in a.host_dims)} launches: more than {HOST} outer dims")
        lines.append(f"  reason   {self.reason}")
        return "\n".join(lines)


def _canonical(problem: GcdProblem) -> Arrangement:
    return arrange(problem.dims)[0]


def plan(problem: GcdProblem, platform: Platform, **decisions: Decision) -> GcdPlan:
    """Decide kernel, tile and cores for a problem; given `decisions` are kept, the others are made for them.

    decisions: row_dim, rows, cols, parts, cores, multibuffer (as `GcdPlan.decisions`). The tile is the one with the
    fewest modelled cycles on the busiest core among those whose UB budget fits. Pure. Raises ValueError, with the
    reason, for decisions that cannot serve this problem and for an empty problem.
    """
    if problem.elements == 0:
        raise ValueError("an empty result needs no plan")
    unknown = set(decisions) - {"row_dim", "rows", "cols", "parts", "cores", "multibuffer"}
    if unknown:
        raise ValueError(f"gcd has no decision named {', '.join(sorted(unknown))}")
    temporary = None if problem.out_dtype in BYTES else problem.compute
    dims = problem.dims
    if temporary:
        dense = layout.contiguous_strides(problem.shape)
        dims = tuple((*dim[:3], stride) for dim, stride in zip(dims, dense, strict=True))
    arrangements = arrange(dims)
    if not 0 <= int(decisions.get("row_dim", 0)) < len(arrangements):
        raise ValueError(f"row_dim {decisions['row_dim']}: there are {len(arrangements)} dims to choose from")
    candidates: list[GcdPlan] = []
    refused: ValueError | None = None
    for index, found in enumerate(arrangements):
        if index != decisions.get("row_dim", index):
            continue
        # gcd is symmetric: one order of two dtypes is compiled, that of the compute dtype first.
        arrangement = found.exchanged() if found.symmetric and _order(problem) else found
        try:
            candidates += [
                _evaluate(problem, arrangement, index, tile, temporary, platform, decisions)
                for tile in _tiles(problem, arrangement, temporary, platform, decisions)
            ]
        except ValueError as error:  # a decision that suits the other dims only
            refused = error
    if candidates:
        return min(candidates, key=lambda candidate: candidate.cycles)
    raise refused or ValueError(f"no tile of gcd fits {platform.ub_bytes} bytes of UB for {problem.dtypes()}")


def _order(problem: GcdProblem) -> bool:
    """Whether other's dtype comes before self's."""
    first, second = ((dtype != problem.compute, dtype) for dtype in (problem.self_dtype, problem.other_dtype))
    return second < first


def _tiles(
    problem: GcdProblem,
    arrangement: Arrangement,
    temporary: str | None,
    platform: Platform,
    decisions: Mapping[str, Decision],
) -> list[Tile]:
    known = linear_tiles(problem.compute) if arrangement.linear else tiled_tiles(problem.compute, arrangement.kinds)
    if "rows" in decisions or "cols" in decisions or "parts" in decisions:
        first = known[0]
        tile = Tile(
            int(decisions.get("rows", first.rows)),
            int(decisions.get("cols", first.cols)),
            int(decisions.get("parts", 1)),
        )
        _check_tile(problem, arrangement, tile, temporary, platform, bool(decisions.get("multibuffer", True)))
        return [tile]
    multibuffer = bool(decisions.get("multibuffer", True))
    return [t for t in known if _ub(problem, arrangement, t, temporary, multibuffer)[1] <= ub_budget(platform)]


def _check_tile(
    problem: GcdProblem,
    arrangement: Arrangement,
    tile: Tile,
    temporary: str | None,
    platform: Platform,
    multibuffer: bool,
) -> None:
    if tile.rows < 1 or tile.cols < 1 or tile.parts < 1:
        raise ValueError(f"a tile of {tile.rows}x{tile.cols} in {tile.parts} parts is no tile")
    if arrangement.linear and tile.rows != 1:
        raise ValueError("the linear kernel has tiles of one row")
    if (tile.cols if arrangement.linear else tile.rows) % tile.parts:
        raise ValueError(f"{tile.parts} parts do not divide a tile of {tile.rows}x{tile.cols}")
    if tile.parts > 1 and problem.compute not in TWO_LOOPS:
        raise ValueError(f"{problem.compute} tiles are never split")
    border = WORDS_PER_CHUNK_BORDER * WORD_BYTES
    if arrangement.linear and tile.cols * _out_bytes(problem, temporary) % border:
        raise ValueError(f"chunks of {tile.cols} elements do not end on a multiple of {WORDS_PER_CHUNK_BORDER} words")
    needed = _ub(problem, arrangement, tile, temporary, multibuffer)[1]
    if needed > platform.ub_bytes:
        raise ValueError(f"a tile of {tile.rows}x{tile.cols} needs {needed} of {platform.ub_bytes} bytes of UB")


def _out_bytes(problem: GcdProblem, temporary: str | None) -> int:
    return BYTES[temporary or problem.out_dtype]


def _ub(
    problem: GcdProblem, arrangement: Arrangement, tile: Tile, temporary: str | None, multibuffer: bool
) -> tuple[tuple[tuple[str, int], ...], int]:
    pair = (problem.self_dtype, problem.other_dtype)
    first, second = pair[::-1] if arrangement.swapped else pair
    items = ub_items(
        problem.compute, first, second, temporary or problem.out_dtype, arrangement.kinds, tile, multibuffer
    )
    return items, sum(size for _, size in items)


def _evaluate(
    problem: GcdProblem,
    arrangement: Arrangement,
    row_dim: int,
    tile: Tile,
    temporary: str | None,
    platform: Platform,
    decisions: Mapping[str, Decision],
) -> GcdPlan:
    multibuffer = bool(decisions.get("multibuffer", True))
    rows, cols = arrangement.rows[0], arrangement.cols[0]
    tiles = math.ceil(rows / tile.rows) * math.ceil(cols / tile.cols) * layout.elements(arrangement.outer)
    if tiles >= 2**31:
        raise ValueError(f"{tiles} tiles are more than a launch can count")
    words = math.ceil(problem.elements * _out_bytes(problem, temporary) / WORD_BYTES)
    cores = min(platform.vector_cores, math.ceil(words / WORDS_PER_CORE), tiles)
    if "cores" in decisions:
        cores = int(decisions["cores"])
        if not 1 <= cores <= min(platform.vector_cores, tiles):
            raise ValueError(f"{cores} cores for {tiles} tiles on {platform.vector_cores} vector cores")
    per_tile = cycles(problem.compute, arrangement.kinds, tile, min(rows, tile.rows), platform, multibuffer)
    launches = layout.elements(arrangement.host_dims)
    # A copy reads and writes its operand once more through memory, and is a launch of its own.
    launch = platform.cost("launch") * platform.cost("clock") * 1000
    copies = len(arrangement.copies) * (8 * problem.elements / platform.vector_cores + launch)
    total = per_tile * math.ceil(tiles / cores) * launches + (launches - 1) * launch + copies
    items, _ = _ub(problem, arrangement, tile, temporary, multibuffer)
    return GcdPlan(
        problem=problem,
        kernel="gcd_linear" if arrangement.linear else "gcd_tiled",
        grid=cores,
        rows=tile.rows,
        cols=tile.cols,
        parts=tile.parts,
        multibuffer=multibuffer,
        arrangement=arrangement,
        row_dim=row_dim,
        temporary=temporary,
        ub=items,
        tiles=tiles,
        cycles=total,
        reason=_reason(arrangement, words, cores, tiles, total),
    )


def _reason(arrangement: Arrangement, words: int, cores: int, tiles: int, total: float) -> str:
    route = (
        "dense operands, linear path"
        if arrangement.linear and arrangement.other != "scalar"
        else f"{arrangement.self} with {arrangement.other}"
        + (", out elements apart" if arrangement.out == SCATTERED else "")
    )
    return f"{route}; {words} words, {tiles} tiles over {cores} cores; about {total:.0f} modelled cycles"
