"""What a final HIVM module says about itself: loops over elements, templates called, buffers, the chip it is for.

>>> module = toolchain.compile_hivm(linalg)
>>> scalar_loops(module)
[]
>>> ub_bytes(module) <= ub_size(module)
True
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from emulator import toolchain
from emulator.device import templates
from emulator.device.loops import element_loops
from emulator.toolchain import HivmModule

Module = HivmModule | str


@dataclass(frozen=True)
class ScalarLoop:
    """Work done one element at a time: a loop of the module (`line` is its head), or a template that is such a loop."""

    line: int
    what: str
    accesses: int


def scalar_loops(module: Module) -> list[ScalarLoop]:
    """Loops over elements: those that load or store memory and call no template, and templates without a vector
    instruction or DMA in them. A loop over tiles or rows calls templates, and may read a scalar beside."""
    loops = [ScalarLoop(loop.line, loop.what, loop.accesses) for loop in element_loops(_text(module))]
    return [*loops, *_templates(_text(module))]


def template_calls(module: Module) -> Counter[str]:
    """How many calls of each template the module has."""
    return Counter(re.findall(r"(?:^|\s)(?:func\.)?call @(\w+)\(", _text(module)))


def ub_bytes(module: Module) -> int:
    """Highest byte of the unified buffer that the memory plan uses; for a kernel that does not fit, what it wants."""
    if isinstance(module, HivmModule):
        return module.ub_bytes
    return toolchain.planned_bytes(module)


def ub_size(module: Module) -> int:
    """Bytes of unified buffer of the chip the module was compiled for."""
    return _attribute(_text(module), "UB_SIZE") // 8  # the attribute counts bits


def vector_cores(module: Module) -> int:
    """Vector cores of the chip the module was compiled for."""
    return _attribute(_text(module), "VECTOR_CORE_COUNT")


def without_chip(module: Module) -> str:
    """The module's text but for the attributes that name a chip: what is equal here is equal code."""
    return re.sub(r"^module attributes .*\{$", "module {", _text(module), count=1, flags=re.M)


def _text(module: Module) -> str:
    return module.text if isinstance(module, HivmModule) else module


def _attribute(text: str, name: str) -> int:
    found = re.search(rf'"{name}", (\d+) : i32', text)
    if found is None:
        raise ValueError(f"the module has no attribute {name}")
    return int(found.group(1))


def _templates(text: str) -> list[ScalarLoop]:
    found = []
    for name, count in sorted(template_calls(text).items()):
        if name.startswith(("sync_", "free_")):  # a lock is one word
            continue
        used = set(templates.link([f"_mlir_ciface_{name}"]).reaches)
        vector = any(one.startswith(("hivm_V", "hivm_MOVEV", "hivm_MOV_", "hivm_S_V")) for one in used)
        if used & {"device_scalar_ub", "device_scalar_gm"} and not vector:
            line = next(number for number, one in enumerate(text.splitlines(), 1) if f"call @{name}(" in one)
            found.append(ScalarLoop(line, f"template {name}", count))
    return found
