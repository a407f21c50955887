"""The planner of gcd:

documented decisions, legality of every choice, and that a plan addresses what its problem does.
"""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tiling import layout
from tiling.gcd import GcdPlan, GcdProblem, plan
from tiling.gcd_layout import HOST, PAIRS, arrange
from tiling.gcd_tiles import BYTES, COMPUTE, TWO_LOOPS, linear_tiles, tiled_tiles, ub_items
from tiling.platform import platform

CHIP = platform()


def problem(
    shape: tuple[int, ...],
    first: tuple[int, ...],
    second: tuple[int, ...],
    dtype: str = "int32",
    out: str | None = None,
) -> GcdProblem:
    """Dense operands of sizes `first` and `second`, broadcast to `shape`."""
    strides = (layout.broadcast_strides(size, layout.contiguous_strides(size), shape) for size in (first, second))
    return GcdProblem(dtype, dtype, dtype, out or dtype, shape, *strides, layout.contiguous_strides(shape))


@pytest.mark.parametrize("dtype", COMPUTE)
@pytest.mark.parametrize("count", [1, 100, 1024, 5000, 40 * 1024, 1_000_000, 1 << 28])
def test_documented_words_cores_and_borders(dtype: str, count: int) -> None:
    made = plan(GcdProblem.dense((count,), dtype), CHIP)
    words = math.ceil(count * BYTES[dtype] / 4)
    assert made.kernel == "gcd_linear"
    assert made.grid <= min(CHIP.vector_cores, math.ceil(words / 256), made.tiles)
    assert made.tiles == math.ceil(count / made.cols)
    assert made.cols * BYTES[dtype] % 64 == 0  # chunks end on multiples of 16 words
    assert f"{words} words" in made.reason


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910B1", "Ascend910_9391"])
def test_all_cores_work_on_large_calls(chip: str) -> None:
    here = platform(chip)
    assert plan(GcdProblem.dense((1 << 24,), "int32"), here).grid == here.vector_cores


@pytest.mark.parametrize("dtype", COMPUTE)
def test_large_dense_calls_get_the_largest_tile(dtype: str) -> None:
    made = plan(GcdProblem.dense((1 << 24,), dtype), CHIP)
    assert (made.cols, made.parts) == (linear_tiles(dtype)[0].cols, linear_tiles(dtype)[0].parts)
    assert made.multibuffer


@pytest.mark.parametrize("dtype", COMPUTE)
def test_every_tile_is_legal(dtype: str) -> None:
    for tile in linear_tiles(dtype):
        assert tile.rows == 1
        assert tile.cols % tile.parts == 0
        assert tile.cols % 64 == 0
        assert tile.parts == 1 or dtype in TWO_LOOPS
    for first, second in PAIRS:
        for tile in tiled_tiles(dtype, (first, second, "matrix")):
            assert tile.rows >= 1
            assert tile.rows % tile.parts == 0
            assert tile.cols * BYTES[dtype] % 32 == 0  # rows of a tile start at DMA blocks


@pytest.mark.parametrize(
    ("shape", "first", "second", "kinds", "kernel"),
    [
        ((30, 70), (30, 70), (30, 70), ("line", "line", "line"), "gcd_linear"),
        ((30, 70), (30, 70), (), ("line", "scalar", "line"), "gcd_linear"),
        ((30, 70), (1, 1), (30, 70), ("line", "scalar", "line"), "gcd_linear"),
        ((30, 70), (30, 70), (70,), ("matrix", "row", "matrix"), "gcd_tiled"),
        ((30, 70), (70,), (30, 70), ("matrix", "row", "matrix"), "gcd_tiled"),
        ((30, 70), (30, 70), (30, 1), ("matrix", "column", "matrix"), "gcd_tiled"),
        ((30, 70), (30, 1), (70,), ("row", "column", "matrix"), "gcd_tiled"),
        ((5, 30, 70), (5, 30, 70), (5, 1, 70), ("matrix", "row", "matrix"), "gcd_tiled"),
        ((5, 30, 70), (5, 1, 70), (1, 30, 1), ("row", "column", "matrix"), "gcd_tiled"),
        ((1, 1, 1), (1, 1, 1), (), ("line", "line", "line"), "gcd_linear"),
    ],
)
def test_kinds(
    shape: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...], kinds: tuple[str, ...], kernel: str
) -> None:
    made = plan(problem(shape, first, second), CHIP)
    assert made.arrangement.kinds == kinds
    assert made.kernel == kernel
    assert not made.copied


