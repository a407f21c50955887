"""The table of published figures: complete, and honest about the bad rows."""

from __future__ import annotations

import pytest

from bench import published
from tiling.platform import platform


def test_rows_are_selected_right_and_priced() -> None:
    made = published.selections(platform("Ascend910B1"))
    first = next(made)  # the kernel's result is checked before a row is given
    assert first.what == "index_select 375144 rows of 240"
    assert first.low <= first.modelled <= first.high
    assert first.ratio == pytest.approx(first.modelled / 1984)


@pytest.mark.thorough
def test_every_published_row_is_shown() -> None:
    table = published.markdown().splitlines()
    rows = [line for line in table if line.startswith("| ")]
    assert len(rows) == 1 + len(published.VECTOR) + len(published.LOADS) + len(published.SELECTIONS) == 40
    assert "within a factor of two" in table[-1]
