"""Rows from a fitted mixture: class, latent point, bins, values inside bins; on conditions, exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...privacy.vault import Codes
from ...rng import numpy_stream
from ...schema import Schema
from ...transforms.conditions import Ranges
from .decoder import codebook
from .mixture import Mixture

PART = 8192  # rows whose points are weighed one by one at once
IMPOSSIBLE = 1e-9  # a chance below this is taken for none
Arrays = dict[str, NDArray[np.float32]]


def generate(
    tensors: Arrays, config: Any, schema: Schema, rows: int, count: int, seed: int | None,
    where: Ranges | None = None, balance: bool = False, fixed: dict[str, Codes] | None = None,
) -> Codes:  # fmt: skip
    """`count` synthetic rows as codes, (count, columns): class, latent point, bins, values inside bins.

    `where` conditions exactly, without rejection: given class and latent point columns are independent, so each
    latent point is weighed by the probability of the given values. `balance` draws classes evenly. `fixed` gives each
    row its own values of some columns, (count,) codes a column, and the rest is drawn given these. Raises UsageError
    for conditions that no row meets.
    """
    where = dict(where or {})
    histograms = {k.removeprefix("histogram."): t.astype(np.float64) for k, t in tensors.items() if k[:5] == "histo"}
    columns = [name for name in schema.names if name != schema.target]
    bins, condition = codebook(schema, histograms, rows)
    bins |= {name: replace(bins[name], place=tensors[f"place.{name}"].astype(np.int64)) for name in columns}
    mixture, prior = Mixture.restored(tensors, columns), tensors["prior"].astype(np.float64)
    if (asked := where.pop(schema.target or "", None)) is not None:
        prior = prior * condition.allowed(*asked)
    inside = {name: bins[name].inside(tensors[f"base.{name}"].astype(np.float64)) for name in mixture.names}
    allowed = {name: bins[name].shares_of(inside[name], bins[name].overlap(*span)) for name, span in where.items()}
    inside |= {name: inside[name] * bins[name].overlap(*span) for name, span in where.items()}
    weights = mixture.evidence(allowed)
    chance = prior * weights.mean(0)
    if chance.sum() < IMPOSSIBLE:
        raise UsageError("No row meets these conditions together. Leave one out or widen a range.")
    if balance:
        chance = (chance > IMPOSSIBLE).astype(np.float64)
    rng = numpy_stream(seed, "sample")
    labels = rng.choice(len(chance), count, p=chance / chance.sum())
    chunks = []
    for rows_of in np.array_split(np.arange(count), max(1, count // (PART if fixed else 65536))):
        part, known = labels[rows_of], {name: codes[rows_of] for name, codes in (fixed or {}).items()}
        if known:
            told = {name: bins[name].cell_of(codes) for name, codes in known.items() if name != schema.target}
            own = condition.cell_of(known[schema.target]).astype(np.int64) if schema.target in known else None
            part, chosen = mixture.placed(chance / np.maximum(weights.mean(0), 1e-300), weights, told, own, rng)
            drawn = mixture.drawn(part, chosen, rng, allowed)
        else:
            drawn = mixture.draw(part, rng, weights, allowed)
        codes = np.zeros((len(part), len(schema.columns)), np.int32)
        for k, name in enumerate(schema.names):
            if name == schema.target:
                codes[:, k] = condition.codes(part.astype(np.int32), rng.random(len(part)), asked)
            else:
                codes[:, k] = bins[name].draw(drawn[name], part, inside[name], rng, where.get(name))
            codes[:, k] = known.get(name, codes[:, k])
        chunks.append(codes)
    return np.concatenate(chunks)
