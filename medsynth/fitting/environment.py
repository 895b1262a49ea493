"""The machine of a fit: its device, the versions of its packages, and the memory that a fit needs."""

from __future__ import annotations

import importlib.metadata
import platform

from ..errors import MedsynthError
from ..schema import Schema

PACKAGES = ("medsynth", "torch", "opacus", "numpy")
BINS_OF_A_NUMBER, LATENT_POINTS, STEP_COPIES = 60, 128, 10  # rough sizes of the arrays of a generator step
MUCH_MEMORY_GIB = 2.0  # a fit that needs more warns the user


def choose_device(device: str) -> str:
    """Return cpu or cuda, to train on, for auto, cpu or cuda. Raise MedsynthError for cuda without such a device."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise MedsynthError('There is no CUDA device here. Use `device="cpu"`, or install PyTorch\'s CUDA build.')
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a fit."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}


def fit_memory_gib(schema: Schema) -> float:
    """Estimate the GiB that the fit of a generator needs: classes times levels times latent points."""
    levels = {n: c.size if c.categorical else BINS_OF_A_NUMBER for n, c in schema.columns.items()}
    return 4 * LATENT_POINTS * STEP_COPIES * levels.get(schema.target or "", 1) * sum(levels.values()) / 2**30
