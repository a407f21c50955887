"""Calls taken from public tests and benchmarks of these operators, as cases: those files lie beside the tests.

An installed package does not hold them; then there are none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.cases import GCD_DTYPES, ITEM_BYTES, AsStridedCase, Case, GcdCase

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data"

MAX_ELEMENTS = 1 << 24  # of a result: a reference of more takes longer than it is worth here

# One dtype of each width that a case allows says what a copy of that width does.
WIDTHS = (1, 2, 4, 8, 16)


def published_cases(folder: Path = FOLDER) -> list[Case]:
    """Every call of the files that is meant to succeed and takes plain tensors, once."""
    listed: dict[str, Case] = {}
    for item in _read(folder / "gcd_cases.json"):
        if (case := _gcd(item)) is not None:
            listed[case.id] = case
    for item in _read(folder / "as_strided_cases.json"):
        for found in _as_strided(item):
            listed[found.id] = found
    return [case for case in listed.values() if 0 < case.elements <= MAX_ELEMENTS]


def _read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _gcd(item: dict[str, Any]) -> GcdCase | None:
    dtypes = (item["lhs_dtype"], item["rhs_dtype"])
    if item.get("expect_here", item["expect"]) != "ok" or not set(dtypes) <= set(GCD_DTYPES) or "out_dtype" in item:
        return None
    bits = max(abs(value) for value in item["value_range"]).bit_length() if "value_range" in item else None
    return GcdCase(f"published {item['id']}", dtypes, (tuple(item["lhs_shape"]), tuple(item["rhs_shape"])), bits)


def _as_strided(item: dict[str, Any]) -> list[AsStridedCase]:
    if item["expect"] != "ok" or item["storage_offset"] is None:
        return []
    names = [name for name in item["dtypes"] if name in ITEM_BYTES]
    chosen = [next((name for name in names if ITEM_BYTES[name] == width), None) for width in WIDTHS]
    size, stride = tuple(item["size"]), tuple(item["stride"])
    return [
        AsStridedCase(f"published {item['id']}", name, size, stride, item["storage_offset"]) for name in chosen if name
    ]
