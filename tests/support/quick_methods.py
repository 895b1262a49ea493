"""Methods with other defaults, for tests: they are offered by the registry, as a fit finds every method."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from medsynth.methods import registry
from medsynth.methods.registry import Method, MethodEntry

METHODS = dict(registry.METHODS)  # as the library offers them
# By method and preset: its defaults, and the sizes that cost time alone (`size`).
QUICK: dict[tuple[str, str | None], dict[str, Any]] = {
    ("mixture", None): {"steps": 12},
    ("independent", None): {"steps": 12},
    ("dp-cgan", None): {"lots": 5, "rate": 0.5, "steps": 10},
    ("dp-cgan", "random-features"): {"lots": 5, "features": 16, "size": {"steps": 10}},
    ("dp-cgan", "thyroid-study"): {"steps": 40},
    ("dp-merf", None): {"features": 16, "steps": 10},
    ("gs-wgan", None): {"shards": 4, "steps": 3, "gradients": 2, "size": {"warm": 3}},
    ("gs-wgan", "public-order"): {"shards": 4, "steps": 3, "gradients": 2, "size": {"warm": 3}},
    ("gs-wgan", "all-critics"): {"shards": 4, "steps": 3, "size": {"warm": 3}},
    ("pate-gan", None): {"shards": 4, "rounds": 3, "votes": 4, "size": {"warm": 2, "student_steps": 2}},
    ("g-pate", None): {"shards": 4, "steps": 3, "directions": 2, "size": {"warm": 2}},
    ("dp-gan", None): {"lots": 5, "rate": 0.5, "size": {"warm": 4}},
    ("dp-gan", "federated-averaging"): {"lots": 3, "rate": 0.5, "local_steps": 2, "size": {"warm": 4}},
    ("loss-noise", None): {"lots": 5, "rate": 0.5},
}


@dataclass(frozen=True, kw_only=True)
class OtherEntry(MethodEntry):
    """A method, or some of its presets, with other defaults."""

    changed: Mapping[str | None, Method]

    def load(self, preset: str | None = None) -> Method:
        """The method with other defaults, or else the method's own."""
        return self.changed.get(preset) or super().load(preset)


def offer(
    patch: pytest.MonkeyPatch, name: str, preset: str | None = None, size: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> None:  # fmt: skip
    """Let the registry offer a method, or its preset, with other defaults, until `patch` is undone.

    `defaults`: of its settings; `size`: sizes that cost time alone. Raises TypeError for one that the method lacks.
    """
    entry = registry.METHODS[name]
    method, sizes = copy(entry.load(preset)), size or {}
    strange = [key for key in defaults if key not in method.Config.model_fields]
    if strange := strange + [key for key in sizes if not hasattr(method, key)]:
        raise TypeError(f"the method has no default {strange[0]!r}")
    for key, value in sizes.items():
        setattr(method, key, value)
    changed = {**getattr(entry, "changed", {}), preset: method.with_defaults(defaults)}
    patch.setitem(registry.METHODS, name, OtherEntry(**{**vars(entry), "changed": changed}))


@cache
def quick_entries() -> dict[str, MethodEntry]:
    """Return the entries of all methods with the defaults of `QUICK`. To make them takes longer than a quick fit."""
    with pytest.MonkeyPatch.context() as patch:
        for name, entry in METHODS.items():
            patch.setitem(registry.METHODS, name, entry)
        for (name, preset), defaults in QUICK.items():
            offer(patch, name, preset, **defaults)
        return {name: registry.METHODS[name] for name, _ in QUICK}


def offer_quick(patch: pytest.MonkeyPatch) -> None:
    """Let the registry offer all methods with few lots, steps and shards, of few priors and simulated rows."""
    for name, entry in quick_entries().items():
        patch.setitem(registry.METHODS, name, entry)
    with_few_priors(patch)
    # This constant and the priors belong to no method, and no setting of a fit reaches them.
    patch.setattr("medsynth.patients.training.SIMULATED", 1000)


def with_few_priors(patch: pytest.MonkeyPatch) -> None:
    """Let histograms of numbers have one prior, not a mean over twelve: a third of a small fit's time."""
    patch.setattr("medsynth.mixture.constants.CURVATURES", (0.2,))
    patch.setattr("medsynth.mixture.constants.ROUGHNESSES", (1.0,))
