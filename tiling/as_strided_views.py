"""Views of an AsStrided call, and how its dimensions are dealt to a kernel's arguments.

A *view* is the merged layout in elements of some width: 1, 2, 4 or 8 bytes. A kernel works on the last dimensions of a
view; the scalar unit decodes the outer ones, and what is beyond seven of those is looped over on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiling.as_strided_tiles import OUTER_DEEP, OUTER_PLAIN
from tiling.layout import Dims, elements, merge, widen, widening, words


@dataclass(frozen=True)
class View:
    """A layout of (size, stride) dimensions, slowest first, in elements of `width` bytes.

    `outputs` is the number of elements of the call, whatever their width.
    """

    dims: Dims
    width: int
    outputs: int

    def narrow(self, width: int) -> View:
        """The same bytes in elements of at most `width` bytes."""
        if self.width <= width:
            return self
        return View(words(self.dims, self.width // width), width, self.outputs)


def natural_view(size: Sequence[int], stride: Sequence[int], itemsize: int, alignment: int) -> View:
    """The call's own layout: merged, and widened to at most four bytes where dense rows allow it.

    alignment: bytes that divide the addresses of the first element read and written.
    """
    dims = merge(tuple(zip(size, stride, strict=True)))
    factor = widening(dims, alignment, itemsize, 4) if itemsize < 4 else 1
    return View(widen(dims, factor), itemsize * factor, elements(dims))


def row_view(view: View) -> View:
    """For kernels that move whole rows: 4-byte words, or single bytes where 4 does not divide."""
    return view.narrow(4 if view.width >= 4 else 1)


@dataclass(frozen=True)
class Outer:
    """Outer dimensions as a kernel takes them: its integers, and the dimensions left to the host."""

    deep: bool
    args: tuple[int, ...]
    host: Dims
    count: int

    def kernel(self, family: str) -> str:
        """Name of the kernel that decodes this many."""
        return family + "_deep" if self.deep else family


def arrange(outer: Sequence[tuple[int, ...]], deep: bool = False) -> Outer:
    """Deal outer dimensions, slowest first, to the plain or the deep kernel.

    >>> arrange(((5, 60), (3, 4))).args
    (3, 4, 60)
    """
    deep = deep or len(outer) > OUTER_PLAIN
    limit = OUTER_DEEP if deep else OUTER_PLAIN
    left = max(0, len(outer) - limit)
    kept = [*reversed(outer[left:]), *[(1, 0)] * (limit - len(outer))]
    # The last quotient is the index of the slowest dimension, so that one needs no size.
    args = (*[value for dim in kept[:-1] for value in dim], kept[-1][1])
    return Outer(deep, args, tuple(outer[:left]), elements(kept))


def pieces(extent: int, capacity: int, others: int, cores: int, align: int) -> tuple[int, int]:
    """Cut `extent` into equal pieces of at most `capacity`; returns (size of a piece, how many).

    others: how many times this happens side by side. There are enough pieces for `cores` if alignment allows it, and a
    whole number of rounds of the cores where these pieces are all there is.

    >>> pieces(100_000, 4096, others=1, cores=40, align=8)
    (2504, 40)
    """
    number = -(-extent // capacity)
    if others * number < cores:
        number = -(-cores // others)
    elif others == 1 and number > 1:
        number = -(-number // cores) * cores
    step = -(-extent // number)
    step = min(capacity, -(-step // align) * align, extent)
    return step, -(-extent // step)
