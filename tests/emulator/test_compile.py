"""Compiled objects: reuse by other processes, other CPUs, errors, refusals, and what launches leave behind."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import emulator
from emulator import linalg, native, pool, toolchain
from tests.emulator import kernels
from tests.emulator.test_grids import ROOT, run_python

AARCH64 = native.Target("aarch64-unknown-linux-gnu", "generic", "+neon")


def _reuse(tmp_path: Path, code: str = "") -> str:
    done = run_python(
        code
        + """
from emulator import toolchain
emulator.install()
x = torch.randn(100)
out = torch.zeros(100)
kernels.add[(1,)](x, x, out, 100, BLOCK=128)
assert torch.equal(out, x + x)
print(toolchain.runs())
""",
        TRITON_CACHE_DIR=str(tmp_path / "triton"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_runs_no_tool(tmp_path: Path) -> None:
    assert _reuse(tmp_path) == "4"
    assert _reuse(tmp_path) == "0"


def test_another_cpu_compiles_its_own_object(tmp_path: Path) -> None:
    """The cache key holds the CPU: a home directory may be shared by machines."""
    assert _reuse(tmp_path) == "4"
    other = """
from emulator import native
real = native.host()
plain = native.Target(real.triple, "x86-64-v2" if real.triple.startswith("x86") else "generic", "")
native.host = lambda: plain
"""
    assert _reuse(tmp_path, other) == "4"
    assert _reuse(tmp_path, other) == "0"


def test_tool_versions_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = linalg.fingerprint()
    monkeypatch.setattr(toolchain, "versions", lambda: {"ascendnpu-ir": "9.9"})
    assert linalg.fingerprint() != before


@pytest.mark.parametrize(
    ("kernel", "signature", "constexprs"),
    [
        (kernels.add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 1024}),
        (kernels.softmax, {"x": "*fp32", "out": "*fp32", "columns": "i32"}, {"BLOCK": 256}),
        (kernels.histogram, {"x": "*i32", "counts": "*i32", "n": "i32"}, {"BINS": 16, "BLOCK": 64}),
        (kernels.arithmetic, {"x": "*fp16", "y": "*fp16", "out": "*fp16"}, {"BLOCK": 64}),
    ],
    ids=["add", "softmax", "histogram", "half"],
)
def test_an_object_for_aarch64(kernel, signature: dict[str, str], constexprs: dict[str, int]) -> None:
    lowered = toolchain.lower_to_linalg(kernel, signature, constexprs)
    text, _ = toolchain.split_metadata(lowered.text, {}) if "mix_mode" in lowered.text else (lowered.text, None)
    blob = linalg.build(text, lowered.name, AARCH64)
    code = blob[blob.index(b"\0") + 1 :]
    assert code[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", code, 18)[0] == 183  # EM_AARCH64
    # whatever it calls, an aarch64 libc, libm or libgcc has
    known = {"expf", "malloc", "free", "memcpy", "memset", "memmove"}
    assert set(native.undefined_symbols(code)) <= known


def test_a_failed_tool_says_kernel_stage_message_and_where_the_ir_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from emulator import linalg_ir

    monkeypatch.setattr(linalg_ir, "BUFFERISE", ("--no-such-pass",))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    x = torch.zeros(33)
    with emulator.route("linalg"), pytest.raises(emulator.ToolError) as caught:
        kernels.add[(1,)](x, x, x, 33, BLOCK=64, multibuffer=False)
    error = caught.value
    assert error.kernel == "add"
    assert error.stage == "bishengir-opt"
    assert "--no-such-pass" in error.message
    assert "func.func @emulated_add" in Path(error.saved).read_text()
    for part in ("'add'", "bishengir-opt", "--no-such-pass", error.saved):
        assert part in str(error)


def test_a_tool_that_crashes_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr(toolchain, "tool", lambda name: crash)
    with pytest.raises(emulator.ToolError, match=r"exit code -11"):
        toolchain.optimise("k", "stage", "module {}", [])
    crash.chmod(0o644)
    with pytest.raises(emulator.EmulatorError, match=r"crash does not run: .*Permission denied"):
        toolchain.optimise("k", "stage", "module {}", [])


def test_the_saved_ir_is_somewhere_even_if_the_cache_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(toolchain, "cache_dir", lambda: tmp_path / "file")
    saved = Path(toolchain.save_failed("k", "module {}"))
    assert saved.read_text() == "module {}"
    shutil.rmtree(saved.parents[1])


def test_a_failed_front_end_says_so() -> None:
    x = torch.zeros(64)
    with emulator.route("linalg"), pytest.raises(emulator.ToolError) as caught:
        kernels.crashes_front_end[(1,)](x, x, 5, BLOCK=64)
    assert caught.value.kernel == "crashes_front_end"
    assert caught.value.stage == "triton-adapter-opt"
    assert "tt.func" in Path(caught.value.saved).read_text()


def test_an_operation_that_cannot_run_is_refused_by_name() -> None:
    x = torch.zeros(64)
    with (
        emulator.route("linalg"),
        pytest.raises(emulator.UnsupportedOperationError, match=r"'show' uses triton_print_0.*linalg level"),
    ):
        kernels.show[(1,)](x, BLOCK=64)


def test_device_dialects_are_refused_by_name() -> None:
    from emulator import linalg_ir

    with pytest.raises(emulator.UnsupportedOperationError, match=r"'k' uses hivm\.hir\.sync_block_set"):
        linalg_ir.refuse_unknown('  "hivm.hir.sync_block_set"() : () -> ()\n', "k")
    with pytest.raises(emulator.UnsupportedOperationError, match=r"'k' uses hfusion\.mystery"):
        linalg_ir.refuse_unknown("  %1 = hfusion.mystery ins(%0 : tensor<4xf32>)\n", "k")


def test_an_external_function_that_is_nowhere_is_refused() -> None:
    text = "declare float @no_such_function(float)\ndefine void @f(ptr %p) {\n  %v = load float, ptr %p\n"
    text += "  %w = call float @no_such_function(float %v)\n  store float %w, ptr %p\n  ret void\n}\n"
    made = native.emit(text, "f", native.host())
    assert made.externals == ("no_such_function",)
    with pytest.raises(emulator.EmulatorError, match="no_such_function"):
        native.load(made.code, "f")


@pytest.mark.parametrize("package", ["llvmlite", "ascendnpu-ir"])
def test_a_missing_package_is_one_error_that_names_the_extra(package: str) -> None:
    done = run_python(
        f"""
