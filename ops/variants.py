"""Every kernel a plan can ask for, as the compiler sees it: function, argument types, constexprs, options.

The compile gate and the tests that compare the emulator's levels read this list; a plan outside it is a defect.

    >>> variants("as_strided")[0].name
    'as_strided-rows-fp32-1-4096'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Variant:
    """One compiled kernel: `kernel` is the name of a @triton.jit function, found by `function`.

    signature: (argument, type) in order, constexprs excepted, types as triton.compiler.ASTSource takes them.
    quick: belongs to the subset that `make test` compiles; `make test-all` compiles all.
    """

    op: str
    kernel: str
    signature: tuple[tuple[str, str], ...]
    constexprs: tuple[tuple[str, int | bool | str], ...]
    multibuffer: bool
    quick: bool

    @property
    def name(self) -> str:
        """Unique and readable: kernel, element types of the pointers, constexprs."""
        pointers = [kind[1:] for _, kind in self.signature if kind.startswith("*")]
        values = [str(value) for _, value in self.constexprs]
        single = [] if self.multibuffer else ["single"]
        types = pointers if len(set(pointers)) > 1 else pointers[:1]
        return "-".join([self.op, self.kernel, *types, *values, *single])

    @property
    def function(self) -> Any:
        """The @triton.jit function."""
        return _FUNCTIONS[self.op]()[self.kernel]


def variants(op: str | None = None) -> list[Variant]:
    """All variants, or those of one operator. Raises KeyError for an operator there is not."""
    names = list(_LISTS) if op is None else [op]
    return [variant for name in names for variant in _LISTS[name]()]


def signature_of(function: Any, element: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Argument types of a kernel declared with annotated integers; `element` types its pointers, such as '*fp32'."""
    return tuple(
        (param.name, element.get(param.name, param.annotation_type))
        for param in function.params
        if not param.is_constexpr
    )


def _as_strided() -> list[Variant]:
    from ops.as_strided import KERNELS
    from tiling.as_strided_tiles import KERNELS as TILES

    elements = {1: "*i8", 2: "*fp16", 4: "*fp32", 8: "*i64"}
    found = []
    for name, entry in TILES.items():
        for width, tiles in entry.tiles.items():
            types = signature_of(KERNELS[name], dict.fromkeys("xy", elements[width]))
            for place, tile in enumerate(tiles):
                constexprs = tuple(zip(entry.names, tile, strict=True))
                found.append(Variant("as_strided", name, types, constexprs, True, quick=place == 0))
    return found


def _as_strided_functions() -> dict[str, Any]:
    from ops.as_strided import KERNELS

    return KERNELS


def _gcd() -> list[Variant]:
    from ops.gcd_variants import variants as found

    return found()


def _gcd_functions() -> dict[str, Any]:
    from ops.kernels import gcd

    return {"gcd_linear": gcd.gcd_linear, "gcd_tiled": gcd.gcd_tiled}


_LISTS: dict[str, Callable[[], list[Variant]]] = {"gcd": _gcd, "as_strided": _as_strided}
_FUNCTIONS: dict[str, Callable[[], dict[str, Any]]] = {"gcd": _gcd_functions, "as_strided": _as_strided_functions}
