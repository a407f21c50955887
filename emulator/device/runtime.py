"""The host's build of the intrinsics: compiled once by the host's C++ compiler, cached by content and compiler version.

>>> runtime = load()
>>> runtime.has("hivm_VADD_f32")
True
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from emulator import native, toolchain
from emulator.errors import EmulatorError, ToolError

_SOURCES = Path(__file__).parent
# No contraction: a*b+c in one rounding is not what two instructions do.
_FLAGS = ("-O3", "-ffp-contract=off", "-std=c++17", "-fPIC")


class MissingCompilerError(EmulatorError):
    """There is no C++ compiler to build the intrinsics with."""

    def __init__(self, tried: list[str]) -> None:
        super().__init__(
            "the device level of the emulator builds its intrinsics with the host's C++ compiler, and none was found "
            f"(tried {', '.join(tried)}): install one, for instance 'apt-get install g++', or name it in CXX"
        )


class Range(ctypes.Structure):
    """Global memory a launch may touch: from `low` up to and without `high`."""

    _fields_ = [("low", ctypes.c_void_p), ("high", ctypes.c_void_p)]


class Report(ctypes.Structure):
    """What a check found."""

    _fields_ = [
        ("check", ctypes.c_char * 24),
        ("text", ctypes.c_char * 360),
        ("program", ctypes.c_int64),
        ("line", ctypes.c_uint32),
    ]


class Assumptions(ctypes.Structure):
    """Mirror of core.h's Assumptions."""

    _fields_ = [
        (name, ctypes.c_int32) for name in ("division", "f16_saturates", "int_saturates", "flush_subnormals", "fill")
    ]


class Launch(ctypes.Structure):
    """Mirror of core.h's Launch."""

    _fields_ = [
        ("gm", ctypes.POINTER(Range)),
        ("gm_count", ctypes.c_uint64),
        ("programs", ctypes.POINTER(ctypes.c_int64)),
        ("program_count", ctypes.c_uint64),
        ("ub_bytes", ctypes.c_uint64),
        ("checks", ctypes.c_int32),
        ("record", ctypes.c_int32),
        ("assume", Assumptions),
        ("next", ctypes.c_uint64),
        ("stopped", ctypes.c_int32),
    ]


class Event(ctypes.Structure):
    """Mirror of core.h's Event."""

    _fields_ = [
        ("kind", ctypes.c_uint8),
        ("pipe", ctypes.c_uint8),
        ("detail", ctypes.c_uint8),
        ("extra", ctypes.c_uint8),
        ("line", ctypes.c_uint32),
        ("amount", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
    ]


class Slice(ctypes.Structure):
    """Mirror of pipes.cpp's Slice."""

    _fields_ = [
        ("start", ctypes.c_double),
        ("duration", ctypes.c_double),
        ("name", ctypes.c_char_p),
        ("line", ctypes.c_uint32),
        ("pipe", ctypes.c_uint32),
    ]


class Runtime:
    """The loaded library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        native.binding().load_library_permanently(str(path))
        functions: dict[str, tuple[Any, list[Any]]] = {
            "device_core_new": (ctypes.c_void_p, [ctypes.c_uint64]),
            "device_core_free": (None, [ctypes.c_void_p]),
            "device_begin": (None, [ctypes.c_void_p]),
            "device_run": (
                ctypes.c_uint64,
                [ctypes.POINTER(Launch), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64],
            ),
            "device_report_count": (ctypes.c_uint64, [ctypes.c_void_p]),
            "device_report": (ctypes.POINTER(Report), [ctypes.c_void_p, ctypes.c_uint64]),
            "device_stream_count": (ctypes.c_uint64, [ctypes.c_void_p]),
            "device_stream": (
                ctypes.c_void_p,
                [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_int64)],
            ),
            "device_cost_names": (ctypes.c_char_p, []),
            "device_cost_count": (ctypes.c_uint64, []),
            "device_result_count": (ctypes.c_uint64, []),
            "device_sizes": (ctypes.c_uint64, [ctypes.c_uint64]),
            "device_replay": (
                ctypes.c_uint64,
                [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64],
            ),
        }
        for name, (result, arguments) in functions.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        for index, mirror in enumerate((Launch, Report, Event, Slice)):
            if self.library.device_sizes(index) != ctypes.sizeof(mirror):
                raise EmulatorError(f"{mirror.__name__} is laid out differently in Python and C++")

    def has(self, symbol: str) -> bool:
        """Whether the library implements this symbol."""
        return hasattr(self.library, symbol)


@functools.cache
def load() -> Runtime:
    """The library, built first if this machine has not built this version yet.

    Raises MissingCompilerError without a C++ compiler, ToolError if the compiler fails.
    """
    compiler = find_compiler()
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    sources = sorted(_SOURCES.glob("*.cpp"))
    contents = [file.read_text() for file in sorted([*sources, *_SOURCES.glob("*.h")])]
    flags = (*_FLAGS, _native_flag())
    key = hashlib.sha256(repr((compiler, told, flags, native.host(), contents)).encode()).hexdigest()[:24]
    folder = toolchain.cache_dir() / "device"
    path = folder / f"{key}.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "build.lock").open("w") as lock:  # test workers start together: let one build for all
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            build(compiler, flags, sources, path)
    return Runtime(path)


def find_compiler() -> str:
    """Path of the C++ compiler: CXX, or the first of the usual names. Raises MissingCompilerError."""
    tried = [name for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name]
    for name in tried:
        if (found := shutil.which(name)) is not None:
            return found
    raise MissingCompilerError(tried)


def _native_flag() -> str:
    return "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"


def build(compiler: str, flags: tuple[str, ...], sources: list[Path], path: Path) -> None:
    """Compile sources side by side and link them to one library. Raises ToolError with what the compiler said."""
    with tempfile.TemporaryDirectory(prefix="ascend-emulator-") as folder:
        objects = [Path(folder, source.stem + ".o") for source in sources]
        commands = [
            [compiler, *flags, "-c", str(source), "-o", str(target)]
            for source, target in zip(sources, objects, strict=True)
        ]
        running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
        said = [process.communicate()[1] for process in running]
        _accept(commands, [process.returncode for process in running], said)
        library = Path(folder, "library.so")
        command = [compiler, "-shared", "-o", str(library), *map(str, objects)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        _accept([command], [done.returncode], [done.stderr])
        toolchain.write_atomically(path, library.read_bytes())


def _accept(commands: list[list[str]], codes: list[int], said: list[str]) -> None:
    for command, code, text in zip(commands, codes, said, strict=True):
        if code:
            saved = toolchain.save_failed("device-intrinsics", " ".join(command) + "\n" + text)
            raise ToolError("device intrinsics", Path(command[0]).name, text, saved)
