"""Declared regressions: public knowledge about which relations of a table matter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, field_validator

from ..errors import UsageError, did_you_mean
from ..schema import Column
from .registry import MethodConfig, Share


@dataclass(frozen=True)
class Regression:
    """An outcome, its predictors, and pairs of predictors whose products are also predictors, by column name."""

    outcome: str
    predictors: tuple[str, ...]
    interactions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Regression:
        """Return the regression of a formula such as "y ~ a + b + a:b", or "y ~ a * b" for the same. Raise UsageError.

        An interaction always adds both of its columns as predictors.

        >>> Regression.parse("pulse ~ age + sex")
        Regression(outcome='pulse', predictors=('age', 'sex'), interactions=())
        >>> str(Regression.parse("pulse ~ age * sex + bmi"))
        'pulse ~ age + sex + bmi + age:sex'
        """
        outcome, tilde, right = (part.strip() for part in text.partition("~"))
        terms = [[name.strip() for name in re.split("[:*]", term)] for term in right.split("+")]
        if not tilde or not outcome or not all(map(all, terms)) or "~" in right:
            raise UsageError("`inference` needs a formula such as 'y ~ a + b': an outcome, ~, and predictors.")
        if any(len(names) > 2 for names in terms):
            raise UsageError("`inference` allows interactions of two columns: a:b, or a * b for a + b + a:b.")
        predictors = tuple(dict.fromkeys(name for names in terms for name in names))
        interactions = tuple((names[0], names[1]) for names in terms if len(names) == 2)
        repeated = len({frozenset(names) for names in terms}) < len(terms)
        squared = any(len(set(names)) < len(names) for names in terms)
        if outcome in predictors or repeated or squared:
            raise UsageError("`inference` names a column twice in one formula. Leave one out.")
        return cls(outcome, predictors, interactions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcome, then the predictors."""
        return self.outcome, *self.predictors

    def __str__(self) -> str:
        return f"{self.outcome} ~ {' + '.join((*self.predictors, *map(':'.join, self.interactions)))}"


def parsed(texts: Sequence[str]) -> list[Regression]:
    """Return the regressions of formulas. Raise UsageError for text that is not a formula."""
    return [Regression.parse(text) for text in texts]


class DeclaringConfig(MethodConfig):
    """Settings of a method that measures the moments of declared regressions."""

    inference: tuple[str, ...] = Field(
        default=(), description="regressions that matter, such as y ~ a + b or y ~ a * b, separated by semicolons"
    )
    inference_share: Share = Field(default=0.25, description="share of the moments of these regressions")

    @field_validator("inference", mode="before")
    @classmethod
    def _several(cls, texts: object) -> object:
        return tuple(text.strip() for text in texts.split(";") if text.strip()) if isinstance(texts, str) else texts

    @property
    def regressions(self) -> list[Regression]:
        """The declared regressions."""
        return parsed(self.inference)

    def with_declared(self, shares: Mapping[str, float], label: str) -> dict[str, float]:
        """Return shares of the privacy loss that leave room for the moments of declared regressions, if any."""
        if not self.inference:
            return dict(shares)
        return {name: (1 - self.inference_share) * share for name, share in shares.items()} | {
            label: self.inference_share
        }


def check_columns(regressions: Sequence[Regression], columns: Mapping[str, Column | None], target: str | None) -> None:
    """Raise UsageError for a regression on a column that the table does not have, or that cannot be used.

    `columns`: the table's columns by name. None: the column's declaration is still to be learned.
    """
    for name in (name for regression in regressions for name in regression.columns):
        if name not in columns:
            raise UsageError(
                f"`inference`: {name!r} is not a column of the model.{did_you_mean(name, columns)} Functions of "
                "columns are not supported. A column whose scale is log is used as its logarithm."
            )
        column = columns[name]
        if name == target and column is not None and column.ordered:
            raise UsageError(
                f"`inference` names {name!r}, a number that is also the target. Rows are drawn given ranges of the "
                "target, which blurs its relations. Name another `target`."
            )
