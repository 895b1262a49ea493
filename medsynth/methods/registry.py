"""Define what a method and its settings are, and register all methods.

A new method is a subclass of `Method` and one `register` call. An entry of the registry names its code as text, so that
PyTorch is imported only when a method is used.
"""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from ..arrays import Arrays, Codes
from ..errors import ArtifactError, UsageError, did_you_mean, validators_faults

if TYPE_CHECKING:  # the command line imports this file for its help
    from ..privacy.accounting.calibration import Charge, Plan
    from ..schema import Schema

Progress = Callable[[int, int], None]  # steps done, steps in all


@dataclass(frozen=True)
class IsShare:
    """Mark a setting as a share of the privacy loss. Those that add up sum to less than one; others scale these."""

    adds: bool = True


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, lt=1), IsShare()]
ShareOrNone = Annotated[float, Field(ge=0, lt=1), IsShare()]  # at zero the measurement is left out
ShareOfAll = Annotated[float, Field(gt=0, lt=1), IsShare(adds=False)]
LATER = {"inference", "inference_share", "products", "public"}  # settings that older files lack


class MethodConfig(BaseModel):
    """A method's settings. It refuses unknown names, values out of bounds and shares that sum to one or more."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    earlier: ClassVar[frozenset[str]] = frozenset()  # settings of earlier versions in model files

    @model_validator(mode="after")
    def _shares_leave_a_rest(self) -> MethodConfig:
        if sum(getattr(self, name) or 0.0 for name, mark in shares(type(self)).items() if mark.adds) >= 1:
            raise ValueError("the shares must sum to less than 1")
        return self


class Method(ABC):
    """A method: what it measures, how it fits, and how it generates rows.

    `rows`: the declared number if the row is the unit of privacy, else the number of rows that needs the same noise.
    """

    Config: type[MethodConfig]
    networks = True  # whether a fit trains networks, which may be on a GPU

    @abstractmethod
    def queries(self, config: Any, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures, each query with its relative noise. Read only public numbers."""

    def notes(self, config: Any, rows: int, columns: int, epsilon: float) -> list[str]:
        """Return notes on the plan for the user, one or two sentences each."""
        return []

    def check(self, schema: Schema | None) -> None:  # noqa: B027 - most methods fit any schema
        """Raise SchemaError, before anything is spent, for the core of a declared schema that the method cannot fit.

        `schema` is None if the fit would learn one.
        """

    @abstractmethod
    def fit(
        self, config: Any, schema: Schema, vault: Any, plan: Plan, seed: int | None, device: str, progress: Progress
    ) -> Arrays:
        """Measure exactly what `queries` planned. Return the tensors that `generate` needs.

        Methods with the capability `public_rows` also take `public`, (rows, columns) or None: the codes of rows that
        the user declared public.
        """

    @abstractmethod
    def generate(self, tensors: Arrays, config: Any, schema: Schema, rows: int, count: int, seed: int | None) -> Codes:
        """Return `count` synthetic rows as codes, (count, columns).

        Methods with the capability `conditional_sampling` also take four arguments. `where`: ranges of codes, by
        column. `balance`: whether classes are drawn evenly. `fixed`: codes of some columns by row, (count,) each.
        `mend`: gets the rows and a function that draws some of their columns again (`sampler.py`).
        """

    def replicated(
        self, config: Any, schema: Schema, plan: Plan, tensors: Arrays, count: int, seed: int | None
    ) -> Iterator[Arrays]:
        """Yield the tensors of plausible generators. Only methods with the capability `replicable` do so."""
        raise NotImplementedError

    def with_defaults(self, defaults: Mapping[str, Any]) -> Method:
        """Change the defaults of some settings. Return the method."""
        fields = self.Config.model_fields
        changed: Any = {
            name: (fields[name].rebuild_annotation(), Field(default=value, description=fields[name].description))
            for name, value in defaults.items()
        }
        self.Config = create_model("Config", __base__=self.Config, **changed)
        return self


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A method with other `defaults`, or with other networks, which have their own `code`.

    `conditional_sampling`: as for the method, or else whether the preset draws rows given values of some columns.
    """

    summary: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None
    conditional_sampling: bool | None = None


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """The public facts about a method. `code`: module and class, "package.module:Class".

    `summary`: one line for help and documents. `presets`: by name. `no_claim`: why a model of this method makes no
    privacy claim, or None if it makes one. `conditional_sampling`: draws rows given values of some columns.
    `public_rows`: learns from rows that the user declares public; `whole_public_rows`: they must meet the schema.
    `microbatches`: has a setting of this name.
    `replicable`: its models keep their measurements, so that plausible generators can be fitted to them.
    `without_target`: also fits a table in which no column is to be predicted; `ignores_target`: fits every table so.
    """

    name: str
    summary: str
    code: str
    presets: Mapping[str, Preset] = field(default_factory=dict)
    conditional_sampling: bool = False
    public_rows: bool = False
    whole_public_rows: bool = False
    microbatches: bool = False
    replicable: bool = False
    without_target: bool = False
    ignores_target: bool = False
    no_claim: str | None = None

    @property
    def makes_claim(self) -> bool:
        """Whether a fit of this method with a budget makes a privacy claim."""
        return self.no_claim is None

    def load(self, preset: str | None = None) -> Method:
        """Import the code of the method, or of one of its presets."""
        chosen = Preset(summary=self.summary) if preset is None else self.presets[preset]
        module, _, name = (chosen.code or self.code).partition(":")
        method: Method = getattr(importlib.import_module(module), name)()
        return method.with_defaults(chosen.defaults) if chosen.defaults else method


RANDOM_FEATURES = "random-features"


def _entry(facts: dict[str, Any]) -> MethodEntry:
    """Return the entry of a method in methods.json."""
    presets = {name: Preset(**own) for name, own in facts.pop("presets", {}).items()}
    return MethodEntry(**facts, presets=presets)


_TEXT = (resources.files(__package__) / "methods.json").read_text(encoding="utf-8")
METHODS = {entry.name: entry for entry in map(_entry, json.loads(_TEXT))}
CLAIMING = tuple(name for name, entry in METHODS.items() if entry.makes_claim)
DEFAULT = "mixture"
ALIASES = {"warm-dp-cgan": "mixture"}  # earlier names that model files contain


def register(entry: MethodEntry) -> None:
    """Add a method to the registry. Raise UsageError if its name, or that of a preset, is taken."""
    if entry.name in METHODS:
        raise UsageError(f"There is a method {entry.name!r} already. Choose another name.")
    if taken := presets().keys() & entry.presets.keys():
        raise UsageError(f"There is a preset {min(taken)!r} already. Choose another name.")
    METHODS[entry.name] = entry


def presets() -> dict[str, MethodEntry]:
    """Return the method of each preset, by the preset's name."""
    return {preset: entry for entry in METHODS.values() for preset in entry.presets}


