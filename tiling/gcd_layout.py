"""How the dims of a gcd become what its kernels know: a line, or rows and columns with a few dims around.

>>> arrange(((100, 1, 1, 1),))[0].kinds
('line', 'line', 'line')
>>> arrange(((30, 70, 0, 70), (70, 1, 1, 1)))[0].kinds
('matrix', 'row', 'matrix')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiling import layout
from tiling.layout import Dim, Dims

LINE, MATRIX, ROW, COLUMN, SCALAR, SCATTERED = "line", "matrix", "row", "column", "scalar", "scattered"

# Dims around rows and columns that gcd_tiled takes: 8 in all, the documented rank limit. More are looped over on the
# host.
HOST = 6

_ORDER = (MATRIX, ROW, COLUMN, SCALAR)
# Kinds of (self, other) that gcd_tiled is compiled for, other being the smaller one.
PAIRS = ((MATRIX, MATRIX), (MATRIX, ROW), (MATRIX, COLUMN), (MATRIX, SCALAR), (ROW, COLUMN))

_ONE: Dim = (1, 0, 0, 0)

Kinds = tuple[str, str, str]


@dataclass(frozen=True)
class Arrangement:
    """The dims of a problem as a kernel runs them.

    `dims` are the merged dims as (size, self, other, out) strides before swapping, slowest first; `rows` and `cols` the
    two that make a tile, `outer` those around (at most HOST), `host_dims` any beyond. In all but `dims` the strides are
    in kernel order, that is (other, self, out) if `swapped`. `copies` names the operands that are first made dense,
    each with the (size, stride) dims to read it with; their strides elsewhere are those of the copy.
    """

    dims: Dims
    host_dims: Dims
    outer: Dims
    rows: Dim
    cols: Dim
    self: str
    other: str
    out: str
    swapped: bool
    copies: tuple[tuple[str, Dims], ...]

    @property
    def linear(self) -> bool:
        """Whether gcd_linear serves it."""
        return self.self == LINE

    @property
    def symmetric(self) -> bool:
        """Whether self and other are of one kind, so that either may come first."""
        return self.self == self.other

    def exchanged(self) -> Arrangement:
        """The same with self and other the other way round in kernel order."""
        return replace(
            self,
            host_dims=_exchange(self.host_dims),
            outer=_exchange(self.outer),
            rows=_exchange((self.rows,))[0],
            cols=_exchange((self.cols,))[0],
            self=self.other,
            other=self.self,
            swapped=not self.swapped,
        )

    @property
    def kinds(self) -> Kinds:
        """Kinds of self, other and out in kernel order."""
        return self.self, self.other, self.out


def arrange(dims: Sequence[Dim]) -> list[Arrangement]:
    """The ways to run these dims, with as few copies as possible: one for each dim that can serve as rows.

    dims: (size, self, other, out) with strides in elements, 0 where an operand is repeated; no size is 0.
    """
    # Slowest out first: a permuted out is then written in memory order. The sort is stable.
    merged = layout.merge(sorted(dims, key=lambda dim: -dim[3]))
    found: list[Arrangement] = []
    for copied in ((), ("self",), ("other",), ("self", "other")):
        found = found or _with_copies(merged, copied, spread=False)
    # Both operands expanded along the same dims: no kernel repeats both, so one is copied whole.
    return found or _with_copies(merged, ("self", "other"), spread=True)


def _with_copies(merged: Dims, copied: tuple[str, ...], spread: bool) -> list[Arrangement]:
    """Arrangements once the operands in `copied` are dense; a dim they repeat stays so, except in self if `spread`."""
    dims = merged
    copies = []
    for operand, index in (("self", 1), ("other", 2)):
        if operand not in copied:
            continue
        whole = spread and operand == "self"
        kept = [dim[0] if dim[index] or whole else 1 for dim in dims]
        steps = [
            step if dim[index] or whole else 0 for dim, step in zip(dims, layout.contiguous_strides(kept), strict=True)
        ]
        copies.append((operand, tuple((dim[0], dim[index]) for dim in dims if dim[index] or whole)))
        dims = tuple((*dim[:index], step, *dim[index + 1 :]) for dim, step in zip(dims, steps, strict=True))
    made = tuple(copies)
    dims = layout.merge(dims)
    size, *strides = dims[0]
    if len(dims) == 1 and (size == 1 or strides in ([1, 1, 1], [1, 0, 1], [0, 1, 1])):
        first, second = (1, 1) if size == 1 else strides[:2]
        line = (size, 1, min(first, second), 1)
        other = LINE if first == second else SCALAR
        return [Arrangement(merged, (), (), _ONE, line, LINE, other, LINE, first == 0, made)]
    *around, cols = dims
    found = []
    for index in range(max(len(around), 1)):
        rows = around[index] if around else _ONE
        outer = tuple(dim for at, dim in enumerate(around) if at != index)
        arrangement = _as_tile(merged, outer, rows, cols, made)
        if arrangement is not None:
            found.append(arrangement)
    return found


def _exchange(dims: Dims) -> Dims:
    return tuple((size, second, first, out) for size, first, second, out in dims)


def _kind(rows: Dim, cols: Dim, operand: int) -> str | None:
    down, along = rows[operand], cols[operand]
    if along == 1:
        return ROW if down == 0 and rows[0] > 1 else MATRIX
    if along == 0:
        if down == 0:
            return SCALAR
        return COLUMN if down == 1 else None
    return None


def _as_tile(
    merged: Dims, outer: Dims, rows: Dim, cols: Dim, copies: tuple[tuple[str, Dims], ...]
) -> Arrangement | None:
    first, second = _kind(rows, cols, 1), _kind(rows, cols, 2)
    if first is None or second is None:
        return None
    swapped = _ORDER.index(first) > _ORDER.index(second)
    if swapped:
        first, second = second, first
        outer = _exchange(outer)
        rows, cols = _exchange((rows, cols))
    if first == ROW and second in (ROW, SCALAR):
        first = MATRIX  # both expanded along the rows: a matrix whose run-time row stride happens to be 0
    if (first, second) not in PAIRS:
        return None
    out = MATRIX if cols[3] == 1 else SCATTERED
    split = max(len(outer) - HOST, 0)
    return Arrangement(merged, outer[:split], outer[split:], rows, cols, first, second, out, swapped, copies)
