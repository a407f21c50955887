"""The table of what the intrinsics mean, held to the library; and their meaning on operands chosen for it."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

from emulator.device import runtime, templates

TABLE = Path(runtime.__file__).parent / "SEMANTICS.md"
# Not in the table, and refused by name when a kernel reaches them.
REFUSED = {"VBS32_f16", "VBS32_f32", "VMRGSORT_f16_V220", "VMRGSORT_f32_V220"}


def documented() -> list[str]:
    """Names in the first column of every table, alternatives written out."""
    names = []
    for line in TABLE.read_text().splitlines():
        if line.startswith("| `"):
            for text in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                pieces = [part.split(",") for part in re.split(r"\{([^}]*)\}", text)]
                names += ["".join(choice).replace(".", "_") for choice in itertools.product(*pieces)]
    return names


def implemented() -> set[str]:
    """Intrinsics that the built library exports."""
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(runtime.load().path)], capture_output=True, text=True, check=True
    )
    return set(re.findall(r" T hivm_(\w+)$", symbols.stdout, re.M))


def test_every_intrinsic_has_one_row_and_every_row_an_intrinsic() -> None:
    names = documented()
    assert len(names) == len(set(names))
    assert set(names) == implemented()


def test_every_intrinsic_of_the_vendor_library_is_implemented_or_refused() -> None:
    everything = templates.link(templates.names()).reaches
    called = {name.removeprefix("hivm_") for name in everything if name.startswith("hivm_")}
    assert called - implemented() - {"get_sycl_fix_stack_object"} == REFUSED
