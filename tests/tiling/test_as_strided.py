"""Plans of AsStrided: legal, repeatable from their decisions, within the compiled set, and decided by costs."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiling.as_strided import AsStridedProblem, TilingKey, choices, plan
from tiling.as_strided_tiles import KERNELS, count
from tiling.as_strided_views import arrange, pieces
from tiling.platform import GUESS, UB_BYTES, Cost, platform

CHIP = platform()

problems = st.builds(
    lambda dims, offset, itemsize, alignment: AsStridedProblem(
        tuple(size for size, _ in dims), tuple(step for _, step in dims), offset, itemsize, alignment
    ),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 1, 1, 2, 3, 4, 7, 60, 1000])), max_size=10),
    st.integers(0, 40),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([1, 2, 4, 8, 16]),
).filter(lambda problem: problem.elements <= 10**9)


@given(problems)
@settings(max_examples=60, deadline=None)
def test_every_choice_is_compiled_fits_and_comes_back_from_its_decisions(problem):
    found = choices(problem, CHIP)
    assert found, problem
    for each in found[:3]:
        entry = KERNELS[each.kernel]
        assert tuple(value for _, value in each.constexprs) in entry.legal(each.width)
        assert sum(size for _, size in each.ub) <= UB_BYTES
        assert 1 <= each.grid <= CHIP.vector_cores
        assert plan(problem, CHIP, **each.decisions()) == each
        assert json.loads(json.dumps(each.decisions())) == each.decisions()


@given(problems)
@settings(max_examples=100, deadline=None)
def test_a_problem_survives_json_and_its_key_names_it(problem):
    assert AsStridedProblem.from_json(json.loads(json.dumps(problem.to_json()))) == problem
    other = dataclasses.replace(problem, offset=problem.offset + 1)
    assert other.key() != problem.key()
    assert other.pattern() == problem.pattern()
    assert problem.elements == math.prod(problem.size)


# What serves the shapes of the documented paths, for 4-byte elements.
SERVED = [
    ((65536,), (1,), "rows"),
    ((1000, 1000), (1003, 1), "rows"),
    ((1000, 4, 64), (1000, 100, 1), "slabs"),
    ((1000, 1000), (0, 1), "repeat"),
    ((2, 500, 2, 700), (5000, 0, 1000, 1), "repeat"),
    ((1000, 1000), (1, 0), "broadcast"),
    ((256, 256), (1, 256), "transpose"),
    ((8, 44, 44, 64), (123904, 44, 1, 1936), "transpose"),
    ((4000,), (3,), "gather"),
    ((3000, 8), (1, 1), "gather"),
    ((10, 20, 5), (1, 10, 200), "transpose"),
    ((100_000,), (101,), "bursts"),
    ((1_000_000,), (2,), "split"),
]


@pytest.mark.parametrize(("size", "stride", "kernel"), SERVED)
def test_the_expected_kernel_serves(size, stride, kernel):
    assert plan(AsStridedProblem(size, stride, 0, 4), CHIP).family == kernel


@pytest.mark.parametrize(
    ("itemsize", "stride", "kernel"),
    [(1, 4, "split"), (2, 4, "split"), (4, 4, "gather"), (8, 2, "gather"), (8, 4, "gather"), (1, 2, "split")],
)
def test_powers_of_two_are_split_where_the_vector_unit_can(itemsize, stride, kernel):
    assert plan(AsStridedProblem((10**6,), (stride,), 0, itemsize), CHIP).family == kernel


def test_costs_decide():
    problem = AsStridedProblem((100_000,), (60,), 0, 4)
    assert plan(problem, CHIP).family == "bursts"
    dear = CHIP.with_costs({"burst": Cost(200, "cycles/burst", "test", GUESS, 1, 300)}, "dear bursts")
    assert plan(problem, dear).family == "gather"
    rows = AsStridedProblem((4096, 40), (64, 1), 0, 4)
    assert plan(rows, CHIP).family == "rows"
    cheap = dear.with_costs({"gather_lane": Cost(0.05, "cycles/lane", "test", GUESS, 0.01, 1)}, "cheap lanes")
    assert plan(rows, cheap).family == "gather"


def test_cores_follow_the_chip():
    problem = AsStridedProblem((10**6,), (1,), 0, 4)
    assert plan(problem, platform("Ascend910B3")).cores == 40
    assert plan(problem, platform("Ascend910B1")).cores == 48
    assert plan(problem, CHIP, cores=7).cores == 7
    assert plan(AsStridedProblem((100,), (1,), 0, 4), CHIP).cores == 1


def test_repr_tells_what_and_why():
    text = repr(plan(AsStridedProblem((100_000,), (7,), 0, 4), CHIP))
    assert text.startswith("RANK1_STRIDE -> gather, span 8192, block ")
    for part in (" 40 cores, ", "UB ", "2 spans 65536", "because modelled ", "bound by "):
        assert part in text


def test_dimensions_beyond_the_kernel_are_left_to_the_host():
    # Twelve dimensions that do not merge: strides grow by 3, sizes are 2.
    problem = AsStridedProblem((2,) * 12, tuple(3**power for power in reversed(range(1, 13))), 0, 4)
    for each in choices(problem, CHIP):
        launches = math.prod(size for size, _, _ in each.host)
        assert launches <= 2**5
        outputs = problem.elements * problem.itemsize
        for size, _, written in each.host:
            outputs //= size
            assert written == outputs


@pytest.mark.parametrize(
    ("decisions", "reason"),
    [
        ({"kernel": "warp"}, "no as_strided kernel named 'warp'"),
        ({"kernel": "broadcast"}, "no as_strided kernel serves"),
        ({"tile": "3x5"}, "no as_strided kernel serves"),
        ({"cores": 0}, "cores 0: expected 1 to 65535"),
        ({"cores": 70_000}, "cores 70000"),
        ({"multibuffer": False}, "multibuffer must be True"),
        ({"warps": 4}, "unknown decision warps"),
    ],
)
def test_refused_decisions_say_why(decisions, reason):
    with pytest.raises(ValueError, match=reason):
        plan(AsStridedProblem((1000, 1000), (1003, 1), 0, 4), CHIP, **decisions)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (((2, 3), (1,), 0, 4), "size has 2 dimensions and stride has 1"),
        (((2,), (1,), 0, 3), "elements of 3 bytes"),
        (((2,), (-1,), 0, 4), "must not be negative"),
        (((2,), (1,), -1, 4), "must not be negative"),
    ],
)
def test_refused_problems_say_why(fields, reason):
    with pytest.raises(ValueError, match=reason):
        AsStridedProblem(*fields)


def test_an_empty_problem_has_no_plan():
    with pytest.raises(ValueError, match="empty"):
        plan(AsStridedProblem((0, 3), (3, 1), 0, 4), CHIP)


def test_unaligned_bytes_are_not_widened():
    size, stride = (100, 64), (128, 1)
    assert plan(AsStridedProblem(size, stride, 0, 1, 16), CHIP).width == 4
    assert plan(AsStridedProblem(size, stride, 0, 1, 2), CHIP).width == 1


def test_size_one_dimensions_do_not_matter():
    # vllm#32417: size-1 dimensions carry arbitrary strides even after contiguous().
    padded = plan(AsStridedProblem((1, 32, 128), (4608, 128, 1), 0, 4), CHIP)
    plain = plan(AsStridedProblem((4096,), (1,), 0, 4), CHIP)
    assert (padded.kernel, padded.args, padded.constexprs) == (plain.kernel, plain.args, plain.constexprs)


@given(st.integers(1, 10**6), st.integers(1, 9000), st.integers(1, 50), st.integers(1, 48), st.sampled_from([1, 8, 32]))
@settings(max_examples=300, deadline=None)
def test_pieces_cover_exactly(extent, capacity, others, cores, align):
    step, number = pieces(extent, capacity, others, cores, align)
    assert 1 <= step <= min(capacity, extent)
    assert (number - 1) * step < extent <= number * step


def test_outer_arguments():
    assert arrange(()).args == (1, 0, 0)
    assert arrange(((5, 60),)).args == (5, 60, 0)
    assert arrange(((5, 60), (3, 4))).args == (3, 4, 60)
    deep = arrange(((5, 60), (3, 4), (2, 9)))
    assert (deep.deep, deep.args) == (True, (2, 9, 3, 4, 5, 60, 1, 0, 1, 0, 1, 0, 0))
    long = arrange([(2, 10**power) for power in reversed(range(9))])
    assert long.host == ((2, 10**8), (2, 10**7))
    assert long.count == 2**7


def test_the_compiled_set_stays_small():
    assert count() <= 165


def test_paths_have_the_documented_names():
    assert {key.name for key in TilingKey} == {
        "CONTIGUOUS",
        "CONTIGUOUS_SMALL_ALIGNED",
        "STRIDE_1",
        "STRIDE1_ROW_BATCH",
        "GENERAL_STRIDE",
        "GENERAL_SMALL_SPAN",
        "RANK1_STRIDE",
        "RANK1_STRIDE_SPAN",
        "BROADCAST",
        "COMPACT_SPAN",
        "COMPACT_SUFFIX",
        "SCALAR",
    }
