"""gcd of one tile for int32, and for int64 tiles that fit in 31 bits."""

from __future__ import annotations

import triton
import triton.language as tl

from .gcd_steps import finish, largest, pairs_to_one, step_f32, step_i32


@triton.jit
def gcd_int32(a, b, af, bf):
    """int32 tiles and their float32 images -> int32 gcd, where 2^31 wraps to -2^31.

    Run-time step counts from the tile's largest magnitude. float32 steps are exact up to 2^23. Above, eight steps with
    exact int32 remainders come first: an unfinished lane is then below 2^31 / P(8) = 2^31 / 408 = 5.3e6 < 2^23. A lane
    that finished in them may hold a gcd above 2^24, which only the int32 side has: hence the select.
    """
    top = largest(tl.abs(af), tl.abs(bf))
    pairs = pairs_to_one(top)
    exact = (top >= 8388608.0).to(tl.int32) * 4
    for _pair in range(exact):
        a, af = step_i32(a, b, af, bf)
        b, bf = step_i32(b, a, bf, af)
    total = a + b  # the gcd, up to sign, where one of them is 0
    product = af * bf
    for _pair in range(pairs - exact):
        af = step_f32(af, bf)
        bf = step_f32(bf, af)
    g = finish(af, bf)
    return tl.where(product == 0.0, tl.maximum(total, total * -1), g.to(tl.int32))
