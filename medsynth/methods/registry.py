"""The methods: one file, one algorithm. Each offers `Config`, `queries`, `seconds`, `notes`, `train` and `generate`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..errors import UsageError

METHODS = {
    "warm-dp-cgan": "warm_dp_cgan.method",
    "dp-cgan": "dp_cgan.method",
    "independent": "independent.method",
    "gs-wgan": "gs_wgan.method",
    "dp-gan": "dp_gan.method",
    "loss-noise": "loss_noise.method",
}
PRESETS = {"thyroid-study": "dp_cgan.thyroid_study", "public-turns": "gs_wgan.public_order"}
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


def configured(method: str, module: ModuleType, settings: Mapping[str, object]) -> Any:
    """A method's configuration with some settings changed; texts are read as what the setting is.

    Raises UsageError for a setting that the method does not have, or a value that it cannot take.
    """
    if settings.get("public") and not takes_public(module):
        takers = [name for name in METHODS if takes_public(importlib.import_module(f".{METHODS[name]}", __package__))]
        raise UsageError(f"--public belongs to --method {' or '.join(takers)}: {method} learns from no public rows.")
    known = {field.name: field.default for field in dataclasses.fields(module.Config)}
    if strange := [name for name in settings if name not in known]:
        raise UsageError(f"{method} has no setting {strange[0]!r}. Its settings are: {', '.join(known)}.")
    try:
        read = TypeAdapter(module.Config).validate_python(dict(settings))
        found = module.Config(**{name: getattr(read, name) for name in settings})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise UsageError(f"--set {first['loc'][0]}: {first['msg']}.") from None
    for name in settings:
        value = getattr(found, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        part, none = name.endswith(("share", "rate")), name.endswith("share") or known[name] is None
        if not (math.isfinite(value) and (value > 0 or (none and value == 0)) and not (part and value > 1)):
            raise UsageError(f"--set {name}: it must be above 0" + (", and 1 at most." if part else "."))
    if sum(v or 0.0 for k, v in dataclasses.asdict(found).items() if k.endswith("share")) >= 1:
        raise UsageError("--set: the shares must sum to less than 1.")
    try:
        module.queries(found, 1000, 10, 1.0)
    except (ZeroDivisionError, ValueError):
        raise UsageError("--set: an answer that is asked needs a share above 0.") from None
    return found


def takes_public(module: ModuleType) -> bool:
    """Whether a method learns from rows that the user declares public."""
    return "public" in inspect.signature(module.train).parameters


def module(method: str, preset: str | None = None) -> ModuleType:
    """The module of a method or of one of its presets. Raises UsageError for a name that is none."""
    chosen = settle(method, preset)
    name = METHODS[chosen] if preset is None else PRESETS[preset]
    return importlib.import_module(f".{name}", __package__)
