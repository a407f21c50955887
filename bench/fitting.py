"""Fits a model's constants to measured times, and says which of them the measurements determine.

Nothing here knows kernels or chips: an observation is a figure and a function that predicts it from constants.

    >>> seen = [Observation("2a + b", 8.0, lambda c: 2 * c["a"] + c["b"]), Observation("b", 2.0, lambda c: c["b"])]
    >>> found = fit(seen, {"a": 1.0, "b": 1.0})
    >>> round(found.values["a"], 6), round(found.values["b"], 6), found.undetermined
    (3.0, 2.0, ())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Constants = Mapping[str, float]

ITERATIONS = 60
STEP = 1e-4  # of a logarithm, for differences: far above rounding, far below what a measurement resolves
CONVERGED = 1e-9  # relative change of the sum of squares that ends the search
EXACT = 1e-8  # so is a mean misfit below this: only a model that measures itself gets there
NULL = 1e-6  # singular values below this part of the largest move no observation
SHARE = 1e-3  # a constant with this much of itself in the directions that move nothing is not determined


@dataclass(frozen=True)
class Observation:
    """One measured figure (positive, any unit) and its prediction from constants, in the same unit."""

    name: str
    measured: float
    predict: Callable[[Constants], float]


@dataclass(frozen=True)
class Fit:
    """The constants found, each one's relative standard error, those that no observation determines, and the misfits.

    An undetermined constant keeps its starting value as far as others allow. `residuals` holds predicted over
    measured, minus 1, by observation.
    """

    values: dict[str, float]
    errors: dict[str, float]
    undetermined: tuple[str, ...]
    residuals: dict[str, float]

    @property
    def worst(self) -> float:
        """The largest relative misfit."""
        return max((abs(value) for value in self.residuals.values()), default=0.0)


def fit(observations: Sequence[Observation], start: Constants, together: Sequence[Sequence[str]] = ()) -> Fit:
    """Constants that predict the observations best: least squares of relative misfits, by Levenberg and Marquardt.

    `together` names groups of constants that keep their ratio, where only their sum can be seen. Constants stay
    positive (their logarithms are what moves). Raises ValueError for a figure or a starting value that is not positive,
    or where there is nothing to fit.
    """
    names = list(start)
    if not observations or not names:
        raise ValueError("nothing to fit: no observations or no constants")
    for seen in observations:
        if not (np.isfinite(seen.measured) and seen.measured > 0):
            raise ValueError(f"observation {seen.name!r} is {seen.measured}, not a positive figure")
    bad = [name for name in names if not start[name] > 0]
    if bad:
        raise ValueError(f"constants start above zero, these do not: {', '.join(bad)}")
    base = np.array([start[name] for name in names])
    expand = _expansion(names, together)
    measured = np.array([seen.measured for seen in observations])

    def misfits(logs: np.ndarray) -> np.ndarray:
        constants = dict(zip(names, (base * np.exp(expand @ logs)).tolist(), strict=True))
        predicted = np.array([seen.predict(constants) for seen in observations], dtype=np.float64)
        return np.asarray(predicted / measured - 1.0)

    def slopes(logs: np.ndarray, here: np.ndarray) -> np.ndarray:
        columns = []
        for index in range(expand.shape[1]):
            moved = logs.copy()
            moved[index] += STEP
            columns.append((misfits(moved) - here) / STEP)
        return np.stack(columns, axis=1)

    logs = np.zeros(expand.shape[1])
    here = misfits(logs)
    damping = 1e-3
    for _ in range(ITERATIONS):
        jacobian = slopes(logs, here)
        before = float(here @ here)
        logs, here, damping = _improve(logs, here, jacobian, misfits, damping)
        after = float(here @ here)
        if before - after <= CONVERGED * before or after <= EXACT**2 * len(here):
            break
    jacobian = slopes(logs, here)
    spread, free = _determined(jacobian, here)
    errors = dict(zip(names, (expand @ spread).tolist(), strict=True))
    undetermined = tuple(name for name, share in zip(names, expand @ free, strict=True) if share > SHARE)
    values = dict(zip(names, (base * np.exp(expand @ logs)).tolist(), strict=True))
    residuals = {seen.name: float(value) for seen, value in zip(observations, here, strict=True)}
    return Fit(values, errors, undetermined, residuals)


def _improve(
    logs: np.ndarray,
    here: np.ndarray,
    jacobian: np.ndarray,
    misfits: Callable[[np.ndarray], np.ndarray],
    damping: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    """One step downhill, with more damping until there is one; where there is none, the same place."""
    square = jacobian.T @ jacobian
    gradient = jacobian.T @ here
    # Damped in proportion to each parameter's own weight, so that those that move little are not held back; the rest
    # term keeps still what moves nothing at all.
    weights = np.diag(square) + 1e-12
    for _ in range(12):
        step = np.linalg.solve(square + damping * np.diag(weights), -gradient)
        moved = logs + np.clip(step, -1.0, 1.0)
        there = misfits(moved)
        if float(there @ there) < float(here @ here):
            return moved, there, max(damping / 10, 1e-12)
        damping *= 10
    return logs, here, damping


def _expansion(names: list[str], together: Sequence[Sequence[str]]) -> np.ndarray:
    """Which parameter (column) moves which constant (row): one each, or one for a group."""
    leader = {name: next((group[0] for group in together if name in group), name) for name in names}
    columns = list(dict.fromkeys(leader.values()))
    return np.array([[float(leader[name] == column) for column in columns] for name in names])


def _determined(jacobian: np.ndarray, here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Relative standard error of each parameter, and its share in the directions that change no prediction."""
    _, sizes, directions = np.linalg.svd(jacobian, full_matrices=True)
    padded = np.zeros(jacobian.shape[1])
    padded[: len(sizes)] = sizes
    free = padded <= NULL * padded.max()
    share = np.sqrt((directions[free] ** 2).sum(axis=0))
    spare = max(1, len(here) - int((~free).sum()))
    variance = float(here @ here) / spare
    spread = ((directions[~free] / padded[~free, None]) ** 2).sum(axis=0) * variance
    return np.sqrt(spread), share
