"""How the device level is built: the host's compiler, what is kept, and what is said when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator import toolchain
from emulator.device import kernel, lowering, runtime
from emulator.errors import ToolError, UnsupportedOperationError
from tests.emulator import kernels

ARGUMENTS = "%arg0: i64, %arg1: memref<?xi8>, %arg2: memref<?xi8>, %arg3: i32, %arg4: i32, %arg5: i32"


def module(body: str) -> str:
    """A final module with one operation in its kernel."""
    head = f"module attributes {{}} {{\n  func.func @k({ARGUMENTS}) attributes {{hacc.entry}} {{\n"
    return f"{head}    {body}\n    return\n  }}\n}}\n"


def test_no_compiler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    runtime.load.cache_clear()
    try:
        with pytest.raises(runtime.MissingCompilerError, match=r"c\+\+, g\+\+, clang\+\+.*apt-get install"):
            runtime.load()
    finally:
        runtime.load.cache_clear()


def test_failing_compiler_is_quoted(tmp_path: Path) -> None:
    source = tmp_path / "broken.cpp"
    source.write_text("int f() { return nonsense; }\n")
    compiler = runtime.find_compiler()
    with pytest.raises(ToolError, match="nonsense"):
        runtime.build(compiler, ("-fPIC",), [source], tmp_path / "out.so")
    assert not (tmp_path / "out.so").exists()


def test_library_is_built_once() -> None:
    path = runtime.load().path
    before = path.stat().st_mtime_ns
    runtime.load.cache_clear()
    assert runtime.load().path == path
    assert path.stat().st_mtime_ns == before


def test_second_load_of_a_kernel_runs_no_tool() -> None:
    linalg = toolchain.lower_to_linalg(
        kernels.add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 256}
    )
    text = toolchain.compile_hivm(linalg).text
    kernel.load(text)
    kernel.load.cache_clear()
    before = toolchain.runs()
    assert kernel.load(text).name == "add"
    assert toolchain.runs() == before


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("hivm.hir.sync_block[<BARRIER>]", "hivm.hir.sync_block"),
        ("hivm.hir.set_flag[<PIPE_X>, <PIPE_V>, <EVENT_ID0>]", "PIPE_X"),
        ("%0 = memref.load %b[%c0] : memref<8xi1, #hivm.address_space<ub>>", "packed i1"),
    ],
)
def test_unknown_operations_are_refused_by_name(body: str, name: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=name):
        lowering.lower(module(body))


def test_every_flag_and_access_announces_its_line() -> None:
    text = module("hivm.hir.pipe_barrier[<PIPE_ALL>]")
    lowered = lowering.lower(text)
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "pipe_barrier" in one)
    assert f"arith.constant {line} : i32" in lowered.text
    assert lowered.name == "k"
    assert lowered.types[3:] == ("i32", "i32", "i32")
