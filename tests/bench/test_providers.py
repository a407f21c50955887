"""The built-in and the roofs do what they say, and the built-in's kernels are named."""

from __future__ import annotations

import pytest
import torch

from bench import inputs, providers
from bench.cases import AsStridedCase, GcdCase, compare_cases

CPU = torch.device("cpu")


def test_builtin_as_strided_always_copies() -> None:
    case = AsStridedCase("x", "float32", (10,), (1,))
    made = inputs.make_inputs(case, CPU)
    result = providers.builtin_call(case, made)()
    assert result.data_ptr() != made.tensors[0].data_ptr()
    assert inputs.wrong_elements(result, inputs.expected(case, made)) == 0


def test_builtin_gcd_refusals_keep_torchs_words() -> None:
    case = GcdCase("x", ("float16", "float16"), ((4,), (4,)))
    with pytest.raises(providers.RefusalError, match="not implemented for 'Half'"):
        providers.builtin_call(case, inputs.make_inputs(case, CPU))


def test_builtin_gcd_into_out() -> None:
    case = GcdCase("x", ("int8", "int16"), ((4,), (4,)), out="int8")
    made = inputs.make_inputs(case, CPU)
    assert providers.builtin_call(case, made)() is made.out


@pytest.mark.parametrize("case", [case for case in compare_cases() if case.elements < 2000], ids=lambda case: case.id)
def test_roofs_run_and_move_the_bytes_of_the_case(case: AsStridedCase | GcdCase) -> None:
    result = providers.roof_call(case, inputs.make_inputs(case, CPU))()
    if isinstance(case, AsStridedCase):
        assert abs(2 * result.numel() * result.itemsize - case.bytes) <= 2 * result.itemsize
    else:
        assert result.shape == case.size


@pytest.mark.parametrize(
    ("kernels", "warned", "name"),
    [
        (["aclnnGcd_GcdAiCore_Gcd"], [], "aclnnGcd"),
        (["AsStrided_0f3c_high_performance_1", "Transpose_1b"], [], "AsStrided + Transpose"),
        (["ViewCopy"], [], "ViewCopy"),
        (["aclnnInplaceCopy_TensorMoveAiCore_TensorMove"], [], "aclnnInplaceCopy"),
        (["Cast_1", "Gcd_2", "Cast_3"], [], "Cast + Gcd"),
        ([], [], "no kernel on the device (CPU fallback?)"),
        ([], ["CAUTION: The kernel [gcd.out] is not supported by NPU currently"], "CPU fallback"),
        (["MemcpyAsync"], ["the operator 'aten::gcd' is not currently supported on the NPU backend"], "CPU fallback"),
    ],
)
def test_what_the_builtin_ran(kernels: list[str], warned: list[str], name: str) -> None:
    assert providers.name_builtin(kernels, warned) == name
