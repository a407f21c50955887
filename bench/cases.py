"""The calls that are measured: plain data, from which tensors are made elsewhere (bench/inputs.py).

`compare_cases()` is what `make compare` shows, `sweep_cases()` the default list of `bench sweep`: every dtype of gcd
and every documented path of as_strided, from 1 to 2^26 elements.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tiling.layout import contiguous_strides

Shape = tuple[int, ...]

GCD_DTYPES = ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32")

ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complex32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}

LAYOUTS = ("", "transposed", "sliced")


class CaseError(ValueError):
    """A case file or a selection that names no case; the text says what was expected."""


@dataclass(frozen=True)
class GcdCase:
    """One gcd call. `bits` bounds the magnitudes below 2^bits (None: the dtype's whole range, floats below 2^24).

    `layout` is how both inputs lie in memory: contiguous, "transposed" (last two dims), or "sliced" (rows cut out of
    longer ones). `out` is the dtype of a given out tensor.
    """

    name: str
    dtypes: tuple[str, str]
    shapes: tuple[Shape, Shape]
    bits: int | None = None
    layout: str = ""
    out: str | None = None

    op = "gcd"

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise CaseError(f"layout {self.layout!r}: expected one of {LAYOUTS}")

    @property
    def dtype(self) -> str:
        """What the dtype column shows: one name, or lhs x rhs, and the out dtype if one is given."""
        lhs, rhs = self.dtypes
        inputs = lhs if lhs == rhs else f"{lhs} x {rhs}"
        return inputs if self.out is None else f"{inputs} -> {self.out}"

    @property
    def size(self) -> Shape:
        """Shape of the result."""
        lhs, rhs = self.shapes
        rank = max(len(lhs), len(rhs))
        padded = [(1,) * (rank - len(shape)) + shape for shape in (lhs, rhs)]
        return tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))

    @property
    def elements(self) -> int:
        """Number of results."""
        return math.prod(self.size)

    @property
    def bytes(self) -> int:
        """Bytes a perfect kernel moves: each input element read once, each result written once."""
        lhs, rhs = (math.prod(shape) * ITEM_BYTES[dtype] for shape, dtype in zip(self.shapes, self.dtypes, strict=True))
        # The result of a mixed pair has the wider dtype of the two for every pair in these lists.
        result = ITEM_BYTES[self.out] if self.out else max(ITEM_BYTES[dtype] for dtype in self.dtypes)
        return lhs + rhs + self.elements * result

    @property
    def id(self) -> str:
        """Unique among the cases of a list."""
        return f"gcd/{self.dtype}/{self.name}"


@dataclass(frozen=True)
class AsStridedCase:
    """One as_strided call on a contiguous 1-D tensor that just holds what is addressed."""

    name: str
    dtype: str
    size: Shape
    stride: Shape
    offset: int = 0

    op = "as_strided"

    @property
    def elements(self) -> int:
        """Number of output elements."""
        return math.prod(self.size)

    @property
    def span(self) -> int:
        """Storage elements between the first and the last one addressed, both included; 0 for an empty output."""
        if self.elements == 0:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))

    @property
    def bytes(self) -> int:
        """Bytes a perfect kernel moves: each addressed element read once, each output element written once.

        Counted without enumerating: dims of stride 0 address nothing new, and no more than the span can be read.
        """
        distinct = math.prod(n for n, step in zip(self.size, self.stride, strict=True) if step != 0)
        read = min(distinct, self.span)
        return (read + self.elements) * ITEM_BYTES[self.dtype]

    @property
    def id(self) -> str:
        """Unique among the cases of a list."""
        return f"as_strided/{self.dtype}/{self.name}"


Case = GcdCase | AsStridedCase


def case_to_json(case: Case) -> dict[str, Any]:
    """The case as plain data, for case files and worker processes; `case_from_json` is its inverse."""
    return {"op": case.op, **asdict(case)}


def case_from_json(data: Mapping[str, Any]) -> Case:
    """A case from plain data. Raises CaseError naming what is missing or unknown."""
    kinds: dict[str, type[GcdCase] | type[AsStridedCase]] = {"gcd": GcdCase, "as_strided": AsStridedCase}
    values = dict(data)
    kind = kinds.get(values.pop("op", None) or "")
    if kind is None:
        raise CaseError(f"a case needs an op, one of {sorted(kinds)}: {data}")
    unknown = set(values) - {item.name for item in fields(kind)}
    if unknown:
        raise CaseError(f"{kind.op} case with unknown fields {sorted(unknown)}")
    for name in ("size", "stride", "dtypes"):
        if name in values:
            values[name] = tuple(values[name])
    if "shapes" in values:
        values["shapes"] = tuple(tuple(shape) for shape in values["shapes"])
    try:
        return kind(**values)
    except TypeError as error:
        raise CaseError(f"{kind.op} case: {error}") from error


def load_cases(path: Path) -> list[Case]:
    """Cases of a JSON file that holds a list of objects like those of `case_to_json`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CaseError(f"{path}: {error}") from error
    if not isinstance(document, list):
        raise CaseError(f"{path}: expected a list of cases")
    return [case_from_json(item) for item in document]


def select(
    cases: Iterable[Case],
    *,
    ops: Iterable[str] = (),
    dtypes: Iterable[str] = (),
    names: Iterable[str] = (),
    max_elements: int | None = None,
) -> list[Case]:
    """The cases whose op and dtype are among those given, whose id contains one of `names`, up to a size.

    Empty selections select everything. Raises CaseError if nothing is left.
    """
    ops, dtypes, names = list(ops), list(dtypes), list(names)
    chosen = [
        case
        for case in cases
        if (not ops or case.op in ops)
        and (not dtypes or case.dtype in dtypes or (isinstance(case, GcdCase) and set(case.dtypes) <= set(dtypes)))
        and (not names or any(name in case.id for name in names))
        and (max_elements is None or case.elements <= max_elements)
    ]
    if not chosen:
        raise CaseError(f"no case matches ops={ops} dtypes={dtypes} cases={names} max_elements={max_elements}")
    return chosen


def add_selection_arguments(parser: Any) -> None:
    """The options that narrow a list of cases."""
    parser.add_argument("--op", action="append", default=[], choices=["gcd", "as_strided"], help="only this operator")
    parser.add_argument("--dtypes", default="", help="only these dtypes, separated by commas")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only cases whose id contains it")
    parser.add_argument("--cases", metavar="FILE", help="a JSON list of cases in place of the default one")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="AxB",
        help="results of this shape in place of the default list, for each --op and each of --dtypes; repeatable",
    )
    parser.add_argument("--stride", metavar="AxB", help="with --shape: strides of as_strided (default contiguous)")
    parser.add_argument("--max-elements", type=int, metavar="N", help="only cases of at most N elements")


