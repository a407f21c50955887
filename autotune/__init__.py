"""Choosing tiles by measurement: candidates, measures, the store of tunings and the tuner.

>>> result = autotune.tune("gcd", (a, b))        # or a problem; on an NPU by its profiler, else by the cycle model
>>> print(result)                                # every candidate, the heuristic's rank and regret
>>> ops.gcd(a, b)                                # from now on uses result.plan, here and in other processes

>>> with autotune.enabled():                     # or ASCEND_OPS_AUTOTUNE=1: tune on first use
...     ops.as_strided(x, (1000, 64), (80, 1))
"""

from __future__ import annotations

from autotune.candidates import Candidate
from autotune.measure import Figure, Measure
from autotune.result import TuneResult, TuningError
from autotune.tuner import enabled, tune

__all__ = ["Candidate", "Figure", "Measure", "TuneResult", "TuningError", "enabled", "tune"]
