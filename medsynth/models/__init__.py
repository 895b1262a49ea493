"""The methods: one file, one algorithm. Each offers `Config`, `needs`, `seconds`, `notes`, `train` and `generate`."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import UsageError

METHODS = {
    "warm-dp-cgan": "warm_dp_cgan",
    "dp-cgan": "dp_cgan",
    "independent": "independent",
    "dp-gan": "dp_gan",
}
PRESETS = {"thyroid-study": "thyroid_study"}  # of dp-cgan
DEFAULT, OF_PRESETS = "warm-dp-cgan", "dp-cgan"


def settle(method: str | None, preset: str | None = None) -> str:
    """The method meant: the one named, else a preset's own, else the default. Raises UsageError for a wrong pair."""
    chosen = method or (OF_PRESETS if preset else DEFAULT)
    if chosen not in METHODS:
        raise UsageError(f"There is no method {method!r}. The methods are: {', '.join(METHODS)}.")
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"There is no preset {preset!r}. The presets are: {', '.join(PRESETS)}.")
    if preset is not None and chosen != OF_PRESETS:
        raise UsageError(f"--preset {preset} belongs to --method {OF_PRESETS}. Leave --method out.")
    return chosen


def module(method: str, preset: str | None = None) -> ModuleType:
    """The module of a method or of one of its presets. Raises UsageError for a name that is none."""
    name = METHODS[settle(method, preset)] if preset is None else PRESETS[preset]
    return importlib.import_module(f".{name}", __package__)
