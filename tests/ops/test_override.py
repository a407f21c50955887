"""torch's own names served by this project inside `override_aten`, and by torch again afterwards."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable

import pytest
import torch

import ops
from ops.override import override_aten

# int8's smallest value tells the two apart: torch 2.13 answers -2, this project numpy's 2.
SMALLEST, SIX = torch.tensor([-128], dtype=torch.int8), torch.tensor([6], dtype=torch.int8)
TORCHS, OURS = -2, 2


def served_by_torch() -> bool:
    (answer,) = torch.gcd(SMALLEST, SIX).tolist()
    assert answer in (TORCHS, OURS)
    return answer == TORCHS


def test_the_probe_tells_torch_and_this_project_apart() -> None:
    assert served_by_torch()
    assert ops.gcd(SMALLEST, SIX).tolist() == [OURS]


def test_one_device_may_be_named_alone() -> None:
    with override_aten("cpu"):
        assert not served_by_torch()
    assert served_by_torch()


def test_gcd_and_its_variants() -> None:
    out = torch.empty(1, dtype=torch.int8)
    changed = SMALLEST.clone()
    with override_aten(devices=("cpu",)):
        assert torch.gcd(SMALLEST, SIX).tolist() == [OURS]
        assert SMALLEST.gcd(SIX).tolist() == [OURS]
        assert torch.gcd(SMALLEST, SIX, out=out) is out
        assert changed.gcd_(SIX) is changed
        # What torch refuses on its own, this project computes.
        assert torch.gcd(torch.tensor([12.5, 18.0]), torch.tensor([8.0, 27.0])).tolist() == [4, 9]
    assert out.tolist() == changed.tolist() == [OURS]
    assert served_by_torch()
    with pytest.raises(NotImplementedError):
        torch.gcd(torch.tensor([12.5]), torch.tensor([8.0]))


def test_as_strided_copy_and_its_out_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(12.0)
    out = torch.empty(3, 4)
    calls = count_launches(monkeypatch)
    torch.as_strided_copy(x, (3, 4), (1, 2))
    assert calls == []
    with override_aten(devices=("cpu",)):
        result = torch.as_strided_copy(x, (3, 4), (1, 2))
        assert len(calls) == 1
        assert torch.as_strided_copy(x, (3, 4), (1, 2), 1, out=out) is out
        assert len(calls) == 2
        x.as_strided((3, 4), (1, 2)).add_(0)  # the view is torch's
        assert len(calls) == 2
    assert torch.equal(result, x.as_strided((3, 4), (1, 2)))
    assert torch.equal(out, x.as_strided((3, 4), (1, 2), 1))
    torch.as_strided_copy(x, (3, 4), (1, 2))
    assert len(calls) == 2


def count_launches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The kernels launched from now on."""
    calls: list[object] = []
    module = sys.modules["ops.as_strided"]  # the name in ops is the function
    launch = module.launch

    def counted(kernel, *args, **kwargs):
        calls.append(kernel)
        return launch(kernel, *args, **kwargs)

    monkeypatch.setattr(module, "launch", counted)
    return calls


def test_derivatives_stay_torchs() -> None:
    x = torch.arange(6.0, requires_grad=True)
    with override_aten(devices=("cpu",)):
        torch.as_strided_copy(x, (3, 4), (1, 1)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 2, 3, 3, 2, 1]


def leave_by_an_exception() -> None:
    with override_aten(devices=("cpu",)):
        raise KeyError("left early")


def leave_by_an_operators_error() -> None:
    with override_aten(devices=("cpu",)):
        torch.gcd(torch.zeros(3, dtype=torch.int8), torch.zeros(4, dtype=torch.int8))


@pytest.mark.parametrize(
    ("leave", "error"), [(leave_by_an_exception, KeyError), (leave_by_an_operators_error, RuntimeError)]
)
def test_torch_serves_again_after_an_exception(leave: Callable[[], None], error: type[Exception]) -> None:
    with pytest.raises(error):
        leave()
    assert served_by_torch()


def test_blocks_nest() -> None:
    with override_aten(devices=("cpu",)):
        with override_aten(devices=("cpu", "cpu")):
            assert not served_by_torch()
        assert not served_by_torch()
    assert served_by_torch()


def test_the_npu_is_the_default_and_leaves_the_cpu_alone() -> None:
    registered = torch._C._dispatch_has_kernel_for_dispatch_key
    names = ("aten::gcd", "aten::gcd.out", "aten::gcd_", "aten::as_strided_copy", "aten::as_strided_copy.out")
    assert not any(registered(name, "PrivateUse1") for name in names)
    with override_aten():
        assert all(registered(name, "PrivateUse1") for name in names)
        assert not registered("aten::as_strided", "PrivateUse1")
        assert served_by_torch()
    assert not any(registered(name, "PrivateUse1") for name in names)


def test_other_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="'cuda'"), override_aten(devices=("cpu", "cuda")):
        pass
    assert served_by_torch()


def test_no_warning_is_shown_for_what_was_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with override_aten(devices=("cpu",)):
            assert not served_by_torch()


def test_other_threads_see_the_override_and_its_end() -> None:
    answers = []

    def ask() -> None:
        answers.append(served_by_torch())

    with override_aten(devices=("cpu",)):
        inside = threading.Thread(target=ask)
        inside.start()
        inside.join(30)
    outside = threading.Thread(target=ask)
    outside.start()
    outside.join(30)
    assert answers == [False, True]
