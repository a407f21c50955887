"""The Ascend compiler's own tools, run on this machine: Triton source to Linalg IR, Linalg IR to the final HIVM module.

Both are cached by content in the user's cache directory. `runs()` counts the tool processes started by this process.

    >>> linalg = lower_to_linalg(kernel, {"x": "*fp32", "n": "i32"}, {"BLOCK": 1024})
    >>> compile_hivm(linalg, chip="Ascend910B3", multibuffer=True).multibuffer_dropped
    False
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import platformdirs

from emulator.errors import EmulatorError, MissingToolError, ToolError

DEFAULT_CHIP = "Ascend910B3"

# bishengir-opt passes from loops, memrefs and arithmetic to the LLVM dialect: the end of both levels' pipelines.
TO_LLVM = (
    "--arith-expand=include-bf16=true",
    "--convert-scf-to-cf",
    "--convert-cf-to-llvm",
    "--convert-math-to-llvm",
    "--convert-math-to-libm",
    "--convert-arith-to-llvm",
    "--convert-index-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--lower-affine",
    "--convert-arith-to-llvm",
    "--reconcile-unrealized-casts",
)
TIMEOUT_SECONDS = 900.0  # the memory planner has been seen not to finish on tiles that nearly fit

_counting = threading.Lock()
# Python 3.11's ast.parse, which Triton's front end calls, fails with SystemError when two threads are in it.
_parsing = threading.Lock()
_started = 0


def runs() -> int:
    """How many tool processes this process has started so far."""
    return _started


def default_chip() -> str:
    """The chip that kernels are compiled for: ASCEND_EMULATOR_CHIP, by default Ascend910B3."""
    return os.environ.get("ASCEND_EMULATOR_CHIP") or DEFAULT_CHIP


def cache_dir() -> Path:
    """The user's cache directory of this project, for everything derived from kernels and vendor files."""
    return Path(platformdirs.user_cache_dir("ascend-triton-ops", appauthor=False)) / "emulator"


def require_triton_ascend() -> None:
    """Raise ImportError with the repair command where upstream triton is installed in place of triton-ascend."""
    try:
        found = importlib.util.find_spec("triton.backends.ascend")
    except ImportError:
        found = None
    if found is None:
        raise ImportError(
            "the emulator needs triton-ascend 3.2.0, which is missing or was overwritten by upstream triton. "
            "Repair with:\n"
            "    python -m pip uninstall --yes triton && "
            "python -m pip install --force-reinstall --no-deps triton-ascend==3.2.0"
        )


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages that compiled code depends on. Raises MissingToolError if one is absent."""
    return {package: _version(package) for package in ("triton-ascend", "ascendnpu-ir", "llvmlite")}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingToolError(package) from None


@functools.cache
def vendor_dir() -> Path:
    """Where ascendnpu-ir is installed: `bin` holds its tools, `lib` its template library."""
    try:
        spec = importlib.util.find_spec("ascendnpuir")
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise MissingToolError("ascendnpu-ir")
    return Path(spec.origin).parent


def tool(name: str) -> Path:
    """Path of one of ascendnpu-ir's tools, such as bishengir-opt."""
    return vendor_dir() / "bin" / name


def run(command: Sequence[str | Path], timeout: float = TIMEOUT_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a tool, count it, and return what it said; the exit code is the caller's to judge."""
    count_run()
    try:
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)
    except OSError as error:
        raise EmulatorError(f"{command[0]} does not run: {error}") from None


def count_run() -> None:
    """Note one started tool process."""
    global _started
    with _counting:
        _started += 1


def save_failed(kernel: str, text: str) -> str:
    """Keep the IR that a stage failed on; returns the file's path."""
    path = Path("failed", f"{kernel}-{_digest(text)[:12]}.mlir")
    try:
        write_atomically(cache_dir() / path, text)
        return str(cache_dir() / path)
    except OSError:  # a home that cannot be written must not hide what the tool said
        elsewhere = Path(tempfile.mkdtemp(prefix="ascend-emulator-")) / path
        write_atomically(elsewhere, text)
        return str(elsewhere)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that other processes see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def optimise(kernel: str, stage: str, text: str, passes: Iterable[str]) -> str:
    """Run bishengir-opt with these passes. Raises ToolError with the tool's message and the saved IR."""
    with tempfile.TemporaryDirectory(prefix="ascend-emulator-") as folder:
        source, result = Path(folder, "in.mlir"), Path(folder, "out.mlir")
        source.write_text(text)
        done = run([tool("bishengir-opt"), source, "--mlir-disable-threading", *passes, "-o", result])
        if done.returncode or not result.exists():
            message = f"{done.stderr.strip()} (exit code {done.returncode})"
            raise ToolError(kernel, stage, message, save_failed(kernel, text))
        return result.read_text()


