"""Settings of a method: frozen models whose fields carry their bounds and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import ArtifactError, UsageError, validators_words


class IsShare:
    """Marks a setting as a share of the privacy loss: those of one method sum to less than one."""


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, lt=1), IsShare()]
ShareOrNone = Annotated[float, Field(ge=0, lt=1), IsShare()]  # at zero the measurement is left out
LATER = {"inference", "inference_share"}  # settings that files of before them lack: nothing was declared


class MethodConfig(BaseModel):
    """A method's settings. Unknown names, values out of bounds and shares that sum to one or more are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    earlier: ClassVar[frozenset[str]] = frozenset()  # settings of earlier versions, which model files still hold

    @model_validator(mode="after")
    def _shares_leave_a_rest(self) -> MethodConfig:
        if sum(getattr(self, name) or 0.0 for name in share_names(type(self))) >= 1:
            raise ValueError("the shares must sum to less than 1")
        return self


def share_names(config: type[MethodConfig]) -> list[str]:
    """The settings that are marked as shares of the privacy loss."""
    fields = config.model_fields.items()
    return [name for name, field in fields if any(isinstance(mark, IsShare) for mark in field.metadata)]


def descriptions(config: type[MethodConfig]) -> dict[str, str]:
    """What each setting is, by name: its description and its default if it has one, for help and documents."""
    return {
        name: str(field.description) + ("" if field.default in (None, ()) else f" [{field.default}]")
        for name, field in config.model_fields.items()
    }


def read_settings(method: str, config: type[MethodConfig], settings: Mapping[str, object]) -> MethodConfig:
    """The configuration with some settings changed; texts are read as what the setting is.

    Raises UsageError for a setting that the method does not have, or a value that it cannot take.
    """
    if strange := [name for name in settings if name not in config.model_fields]:
        raise UsageError(f"{method} has no setting {strange[0]!r}. Its settings are: {', '.join(config.model_fields)}.")
    try:
        return config.model_validate(dict(settings))
    except ValidationError as error:
        raise UsageError(f"`settings` {_first_mistake(config, error)}.") from None


def restored_settings(config: type[MethodConfig], kept: Mapping[str, object]) -> MethodConfig:
    """The configuration that a model file keeps. Raises ArtifactError where it is not one of this version's."""
    present = {name: value for name, value in kept.items() if name not in config.earlier}
    lacking = set(config.model_fields) - set(kept)
    if (lacking <= LATER or len(present) < len(kept)) and set(present) <= set(config.model_fields):
        try:
            return config.model_validate(present)
        except ValidationError:
            pass
    raise ArtifactError("This model's configuration is not one that this version of medsynth knows.")


def _first_mistake(config: type[MethodConfig], error: ValidationError) -> str:
    """The first mistake, without the value that was given."""
    first: Any = error.errors(include_input=False, include_url=False)[0]
    if not first["loc"]:
        return validators_words(first["msg"])
    name, kind = str(first["loc"][0]), first["type"]
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
        return f"{name}: it must be {bounds(config, name)}"
    return f"{name}: {first['msg']}"


def bounds(config: type[MethodConfig], name: str) -> str:
    """The bounds of a number in words, for messages and documents."""
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    marks = config.model_fields[name].metadata
    parts = [f"{word} {getattr(mark, key):g}" for mark in marks for key, word in words.items() if hasattr(mark, key)]
    if "at least 1" in parts:
        parts[parts.index("at least 1")] = "above 0 and whole"
    share = "a share " if name in share_names(config) else ""
    return share + (" and ".join(parts) or "a finite number")
