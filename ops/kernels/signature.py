"""How this project's kernels are declared: compiled once for every value of their arguments.

Triton compiles a kernel anew when an integer argument is 1 or a multiple of 16, and when a pointer is 16-byte aligned.
Sizes and strides take all of these values, so nothing here is specialised: integers carry their width as an annotation
(without one the width would follow the value) and only the constexprs and the pointers' types select a compiled kernel.
"""

import inspect
from collections.abc import Callable
from typing import Any

import triton


def kernel(function: Callable[..., Any]) -> Any:
    """`triton.jit` that specialises neither on integers nor on the alignment of pointers."""
    parameters = inspect.signature(function).parameters.values()
    pointers = [p.name for p in parameters if p.annotation is inspect.Parameter.empty]
    integers = [p.name for p in parameters if p.name not in pointers and "constexpr" not in str(p.annotation)]
    return triton.jit(function, do_not_specialize=integers, do_not_specialize_on_alignment=pointers)