@dataclass(frozen=True)
class Linalg:
    """A kernel in triton-ascend's Linalg IR, with the metadata of its lowering and a key of its content."""

    text: str
    name: str
    metadata: Mapping[str, Any]
    key: str


@dataclass(frozen=True)
class HivmModule:
    """The final module of bishengir-compile for one kernel.

    `multibuffer_dropped`: the unified buffer overflowed, so the compiler silently went on without multi-buffering.
    `overflow`: it did not fit at all; then `text` is empty, `path` None, and `ub_bytes` what would have been needed.
    """

    text: str
    path: Path | None
    stderr: str
    multibuffer_dropped: bool
    overflow: bool
    ub_bytes: int


def lower_ttir(module: Any, metadata: dict[str, Any], options: Any, kernel: str) -> str:
    """triton-ascend's stage from Triton IR to Linalg IR, unchanged but for the errors it raises."""
    from triton.backends.ascend.compiler import ttir_to_linalg

    count_run()
    try:
        text: str = ttir_to_linalg(module, metadata, options, named_ops=True)
    except subprocess.CalledProcessError as error:
        message = (error.stderr or b"").decode(errors="replace").split("PLEASE submit a bug report")[0]
        raise ToolError(kernel, "triton-adapter-opt", message, save_failed(kernel, str(module))) from None
    return text


