"""The machine that a fit runs on: device, threads, versions of what it ran with."""

from __future__ import annotations

import importlib.metadata
import platform

from ..errors import MedsynthError
from ..methods.threads import one_thread as one_thread

DEVICES = ("auto", "cpu", "cuda")
PACKAGES = ("medsynth", "torch", "opacus", "numpy")


def choose_device(device: str) -> str:
    """The device of DEVICES to train on, cpu or cuda. Raises MedsynthError for absent CUDA."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise MedsynthError('There is no CUDA device here. Use `device="cpu"`, or install PyTorch\'s CUDA build.')
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def versions() -> dict[str, str]:
    """The versions that a fit ran with."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}
