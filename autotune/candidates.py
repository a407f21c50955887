"""Candidates: plans worth trying for a problem, and what became of each.

They are values of the operator's own plan dataclass. Those that the planner refuses (unified buffer, sizes) and those
that the compiler refuses or silently changes are kept with the reason, so that nobody wonders where they went.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from autotune.measure import Figure
from autotune.operators import Decisions, Operator
from ops.variants import Variant
from tiling.platform import Platform
from tiling.versions import source_hash

# The compiler's memory planner has been seen not to finish on tiles that nearly fit; a candidate is not worth more.
COMPILE_SECONDS = 120.0


@dataclass(frozen=True)
class Candidate:
    """One plan that was considered: `figure` if it was measured, else `reason` for why it was not."""

    decisions: Decisions
    plan: Any = None
    figure: Figure | None = None
    reason: str | None = None
    heuristic: bool = False

    @property
    def name(self) -> str:
        """The decisions in one canonical line: what candidates are told apart and ordered by."""
        return json.dumps(dict(self.decisions), sort_keys=True)

    @property
    def alive(self) -> bool:
        """Whether nothing has ruled it out so far."""
        return self.plan is not None and self.reason is None


@dataclass
class Failures:
    """Compilations known to fail, with the reason: those of this process and those the store holds."""

    known: dict[str, str]
    fresh: dict[str, str] = field(default_factory=dict)

    def note(self, key: str, reason: str) -> None:
        self.known[key] = self.fresh[key] = reason


def enumerate_candidates(
    operator: Operator, problem: Any, platform: Platform, wanted: Iterable[Any] | None = None
) -> list[Candidate]:
    """The heuristic's plan and the others to try, each once, in an order that does not depend on that of `wanted`.

    `wanted`: plans or mappings of decisions; by default what the operator proposes.
    """
    heuristic = operator.plan(problem, platform)
    proposed = operator.choices(heuristic, platform) if wanted is None else wanted
    made: dict[str, Candidate] = {}
    for item in proposed:
        candidate = _candidate(operator, problem, platform, item)
        made.setdefault(candidate.name, candidate)
    first = Candidate(heuristic.decisions(), heuristic, heuristic=True)
    made[first.name] = first
    return sorted(made.values(), key=lambda candidate: candidate.name)


def _candidate(operator: Operator, problem: Any, platform: Platform, item: Any) -> Candidate:
    decisions = item if isinstance(item, Mapping) else item.decisions()
    try:
        plan = operator.plan(problem, platform, **decisions)
    except ValueError as error:
        return Candidate(dict(decisions), reason=f"not legal: {error}")
    return Candidate(plan.decisions(), plan)


def gate(
    candidates: Sequence[Candidate], operator: Operator, platform: Platform, failures: Failures
) -> list[Candidate]:
    """Compile what is still alive; rule out what the compiler refuses or silently compiles without double buffering.

    Candidates that differ only in sizes share one compilation. Without the compiler's tools on this machine, nothing is
    ruled out here: the launch itself will say.
    """
    variants = [operator.variant(candidate.plan) if candidate.alive else None for candidate in candidates]
    keys = [_key(variant, platform.chip) if variant else "" for variant in variants]
    todo = {
        key: variant
        for key, variant in zip(keys, variants, strict=True)
        if variant is not None and key not in failures.known
    }
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        reasons = dict(
            zip(todo, pool.map(lambda variant: _refusal(variant, platform.chip), todo.values()), strict=True)
        )
    for key, reason in reasons.items():
        if reason is not None:
            failures.note(key, reason)
    return [
        replace(candidate, reason=failures.known[key]) if candidate.alive and key in failures.known else candidate
        for candidate, key in zip(candidates, keys, strict=True)
    ]


def _key(variant: Variant, chip: str) -> str:
    """Names a compilation in the store: another source, chip, type or option is another compilation."""
    parts = [variant.op, chip, source_hash(variant.op), variant.kernel, f"multibuffer={variant.multibuffer}"]
    parts += [f"{name}:{kind}" for name, kind in variant.signature]
    parts += [f"{name}={value}" for name, value in variant.constexprs]
    return "|".join(parts)


def _refusal(variant: Variant, chip: str) -> str | None:
    """Why the compiler's result cannot be used; None when it can, or when there is no compiler here."""
    from triton.compiler.errors import CompilationError

    from emulator import toolchain
    from emulator.errors import MissingToolError, ToolError

    multibuffer = variant.multibuffer
    try:
        linalg = toolchain.lower_to_linalg(
            variant.function, dict(variant.signature), dict(variant.constexprs), {"multibuffer": multibuffer}
        )
        module = toolchain.compile_hivm(linalg, chip=chip, multibuffer=multibuffer, timeout=COMPILE_SECONDS)
    except MissingToolError:
        return None
    except (ToolError, CompilationError) as error:
        return f"not compiled: {error}"
    if module.overflow:
        return f"not compiled: the unified buffer overflows ({module.ub_bytes:,} bytes needed)"
    if module.multibuffer_dropped:
        return "compiled without the double buffering it asked for: the unified buffer is too small for it"
    return None
