"""A fit: measure a stage, estimate, and go on to the next."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from ..methods.protocol import Arrays, Progress
from ..methods.shared.bins import MERGED_WIDE
from ..methods.shared.decoder import decoder_tensors, grid_tensors
from ..methods.shared.mixture import mixture_tensors
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.measurements import Measurements
from ..rng import torch_stream
from ..row_count import COUNTED_ROWS
from ..schema import Schema
from . import constants as k
from .estimate import estimate
from .measurement import Floats, Measurement, RuleMeasurement
from .model import Layout, MixtureModel, wave_features
from .stages import Stages

SEED_BITS = 53  # of a fresh public seed
SMALLEST = 1e-12  # share of a bin


def fitted(
    schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Measure in stages and fit the mixture. Return the tensors that rows are drawn from."""
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    stages = Stages(schema=schema, vault=vault, plan=plan, seed=seed)
    measured: list[Measurement | RuleMeasurement] = [*stages.one_way(), *stages.by_class()]
    pairs = stages.pairs()
    measured += [*pairs, *stages.strongest(pairs)]
    model = blank(stages, seed, device)
    estimate(model, measured, k.STEPS, progress)
    return tensors(stages, model)


def blank(stages: Stages, seed: int, device: str) -> MixtureModel:
    """Return the mixture before its fit: columns by their rough shares, alike in all classes."""
    bins, features = {name: stages.bins[name] for name in stages.columns}, dict[str, Floats]()
    for name, own in bins.items():
        features[name] = wave_features(own.middles(MERGED_WIDE) if own.ordered else np.empty(0), own.cells, k.WAVES)
    sizes, ordered = {name: own.cells for name, own in bins.items()}, {name: own.ordered for name, own in bins.items()}
    points = min(k.POINTS, max(k.FEWEST_POINTS, k.MOST_NUMBERS // (len(stages.sizes) * sum(sizes.values()))))
    model = MixtureModel(Layout(sizes, ordered, features), stages.sizes, points, torch_stream(seed, "init"), device)
    rows = np.concatenate([stages.mass[name] for name in bins])
    model.base = model.tensor(np.log((rows + 1) / (stages.rows + 1))[:, None])
    return model


def tensors(stages: Stages, model: MixtureModel) -> Arrays:
    """Return what rows are drawn from: shares of bins by class and latent point, and the decoder of bins."""
    base, residual = dict[str, Floats](), dict[str, NDArray[np.float32]]()
    for name, table in model.by_column(model.shares().double().cpu().numpy()).items():
        base[name] = np.log(np.maximum(table.mean(-1), SMALLEST)).T
        residual[name] = (np.log(np.maximum(table, SMALLEST)).transpose(2, 1, 0) - base[name]).astype(np.float32)
    own, prior = stages.numbers, (stages.sizes / stages.sizes.sum()).astype(np.float32)
    kept = decoder_tensors(own.shares, stages.bins, stages.columns) | grid_tensors(own.grids)
    return {
        **mixture_tensors(base, residual),
        **kept,
        "prior": prior,
        COUNTED_ROWS: np.array([stages.rows], np.float32),
    }
