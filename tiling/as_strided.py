"""AsStrided: what a call is, and which kernel, tile and cores serve it.

>>> from tiling.platform import platform
>>> chosen = plan(AsStridedProblem((1000, 1000), (1003, 1), 0, 4), platform())
>>> chosen.path.name, chosen.kernel, chosen.cores
('STRIDE_1', 'rows', 40)

`plan` is pure. It names the documented path of the call (`classify`), then lets every kernel that can serve it estimate
its cost from the constants of the Platform, and takes the cheapest. Constants measured on a chip change the choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tiling.as_strided_costs import Estimate
from tiling.as_strided_kernels import Buffers, Candidate, broadcast, repeat, rows, slabs, transpose
from tiling.as_strided_keys import TilingKey, classify, documented_cores
from tiling.as_strided_pack import bursts, gather, split
from tiling.as_strided_tiles import FAMILIES, KERNELS, Tile
from tiling.as_strided_views import View, natural_view
from tiling.platform import Platform

__all__ = ["AsStridedPlan", "AsStridedProblem", "TilingKey", "choices", "classify", "documented_cores", "plan"]

_CANDIDATES = {
    "rows": rows,
    "slabs": slabs,
    "repeat": repeat,
    "broadcast": broadcast,
    "transpose": transpose,
    "gather": gather,
    "bursts": bursts,
    "split": split,
}


@dataclass(frozen=True)
class AsStridedProblem:
    """A call: size and stride, the storage offset in elements, bytes per element.

    alignment: the largest power of two, at most 16, that divides the byte addresses of both the first element read and
    the output; wider elements are only used within it. The storage itself does not matter: bounds are the caller's.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    itemsize: int
    alignment: int = 16

    def __post_init__(self) -> None:
        if len(self.size) != len(self.stride):
            raise ValueError(f"size has {len(self.size)} dimensions and stride has {len(self.stride)}")
        if self.itemsize not in (1, 2, 4, 8, 16):
            raise ValueError(f"elements of {self.itemsize} bytes: expected 1, 2, 4, 8 or 16")
        if min((*self.size, *self.stride, self.offset), default=0) < 0:
            raise ValueError("sizes, strides and the offset must not be negative")

    @property
    def elements(self) -> int:
        """Output elements."""
        return math.prod(self.size)

    def key(self) -> str:
        """Exact and stable name of this problem."""
        size, stride = ("x".join(map(str, values)) for values in (self.size, self.stride))
        return f"as_strided/{self.itemsize}/{size}/{stride}/{self.offset}/{self.alignment}"

    def pattern(self) -> str:
        """What problems that differ in sizes only have in common: width, and the kind of each merged stride."""
        view = natural_view(self.size, self.stride, self.itemsize, self.alignment)
        kinds = []
        for size, stride in view.dims:
            near = stride if stride in (0, 1, 2, 4) else "dense" if stride * view.width <= 128 else "far"
            kinds.append(f"{near}{'' if size >= 32 else '-short'}")
        return f"as_strided/{view.width}/{','.join(map(str, kinds))}"

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads."""
        return {
            "size": list(self.size),
            "stride": list(self.stride),
            "offset": self.offset,
            "itemsize": self.itemsize,
            "alignment": self.alignment,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AsStridedProblem:
        """The problem that `to_json` wrote. Raises KeyError or ValueError for anything else."""
        return cls(
            tuple(map(int, data["size"])),
            tuple(map(int, data["stride"])),
            int(data["offset"]),
            int(data["itemsize"]),
            int(data["alignment"]),
        )


@dataclass(frozen=True)
class AsStridedPlan:
    """What was decided for a problem. `repr` says it in a line.

    kernel: name of the function in ops.kernels. width: bytes of the elements it moves. args: its integers, in order.
    host: dimensions (size, input step in bytes, output step in bytes) the host loops over, one launch each.
    ub: unified buffer bytes by buffer. cycles: the modelled cost.
    """

    problem: AsStridedProblem
    path: TilingKey
    family: str
    kernel: str
    width: int
    grid: int
    args: tuple[int, ...]
    constexprs: tuple[tuple[str, int], ...]
    host: tuple[tuple[int, int, int], ...]
    ub: Buffers
    multibuffer: bool
    requested_cores: int
    cycles: Estimate = field(compare=False)
    reason: str = field(compare=False)

    @property
    def cores(self) -> int:
        """Programs of one launch."""
        return self.grid

    @property
    def tile(self) -> str:
        """The constexprs as one word, such as '16x512'."""
        return "x".join(str(value) for _, value in self.constexprs)

    def decisions(self) -> dict[str, int | bool | str]:
        """What `plan(problem, platform, **decisions)` needs to decide the same again."""
        return {
            "kernel": self.family,
            "tile": self.tile,
            "cores": self.requested_cores,
            "multibuffer": self.multibuffer,
        }

    def __repr__(self) -> str:
        used = sum(size for _, size in self.ub)
        buffers = ", ".join(f"{name} {size}" for name, size in self.ub)
        names = ", ".join(f"{name.lower()} {value}" for name, value in self.constexprs)
        launches = math.prod(size for size, _, _ in self.host)
        repeated = f", {launches} launches" if self.host else ""
        return (
            f"{self.path.name} -> {self.family}, {names} of {self.width} B, {self.grid} cores{repeated}, "
            f"UB {-(-used // 1024)} KiB ({buffers}), because {self.reason}"
        )


def choices(problem: AsStridedProblem, platform: Platform, **decisions: Any) -> list[AsStridedPlan]:
    """Every plan that would serve a problem, cheapest first, within the decisions already made.

    decisions: any of kernel, tile, cores, multibuffer, as `AsStridedPlan.decisions` gives them.
    """
    unknown = set(decisions) - {"kernel", "tile", "cores", "multibuffer"}
    if unknown:
        raise ValueError(f"unknown decision {', '.join(sorted(unknown))}: expected kernel, tile, cores, multibuffer")
    if not problem.elements:
        raise ValueError("an empty result needs no plan")
    cores = _cores(problem, platform, decisions.get("cores"))
    if decisions.get("multibuffer") not in (None, True):
        raise ValueError("every as_strided kernel is compiled with double buffering: multibuffer must be True")
    wanted = decisions.get("kernel")
    if wanted is not None and wanted not in FAMILIES:
        raise ValueError(f"no as_strided kernel named {wanted!r}: expected one of {', '.join(FAMILIES)}")
    view = natural_view(problem.size, problem.stride, problem.itemsize, problem.alignment)
    found = [
        each
        for family in FAMILIES
        if wanted in (None, family)
        for each in _family(family, view, platform, cores)
        if decisions.get("tile") in (None, _word(each.tile))
    ]
    found.sort(key=lambda each: each.estimate.score)
    path = classify(
        problem.size, problem.stride, problem.offset, problem.itemsize, platform.vector_cores, platform.ub_bytes
    )
    return [_plan(problem, platform, path, view, each, cores, _reason(each, found)) for each in found]


def plan(problem: AsStridedProblem, platform: Platform, **decisions: Any) -> AsStridedPlan:
    """The cheapest plan by the platform's costs, or the one that `decisions` ask for.

    decisions: any of kernel, tile, cores, multibuffer; `plan(p, platform, **plan(p, platform).decisions())` is the same
    plan again. Raises ValueError, saying why, if the problem is empty or nothing fits the decisions.
    """
    found = choices(problem, platform, **decisions)
    if not found:
        wanted = ", ".join(f"{name} {value}" for name, value in decisions.items())
        raise ValueError(f"no as_strided kernel serves {problem.key()} with {wanted or 'any tile'}")
    return found[0]


def _cores(problem: AsStridedProblem, platform: Platform, asked: int | None) -> int:
    if asked is not None:
        if not 1 <= asked <= 65_535:
            raise ValueError(f"cores {asked}: expected 1 to 65535, the largest grid")
        return asked
    # The documented design gives every core at least this much output: 6144 bytes to copy, 512 to pack one dimension,
    # 2048 otherwise; on its row paths it counts rows instead.
    view = natural_view(problem.size, problem.stride, problem.itemsize, problem.alignment)
    share = 2048
    if len(view.dims) == 1:
        share = 6144 if view.dims[0][1] == 1 else 512
    wanted = -(-problem.elements * problem.itemsize // share)
    path = classify(
        problem.size, problem.stride, problem.offset, problem.itemsize, platform.vector_cores, platform.ub_bytes
    )
    if path in _BY_ROWS:
        wanted = max(wanted, documented_cores(path, problem.size, problem.stride, problem.itemsize))
    return min(platform.vector_cores, wanted)


_BY_ROWS = (TilingKey.STRIDE1_ROW_BATCH, TilingKey.GENERAL_SMALL_SPAN)


def _family(family: str, view: View, platform: Platform, cores: int) -> Iterator[Candidate]:
    tiles: dict[Tile, None] = {}
    for entry in KERNELS.values():
        if entry.kernel.split("_")[0] == family:
            for legal in entry.tiles.values():
                tiles.update(dict.fromkeys(legal))
    for tile in tiles:
        found = _CANDIDATES[family](view, tile, platform, cores)
        if found is not None:
            yield found


def _word(tile: Tile) -> str:
    return "x".join(map(str, tile))


def _reason(chosen: Candidate, found: list[Candidate]) -> str:
    text = f"modelled {chosen.estimate.total:.0f} cycles, bound by {chosen.estimate.bound}"
    others = [each for each in found if each.family != chosen.family]
    if others:
        best = others[0]
        return f"{text}; {best.family} {best.estimate.total:.0f}"
    return f"{text}; no other kernel considered"


def _plan(
    problem: AsStridedProblem,
    platform: Platform,
    path: TilingKey,
    view: View,
    chosen: Candidate,
    cores: int,
    reason: str,
) -> AsStridedPlan:
    host = []
    below = problem.elements * problem.itemsize
    scale = view.narrow(chosen.width).width
    for size, step in chosen.host:
        below //= size
        host.append((size, step * scale, below))
    return AsStridedPlan(
        problem=problem,
        path=path,
        family=chosen.family,
        kernel=chosen.kernel,
        width=chosen.width,
        grid=chosen.cores,
        args=chosen.args,
        constexprs=tuple(zip(KERNELS[chosen.kernel].names, chosen.tile, strict=True)),
        host=tuple(host),
        ub=chosen.ub,
        multibuffer=True,
        requested_cores=cores,
        cycles=chosen.estimate,
        reason=reason,
    )
