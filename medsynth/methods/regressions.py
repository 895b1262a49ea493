"""Declared regressions: public knowledge about which relations of a table matter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, field_validator

from ..errors import UsageError, did_you_mean
from ..schema import Column
from .registry import MethodConfig, ShareOfAll

SPECIAL = re.compile(r"`([^`]+)`|I\(([^()~+:*^]+)(?:\*\*|\^)\s*2\s*\)|C\(([^()~+:*]+)\)")
MARK = re.compile("\0([0-9]+)\0")


@dataclass(frozen=True)
class Regression:
    """An outcome, its predictors, and pairs of predictors whose products are also predictors, by column name.

    `squares`: predictors whose squares are also predictors. `levels`: numbers of which each value is a level.
    """

    outcome: str
    predictors: tuple[str, ...]
    interactions: tuple[tuple[str, str], ...] = ()
    squares: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Regression:
        """Return the regression of a formula such as "y ~ a + b + a:b", or "y ~ a * b" for the same. Raise UsageError.

        I(a**2) is a square, C(a) takes a number as levels, and backquotes surround a name with signs. An intercept is
        always there, so `+ 1` adds nothing. Interactions and squares also add their columns as predictors.

        >>> str(Regression.parse("pulse ~ age * sex + bmi + 1"))
        'pulse ~ age + sex + bmi + age:sex'
        >>> str(Regression.parse("`t4:t3` ~ age + I(age**2) + C(ward)"))
        '`t4:t3` ~ age + C(ward) + I(age**2)'
        """
        found = list[re.Match[str]]()

        def name(part: str) -> str:
            while (plain := MARK.sub(lambda mark: next(filter(None, found[int(mark[1])].groups())), part)) != part:
                part = plain  # a quoted name may be inside I() or C()
            return part.strip()

        def marked(match: re.Match[str]) -> str:
            found.append(match)
            return f"\0{len(found) - 1}\0"

        while (again := SPECIAL.sub(marked, text)) != text:
            text = again
        left, tilde, right = (part.strip() for part in text.partition("~"))
        terms = [[part.strip() for part in re.split("[:*]", term)] for term in right.split("+")]
        if not tilde or not left or not all(map(all, terms)) or "~" in right:
            raise UsageError("`inference` needs a formula such as 'y ~ a + b': an outcome, ~, and predictors.")
        if any(part == "0" or re.search(r"-\s*1$", part) for names in terms for part in names):
            raise UsageError("A regression keeps its intercept. Leave `+ 0` or `- 1` out of the formula.")
        terms = [names for names in terms if names != ["1"]]
        if any(len(names) > 2 for names in terms):
            raise UsageError("`inference` allows interactions of two columns: a:b, or a * b for a + b + a:b.")
        kinds = {part: found[int(mark[1])].lastindex for part in sum(terms, []) if (mark := MARK.fullmatch(part))}
        squares = tuple(name(part) for part, kind in kinds.items() if kind == 2)
        levels = tuple(name(part) for part, kind in kinds.items() if kind == 3)
        if any(kinds.get(part) == 2 for names in terms if len(names) == 2 for part in names):
            raise UsageError("`inference` allows no interaction with a square. Leave one of them out.")
        named = [[name(part) for part in names] for names in terms]
        predictors = tuple(dict.fromkeys(one for names in named for one in names))
        interactions = tuple((names[0], names[1]) for names in named if len(names) == 2)
        plain = [frozenset(names) for names, parts in zip(named, terms, strict=True) if kinds.get(parts[0]) != 2]
        squared = any(len(set(names)) < len(names) for names in named)
        if (outcome := name(left)) in predictors or len(set(plain)) < len(plain) or squared:
            raise UsageError("`inference` names a column twice in one formula. Leave one out.")
        return cls(outcome, predictors, interactions, squares, levels)

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcome, then the predictors."""
        return self.outcome, *self.predictors

    def __str__(self) -> str:
        plain = [f"C({_quoted(one)})" if one in self.levels else _quoted(one) for one in self.predictors]
        crossed = [":".join(map(_quoted, pair)) for pair in self.interactions]
        squares = [f"I({_quoted(one)}**2)" for one in self.squares]
        return f"{_quoted(self.outcome)} ~ {' + '.join((*plain, *crossed, *squares))}"


def _quoted(name: str) -> str:
    """Return a column's name as a formula contains it: in backquotes if it has signs of formulas."""
    return f"`{name}`" if re.search(r"[~+:*()^]|^[01]$", name) else name


def parsed(texts: Sequence[str]) -> list[Regression]:
    """Return the regressions of formulas. Raise UsageError for text that is not a formula."""
    return [Regression.parse(text) for text in texts]


class DeclaringConfig(MethodConfig):
    """Settings of a method that measures the moments of declared regressions."""

    inference: tuple[str, ...] = Field(
        default=(), description="regressions that matter, such as y ~ a + b or y ~ a * b, separated by semicolons"
    )
    inference_share: ShareOfAll = Field(default=0.25, description="share of the moments of these regressions")

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
    if any(regression.squares for regression in regressions):
        raise UsageError(
            "`inference` cannot measure the moments of a square. Declare the regression without it, and estimate with "
            "it: such a term counts as undeclared."
        )
    for name in (name for regression in regressions for name in regression.columns):
        if name not in columns:
            raise UsageError(
                f"`inference`: {name!r} is not a column of the model.{did_you_mean(name, columns)} Functions of "
                "columns are not supported. A column whose scale is log is used as its logarithm."
            )
        column = columns[name]
        if any(name in one.levels for one in regressions) and column is not None and column.ordered:
            raise UsageError(f"`inference` cannot measure the number {name!r} as levels. Leave C() out.")
        if name == target and column is not None and column.ordered:
            raise UsageError(
                f"`inference` names {name!r}, a number that is also the target. Rows are drawn given ranges of the "
                "target, which blurs its relations. Name another `target`."
            )
