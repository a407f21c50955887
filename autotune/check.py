"""The check that every candidate passes before it is measured: its output against the reference."""

from __future__ import annotations

from functools import cached_property

import torch

from autotune.operators import Scratch

# Whole outputs up to this many elements are compared with the reference; of larger ones both ends and a sample, because
# the exact answers come from plain Python and numpy.
COMPARED = 1 << 18
SAMPLED = 1 << 16

BLANK = 0xA5


def blank(out: torch.Tensor) -> None:
    """Overwrite an output, so that what one candidate leaves out is not hidden by what another one wrote."""
    torch.empty(0, dtype=torch.uint8, device=out.device).set_(out.untyped_storage()).fill_(BLANK)


class Check:
    """Compares the output of one scratch call, again and again, with exact values computed once."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch

    @cached_property
    def index(self) -> torch.Tensor:
        """Flat positions to compare: all of them, or both ends and a fixed sample in between."""
        elements = self.scratch.out.numel()
        if elements <= COMPARED:
            return torch.arange(elements, device="cpu")
        ends = torch.arange(SAMPLED // 4, device="cpu")
        between = torch.randint(elements, (SAMPLED,), generator=torch.Generator().manual_seed(0), device="cpu")
        return torch.cat([ends, between, elements - 1 - ends])

    @cached_property
    def expected(self) -> torch.Tensor:
        """The exact values there."""
        return self.scratch.expected(self.index)

    def wrong(self, complete: bool) -> str | None:
        """How the output differs, or None. Where it is not complete, elements that were not touched do not count."""
        actual = self.scratch.out.detach().cpu().reshape(-1)[self.index]
        differs = ~self.scratch.same(actual, self.expected)
        if not complete:
            # By bytes: a program moves words, and its part may end within an element.
            got, due = (tensor.reshape(-1, 1).view(torch.uint8) for tensor in (actual, self.expected))
            if bool((got == BLANK).all()):
                return "nothing was written"
            differs &= ((got != BLANK) & (got != due)).any(dim=1)
        count = int(differs.sum())
        if not count:
            return None
        first = int(differs.nonzero()[0])
        where, found, exact = int(self.index[first]), actual[first].item(), self.expected[first].item()
        return f"{count} of {len(self.index)} elements differ, the first at {where}: {found} for {exact}"


def wrong_elements(scratch: Scratch, complete: bool) -> str | None:
    """How a scratch call's output differs from the reference, or None, for a single plan."""
    return Check(scratch).wrong(complete)