def settle(method: str | None, preset: str | None = None) -> str:
    """Return the current name of the given method, else of the preset's method, else of the default.

    Raises UsageError for an unknown name and for a preset of another method.
    """
    owners = presets()
    if preset is not None and preset not in owners:
        raise UsageError(f"There is no preset {preset!r}.{did_you_mean(preset, owners)}")
    chosen = method or (owners[preset].name if preset is not None else DEFAULT)
    chosen = ALIASES.get(chosen, chosen)
    if chosen not in METHODS:
        raise UsageError(f"There is no method {chosen!r}.{did_you_mean(chosen, METHODS)}")
    if preset is not None and chosen != owners[preset].name:
        raise UsageError(f"`preset` {preset} belongs to {owners[preset].name}. Leave `method` out.")
    return chosen


def find(method: str | None, preset: str | None = None) -> MethodEntry:
    """Return the entry of a method, as its preset has it. Raise UsageError as `settle` does."""
    entry = METHODS[settle(method, preset)]
    own = None if preset is None else entry.presets[preset].conditional_sampling
    return entry if own is None else replace(entry, conditional_sampling=own)


def preset_of_file(method: str, preset: str | None, config: Mapping[str, object]) -> str | None:
    """Return the current name of what a model file calls its preset: `dp-cgan` once had random features alone."""
    return RANDOM_FEATURES if method == "dp-cgan" and preset is None and "features" in config else preset


