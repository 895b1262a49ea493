"""Fit replicates: plausible mixtures, each fitted to perturbed measurements.

Every measurement gets new noise of the same size, and the sampling error of another table from the same population.
Draws perturb the prior, too. For a linear model with normal errors, perturbing and then optimising gives an exact draw
from the posterior (Papandreou and Yuille 2010). Bins, grids and the choice of pairs do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import Arrays, Floats
from ..cores import one_thread
from ..errors import ArtifactError
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.query import RowQuery
from ..rng import numpy_stream
from ..schema import Schema
from .config import Settings
from .estimate import estimate
from .fit import blank, points_of, tensors
from .perturbed import Perturbed, Population
from .released import WRONG, Kept, public_numbers
from .stages import Stages


@dataclass
class Replayed(Kept):
    """Measurements in a model file, and a list of them: label, query, arrays, and standard deviations of the noise."""

    answered: list[tuple[str, RowQuery[Any], list[Floats], list[float]]] = field(default_factory=list)

    def arrays(self, label: str, query: RowQuery[Any]) -> tuple[list[Floats], list[float]]:
        """Return the next release of a label, as `Kept` does, and list it."""
        arrays, stds = super().arrays(label, query)
        self.answered.append((label, query, arrays, stds))
        return arrays, stds


def replayed(config: Settings, schema: Schema, plan: Plan, held: Arrays) -> tuple[Replayed, Stages]:
    """Ask the queries of a fit again. Return what the model file answers, and the stages that asked."""
    kept = Replayed.of(held)
    assert isinstance(kept, Replayed)
    with one_thread():
        own = _stages(config, schema, plan, held, kept)
        own.measured()
    return kept, own


def _stages(config: Settings, schema: Schema, plan: Plan, held: Arrays, kept: Kept) -> Stages:
    public_seed, rows, rows_std = public_numbers(held)
    plan = replace(plan, rows_std=rows_std, planned_rows=plan.planned_rows if rows == plan.rows else rows)
    return Stages(schema=schema, vault=kept, plan=plan, seed=public_seed, regressions=config.regressions)


def replicated(
    config: Settings, schema: Schema, plan: Plan, held: Arrays, count: int, seed: int | None
) -> Iterator[Arrays]:
    """Yield the tensors of `count` plausible mixtures, one after another. A seed repeats them.

    Args: `held`: the tensors of the model. Raises ArtifactError if they do not match the model's settings.
    """
    kept = Kept.of(held)
    with one_thread():  # so that sums are the same each time
        own = _stages(config, schema, plan, held, kept)
        measured = own.measured()
        if not np.allclose(held["prior"], own.sizes / own.sizes.sum(), atol=1e-5):
            raise ArtifactError(WRONG)
        fitted = blank(own, points_of(own), own.seed)
        estimate(fitted, measured, config.steps, lambda done, of: None)
    rng = numpy_stream(seed, "replicates")
    population = Population.of(tensors(own, fitted), schema, plan.rows, count, rng)
    for number in range(count):
        draw = int(rng.integers(2**62))
        with one_thread():
            vault = Perturbed(kept, population, number, numpy_stream(draw, "replicate"))
            again = replace(own, vault=vault, like=own)
            measured = again.measured()
            model = fitted.copy(again.sizes)
            estimate(model, measured, config.steps // 2, lambda done, of: None, numpy_stream(draw, "prior"))
            found = tensors(again, model)
        yield found
