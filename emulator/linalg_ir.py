"""From triton-ascend's Linalg IR to the LLVM dialect: text steps between three runs of bishengir-opt.

The order matters. Elementwise operations are fused first, while gathers are still opaque calls; buffers are hoisted
out of loops before they become stack slots (a stack slot inside a loop grows the stack at every turn); plain loops, not
affine ones, are what LLVM's vectoriser gets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from emulator import assertions, casts, forwarding, fusion, guards, special, spreading
from emulator.errors import ToolError, UnsupportedOperationError
from emulator.toolchain import TO_LLVM, save_failed

_Optimise = Callable[[str, list[str]], str]

FUSE = (
    "--convert-elementwise-to-linalg",
    "--linalg-generalize-named-ops",
    "--linalg-fuse-elementwise-ops",
    "--canonicalize",
    "--cse",
)
BUFFERISE = (
    "--canonicalize",
    "--eliminate-empty-tensors",
    "--empty-tensor-to-alloc-tensor",
    "--one-shot-bufferize=allow-return-allocs-from-loops=true",
)
# Tiles up to this size live on the stack, where LLVM knows that they alias nothing; larger ones on the heap.
STACK_LIMIT_BYTES = 262_144
LOWER = (
    "--buffer-deallocation-pipeline",
    "--convert-bufferization-to-memref",
    "--convert-linalg-to-loops",
    "--canonicalize",
    "--expand-strided-metadata",
    "--lower-affine",
    # bf16 has no arithmetic on hosts: compute in f32 and round once per operation, as the device does.
    "--arith-emulate-unsupported-floats=source-types=bf16 target-type=f32",
    *TO_LLVM,
    "--canonicalize",
    "--cse",
)


@dataclass(frozen=True)
class Lowered:
    """A kernel in the LLVM dialect: its text, its name and the types of its run-time arguments, workspaces left out."""

    text: str
    name: str
    types: tuple[str, ...]
    guarded: tuple[int, ...]  # arguments whose storage bounds follow the grid's arguments, see guards.Guarded
    assertions: tuple[str, ...]  # messages; a kernel that has any takes the fault slot as its last argument
    atomic: bool


def lower(text: str, kernel: str, optimise: _Optimise, stack_limit: int = STACK_LIMIT_BYTES) -> Lowered:
    """Lower one kernel. `optimise(text, passes)` runs bishengir-opt; tiles above `stack_limit` go to the heap."""
    name, types = signature(text)
    # A kernel may be called exp or memcpy: under its own name it would stand in for the C function.
    own = f"emulated_{name}"
    safe = guards.apply(clean(text.replace(f"func.func @{name}(", f"func.func @{own}(", 1)))
    fused = _fuse(safe.text, optimise)
    try:
        asserted = assertions.expand(fused)
        expanded = special.expand(asserted.text)
    except ValueError as error:
        raise UnsupportedOperationError(kernel, str(error), "linalg", save_failed(kernel, fused)) from None
    refuse_unknown(expanded, kernel)
    buffers = optimise(fusion.apply(expanded), list(BUFFERISE))
    direct = spreading.apply(forwarding.apply(buffers))
    lowered = optimise(
        align(copies_to_loops(direct)),
        [
            "--buffer-loop-hoisting",
            f"--promote-buffers-to-stack=max-alloc-size-in-bytes={stack_limit}",
            *LOWER,
        ],
    )
    return Lowered(lowered, own, types, safe.arguments, asserted.messages, "GenericAtomic" in text or "atomic" in text)


def _fuse(text: str, optimise: _Optimise) -> str:
    """Fuse elementwise operations. MLIR's pass can crash on casts and bit operations between reshapes of a row of one;
    without dimensions of size 1 it does not, but that form cannot express everything, so it is the second choice."""
    try:
        return optimise(text, list(FUSE))
    except ToolError:
        at = FUSE.index("--linalg-fuse-elementwise-ops")
        return optimise(text, [*FUSE[:at], "--linalg-fold-unit-extent-dims", *FUSE[at:]])


def signature(text: str) -> tuple[str, tuple[str, ...]]:
    """Name and argument types of the kernel, without the two workspaces in front and the six grid arguments behind."""
    found = re.search(r"func\.func @(\w+)\((.*?)\) attributes \{[^\n]*\} \{", text, re.DOTALL)
    if found is None:
        raise ToolError("kernel", "signature", "no kernel function in the Linalg IR", save_failed("kernel", text))
    plain = re.sub(r"\{[^}]*\}", "", found.group(2))
    types = [argument.split(":", 1)[1].strip() for argument in re.split(r",\s*(?=%arg)", plain)]
    return found.group(1), tuple(types[2:-6])


def clean(text: str) -> str:
    """Write out casts, drop the marks, and make rounding, half away from zero, the operation that LLVM vectorises."""
    text = re.sub(
        r"linalg\.map \{ func\.call \{callee = @__hmf_roundf\} \} ins\((%[\w#]+) : (tensor<[^>]*>)\) outs\([^)]*\)",
        r"math.round \1 : \2",
        text,
    )
    text = re.sub(r"(?:func\.)?call @__hmf_roundf\((%[\w#]+)\) : \(f32\) -> f32", r"math.round \1 : f32", text)
    return casts.apply(text)


def refuse_unknown(text: str, kernel: str) -> None:
    """Raise for operations of the device's own dialects and for helper functions without a body here."""
    found = re.search(r"= \"?((?:hivm|hfusion)\.[\w.]+)|^ *\"?((?:hivm|hfusion)\.[\w.]+)", text, re.MULTILINE)
    if found:
        raise UnsupportedOperationError(kernel, found.group(1) or found.group(2), "linalg", save_failed(kernel, text))
    helper = re.search(r"call @(triton_\w+)", text)
    if helper:
        raise UnsupportedOperationError(kernel, helper.group(1), "linalg", save_failed(kernel, text))


def align(text: str) -> str:
    """Cache-line alignment for every tile."""
    return text.replace("memref.alloc() :", "memref.alloc() {alignment = 64 : i64} :")


def copies_to_loops(text: str) -> str:
    """A memref.copy of strided views would call a run-time library that is not there."""
    return re.sub(
        r"memref\.copy (%[\w#]+), (%[\w#]+) : (memref<.*?>) to (memref<.*>)$",
        r"linalg.copy ins(\1 : \3) outs(\2 : \4)",
        text,
        flags=re.MULTILINE,
    )
