"""Plausible generators of a model, from its released measurements alone: post-processing that needs no table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..artifact import Model
from ..errors import ArtifactError, MedsynthError, UsageError
from ..methods import registry
from ..methods.registry import restored_settings
from ..privacy.accounting.calibration import Plan
from .draw import ONE_TABLE_ONLY

RELEASED = "released."  # prefix of the names of tensors that contain measurements
# Below these, a test that takes rows as patients often finds effects that do not exist: 18 % of tests at 5 %, on 20,000
# rows at epsilon 3.7 (docs/inference.md). Nobody has measured larger tables.
MANY_ROWS, LARGE_EPSILON = 50_000, 1.0


def why_not(model: Model) -> str | None:
    """Return why a model cannot be replicated, with the cure; None if it can."""
    if model.structure_only:
        return "Nothing was measured, so nothing can be drawn again. Fit a table with `epsilon`."
    if model.tables is not None:
        return f"This model is of several tables. {ONE_TABLE_ONLY['replicates']}"
    if not registry.find(model.method, model.preset).replicable:
        takers = ", ".join(name for name, other in registry.METHODS.items() if other.replicable)
        return f"`replicates` need a model of {takers}, whose noise is known. This one is of {model.method}."
    if model.epsilon is None:
        return "This model was fitted without noise, so its noise cannot be drawn again. Fit with `epsilon`."
    if (model.ledger.max_rows or 1) > 1:
        return ("This model counts several rows per patient, which are not independent draws from a population. Fit "
                "with one row per patient, `max_rows` 1.")  # fmt: skip
    if set(model.config) & registry.load(model.method, model.preset).Config.earlier:
        return "An earlier version fitted this model, with other measurements. Fit again."
    if not any(name.startswith(RELEASED) for name in model.tensors):
        return (
            "This model contains no measurements, so it cannot be replicated. Either an earlier version wrote it, or "
            "its table has hundreds of columns, and the fit measured matrices. Fit again, with fewer columns."
        )
    return None


def misleads(model: Model) -> bool:
    """Return whether tests on the rows of a model mislead, and replicates can be drawn in their place."""
    few = model.rows < MANY_ROWS or (model.epsilon or 0.0) < LARGE_EPSILON
    return few and why_not(model) is None


def released(model: Model) -> list[dict[str, Any]]:
    """Return the measurements in a model file: the label of each, its number of values, and the smallest and largest
    standard deviation of their noise.
    """
    found = []
    for key in sorted(key for key in model.tensors if key.startswith(RELEASED) and key.endswith(".head")):
        stem = key.removesuffix("head")
        head = model.tensors[key].astype(np.uint8).tobytes()
        std = model.tensors[f"{stem}std"]
        found.append({
            "measurement": json.loads(head.decode())[0], "numbers": model.tensors[f"{stem}noisy"].size,
            "noise_std": [float(std.min()), float(std.max())],
        })  # fmt: skip
    return found


@contextmanager
def broken_model() -> Iterator[None]:
    """Turn whatever a hostile file causes into one error."""
    try:
        yield
    except MedsynthError:
        raise
    except Exception as error:
        raise ArtifactError("This model's tensors do not fit its schema. Refit it.") from error


def replicates(model: Model, count: int, seed: int | None = None) -> Iterator[Model]:
    """Yield `count` plausible models, one after another; equal for an equal `seed` and count.

    Each is fitted to the released measurements with new noise of their size and a new sampling error. The spread
    between replicates is what the measurements leave open. Nothing is measured and nothing charged. Raises UsageError
    for a model that cannot be replicated, or fewer than two replicates.
    """
    if count < 2:
        raise UsageError("`replicates` must be two or more: their spread measures the uncertainty.")
    if (reason := why_not(model)) is not None:
        raise UsageError(reason)
    module = registry.load(model.method, model.preset)
    config = restored_settings(module.Config, model.config)
    with broken_model():
        for tensors in module.replicated(config, model.schema.core, plan_of(model), model.tensors, count, seed):
            yield replace(model, tensors=tensors)


def plan_of(model: Model) -> Plan:
    """Return the plan of the model's fit, from its ledger."""
    ledger = model.ledger
    return Plan(
        epsilon_asked=float(model.epsilon_asked or 0), epsilon=float(model.epsilon or 0), delta=ledger.delta,
        rows=model.rows, accountant=ledger.accountant, max_rows=ledger.max_rows,
        events={entry.label: (entry.event, ledger.times_measured(entry.label)) for entry in ledger.entries},
    )  # fmt: skip
