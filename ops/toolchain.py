"""Checks that the Triton which Python finds is triton-ascend, before anything else imports it."""

from __future__ import annotations

import importlib.util

REPAIR = (
    "python -m pip uninstall --yes triton && python -m pip install --force-reinstall --no-deps triton-ascend==3.2.0"
)


def require_triton_ascend() -> None:
    """Raise ImportError with the repair command unless triton-ascend's back end is installed.

    Upstream `triton` and `triton-ascend` unpack into the same folder, and CUDA builds of torch require the former.
    """
    try:
        found = importlib.util.find_spec("triton.backends.ascend") is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise ImportError(
            "triton-ascend is missing, or upstream triton was installed over it (CUDA builds of torch require it). "
            f"Repair it with:\n    {REPAIR}"
        )