def test_a_small_inner_broadcast_takes_rows_from_another_dim() -> None:
    """(4000, 3, 64) with (4000, 1, 64): three rows would leave most of a tile empty, 4000 do not."""
    made = plan(problem((4000, 3, 64), (4000, 3, 64), (4000, 1, 64)), CHIP)
    assert made.arrangement.rows[0] == 4000
    assert [dim[0] for dim in made.arrangement.outer] == [3]


def test_strided_operands_are_copied_and_say_so() -> None:
    made = plan(GcdProblem("int32", "int32", "int32", "int32", (8, 9), (1, 8), (9, 1), (9, 1)), CHIP)
    assert made.copied == ("self",)
    assert made.arrangement.copies == (("self", ((8, 1), (9, 8))),)
    assert "copied   self made dense by as_strided" in repr(made)


def test_a_scattered_out() -> None:
    made = plan(GcdProblem("int32", "int32", "int32", "int32", (8, 9), (9, 1), (9, 1), (18, 2)), CHIP)
    assert made.arrangement.out == "scattered"
    assert dict(made.constexprs)["OUT"] == "scattered"


def test_more_dims_than_the_kernel_takes() -> None:
    shape = (2,) * 10
    alternating = tuple(2 if at % 2 else 1 for at in range(10))
    made = plan(problem(shape, shape, alternating), CHIP)
    assert len(made.arrangement.outer) == HOST
    assert len(made.arrangement.host_dims) == 2
    assert "4 launches" in repr(made)


def test_a_temporary_for_other_dtypes_of_out() -> None:
    made = plan(problem((8, 9), (8, 9), (8, 9), out="complex64"), CHIP)
    assert made.temporary == "int32"
    assert "complex64 through one int32 temporary" in repr(made)
    assert plan(problem((8, 9), (8, 9), (8, 9), out="uint16"), CHIP).temporary is None


def test_repr_names_what_was_chosen() -> None:
    text = repr(plan(GcdProblem.dense((1000, 1000), "int16"), CHIP))
    for word in (
        "gcd_linear",
        "tile",
        "cores",
        "double buffering",
        "UB",
        "self x2",
        "reason",
        "int16,int16->int16@int16",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"cols": 100}, "16 words"),
        ({"cols": 0}, "is no tile"),
        ({"rows": 2}, "tiles of one row"),
        ({"cols": 1 << 20}, "bytes of UB"),
        ({"cols": 1024, "parts": 3}, "never split|do not divide"),
        ({"cores": 41}, "vector cores"),
        ({"cores": 0}, "vector cores"),
        ({"speed": 3}, "no decision named speed"),
        ({"row_dim": 1}, "there are 1 dims"),
    ],
)
def test_impossible_decisions_say_why(decisions: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(GcdProblem.dense((1 << 20,), "int32"), CHIP, **decisions)


def test_an_empty_problem_needs_no_plan() -> None:
    with pytest.raises(ValueError, match="needs no plan"):
        plan(GcdProblem.dense((0, 3), "int32"), CHIP)


def test_ub_items_name_every_buffer() -> None:
    items = ub_items("int32", "int32", "int8", "float16", ("line", "line", "line"), linear_tiles("int32")[1], True)
    assert [name for name, _ in items] == ["self x2", "other x2", "other cast", "out x2", "out cast", "temporaries"]
    single = ub_items("int32", "int32", "int32", "int32", ("matrix", "row", "matrix"), linear_tiles("int32")[1], False)
    assert dict(single)["self x1"] == linear_tiles("int32")[1].cols * 4


def test_keys_tell_problems_apart_and_join_equal_ones() -> None:
    dense = GcdProblem.dense((4, 25), "int32")
    assert dense.key() == GcdProblem.dense((100,), "int32").key()
    assert dense.key() != GcdProblem.dense((101,), "int32").key()
    assert dense.pattern() == GcdProblem.dense((101,), "int32").pattern()
    assert dense.pattern() != GcdProblem.dense((100,), "int16").pattern()
    assert dense.pattern() != problem((4, 25), (4, 25), (25,)).pattern()


def test_json() -> None:
    made = problem((30, 70), (30, 1), (70,))
    assert GcdProblem.from_json(json.loads(json.dumps(made.to_json()))) == made


@st.composite
def problems(draw: st.DrawFn) -> GcdProblem:
    rank = draw(st.integers(0, 6))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(rank))

    def strides(repeats: bool) -> tuple[int, ...]:
        order = draw(st.permutations(range(rank)))
        gaps = [draw(st.sampled_from((1, 1, 1, 2))) for _ in range(rank)]
        found, step = [0] * rank, 1
        for dim in order:
            if repeats and draw(st.booleans()):
                continue
            step *= gaps[dim]
            found[dim] = step
            step *= shape[dim]
        return tuple(found)

    dtypes = [draw(st.sampled_from(COMPUTE)) for _ in range(2)]
    compute = draw(st.sampled_from(COMPUTE))
    return GcdProblem(*dtypes, compute, compute, shape, strides(True), strides(True), strides(False))


