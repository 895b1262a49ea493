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
    main = blank(stages, 1, seed, device)
    estimate(
        main, [t for t in measured if isinstance(t, Measurement)], k.MAIN_STEPS, lambda done, of: None, latent=False
    )
    shares = main.mean_shares()
    mass = {name: own @ stages.sizes for name, own in shares.items()}
    pairs = stages.pairs(mass)
    independent = {pair.columns: pair.if_independent(shares, stages.sizes) for pair in pairs}
    measured += [*pairs, *stages.strongest(pairs, independent, mass)]
    planned = k.MOST_NUMBERS // max(len(stages.sizes) * main.layout.bins, 1)
    model = blank(stages, min(k.POINTS, max(k.FEWEST_POINTS, planned)), seed, device)
    model.base, model.by_class = main.base, main.by_class
    estimate(model, measured, k.STEPS, progress, latent=True)
    return tensors(stages, model)


def blank(stages: Stages, points: int, seed: int, device: str) -> MixtureModel:
    """Return the mixture before its fit."""
    features = {}
    for name in stages.columns:
        bins = stages.bins[name]
        features[name] = wave_features(bins.middles(MERGED_WIDE) if bins.ordered else np.empty(0), bins.cells, k.WAVES)
    layout = Layout(
        {name: stages.bins[name].cells for name in stages.columns},
        {name: stages.bins[name].ordered for name in stages.columns},
        features,
    )
    return MixtureModel(layout, stages.sizes, points, torch_stream(seed, "init"), device)


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