import importlib.metadata
real = importlib.metadata.version
def version(name):
    if name == {package!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)
importlib.metadata.version = version
try:
    emulator.install()
except emulator.MissingToolError as error:
    print(error)
import triton.runtime
print(type(triton.runtime.driver.active).__name__)
"""
    )
    message, active = done.stdout.strip().splitlines()
    assert package in message
    assert "pip install 'ascend-triton-ops[emulator]'" in message
    assert active == "LazyProxy"  # nothing was touched


@pytest.mark.parametrize("module", ["llvmlite", "ascendnpuir"])
def test_a_package_that_cannot_be_imported_is_the_same_error(module: str) -> None:
    done = run_python(
        f"""
import importlib.abc
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {module!r}:
            raise ImportError(f"no module named {{name}}")
sys.meta_path.insert(0, Blocker())
try:
    with emulator.route():
        pass
except emulator.MissingToolError as error:
    print(error)
"""
    )
    assert "pip install 'ascend-triton-ops[emulator]'" in done.stdout, done.stderr


def test_upstream_triton_is_one_error_with_the_repair_command(tmp_path: Path) -> None:
    """An upstream triton has no backends.ascend; here a folder of that name stands in for it."""
    (tmp_path / "triton" / "backends").mkdir(parents=True)
    for package in ("triton", "triton/backends"):
        (tmp_path / package / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", "import emulator"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )
    last = done.stderr.strip().splitlines()[-3:]
    assert any("overwritten by upstream triton" in line for line in last), done.stderr
    assert "--force-reinstall --no-deps triton-ascend==3.2.0" in last[-1]


def test_tiles_beyond_the_largest_stack_go_to_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = {"x": "*fp32", "out": "*fp32"}
    lowered = toolchain.lower_to_linalg(kernels.many_large_tiles, signature, {"BLOCK": 16384, "TILES": 12})

    def stack_bytes() -> int:
        blob = linalg.build(lowered.text, lowered.name, native.host())
        return int(json.loads(blob[: blob.index(b"\0")])["stack_bytes"])

    assert stack_bytes() > 512 * 1024  # what test_operations relies on
    monkeypatch.setattr(pool, "STACK_BYTES", 1024)
    assert stack_bytes() < 1024


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.usefixtures("routed")
def test_ten_thousand_launches_leave_nothing_behind() -> None:
    x, y = torch.randn(2, 300)
    out = torch.zeros(300)

    def launch(times: int) -> None:
        for _ in range(times):
            kernels.add[(3,)](x, y, out, 300, BLOCK=128)

    launch(200)
    files, resident = len(os.listdir("/proc/self/fd")), _resident_bytes()
    launch(10_000)
    assert _resident_bytes() - resident < 20 * 2**20
    assert len(os.listdir("/proc/self/fd")) == files
    assert torch.equal(out, x + y)


def test_write_atomically_leaves_no_temporary_file(tmp_path: Path) -> None:
    toolchain.write_atomically(tmp_path / "a" / "file", "text")
    toolchain.write_atomically(tmp_path / "a" / "file", b"bytes")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]
    with pytest.raises(TypeError):
        toolchain.write_atomically(tmp_path / "a" / "file", 5)  # type: ignore[arg-type]
    assert (tmp_path / "a" / "file").read_bytes() == b"bytes"
