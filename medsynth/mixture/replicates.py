"""Replicates: plausible mixtures, each fitted to the released measurements as they might have come out.

Every measurement gets noise of its own size once more, and the deviation that another table of the same population
would have. The prior is perturbed by draws, too. Perturbing and then optimising is an exact draw from the posterior of
a linear model with normal errors (Papandreou and Yuille 2010). Bins, grids and which pairs were measured stay as they
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..cores import one_thread
from ..errors import ArtifactError
from ..methods.registry import Arrays
from ..privacy.accounting.calibration import Plan
from ..rng import numpy_stream, torch_stream
from ..schema import Schema
from .config import Settings
from .estimate import estimate
from .fit import blank, points_of, tensors
from .perturbed import Perturbed, Population
from .released import WRONG, Kept, public_numbers
from .stages import Stages


def replicated(
    config: Settings, schema: Schema, plan: Plan, held: Arrays, count: int, seed: int | None
) -> Iterator[Arrays]:
    """Yield the tensors of `count` plausible mixtures, one after another. Of a seed they are the same.

    Args: `held`: the tensors of the model. Raises ArtifactError where they are not what its settings ask for.
    """
    kept, (public_seed, rows, rows_std) = Kept.of(held), public_numbers(held)
    plan = replace(plan, rows_std=rows_std, planned_rows=plan.planned_rows if rows == plan.rows else rows)
    with one_thread():  # on which sums are the same each time
        own = Stages(schema=schema, vault=kept, plan=plan, seed=public_seed, regressions=config.regressions)
        measured = own.measured()
        if not np.allclose(held["prior"], own.sizes / own.sizes.sum(), atol=1e-5):
            raise ArtifactError(WRONG)
        fitted = blank(own, points_of(own), public_seed, "cpu")
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
            estimate(model, measured, config.steps // 2, lambda done, of: None, torch_stream(draw, "prior"))
            found = tensors(again, model)
        yield found