def selected(args: Any, default: list[Case]) -> list[Case]:
    """The cases that the options of `add_selection_arguments` leave of the default list."""
    dtypes = [name for name in args.dtypes.split(",") if name]
    if args.shape:
        default = shaped_cases(args.op or ["gcd", "as_strided"], dtypes or ["int32"], args.shape, args.stride)
    cases = load_cases(Path(args.cases)) if args.cases else default
    return select(cases, ops=args.op, dtypes=dtypes, names=args.case, max_elements=args.max_elements)


def shaped_cases(ops: Iterable[str], dtypes: Iterable[str], shapes: Iterable[str], stride: str | None) -> list[Case]:
    """ops x dtypes x shapes: gcd of two contiguous tensors, as_strided with the given or contiguous strides.

    >>> [case.id for case in shaped_cases(["gcd"], ["int8", "int16"], ["3x4"], None)]
    ['gcd/int8/3x4', 'gcd/int16/3x4']

    Raises CaseError for a shape that is none and for a dtype the operator does not take.
    """
    made: list[Case] = []
    for op, dtype, text in itertools.product(ops, dtypes, shapes):
        if dtype not in (GCD_DTYPES if op == "gcd" else ITEM_BYTES):
            raise CaseError(f"{op} of {dtype}: expected one of {', '.join(GCD_DTYPES if op == 'gcd' else ITEM_BYTES)}")
        size = _numbers(text)
        if op == "gcd":
            made.append(GcdCase(text, (dtype, dtype), (size, size)))
            continue
        strides = contiguous_strides(size) if stride is None else _numbers(stride)
        if len(strides) != len(size):
            raise CaseError(f"strides {stride} for shape {text}: expected {len(size)} numbers")
        made.append(AsStridedCase(text if stride is None else f"{text} by {stride}", dtype, size, strides))
    return made