def split_metadata(text: str, metadata: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Move what the Linalg IR says about the kernel (name, mode, tensor kinds) into the metadata."""
    from triton.backends.ascend.compiler import _parse_linalg_metadata

    stripped, completed = _parse_linalg_metadata(text, metadata)
    return stripped, completed


def lower_to_linalg(
    fn: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Linalg:
    """Lower a @triton.jit function to triton-ascend's Linalg IR, with nothing specialised on argument values.

    `signature` maps each run-time argument to its Triton type ("*fp32", "i64", ...), `constexprs` the others to values,
    `options` are compile options such as {"multibuffer": False}. Raises ToolError if a tool refuses the kernel.
    """
    options = dict(options or {})
    parts = (
        versions()["triton-ascend"],
        fn.cache_key,
        list(signature.items()),
        sorted((name, str(value), type(value).__name__) for name, value in constexprs.items()),
        sorted(options.items()),
    )
    key = _digest(repr(parts))
    path = cache_dir() / "linalg" / f"{key}.json"
    with _one_at_a_time(key):
        if not path.exists():
            text, metadata = _lower(fn, signature, constexprs, options)
            write_atomically(path, json.dumps({"text": text, "metadata": metadata}))
        stored = json.loads(path.read_text())
    return Linalg(stored["text"], stored["metadata"]["kernel_name"], stored["metadata"], key)


def _lower(
    fn: Any, signature: Mapping[str, str], constexprs: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    from triton._C.libtriton import ir
    from triton.backends.ascend.compiler import AscendBackend, make_ttir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    backend = AscendBackend(GPUTarget("npu", default_chip(), 0))
    source = ASTSource(fn=fn, signature=dict(signature), constants=dict(constexprs))
    parsed = backend.parse_options(dict(options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with _parsing:
        module = source.make_ir(parsed, backend.get_codegen_implementation(), backend.get_module_map(), context)
    metadata: dict[str, Any] = dict(parsed.__dict__)
    module = make_ttir(module, metadata, parsed)
    text = lower_ttir(module, metadata, parsed, fn.__name__)
    context.disable_multithreading()  # a fork with the context's threads alive can hang the child
    return split_metadata(text, metadata)


def compile_hivm(
    linalg: Linalg | str,
    *,
    chip: str | None = None,
    multibuffer: bool = True,
    extra: Iterable[str] = (),
    timeout: float = TIMEOUT_SECONDS,
) -> HivmModule:
    """Compile Linalg IR to the final HIVM module with the options that triton-ascend uses.

    `chip` is ASCEND_EMULATOR_CHIP by default, `extra` goes to bishengir-compile as it is. A kernel that does not fit
    the unified buffer gives a module with `overflow` set; any other failure raises ToolError.
    """
    text = linalg if isinstance(linalg, str) else linalg.text
    text = re.sub(r', mix_mode\s*=\s*"[^"]*"', "", text)
    found = re.search(r"func\.func @(\w+)", text)
    kernel = found.group(1) if found else "kernel"
    options: list[str] = [
        f"--target={chip or default_chip()}",
        f"--enable-auto-multi-buffer={multibuffer}",
        "--enable-auto-bind-sub-block=True",
        "--enable-hfusion-compile=true",
        "--enable-hivm-compile=true",
        "--enable-triton-kernel-compile=true",
        *extra,
    ]
    key = _digest(repr((versions()["ascendnpu-ir"], options, text)))
    folder = cache_dir() / "hivm"
    facts, module = folder / f"{key}.json", folder / f"{key}.mlir"
    with _one_at_a_time(key):
        if not facts.exists():
            stderr, result = _run_compiler(kernel, text, options, timeout)
            if result is not None:
                write_atomically(module, result)
            write_atomically(facts, json.dumps({"stderr": stderr, "compiled": result is not None}))
        stored = SimpleNamespace(**json.loads(facts.read_text()))
    result = module.read_text() if stored.compiled else ""
    return HivmModule(
        result,
        module if stored.compiled else None,
        stored.stderr,
        multibuffer and "enable-auto-multi-buffer to false" in stored.stderr,
        not stored.compiled,
        planned_bytes(result) if stored.compiled else _required_bytes(stored.stderr),
    )


def _run_compiler(kernel: str, text: str, options: list[str], timeout: float) -> tuple[str, str | None]:
    with tempfile.TemporaryDirectory(prefix="ascend-emulator-") as folder:
        source = Path(folder, f"{kernel}.mlir")
        source.write_text(text)
        output = ["-o", f"{folder}/kernel.o", f"--save-temps={folder}"]
        command: list[str | Path] = [tool("bishengir-compile"), source, *options, *output]
        try:
            done = run(command, timeout)
        except subprocess.TimeoutExpired:
            message = f"not finished after {timeout:g} s"
            raise ToolError(kernel, "bishengir-compile", message, save_failed(kernel, text)) from None
        # The tool ends with an error here in any case: the code generator that follows, hivmc, is not in the wheel.
        stderr = "\n".join(line for line in done.stderr.splitlines() if line.strip() and not _NOISE.search(line))
        stderr = stderr.replace(folder, "")
        module = Path(folder, "module.hivm.opt.mlir")
        if module.exists():
            return stderr, module.read_text()
        if "ub overflow" in stderr:
            return stderr, None
        raise ToolError(kernel, "bishengir-compile", stderr, save_failed(kernel, text))


_NOISE = re.compile(r"hivmc|Failed to run BiShengIR pipeline")


def planned_bytes(module: str) -> int:
    """Highest byte of the unified buffer that the memory plan of a module uses."""
    widths = {"i1": 1, "i8": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}
    highest = 0
    pattern = r"pointer_cast\(([^)]*)\)[^:]*: memref<((?:\d+x)*)(\w+)[^>]*?#hivm\.address_space<ub>"
    for addresses, shape, element in re.findall(pattern, module):
        elements = 1
        for extent in shape.split("x")[:-1]:
            elements *= int(extent)
        size = -(-elements * widths.get(element, 8) // 8)
        for address in re.findall(r"%c(\d+)_i64", addresses):
            highest = max(highest, int(address) + size)
    return highest


def _required_bytes(stderr: str) -> int:
    found = re.search(r"ub overflow, requires (\d+) bits", stderr)
    return int(found.group(1)) // 8 if found else 0


_locks: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_locks_guard = threading.Lock()


class _Lock:
    """A lock that a WeakValueDictionary can hold."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


@contextmanager
def _one_at_a_time(key: str) -> Iterator[None]:
    """Threads that want the same result wait for the first one instead of running the tool again."""
    with _locks_guard:
        held = _locks.setdefault(key, _Lock())
    with held.lock:
        yield


def _forget_locks() -> None:
    global _counting, _locks, _locks_guard
    _counting, _locks, _locks_guard = threading.Lock(), weakref.WeakValueDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_forget_locks)  # other threads of the parent may have held them


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
