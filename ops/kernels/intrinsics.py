"""What the kernels need beyond plain `triton.language`, wrapped once.

Chosen at import by what exists: triton-ascend 3.2.0, the only line run here, keeps the device library in
`triton.language.extra.ascend`; newer lines move it to `triton.language.extra.cann` and pass builtins a `_semantic`
object in place of `_builder`.
"""

from __future__ import annotations

import inspect

import triton
import triton.language as tl
from triton.language import core

try:
    from triton.language.extra.cann import libdevice
except ImportError:
    from triton.language.extra.ascend import libdevice

# One vconv float32 -> float32 to the nearest integer. Unlike adding and subtracting 1.5 * 2^23 it is an integer for
# every input: beyond 2^22 the magic number leaves halves.
round_to_integer = libdevice.round

# One vdiv in the operands' own precision; `/` on float16 would go through float32.
divide = tl.math.div_rn

_LOAD_PARAMETERS = inspect.signature(inspect.unwrap(tl.load)).parameters
_TAKES_BUILDER = "_builder" in _LOAD_PARAMETERS

if "care_padding" in _LOAD_PARAMETERS:

    @triton.jit
    def load_unfilled(pointers, mask):
        """Masked load that leaves lanes beyond the mask as they were: no vector fill before it, and no wait for one."""
        return tl.load(pointers, mask=mask, care_padding=False)

else:

    @triton.jit
    def load_unfilled(pointers, mask):
        """Masked load whose lanes beyond the mask are not used; this line fills them or not as it pleases."""
        return tl.load(pointers, mask=mask)


def _saturating(value, dtype, builder):
    dtype = dtype.value if isinstance(dtype, core.constexpr) else dtype
    target = core.block_type(dtype, value.type.get_block_shapes()) if value.type.is_block() else dtype
    result = core.tensor(builder.create_fp_to_si(value.handle, target.to_ir(builder)), target)
    builder.create_annotation(result.handle, "overflow_mode", builder.get_str_attr("saturate"))
    return result


if _TAKES_BUILDER:

    @core.builtin
    def truncate_saturating(value, dtype, _builder=None):
        """Float to signed integer toward zero, out of range to the nearest bound, NaN to 0, in one vconv.

        For float16 -> int16 too, where `tl.cast(..., overflow_mode="saturate")` takes a detour through float32.
        """
        return _saturating(value, dtype, _builder)

else:

    @core.builtin
    def truncate_saturating(value, dtype, _semantic=None):
        """Float to signed integer toward zero, out of range to the nearest bound, NaN to 0, in one vconv."""
        return _saturating(value, dtype, _semantic.builder)
