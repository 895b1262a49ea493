"""The methods: one file, one algorithm. Each offers `Config`, `needs`, `seconds`, `notes`, `train` and `generate`."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

from ..errors import UsageError

METHODS = {
    "warm-dp-cgan": "warm_dp_cgan",
    "dp-cgan": "dp_cgan",
    "independent": "independent",
    "gs-wgan": "gs_wgan",
    "dp-gan": "dp_gan",
    "loss-noise": "loss_noise",
}
PRESETS = {"thyroid-study": "thyroid_study", "public-turns": "public_turns"}
OF_PRESETS = {"thyroid-study": "dp-cgan", "public-turns": "gs-wgan"}
WITHOUT_CLAIM = {"loss-noise": "its noise never reaches the released parameters"}
CLAIMING = tuple(name for name in METHODS if name not in WITHOUT_CLAIM)
DEFAULT = "warm-dp-cgan"


def settle(method: str | None, preset: str | None = None) -> str:
    """The method meant: the one named, else a preset's own, else the default. Raises UsageError for a wrong pair."""
    chosen = method or OF_PRESETS.get(preset or "", DEFAULT)
    if chosen not in METHODS:
        raise UsageError(f"There is no method {method!r}. The methods are: {', '.join(METHODS)}.")
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"There is no preset {preset!r}. The presets are: {', '.join(PRESETS)}.")
    if preset is not None and chosen != OF_PRESETS[preset]:
        raise UsageError(f"--preset {preset} belongs to --method {OF_PRESETS[preset]}. Leave --method out.")
    return chosen


def check_claim(method: str) -> None:
    """Raises UsageError where a method keeps nobody's privacy: it is fitted with --no-dp alone, and planned never."""
    if method in WITHOUT_CLAIM:
        raise UsageError(f"{method} gives no guarantee: {WITHOUT_CLAIM[method]}. It is offered with --no-dp alone.")


def takes_public(module: ModuleType) -> bool:
    """Whether a method learns from rows that the user declares public."""
    return "public" in inspect.signature(module.train).parameters


def module(method: str, preset: str | None = None) -> ModuleType:
    """The module of a method or of one of its presets. Raises UsageError for a name that is none."""
    chosen = settle(method, preset)
    name = METHODS[chosen] if preset is None else PRESETS[preset]
    return importlib.import_module(f".{name}", __package__)
