"""Methods with other defaults, for tests: they are offered by the registry, as a fit finds every method."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from pydantic import create_model

from medsynth.methods import registry
from medsynth.methods.protocol import Method, MethodModule

# By method and preset: its defaults, and the sizes that cost time alone (`size`).
QUICK: dict[tuple[str, str | None], dict[str, Any]] = {
    ("mixture", None): {"steps": 100},
    ("independent", None): {"steps": 100},
    ("dp-cgan", None): {"lots": 5, "features": 16, "size": {"steps": 10}},
    ("dp-cgan", "thyroid-study"): {"steps": 40},
    ("dp-merf", None): {"features": 16, "steps": 10},
    ("gs-wgan", None): {"shards": 4, "steps": 3, "gradients": 2, "size": {"warm": 2}},
    ("gs-wgan", "public-order"): {"shards": 4, "steps": 3, "gradients": 2, "size": {"warm": 2}},
    ("gs-wgan", "all-critics"): {"shards": 4, "steps": 3, "size": {"warm": 2}},
    ("pate-gan", None): {"shards": 4, "rounds": 3, "votes": 4, "size": {"warm": 2, "student_steps": 2}},
    ("g-pate", None): {"shards": 4, "steps": 3, "directions": 2, "size": {"warm": 2}},
    ("dp-gan", None): {"lots": 5, "rate": 0.5, "size": {"warm": 4}},
    ("dp-gan", "federated-averaging"): {"lots": 3, "rate": 0.5, "local_steps": 2, "size": {"warm": 4}},
    ("loss-noise", None): {"lots": 5, "rate": 0.5},
}


class OtherDefaults:
    """The code of a method with a `Config` of its own. All else is the module's, looked up when it is used.

    Raises TypeError for a default that the method does not have.
    """

    def __init__(self, module: MethodModule, defaults: Mapping[str, Any]) -> None:
        fields = module.Config.model_fields
        if strange := [name for name in defaults if name not in fields and not hasattr(module.Config, name)]:
            raise TypeError(f"the method has no default {strange[0]!r}")
        own = {name: value for name, value in defaults.items() if name in fields}
        changed: Any = {name: (fields[name].rebuild_annotation(), value) for name, value in own.items()}
        config = cast(Any, create_model("Config", __base__=module.Config, **changed))
        if "size" in defaults:
            config.size = replace(config.size, **defaults["size"])
        self.Config, self._module = config, module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@dataclass(frozen=True, kw_only=True)
class OtherMethod(Method):
    """A method, or some of its presets, with other defaults."""

    changed: Mapping[str | None, MethodModule]

    def load(self, preset: str | None = None) -> MethodModule:
        """The code with other defaults, or else the method's own."""
        return self.changed.get(preset) or super().load(preset)


def offer(patch: pytest.MonkeyPatch, name: str, preset: str | None = None, **defaults: Any) -> None:
    """Let the registry offer a method, or its preset, with other defaults, until `patch` is undone.

    `defaults`: of its settings, and what QUICK holds under `size`.
    """
    method = registry.METHODS[name]
    module = cast(MethodModule, OtherDefaults(method.load(preset), defaults))
    changed = {**getattr(method, "changed", {}), preset: module}
    patch.setitem(registry.METHODS, name, OtherMethod(**{**vars(method), "changed": changed}))


def offer_quick(patch: pytest.MonkeyPatch) -> None:
    """Let the registry offer all methods with few lots, steps and shards."""
    for (name, preset), defaults in QUICK.items():
        offer(patch, name, preset, **defaults)
