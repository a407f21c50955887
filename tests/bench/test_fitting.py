"""The fit on problems whose answer is known by hand."""

from __future__ import annotations

import random

import pytest

from bench.fitting import Constants, Observation, fit

TRUE = {"latency": 264.0, "rate": 128.0, "issue": 48.0}


def transfer(count: int, size: int) -> Observation:
    """So many transfers of a size, each as long as its bytes or its issue, and one latency."""

    def predict(constants: Constants) -> float:
        return constants["latency"] + count * max(constants["issue"], size / constants["rate"])

    return Observation(f"{count} x {size}", predict(TRUE), predict)


SEEN = [transfer(1, 64), transfer(8, 64), transfer(1, 65536), transfer(4, 65536)]


@pytest.mark.parametrize("start", [{"latency": 100.0, "rate": 58.0, "issue": 90.0}, dict(TRUE)])
def test_a_piecewise_model_is_recovered(start: dict[str, float]) -> None:
    found = fit(SEEN, start)
    for name, value in TRUE.items():
        assert found.values[name] == pytest.approx(value, rel=1e-6)
    assert found.undetermined == ()
    assert found.worst < 1e-6


def test_what_nothing_depends_on_is_undetermined_and_keeps_its_value() -> None:
    found = fit(SEEN, {**TRUE, "clock": 1.85})
    assert found.undetermined == ("clock",)
    assert found.values["clock"] == pytest.approx(1.85)


def sum_of(factor: float) -> Observation:
    return Observation(f"{factor}", factor * (10.0 + 14.0), lambda c: factor * (c["head"] + c["tail"]))


def test_a_sum_alone_leaves_its_parts_undetermined() -> None:
    found = fit([sum_of(1.0), sum_of(2.0)], {"head": 5.0, "tail": 5.0})
    assert set(found.undetermined) == {"head", "tail"}
    assert found.values["head"] + found.values["tail"] == pytest.approx(24.0)


def test_a_sum_whose_parts_keep_their_ratio_is_determined() -> None:
    found = fit([sum_of(1.0), sum_of(2.0)], {"head": 5.0, "tail": 7.0}, [("head", "tail")])
    assert found.undetermined == ()
    assert (found.values["head"], found.values["tail"]) == pytest.approx((10.0, 14.0))


def test_noise_shows_in_the_standard_error() -> None:
    generator = random.Random(1)
    noisy = [
        Observation(
            f"{n}", (3.0 * n + 20.0) * generator.uniform(0.99, 1.01), lambda c, n=n: c["slope"] * n + c["start"]
        )
        for n in range(1, 60)
    ]
    found = fit(noisy, {"slope": 1.0, "start": 1.0})
    for name, value in {"slope": 3.0, "start": 20.0}.items():
        error = abs(found.values[name] / value - 1)
        assert error < 0.05
        assert error < 4 * found.errors[name] < 0.1


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_figures_that_are_none_are_refused_by_name(bad: float) -> None:
    with pytest.raises(ValueError, match="'broken' is"):
        fit([Observation("broken", bad, lambda c: c["a"])], {"a": 1.0})


def test_starts_that_are_not_positive_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="above zero, these do not: b"):
        fit([Observation("x", 1.0, lambda c: c["a"])], {"a": 1.0, "b": 0.0})


def test_nothing_to_fit() -> None:
    with pytest.raises(ValueError, match="nothing to fit"):
        fit([], {"a": 1.0})
