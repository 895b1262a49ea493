"""The machine that a fit runs on: device, threads, versions of what it ran with."""

from __future__ import annotations

import importlib.metadata
import platform

from ..cores import one_thread as one_thread
from ..errors import MedsynthError
from ..schema import Schema

DEVICES = ("auto", "cpu", "cuda")
PACKAGES = ("medsynth", "torch", "opacus", "numpy")
BINS_OF_A_NUMBER, LATENT_POINTS, STEP_COPIES = 60, 128, 10  # roughly: a generator step's arrays in memory
MUCH_MEMORY_GIB = 2.0  # of which a person is warned


def choose_device(device: str) -> str:
    """The device of DEVICES to train on, cpu or cuda. Raises MedsynthError for absent CUDA."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise MedsynthError('There is no CUDA device here. Use `device="cpu"`, or install PyTorch\'s CUDA build.')
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def versions() -> dict[str, str]:
    """The versions that a fit ran with."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}


def fit_memory_gib(schema: Schema) -> float:
    """Roughly the GiB that a generator of such a table takes while it is fitted: classes by levels by latent points."""
    levels = {n: c.size if c.categorical else BINS_OF_A_NUMBER for n, c in schema.columns.items()}
    return 4 * LATENT_POINTS * STEP_COPIES * levels.get(schema.target or "", 1) * sum(levels.values()) / 2**30
