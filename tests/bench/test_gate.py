"""The gate: what it rejects, how it shares compilations between chips, and its quick subset over the real kernels."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench import gate
from emulator.errors import ToolError
from emulator.toolchain import HivmModule
from ops.variants import Variant, variants
from tiling.platform import UB_BYTES, VECTOR_CORES

SILENT = Console(quiet=True)


def variant(kernel: str = "k", **changed: object) -> Variant:
    made = Variant("gcd", kernel, (("x", "*i16"), ("n", "i64")), (("BLOCK", 1024),), True, True)
    return replace(made, **changed)  # type: ignore[arg-type]


def module(chip: str, body: str = "", *, cores: int | None = None, **changed: object) -> HivmModule:
    """A final module as the compiler would leave it, with `body` as the kernel."""
    count = VECTOR_CORES[chip] if cores is None else cores
    attributes = f'"VECTOR_CORE_COUNT", {count} : i32, "UB_SIZE", {UB_BYTES * 8} : i32'
    text = (
        f'module attributes {{target = "{chip}", {attributes}}} {{\n'
        f"  func.func @k() attributes {{hacc.entry}} {{\n{body}    return\n  }}\n}}\n"
    )
    made = HivmModule(text, None, "", False, False, 4096)
    return replace(made, **changed)  # type: ignore[arg-type]


LOOP = """    scf.for %i = %c0 to %c1024 step %c1 {
      %v = memref.load %a[%i] : memref<1024xi32>
      memref.store %v, %b[%i] : memref<1024xi32>
    }
"""
TILES = """    scf.for %t = %c0 to %n step %c1 {
      %v = memref.load %a[%c0] : memref<1xi32>
      func.call @vadds_vs_1d_int32_t(%x, %v, %y, %z) : (memref<?xi32>, i32, memref<?xi32>, memref<?xi32>) -> ()
    }
"""


def verdict(made: HivmModule, of: Variant | None = None) -> gate.Row:
    return gate.judge(of or variant(), ("Ascend910B3",), lambda variant, chip: made)


def test_clean_module_passes() -> None:
    row = verdict(module("Ascend910B3", TILES))
    assert row.problems == ()
    assert (row.templates, row.scalar_loops, row.double_buffered, row.ub_bytes) == (1, 0, "yes", 4096)


def test_loop_over_elements_fails() -> None:
    row = verdict(module("Ascend910B3", LOOP))
    assert row.scalar_loops == 1
    assert "loop over elements at module line 3: scf.for %i" in row.problems[0]


def test_template_that_is_a_loop_fails() -> None:
    body = "    call @vsel_vv_1d_bool_int64_t(%a) : (memref<?xi64>) -> ()\n"
    row = verdict(module("Ascend910B3", body))
    assert row.problems == ("loop over elements at module line 3: template vsel_vv_1d_bool_int64_t",)


def test_dropped_double_buffering_fails_only_where_it_was_asked_for() -> None:
    row = verdict(module("Ascend910B3", multibuffer_dropped=True))
    assert row.problems == ("the compiler dropped double buffering",)
    single = verdict(module("Ascend910B3"), variant(multibuffer=False))
    assert single.problems == ()
    assert single.double_buffered == "not asked for"


def test_overflow_fails_with_the_bytes() -> None:
    row = verdict(module("Ascend910B3", overflow=True, text="", ub_bytes=262_144))
    assert row.problems == ("overflows the unified buffer: wants 262144 bytes",)


def test_compile_error_fails_with_the_tools_words() -> None:
    def build(variant: Variant, chip: str) -> HivmModule:
        raise ToolError("k", "bishengir-compile", "note: x\nloc: error: strides must not be zero\n", "/nowhere")

    row = gate.judge(variant(), ("Ascend910B3",), build)
    assert row.problems == ("does not compile (bishengir-compile): loc: error: strides must not be zero",)


def test_chips_with_equal_code_share_a_compilation() -> None:
    compiled: list[tuple[str, str]] = []

    def build(variant: Variant, chip: str) -> HivmModule:
        compiled.append((variant.kernel, chip))
        return module(chip, LOOP if chip == "Ascend910B4" else TILES)

    chosen = [variant("a"), variant("a", constexprs=(("BLOCK", 2048),)), variant("b")]
    result = gate.gate(chosen, ("Ascend910B1", "Ascend910B3", "Ascend910B4"), SILENT, compile_variant=build)
    assert {row.targets for row in result.rows} == {("Ascend910B1", "Ascend910B3"), ("Ascend910B4",)}
    assert len(result.rows) == 6
    assert {row.targets for row in result.failed} == {("Ascend910B4",)}
    assert sorted(compiled[:6]) == [
        (kernel, chip) for kernel in "ab" for chip in ("Ascend910B1", "Ascend910B3", "Ascend910B4")
    ]


def test_platform_table_is_held_to_the_modules() -> None:
    result = gate.gate(
        [variant()],
        ("Ascend910B1", "Ascend910B3"),
        SILENT,
        compile_variant=lambda variant, chip: module(chip, cores=40),
    )
    assert result.platform_problems == ["Ascend910B1: tiling.platform says 48 vector cores, the module 40"]
    assert not result.passed


def test_quick_subset_touches_everything_within_its_limit() -> None:
    everything = variants()
    chosen = gate.quick_subset(everything)
    assert len(chosen) <= gate.QUICK_LIMIT
    assert {(one.op, one.kernel) for one in chosen} == {(one.op, one.kernel) for one in everything}
    for index in range(max(len(one.signature) for one in everything)):
        kinds = [
            {
                (one.op, *one.signature[index])
                for one in some
                if len(one.signature) > index and one.signature[index][1][0] == "*"
            }
            for some in (chosen, everything)
        ]
        assert kinds[0] == kinds[1]
    with pytest.raises(ValueError, match="more than 2"):
        gate.quick_subset(everything, 2)


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    gate.add_arguments(parser)
    return parser.parse_args(given)


def test_quick_gate_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gate.json"
    assert gate.run(arguments("--quick", "--json", str(path))) == 0
    assert f"{len(variants())} variants are reachable" in capsys.readouterr().out
    rows = json.loads(path.read_text())
    assert rows
    assert all(row["problems"] == [] and row["scalar_loops"] == 0 for row in rows)
    assert all(0 < row["ub_bytes"] <= UB_BYTES for row in rows)


@pytest.mark.thorough
def test_whole_gate_passes_for_every_chip() -> None:
    assert gate.run(arguments()) == 0
