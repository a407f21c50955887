"""Which Triton driver serves a launch: the emulator's or the one that was active before.

Triton keeps one active driver per process and reads it several times a launch. One router takes its place at the first
launch on a CPU and hands every question to the driver of the current context, so that CPU and NPU tensors can be used
from several threads at once. Until then nothing is touched.
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

import triton.runtime
from triton.backends.driver import DriverBase

from emulator import backend, native, toolchain

_routed: ContextVar[DriverBase | None] = ContextVar("emulator_driver", default=None)
_guard = threading.RLock()
_drivers: dict[str, backend.EmulatorDriver] = {}


class Router(DriverBase):  # type: ignore[misc]
    """Asks the driver that the context names, else the default one."""

    def __init__(self, before: Any) -> None:
        self.before = before  # the driver that was active
        self.default = before

    def __getattr__(self, name: str) -> Any:
        return getattr(_routed.get() or self.default, name)

    @classmethod
    def is_active(cls) -> bool:
        return False

    def get_current_target(self) -> Any:
        return (_routed.get() or self.default).get_current_target()

    def get_current_device(self) -> Any:
        return (_routed.get() or self.default).get_current_device()

    def get_current_stream(self, device: Any = None) -> Any:
        return (_routed.get() or self.default).get_current_stream(device)

    def get_benchmarker(self) -> Any:
        return (_routed.get() or self.default).get_benchmarker()


_installed: str | None = None


def default_level() -> str:
    """The level of the `route` around the caller, else of `install`, else of ASCEND_EMULATOR_LEVEL, else "linalg"."""
    routed = _routed.get()
    if isinstance(routed, backend.EmulatorDriver):
        return routed.level
    return _installed or os.environ.get("ASCEND_EMULATOR_LEVEL") or "linalg"


def driver(level: str | None = None) -> backend.EmulatorDriver:
    """The process's driver of a level."""
    level = level or default_level()
    found = _drivers.get(level)
    if found is None:
        for needed in (toolchain.versions, toolchain.vendor_dir, native.binding):
            needed()  # one clear error before anything is touched
        with _guard:
            backend.register()
            found = _drivers.setdefault(level, backend.EmulatorDriver(level))
    return found


def _router() -> Router:
    """The router, put in front of whatever driver is active."""
    active = triton.runtime.driver.active
    if isinstance(active, Router):
        return active
    with _guard:
        active = triton.runtime.driver.active
        if not isinstance(active, Router):
            active = Router(active)
            triton.runtime.driver.set_active(active)
    return active


def _forget_locks() -> None:
    global _guard
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_forget_locks)  # another thread may have held it


class route:  # noqa: N801 - reads as a verb: with route(): ...
    """Send the Triton launches inside to the emulator, in this thread and context only.

    >>> with route():
    ...     kernel[grid](x, y, BLOCK=1024)

    Raises MissingToolError, naming the extra to install, if the emulator's packages are absent.
    """

    def __init__(self, level: str | None = None) -> None:
        self._driver = driver(level)
        self._token: Token[DriverBase | None] | None = None

    def __enter__(self) -> None:
        _router()
        self._token = _routed.set(self._driver)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _routed.reset(self._token)
            self._token = None


def install(level: str | None = None) -> None:
    """Run every Triton launch of this process on the emulator, unless a context routes it elsewhere.

    For users' own kernels:

    >>> import emulator
    >>> emulator.install()
    >>> kernel[grid](torch.zeros(8), BLOCK=8)

    `level` is "linalg" (native code, fast) or "device" (the final module of the Ascend compiler, checked); by default
    ASCEND_EMULATOR_LEVEL or "linalg". Raises MissingToolError if the emulator's packages are absent.
    """
    global _installed
    chosen = driver(level)
    with _guard:
        _router().default = chosen
        _installed = chosen.level


def uninstall() -> None:
    """Undo `install`: launches go again to the driver that was active before."""
    global _installed
    with _guard:
        _installed = None
        active = triton.runtime.driver.active
        if isinstance(active, Router):
            active.default = active.before
