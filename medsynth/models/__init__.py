"""The methods: one file, one algorithm. Each offers `Config`, `needs`, `train` and `generate`."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import UsageError

METHODS = {"dp-cgan": "dp_cgan"}
PRESETS = {"thyroid-study": "thyroid_study"}  # of dp-cgan


def module(method: str, preset: str | None = None) -> ModuleType:
    """The module of a method or of one of its presets. Raises UsageError for a name that is none."""
    if method not in METHODS:
        raise UsageError(f"There is no method {method!r}. The methods are: {', '.join(METHODS)}.")
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"There is no preset {preset!r}. The presets are: {', '.join(PRESETS)}.")
    name = METHODS[method] if preset is None else PRESETS[preset]
    return importlib.import_module(f".{name}", __package__)
