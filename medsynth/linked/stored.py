"""The models of later rows of several tables among the tensors of one artifact."""

from __future__ import annotations

from ..artifact import Arrays


def of_table(number: int, tensors: Arrays) -> Arrays:
    """The tensors of a table's model under names of its own, by its number."""
    return {f"table.{number}.{key}": value for key, value in tensors.items()}


def tensors_of(number: int, tensors: Arrays) -> Arrays:
    """The tensors of a table's model, by its number, under the names that they had."""
    prefix = f"table.{number}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
