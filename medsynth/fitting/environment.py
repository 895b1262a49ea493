"""The machine that a fit runs on: device, threads, versions of what it ran with."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import MedsynthError

DEVICES = ("auto", "cpu", "cuda")
PACKAGES = ("medsynth", "torch", "opacus", "numpy")


def choose_device(device: str) -> str:
    """The device of DEVICES to train on, cpu or cuda. Raises MedsynthError for absent CUDA."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise MedsynthError('There is no CUDA device here. Use `device="cpu"`, or install PyTorch\'s CUDA build.')
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: on a busy machine more of them made fits of these small networks 40 times slower."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def versions() -> dict[str, str]:
    """The versions that a fit ran with."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}
