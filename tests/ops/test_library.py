"""The custom operators under opcheck, torch.compile, torch.export, fake tensors, vmap, modes and subclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import ops

OPERATORS = torch.ops.ascend_ops


def ints(*shape: int, dtype: torch.dtype = torch.int32, seed: int = 3) -> torch.Tensor:
    return torch.randint(0, 120, shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def floats(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 3) -> torch.Tensor:
    return ints(*shape, seed=seed).to(dtype)


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]

GCD_CALLS: dict[str, Callable[[], Call]] = {
    **{
        str(dtype).removeprefix("torch."): lambda dtype=dtype: (  # type: ignore[misc]
            OPERATORS.gcd.default,
            (ints(5, 7, dtype=dtype), ints(5, 7, dtype=dtype, seed=4)),
            {},
        )
        for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
    },
    "float32 with gradients": lambda: (
        OPERATORS.gcd.default,
        (floats(5, 7).requires_grad_(), floats(5, 7, seed=4)),
        {},
    ),
    "bfloat16": lambda: (OPERATORS.gcd.default, (floats(9, dtype=torch.bfloat16), floats(9, dtype=torch.bfloat16)), {}),
    "mixed": lambda: (OPERATORS.gcd.default, (ints(5, 7, dtype=torch.int8), floats(5, 7)), {}),
    "scalar promotion": lambda: (
        OPERATORS.gcd.default,
        (ints(6, dtype=torch.int8), torch.tensor(300)),
        {},
    ),
    "broadcast": lambda: (OPERATORS.gcd.default, (ints(5, 1, 7), ints(4, 1)), {}),
    "transposed": lambda: (OPERATORS.gcd.default, (ints(7, 5).t(), ints(5, 7)), {}),
    "sliced": lambda: (OPERATORS.gcd.default, (ints(5, 14)[:, ::2], ints(10, 7)[::2]), {}),
    "channels last": lambda: (
        OPERATORS.gcd.default,
        (
            ints(2, 3, 4, 5).to(memory_format=torch.channels_last),
            ints(2, 3, 4, 5, seed=4).to(memory_format=torch.channels_last),
        ),
        {},
    ),
    "empty": lambda: (OPERATORS.gcd.default, (ints(0, 7), ints(5, 1, 7)), {}),
    "zero dimensions": lambda: (OPERATORS.gcd.default, (ints(), ints()), {}),
    "out": lambda: (OPERATORS.gcd.out, (ints(5, 7), ints(7)), {"out": ints(5, 7)}),
    "out strided": lambda: (OPERATORS.gcd.out, (ints(5, 7), ints(7)), {"out": ints(7, 5).t()}),
    "in place": lambda: (OPERATORS.gcd_.default, (ints(5, 7), ints(7)), {}),
}

AS_STRIDED_CALLS: dict[str, Callable[[], Call]] = {
    **{
        str(dtype).removeprefix("torch."): lambda dtype=dtype: (  # type: ignore[misc]
            OPERATORS.as_strided_copy.default,
            (floats(6, 8).to(dtype), (4, 5), (8, 1)),
            {},
        )
        for dtype in (torch.bool, torch.int8, torch.bfloat16, torch.int64, torch.complex128)
    },
    "with gradients": lambda: (
        OPERATORS.as_strided_copy.default,
        (floats(6, 8).requires_grad_(), (3, 4), (1, 1), 2),
        {},
    ),
    "transposed with gradients": lambda: (
        OPERATORS.as_strided_copy.default,
        (floats(6, 8).t().requires_grad_(), (5, 4), (2, 3)),
        {},
    ),
    "sliced": lambda: (OPERATORS.as_strided_copy.default, (floats(6, 8)[1:, ::2], (3, 4), (8, 1)), {}),
    "broadcast": lambda: (OPERATORS.as_strided_copy.default, (floats(8), (5, 8), (0, 1)), {}),
    "empty": lambda: (OPERATORS.as_strided_copy.default, (floats(8), (0, 8), (8, 1), 99), {}),
    "zero dimensions": lambda: (OPERATORS.as_strided_copy.default, (floats(8), (), (), 3), {}),
    "out": lambda: (OPERATORS.as_strided_copy.out, (floats(6, 8), (4, 5), (8, 1)), {"out": floats(4, 5)}),
    "out strided": lambda: (OPERATORS.as_strided_copy.out, (floats(6, 8), (4, 5), (8, 1)), {"out": floats(5, 4).t()}),
}


@pytest.mark.parametrize(
    "call",
    [*GCD_CALLS.values(), *AS_STRIDED_CALLS.values()],
    ids=[*(f"gcd {name}" for name in GCD_CALLS), *(f"as_strided {name}" for name in AS_STRIDED_CALLS)],
)
def test_opcheck(call: Callable[[], Call]) -> None:
    operator, args, kwargs = call()
    assert set(torch.library.opcheck(operator, args, kwargs).values()) == {"SUCCESS"}


def test_opcheck_of_a_view_outside_its_input() -> None:
    # Not test_aot_dispatch_dynamic: it clones a view without the storage around it, so that torch's own
    # as_strided_copy is out of bounds there too (https://github.com/pytorch/pytorch/issues/140171).
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    args = (floats(20)[:10].requires_grad_(), (10,), (1,), 5)
    results = torch.library.opcheck(OPERATORS.as_strided_copy.default, args, test_utils=checks)
    assert results == dict.fromkeys(checks, "SUCCESS")


def test_operators_compute_what_the_front_door_computes() -> None:
    a, b = ints(5, 7), ints(7, seed=4)
    expected = torch.gcd(a, b)
    out = torch.empty_like(expected)
    assert torch.equal(OPERATORS.gcd(a, b), expected)
    assert OPERATORS.gcd.out(a, b, out=out) is out
    assert torch.equal(out, expected)
    assert OPERATORS.gcd_(a, b) is a
    assert torch.equal(a, expected)

    x = floats(6, 8)
    expected = torch.as_strided_copy(x, (3, 4), (1, 2), 5)
    out = torch.empty_like(expected)
    assert torch.equal(OPERATORS.as_strided_copy(x, (3, 4), (1, 2), 5), expected)
    assert OPERATORS.as_strided_copy.out(x, (3, 4), (1, 2), 5, out=out) is out
    assert torch.equal(out, expected)


def gcd_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ops.gcd(a + 1, b) * 2


def gcd_into(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    ops.gcd(a, b, out=out)
    return out + 1


def gcd_in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = a.clone()
    ops.gcd_(c, b)
    ops.gcd_(a, b)
    return a + c


def windows(x: torch.Tensor) -> torch.Tensor:
    return ops.as_strided(x * 2, (3, 4), (1, 1)).sum(0) + 1


def windows_into(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    ops.as_strided(x, (3, 4), (1, 1), out=out)
    return out * 2


COMPILED: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "gcd": (gcd_of, lambda: (ints(5, 7), ints(7, seed=4))),
    "gcd of what needs gradients": (gcd_of, lambda: (floats(5, 7).requires_grad_(), floats(7, seed=4))),
    "gcd transposed": (gcd_of, lambda: (ints(7, 5).t(), ints(7, seed=4))),
    "gcd out": (gcd_into, lambda: (ints(5, 7), ints(7, seed=4), ints(5, 7))),
    "gcd_": (gcd_in_place, lambda: (ints(5, 7), ints(7, seed=4))),
    "as_strided": (windows, lambda: (floats(6),)),
    "as_strided with gradients": (windows, lambda: (floats(6).requires_grad_(),)),
    "as_strided out": (windows_into, lambda: (floats(6), floats(3, 4))),
}


def compare_compiled(backend: str, dynamic: bool | None, names: Iterable[str] = COMPILED) -> None:
    for name in names:
        function, make = COMPILED[name]
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend=backend, dynamic=dynamic)
        mine, theirs = make(), make()
        result, expected = compiled(*mine), function(*theirs)
        assert torch.equal(result, expected), name
        assert result.requires_grad == expected.requires_grad, name
        if expected.requires_grad:
            result.sum().backward()
            expected.sum().backward()
            assert torch.equal(mine[0].grad, theirs[0].grad), name
        for argument, argument_expected in zip(mine, theirs, strict=True):
            assert torch.equal(argument, argument_expected), name


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_torch_compile_with_aot_eager(dynamic: bool) -> None:
    compare_compiled("aot_eager", dynamic)


def test_torch_compile_with_inductor() -> None:
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        compare_compiled("inductor", True, ("gcd", "as_strided with gradients"))


def test_compiled_functions_take_new_sizes_without_a_graph_break() -> None:
    compiled = torch.compile(gcd_of, fullgraph=True, backend="aot_eager")
    for rows in (3, 5, 8):
        a, b = ints(rows, 4), ints(4, seed=rows)
        assert torch.equal(compiled(a, b), torch.gcd(a + 1, b) * 2)


def strided_after_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(0)
    return ops.as_strided(x, (3,), (2,))


@pytest.mark.xfail(
    strict=True,
    reason="torch.compile loses the strides of an input it functionalises, for aten and custom operators alike: "
    "https://github.com/pytorch/pytorch/issues/133512",
)
def test_as_strided_after_an_in_place_operator_on_a_strided_input_under_torch_compile() -> None:
    compiled = torch.compile(strided_after_in_place, fullgraph=True, backend="aot_eager")
    expected = strided_after_in_place(torch.arange(10)[1::2])
    assert expected.tolist() == [1, 3, 5]
    assert torch.equal(compiled(torch.arange(10)[1::2]), expected)


def test_export_keeps_the_operators() -> None:
    class Module(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return ops.as_strided(ops.gcd(a, b), (2, 2), (1, 1))

    inputs = (ints(6), ints(6, seed=4))
    program = torch.export.export(Module(), inputs)
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert targets == {"ascend_ops.gcd.default", "ascend_ops.as_strided_copy.default"}
    assert torch.equal(program.module()(*inputs), torch.gcd(*inputs).as_strided((2, 2), (1, 1)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_jit_traces_record_the_operators() -> None:
    a, b, other = ints(6), ints(6, seed=4), ints(6, seed=5)
    traced = torch.jit.trace(lambda a, b: ops.as_strided(ops.gcd(a, b), (2, 2), (1, 1)), (a, b))
    assert torch.equal(traced(other, b), torch.gcd(other, b).as_strided((2, 2), (1, 1)))


def test_make_fx_sees_one_operator() -> None:
    graph = make_fx(lambda a, b: ops.gcd(a, b))(ints(5, 7), ints(7)).graph
    assert [str(node.target) for node in graph.nodes if node.op == "call_function"] == ["ascend_ops.gcd.default"]


def test_fake_tensors_get_fake_results() -> None:
    with FakeTensorMode():
        a, b = torch.empty(5, 1, dtype=torch.int8), torch.empty(7, dtype=torch.uint8)
        result = ops.gcd(a, b)
        assert result.shape == (5, 7)
        assert result.dtype == torch.int16
        view = ops.as_strided(torch.empty(6, dtype=torch.float8_e5m2), (3, 4), (1, 1))
        assert view.shape == (3, 4)
        assert view.is_contiguous()
        with pytest.raises(NotImplementedError, match="'Double'"):
            ops.gcd(torch.empty(3, dtype=torch.float64), a)
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            ops.gcd(torch.empty(3), torch.empty(4))
        with pytest.raises(RuntimeError, match="Negative strides"):
            ops.as_strided(torch.empty(6), (2,), (-1,))
        with pytest.raises(RuntimeError, match="cannot resize"):
            ops.gcd(a, b, out=torch.empty(3, dtype=torch.int16))


def test_meta_tensors_get_meta_results() -> None:
    result = ops.gcd(torch.empty(5, 1, device="meta"), torch.empty(7, device="meta"))
    assert (result.device.type, tuple(result.shape)) == ("meta", (5, 7))
    view = ops.as_strided(torch.empty(6, device="meta"), (3, 4), (100, 1), 50)  # bounds are unknown, as in torch
    assert (view.device.type, tuple(view.shape)) == ("meta", (3, 4))


def test_vmap_of_gcd() -> None:
    a, b = ints(4, 5, 7), ints(4, 7, seed=4)
    expected = torch.vmap(torch.gcd)(a, b)
    assert torch.equal(torch.vmap(ops.gcd)(a, b), expected)
    assert torch.equal(torch.vmap(OPERATORS.gcd)(a, b), expected)
    assert torch.equal(
        torch.vmap(ops.gcd, in_dims=(1, None))(a, b[0]), torch.vmap(torch.gcd, in_dims=(1, None))(a, b[0])
    )
    assert torch.equal(
        torch.vmap(ops.gcd, in_dims=(2, 1), out_dims=1)(a, a[0]), torch.vmap(torch.gcd, (2, 1), 1)(a, a[0])
    )
    nested, nested_expected = torch.vmap(torch.vmap(ops.gcd)), torch.vmap(torch.vmap(torch.gcd))
    assert torch.equal(nested(a, a.flip(0)), nested_expected(a, a.flip(0)))


@pytest.mark.parametrize("offset", [None, 0, 2])
@pytest.mark.parametrize("dim", [0, 1])
def test_vmap_of_as_strided(dim: int, offset: int | None) -> None:
    x = floats(4, 9) if dim == 0 else floats(9, 4)

    def ours(sample: torch.Tensor) -> torch.Tensor:
        return ops.as_strided(sample, (2, 2), (1, 2), offset)

    def torchs(sample: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_copy(sample, (2, 2), (1, 2), offset)

    assert torch.equal(torch.vmap(ours, dim)(x), torch.vmap(torchs, dim)(x))
    assert torch.equal(
        torch.vmap(lambda sample: OPERATORS.as_strided_copy(sample, (2, 2), (1, 2), offset), dim)(x),
        torch.vmap(torchs, dim)(x),
    )


def test_dispatch_modes_see_the_operators() -> None:
    seen = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    a, b = ints(5), ints(5, seed=4)
    with Recorder():
        ops.gcd(a, b)
        ops.as_strided(a, (2,), (1,))
        ops.gcd_(a, b)
    assert seen == ["ascend_ops.gcd.default", "ascend_ops.as_strided_copy.default", "ascend_ops.gcd_.default"]


def test_subclasses_keep_their_type() -> None:
    class Tagged(torch.Tensor):
        pass

    a, b = ints(5).as_subclass(Tagged), ints(5, seed=4)
    assert type(ops.gcd(a, b)) is Tagged
    assert torch.equal(ops.gcd(a, b).as_subclass(torch.Tensor), torch.gcd(ints(5), b))
    assert type(ops.as_strided(a, (2,), (1,))) is Tagged


def test_operators_carry_the_tags_compilers_read() -> None:
    assert torch.Tag.needs_exact_strides in OPERATORS.as_strided_copy.default.tags
    assert torch.Tag.pointwise in OPERATORS.gcd.default.tags
    for operator in (OPERATORS.gcd.default, OPERATORS.gcd_.default, OPERATORS.as_strided_copy.out):
        assert torch.Tag.pt2_compliant_tag in operator.tags