def visited(made: GcdPlan) -> dict[int, tuple[int, int]]:
    """For every out offset, the offsets that a plan's kernel reads in both operands, or in their copies."""
    a = made.arrangement
    dims = (*a.host_dims, *a.outer, a.rows, a.cols)
    found = {}
    for index in itertools.product(*(range(dim[0]) for dim in dims)):
        first, second, out = (sum(i * dim[at] for i, dim in zip(index, dims, strict=True)) for at in (1, 2, 3))
        found[out] = (second, first) if made.swapped else (first, second)
    return found


@seed(7)
@settings(max_examples=300, deadline=None, print_blob=True)
@given(case=problems())
def test_a_plan_addresses_what_its_problem_does(case: GcdProblem) -> None:
    made = plan(case, CHIP)
    expected = {}
    for index in itertools.product(*(range(n) for n in case.shape)):
        offsets = [
            sum(i * s for i, s in zip(index, stride, strict=True)) for stride in (case.self_stride, case.other_stride)
        ]
        out = sum(i * s for i, s in zip(index, case.out_stride, strict=True))
        expected[out] = offsets
    found = visited(made)
    assert found.keys() == expected.keys()
    for operand, name in enumerate(("self", "other")):
        copy = dict(made.arrangement.copies).get(name)
        places = None
        if copy is not None:
            spread = itertools.product(*(range(size) for size, _ in copy))
            places = [sum(i * dim[1] for i, dim in zip(index, copy, strict=True)) for index in spread]
        for out, offsets in found.items():
            at = offsets[operand] if places is None else places[offsets[operand]]
            assert at == expected[out][operand]


@seed(8)
@settings(max_examples=150, deadline=None, print_blob=True)
@given(case=problems())
def test_decisions_make_the_same_plan_again(case: GcdProblem) -> None:
    made = plan(case, CHIP)
    assert plan(case, CHIP, **made.decisions()) == made
    assert json.loads(json.dumps(made.decisions())) == made.decisions()
    assert (made.arrangement.self, made.arrangement.other) in (*PAIRS, ("line", "line"), ("line", "scalar"))
    assert sum(size for _, size in made.ub) <= CHIP.ub_bytes


def test_costs_change_the_decision() -> None:
    """Rows of 90 elements: three short rows of a tile are cheap until a burst costs as much as their arithmetic."""
    case = problem((2000, 90), (2000, 90), (90,))
    burst = CHIP.costs["burst"]
    dear = CHIP.with_costs({"burst": type(burst)(2000, burst.unit, "test", burst.status, 1, 4000)}, "test")
    assert (plan(case, CHIP).cols, plan(case, dear).cols) == (32, 256)


def test_arrangements_never_need_more_copies_than_there_are() -> None:
    for case in (((5, 0, 0, 4), (4, 0, 0, 1)), ((5, 4, 4, 4), (4, 1, 1, 1)), ((5, 1, 4, 4), (4, 5, 1, 1))):
        assert len(arrange(case)[0].copies) <= 2