def load(method: str | None, preset: str | None = None) -> Method:
    """Return the method, or one of its presets. Raise UsageError as `settle` does."""
    return find(method, preset).load(preset)


def check_claim(method: str) -> None:
    """Raise UsageError for a method without a privacy claim. Such a method is fitted only without noise."""
    if (reason := METHODS[method].no_claim) is not None:
        raise UsageError(f"{method} gives no guarantee: {reason}. Use it with `no_dp` alone.")


CAPABILITIES = {  # by setting: the capability that it needs, and what other methods cannot do
    "microbatches": ("microbatches", "does not clip means of groups of rows"),
    "inference": ("replicable", "does not measure moments of declared regressions"),
    "public": ("public_rows", "does not learn from public rows"),
}


def configured(name: str, method: Method, settings: Mapping[str, object]) -> MethodConfig:
    """Return a method's configuration with some settings changed. Texts are converted to a setting's type.

    Raises UsageError for a setting that the method does not have, or for a value out of its bounds.
    """
    for setting, (capability, lacks) in CAPABILITIES.items():
        asked = setting in settings if setting == "microbatches" else settings.get(setting)
        if asked and not getattr(METHODS[name], capability):
            takers = " or ".join(entry.name for entry in METHODS.values() if getattr(entry, capability))
            raise UsageError(f"`{setting}` belongs to {takers}: {name} {lacks}.")
    config = method.Config
    if strange := [key for key in settings if key not in config.model_fields]:
        raise UsageError(f"{name} has no setting {strange[0]!r}.{did_you_mean(strange[0], config.model_fields)}")
    try:
        return config.model_validate(dict(settings))
    except ValidationError as error:
        raise UsageError(f"`settings` {_first_mistake(config, error)}.") from None


def restored_settings(config: type[MethodConfig], kept: Mapping[str, object]) -> MethodConfig:
    """Return the configuration in a model file. Raise ArtifactError if this version does not know it."""
    present = {name: value for name, value in kept.items() if name not in config.earlier}
    lacking = set(config.model_fields) - set(kept)
    if (lacking <= LATER or len(present) < len(kept)) and set(present) <= set(config.model_fields):
        try:
            return config.model_validate(present)
        except ValidationError:
            pass
    raise ArtifactError("This version of medsynth does not know the model's settings. Fit again.")


def _first_mistake(config: type[MethodConfig], error: ValidationError) -> str:
    """Describe the first mistake, without the value that was given."""
    first = validators_faults(error)[0]
    if not first["loc"]:
        return str(first["msg"])
    name = str(first["loc"][0])
    kind = first["type"]
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
        return f"{name}: it must be {bounds(config, name)}"
    return f"{name}: {first['msg']}"


def shares(config: type[MethodConfig]) -> dict[str, IsShare]:
    """Return the settings that are shares of the privacy loss, with their marks."""
    fields = config.model_fields.items()
    return {name: mark for name, field in fields for mark in field.metadata if isinstance(mark, IsShare)}


def bounds(config: type[MethodConfig], name: str) -> str:
    """Return the bounds of a number in words, for messages and documents."""
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    marks = config.model_fields[name].metadata
    parts = [f"{word} {getattr(mark, key):g}" for mark in marks for key, word in words.items() if hasattr(mark, key)]
    if "at least 1" in parts:
        parts[parts.index("at least 1")] = "above 0 and whole"
    share = "a share " if name in shares(config) else ""
    return share + (" and ".join(parts) or "a finite number")