def _numbers(text: str) -> Shape:
    try:
        values = tuple(int(part) for part in text.split("x"))
    except ValueError:
        raise CaseError(f"{text!r} is no shape: expected numbers such as 1000x64") from None
    if min(values) < 0:
        raise CaseError(f"{text!r}: sizes and strides are not negative")
    return values


MILLION = 1_000_000


def same(dtype: str, elements: int, name: str, bits: int | None = None) -> GcdCase:
    """gcd of two contiguous 1-D tensors of one dtype."""
    return GcdCase(name, (dtype, dtype), ((elements,), (elements,)), bits)


def compare_cases() -> list[Case]:
    """What `bench compare` shows: about 1e6 elements a case, so that one pass takes about two minutes on two cores."""
    grid = (1000, 1000)
    gcd: list[Case] = [
        same("int32", MILLION, "1e6 full range"),
        same("int32", MILLION, "1e6 below 2^9", bits=9),
        same("int8", MILLION, "1e6 full range"),
        same("uint8", MILLION, "1e6 full range"),
        same("int16", MILLION, "1e6 full range"),
        same("int64", MILLION, "1e6 full range"),
        same("int64", MILLION, "1e6 below 2^20", bits=20),
        same("float16", MILLION, "1e6"),
        same("bfloat16", MILLION, "1e6"),
        same("float32", MILLION, "1e6 below 2^22", bits=22),
        same("int32", 16, "16 elements"),
        GcdCase("1e6 mixed", ("int32", "int64"), ((MILLION,), (MILLION,)), bits=20),
        GcdCase("1e6 fused out", ("int8", "float32"), ((MILLION,), (MILLION,)), bits=7, out="int8"),
        GcdCase("row broadcast 1000x1000", ("int32", "int32"), (grid, (1000,)), bits=20),
        GcdCase("column broadcast 1000x1000", ("int16", "int16"), (grid, (1000, 1))),
        GcdCase("scalar broadcast 1e6", ("int32", "int32"), ((MILLION,), ()), bits=20),
        GcdCase("outer product 1000x1000", ("int32", "int32"), ((1000, 1), (1, 1000)), bits=20),
        GcdCase("sliced rows 1000x777", ("int32", "int32"), ((1000, 777), (1000, 777)), bits=20, layout="sliced"),
        GcdCase("transposed 1000x1000", ("int32", "int32"), (grid, grid), bits=20, layout="transposed"),
    ]
    as_strided: list[Case] = [
        AsStridedCase("contiguous 1e6", "float32", (MILLION,), (1,)),
        AsStridedCase("rows 1000x1003 of 1008", "float32", (1000, 1003), (1008, 1)),
        AsStridedCase("rows 1000x1003 of 1008", "int8", (1000, 1003), (1008, 1)),
        AsStridedCase("inner broadcast 1000x1000", "float32", grid, (1, 0)),
        AsStridedCase("outer broadcast 1000x1000", "float32", grid, (0, 1)),
        AsStridedCase("transpose 1000x1000", "float32", grid, (1, 1000)),
        AsStridedCase("transpose 1000x1000", "float16", grid, (1, 1000)),
        AsStridedCase("NCHW to NHWC 8x64x44x44", "float32", (8, 44, 44, 64), (64 * 44 * 44, 44, 1, 44 * 44)),
        AsStridedCase("stride 2, 1e6", "float32", (MILLION,), (2,)),
        AsStridedCase("stride 2, 1e6", "int8", (MILLION,), (2,)),
        AsStridedCase("stride 2, 1e6", "int64", (MILLION,), (2,)),
        AsStridedCase("stride 3, 1e6", "float32", (MILLION,), (3,)),
        AsStridedCase("stride 7, 1e6", "float32", (MILLION,), (7,)),
        AsStridedCase("windows of 8, 1e5", "float32", (100_000, 8), (1, 1)),
        AsStridedCase("diagonal, 1e5", "float32", (100_000,), (101,)),
        AsStridedCase("row batch 100x3 of 5", "float32", (100, 3), (5, 1)),
        AsStridedCase("small span 100x5", "float32", (100, 5), (30, 3)),
        AsStridedCase("contiguous 1e6", "complex128", (MILLION // 4,), (1,)),
    ]
    return gcd + as_strided


def sweep_cases() -> list[Case]:
    """The default list of `bench sweep`. The names of the as_strided cases are those of the documented paths."""
    cases: list[Case] = []
    for dtype in GCD_DTYPES:
        cases += [same(dtype, 2**10, "2^10"), same(dtype, 2**20, "2^20")]
    cases += [same("int32", 2**power, f"2^{power}") for power in (0, 4, 14, 17, 23, 26)]
    cases += [
        same("int8", 2**26, "2^26"),
        same("int32", 2**20, "2^20 below 2^9", bits=9),
        same("int64", 2**20, "2^20 below 2^20", bits=20),
        same("float32", 2**20, "2^20 below 2^22", bits=22),
        GcdCase("2^20 fused out", ("uint8", "bfloat16"), ((2**20,), (2**20,)), bits=7, out="uint8"),
        GcdCase("2^20 fused out", ("int8", "float32"), ((2**20,), (2**20,)), bits=7, out="int8"),
        GcdCase("2^20 fused out", ("int16", "float16"), ((2**20,), (2**20,)), bits=10, out="int16"),
        GcdCase("row 1024x1024", ("int32", "int32"), ((1024, 1024), (1024,)), bits=20),
        GcdCase("column 1024x1024", ("int32", "int32"), ((1024, 1024), (1024, 1)), bits=20),
        GcdCase("outer 1024x1024", ("int16", "int16"), ((1024, 1), (1, 1024))),
    ]
    cases += [AsStridedCase(f"contiguous 2^{power}", "float32", (2**power,), (1,)) for power in (0, 14, 20, 26)]
    cases += [
        AsStridedCase("contiguous small aligned", "float32", (256,), (1,)),
        AsStridedCase("stride-1 rows", "float32", (1000, 1003), (1008, 1)),
        AsStridedCase("stride-1 rows", "int8", (1000, 1003), (1008, 1)),
        AsStridedCase("stride-1 rows", "int64", (1000, 1003), (1008, 1)),
        AsStridedCase("stride-1 rows of 16", "float32", (65_536, 16), (24, 1)),
        AsStridedCase("stride-1 row batch", "float32", (100, 3), (5, 1)),
        AsStridedCase("general stride, transpose", "float32", (1024, 1024), (1, 1024)),
        AsStridedCase("general stride, transpose", "int8", (1024, 1024), (1, 1024)),
        AsStridedCase("general stride, transpose 2^26", "float32", (8192, 8192), (1, 8192)),
        AsStridedCase("general stride, NHWC", "float16", (8, 44, 44, 64), (64 * 44 * 44, 44, 1, 44 * 44)),
        AsStridedCase("general stride, step 2 rows", "float32", (1000, 500), (1024, 2)),
        AsStridedCase("general small span", "float32", (100, 5), (30, 3)),
        AsStridedCase("rank-1 stride 2", "float32", (2**20,), (2,)),
        AsStridedCase("rank-1 stride 2", "int64", (2**20,), (2,)),
        AsStridedCase("rank-1 stride 7", "float16", (2**20,), (7,)),
        AsStridedCase("rank-1 diagonal", "float32", (100_000,), (1001,)),
        AsStridedCase("rank-1 stride span", "float32", (4096,), (3,)),
        AsStridedCase("broadcast inner", "float32", (5000, 200), (1, 0)),
        AsStridedCase("compact suffix, outer broadcast", "float32", (1024, 1024), (0, 1)),
        AsStridedCase("compact span", "float32", (2, 1000), (1, 2)),
        AsStridedCase("compact suffix, windows of 8", "float32", (3000, 8), (1, 1)),
        AsStridedCase("scalar, empty", "float32", (0, 4), (4, 1)),
    ]
    return cases
