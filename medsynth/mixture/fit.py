"""Run a fit: measure all stages, then estimate the mixture."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from ..arrays import Arrays, Codes, Floats, Whole
from ..methods.bins import MERGED_WIDE, decoder_tensors, grid_tensors
from ..methods.registry import Progress
from ..methods.sampler import low_rank_tensors, mixture_tensors
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.measurements import Measurements
from ..rng import numpy_stream, stream_seed
from ..row_count import COUNTED_ROWS
from ..schema import Schema
from . import constants as k
from .config import Settings
from .constants import DECLARED, MATRIX, PAIRS, TRUST
from .estimate import estimate
from .matrix import MomentMatrix, latent_points, loadings, ordered_bins
from .model import Layout, MixtureModel, wave_features
from .public import informed
from .released import Recorded
from .stages import Stages

SEED_BITS = 53  # of a fresh public seed
SMALLEST = 1e-12  # least share of a bin


def fitted(
    config: Settings, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, progress: Progress,
    public: Codes | None = None,
) -> Arrays:  # fmt: skip
    """Measure in stages and fit the mixture. Return the tensors that rows are drawn from, and all that was released.

    `public`: codes of public rows, (rows, columns). They change how the releases are read, and no query (`public.py`).

    A table of hundreds of columns uses matrices of second moments in place of pairs. Its columns depend on a latent
    variable of few dimensions, and the mixture fits only the distribution of each column by class.
    """
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    recorded = Recorded(vault, plan)
    wide = MATRIX in plan.events
    source = vault if wide else recorded
    stages = Stages(schema=schema, vault=source, plan=plan, seed=seed, regressions=config.regressions)
    measured = stages.measured()
    model = blank(stages, points_of(stages), seed)
    trust: Arrays = {}
    if public is None:
        estimate(model, measured, config.steps, progress)
    else:
        stages, model, trust[TRUST] = informed(stages, measured, public, model, config.steps, progress)
    found = tensors(stages, model) | trust
    return found | (_of_low_rank(stages) if wide else recorded.tensors(seed))


def points_of(stages: Stages) -> int:
    """Return the number of latent points: fewer if classes and bins are many, one without pairs."""
    if not {PAIRS, DECLARED} & stages.plan.events.keys():
        return 1
    bins = sum(stages.bins[name].cells for name in stages.columns)
    return min(k.POINTS, max(k.FEWEST_POINTS, k.MOST_NUMBERS // (len(stages.sizes) * bins)))


def _of_low_rank(stages: Stages) -> Arrays:
    """Measure matrices of second moments by class. Return the tensors of the latent variable.

    Scores are computed from the rough shares of bins, so that queries do not depend on an optimiser's last bits.
    """
    stream = numpy_stream(stages.seed, "matrix")
    points = numpy_stream(stages.seed, "latent")
    names = [name for name in stages.columns if ordered_bins(stages.bins[name]) > 1]
    if not names:
        stages.in_vain(MATRIX)
        return {}
    matrix = MomentMatrix(stages.bins, stages.shares, names, stages.given, stages.schema.names, stream)
    loads = loadings(matrix.measure(stages.vault, MATRIX, stages.plan.noise(MATRIX), stages.sizes))
    by_name = {name: loads[:, place] for place, name in enumerate(matrix.names)}
    return low_rank_tensors(by_name, matrix.ordered, latent_points(k.WIDE_POINTS, loads.shape[2], points))


def blank(stages: Stages, points: int, seed: int) -> MixtureModel:
    """Return the mixture before its fit: columns have their rough shares, equal in all classes.

    With one point there are no latent coefficients.
    """
    bins = {n: stages.bins[n] for n in stages.columns}
    parts = dict[str, Whole]()
    features = dict[str, Floats]()
    for name, own in bins.items():
        parts[name] = np.arange(own.cells) if own.ordered else own.merged(k.BINS, stages.mass[name])
        middles = own.middles(MERGED_WIDE) if own.ordered else np.empty(0)
        features[name] = wave_features(middles, int(parts[name].max()) + 1, k.WAVES, own.column.gaps)
        features[name] = features[name] if points > 1 else features[name][:, :0]
    sizes, ordered = {name: own.cells for name, own in bins.items()}, {name: own.ordered for name, own in bins.items()}
    layout = Layout(sizes, ordered, parts, features)
    model = MixtureModel(layout, stages.sizes, points, stream_seed(seed, "init"))
    rows = np.concatenate([stages.mass[name] for name in bins])
    model.base[:] = np.log((rows + 1) / (stages.rows + 1))[:, None]
    return model


def tensors(stages: Stages, model: MixtureModel) -> Arrays:
    """Return the tensors that rows are drawn from: shares of bins by class and point, and the decoder of bins."""
    base, residual = dict[str, Floats](), dict[str, NDArray[np.float32]]()
    shares = np.ascontiguousarray(model.shares().astype(np.float64).transpose(2, 1, 0))  # in the order of reading
    for name, span in model.layout.spans.items():
        table = shares[:, :, span]
        table[:, :, (stages.like or stages).absent[name]] = 0.0  # the others have the ratios that were estimated
        table = table / table.sum(2, keepdims=True)
        base[name] = np.log(np.maximum(table.mean(0), SMALLEST))
        residual[name] = (np.log(np.maximum(table, SMALLEST)) - base[name]).astype(np.float32, order="C")
    own = stages.numbers
    prior = (stages.sizes / stages.sizes.sum()).astype(np.float32)
    kept = decoder_tensors(own.shares, stages.bins, stages.columns) | grid_tensors(own.grids)
    return {
        **mixture_tensors(base, residual if model.points > 1 else {}),
        **kept,
        "prior": prior,
        COUNTED_ROWS: np.array([stages.rows], np.float32),
    }
