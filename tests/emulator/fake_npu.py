"""A second Triton back end and driver, in place of an NPU's: it notes its launches and computes nothing."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from triton.backends import Backend, backends
from triton.backends.ascend.compiler import AscendBackend, NPUOptions, make_ttir
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.backends.driver import DriverBase


class FakeBackend(AscendBackend):
    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "fake_npu"

    def __init__(self, target: GPUTarget) -> None:
        BaseBackend.__init__(self, target)
        self.binary_ext = "fakebin"

    def parse_options(self, opts: dict[str, Any]) -> NPUOptions:
        return NPUOptions(**{name: opts[name] for name in NPUOptions.__dataclass_fields__ if name in opts})

    def add_stages(self, stages: dict[str, Any], options: NPUOptions) -> None:
        def binary(module: Any, metadata: dict[str, Any]) -> bytes:
            metadata.update(shared=0, name="fake aiv", tensor_kinds=[])
            return b"fake"

        stages["ttir"] = lambda module, metadata: make_ttir(module, metadata, options)
        stages["fakebin"] = binary

    def hash(self) -> str:
        return "fake"


class FakeDriver(DriverBase):
    """Answers as an NPU's driver does: device 0, and a stream of its own."""

    def __init__(self) -> None:
        backends["fake_npu"] = Backend(FakeBackend, FakeDriver)
        self.launches: list[tuple[str, int, tuple[Any, ...]]] = []
        self.questions = 0
        self.utils = SimpleNamespace(
            load_binary=lambda *_: (object(), "function", 0, 0),
            get_device_properties=lambda _: {"max_shared_mem": 1, "num_aicore": 20, "num_vectorcore": 40},
        )

    @classmethod
    def is_active(cls) -> bool:
        return False

    def get_current_target(self) -> GPUTarget:
        self.questions += 1
        return GPUTarget("fake_npu", "FakeChip", 0)

    def get_current_device(self) -> int:
        self.questions += 1
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        assert device in (None, 0)
        return 4711

    def get_benchmarker(self) -> Any:
        raise NotImplementedError

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        def run(gx: int, gy: int, gz: int, stream: int, function: str, *rest: Any) -> None:
            assert (stream, function) == (4711, "function")
            self.launches.append((threading.current_thread().name, gx, rest[4:]))

        return run
