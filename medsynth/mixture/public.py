"""Centre the prior of a fit at public rows, and let the noisy releases decide how far to trust them.

Public rows are counted in the bins of the private fit, and the model is fitted to these counts without noise. That fit
is the centre of the prior (`estimate.CentredPrior`). Nothing here asks a query: this is post-processing of releases.

The trust is chosen among CANDIDATES by split noise. A release y with normal noise of standard deviation s becomes
y + g s e and y - s e / g, with a fresh normal e from a public stream. These two are independent. Each candidate is
fitted to the first and scored by the second. "As today" is always a candidate, and if it wins, the model is the same as
without public rows. Of single columns, the density of public rows, times a smooth tilt, competes with an even density
by the evidence of the noisy counts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Floats, Mask, Whole
from ..methods.marginals import Sums, log_evidence, posterior_mode
from ..rng import Stream, numpy_stream
from ..schema.columns.grid import Grid
from . import constants as k
from .constants import UNKNOWN
from .estimate import CentredPrior, Loss, estimate
from .grids import Survey
from .measurement import Measured, Measurement, MomentMeasurement, RuleMeasurement
from .model import MixtureModel
from .stages import Stages

Progress = Callable[[int, int], None]
# Each has a place in TRUST_WORDS, the standard deviation of a logit from that of public rows, and a factor on the
# precision of latent coefficients. The first is the fit without public rows, the last the public rows alone.
CANDIDATES = ((0, math.inf, 0.0), (1, 0.5, 4.0), (1, 0.5, 32.0), (2, 0.1, 128.0), (3, 0.0, math.inf))
AS_TODAY, ALONE = CANDIDATES[0], CANDIDATES[-1]


@dataclass(eq=False)
class PublicCounts:
    """Public rows in the bins of a fit. `bins`: of each row, by column, or UNKNOWN, (rows,); `label`: its class."""

    bins: dict[str, Whole]
    label: Whole
    classes: int

    @classmethod
    def of(cls, stages: Stages, codes: Codes) -> PublicCounts:
        """Count rows by their codes, (rows, columns of the schema), with UNKNOWN for what is not known."""
        names = stages.schema.names
        column = {name: codes[:, names.index(name)] for name in names}
        bins = {name: _cells(stages.bins[name].cell_of, column[name]) for name in stages.columns}
        target, classes = stages.schema.target, len(stages.sizes)
        label = np.zeros(len(codes), np.int64)
        if target is not None:
            label = _cells(stages.condition.cell_of, column[target])
        return cls(bins, label, classes)

    @property
    def sizes(self) -> Floats:
        """The rows of each class, (classes,)."""
        return np.bincount(self.label[self.label >= 0], minlength=self.classes).astype(np.float64)

    def of_public(self, one: Measured) -> Measured | None:
        """Return what the public rows have in place of a noisy measurement, as precise as so few rows allow.

        Without a known class, a table by class becomes one of all classes. None if no row has all columns.
        """
        if isinstance(one, MomentMeasurement):
            return None
        by_class = len(one.values) > 1 and self.sizes.any()
        if isinstance(one, Measurement):
            shape = tuple(m.shape[1] for m in one.maps) or one.values.shape[1:]
        else:
            shape = one.map.shape[:-1]
        cells = [self.label if by_class else np.zeros_like(self.label), *(self.bins[name] for name in one.columns)]
        shape = (self.classes if by_class else 1, *shape)
        known = np.all([own >= 0 for own in cells], axis=0)
        if not known.any():
            return None
        place = np.ravel_multi_index([own[known] for own in cells], shape)
        joint = np.bincount(place, minlength=math.prod(shape)).reshape(shape) * (len(known) / known.sum())
        if isinstance(one, RuleMeasurement):  # always by class
            values = np.tensordot(joint, one.map, one.map.ndim - 1)
            std = math.sqrt(max(float(values.mean()), 1.0))
            return replace(one, values=values, std=std) if len(values) == len(one.values) else None
        values = joint if not one.maps else np.einsum("ia,cab,jb->cij", one.maps[0], joint, one.maps[1])
        std = math.sqrt(max(len(self.label) / values.size, 1.0))  # of a count in an even table
        return replace(one, values=values, std=np.array(std), centred=False)

    def known(self, model: MixtureModel) -> list[Mask]:
        """Return which parameters of the model these rows determine, as `CentredPrior` has them.

        They determine no level and no class that no row has: tables of other hospitals often lack levels. They
        determine relations of a column if a row has this column and another one. A Table 1 has no such row.
        """
        layout, labelled = model.layout, self.label >= 0
        columns = np.sum([own >= 0 for own in self.bins.values()], axis=0)  # known ones of each row
        base, features = np.zeros((layout.bins, 1), np.bool_), list[Mask]()
        by_class = np.zeros((layout.bins, self.classes), np.bool_)
        for name, span in layout.spans.items():
            own = self.bins[name]
            seen = np.bincount(own[own >= 0], minlength=layout.sizes[name]) > 0
            seen[: layout.ordered[name]] = seen.any()
            base[span, 0] = seen
            by_class[span] = base[span] & np.isin(np.arange(self.classes), self.label[labelled & (own >= 0)])
            features.append(np.full(layout.features[name].shape[1], columns[own >= 0].max(initial=0) > 1))
        latent = np.concatenate(features)
        return [base, by_class, latent, latent & labelled.any()]


def _cells(cell_of: Callable[[Codes], Whole | Codes], codes: Codes) -> Whole:
    """Return the cell of each code, (rows,), or UNKNOWN."""
    return np.where(codes == UNKNOWN, UNKNOWN, cell_of(np.maximum(codes, 0))).astype(np.int64)


def split(measured: Sequence[Measured], rng: Stream) -> tuple[list[Measured], list[Measured]]:
    """Return two independent releases for each one: with noise g times `e` added, and with `e` / g subtracted."""
    first, second = list[Measured](), list[Measured]()
    for one in measured:
        e = one.std * rng.standard_normal(np.shape(one.values))
        for found, part in ((first, k.SPLIT), (second, -1 / k.SPLIT)):
            std: object = one.std * math.sqrt(1 + part**2)
            found.append(replace(one, values=one.values + part * e, std=std))  # type: ignore[arg-type]
    return first, second


def informed(
    stages: Stages, measured: Sequence[Measured], codes: Codes, start: MixtureModel, steps: int, progress: Progress
) -> tuple[Stages, MixtureModel, NDArray[np.float32]]:
    """Fit the mixture with the trust in public rows that predicts the releases best.

    Args: `codes`: of the public rows; `start`: the mixture before its fit. Returns the stages with single columns and
    class sizes as the public rows suggest, the fitted mixture, and the tensor TRUST.
    """

    def silent(done: int, of: int) -> None:
        """Ignore the progress of a trial."""

    counts = PublicCounts.of(stages, codes)
    of_classes = counts.sizes if counts.sizes.any() else stages.sizes / stages.rows
    centre = start.copy(np.maximum(of_classes * len(codes) / of_classes.sum(), 0.5))
    public = [(one, counts.of_public(one)) for one in measured]
    estimate(centre, [own for _, own in public if own is not None], min(k.PUBLIC_STEPS, steps), silent)
    known = counts.known(centre)
    for part, sure in zip(centre.parameters()[2:], known[2:], strict=True):
        part[~sure] = 0.0
    covered = [one for one, own in public if own is not None and own.values.shape == one.values.shape]
    candidates = CANDIDATES if len(covered) == len(measured) else CANDIDATES[: -1 if covered else 1]
    own = _with_public(stages, counts, codes)

    def fitted(candidate: tuple[int, float, float], to: Sequence[Measured], steps: int, done: Progress) -> MixtureModel:
        if candidate == ALONE:
            return centre.copy(own.sizes)
        model = start.copy(stages.sizes) if candidate == AS_TODAY else centre.copy(own.sizes)
        for part, usual, sure in zip(model.parameters()[2:], start.parameters()[2:], known[2:], strict=True):
            part[~sure] = usual[~sure]
        prior = None if candidate == AS_TODAY else CentredPrior(model, centre, known, *candidate[1:])
        estimate(model, to, steps, done, prior=prior)
        return model

    first, second = split(measured, numpy_stream(stages.seed, "split noise"))
    few = steps if stages.rows >= k.MANY_ROWS else min(k.TRIAL_STEPS, steps)
    trials = [fitted(one, first, few, silent) for one in candidates]
    chosen = candidates[int(np.argmin([Loss(model, second).misfit() for model in trials]))]
    alone = 2 * Loss(centre.copy(own.sizes), covered).misfit() / max(sum(np.size(one.values) for one in covered), 1)
    model = fitted(chosen, measured, steps, progress)
    return stages if chosen == AS_TODAY else own, model, np.array([chosen[0], alone], np.float32)


def _with_public(stages: Stages, counts: PublicCounts, codes: Codes) -> Stages:
    """Return the stages with class sizes, and shares inside the bins of numbers, as the public rows suggest."""
    found, own = copy.copy(stages), stages.numbers
    found.sizes = informed_sizes(stages.sizes, stages.sizes_std, counts.sizes)
    shares = dict[str, Floats]()
    for name in (name for name in stages.columns if name in own.surveys):
        fine, column = own.grids[name], codes[:, stages.schema.names.index(name)]
        public = np.bincount(fine.cell_of(column[column != UNKNOWN]), minlength=fine.cells).astype(np.float64)
        new = informed_shares(own.surveys[name], fine, own.counts[name], own.std[name], stages.rows, public)
        shares |= {} if new is None else {name: new}
    found.numbers = replace(own, shares=own.shares | shares)
    found.bins = {name: replace(bins, shares=shares.get(name, bins.shares)) for name, bins in stages.bins.items()}
    return found


def informed_shares(
    survey: Survey, fine: Grid, counts: Floats, std: float, rows: float, public: Floats
) -> Floats | None:
    """Return shares of the cells of `fine`, (cells,), by noisy `counts` and `public` counts of the same cells.

    These are the public shares times a smooth tilt. Returns None if an even density with a tilt explains the noisy
    counts better. Tails that neither the noisy counts nor the public rows reach are cut off.
    """
    if not public.any():
        return None
    even = np.diff(fine.ends) / fine.ends[-1]
    share = (1 - k.EVEN) * public / public.sum() + k.EVEN * even
    at = np.cumsum(share) - share / 2
    smooth = np.exp(-0.5 * ((at[:, None] - at) / k.TILT_LENGTH) ** 2)
    chance = 1 / np.maximum(rows * share, 1.0) + 1 / np.maximum(public, 1.0)  # Poisson variation in both tables
    measured = Sums(survey.measured(fine, counts, std), rows)

    def fits(base: Floats, sizes: tuple[float, ...]) -> tuple[Floats, Floats]:
        """Return the shares by tilts of each size, (sizes, cells), and their log evidence."""
        found, evidence = [], []
        for size in sizes:
            precision = np.linalg.inv(size**2 * smooth + np.diag(chance + 1e-4))
            mode = posterior_mode(measured, np.log(base), precision)
            found.append(np.exp(mode))
            evidence.append(log_evidence(measured, found[-1], mode - np.log(base), precision))
        return np.stack(found), np.array(evidence)

    found, own = fits(share, k.TILTS)
    _, rival = fits(even, k.EVEN_TILTS)
    if np.logaddexp.reduce(own) < np.logaddexp.reduce(rival):
        return None
    likely = np.exp(own - own.max())
    tilted = likely @ found / likely.sum()
    below = np.cumsum(public) / public.sum()
    reached = (below > k.PUBLIC_TAIL) & (below - public / public.sum() < 1 - k.PUBLIC_TAIL)
    kept = survey.inside(fine, counts, std, rows) | reached
    return np.asarray(np.where(kept, tilted, 0.0) / tilted[kept].sum())


def informed_sizes(noisy: Floats, std: float, public: Floats) -> Floats:
    """Return the rows of each class, (classes,), by noisy rows with noise `std` and by `public` counts.

    A class's rows are normal around the public share of all rows. Their variance is that of two samples of one
    population, plus a relative difference between populations. The noisy rows decide how large that difference is.
    """
    rows = noisy.sum()
    if not public.any() or len(noisy) < 2:
        return noisy
    centre = public * rows / public.sum()
    size = (1 - k.EVEN_CLASSES) * centre + k.EVEN_CLASSES * rows / len(public)  # a class without public rows may differ
    own = size * (1 + rows / public.sum()) + (np.array(k.SPREADS)[:, None] * size) ** 2
    total = own + std**2
    evidence = -(np.log(total) + (noisy - centre) ** 2 / total).sum(1) / 2
    likely = np.exp(evidence - evidence.max())
    weight = (likely[:, None] * own / total).sum(0) / likely.sum()
    found = np.maximum(centre + weight * (noisy - centre), 0.5)
    return np.asarray(found * rows / found.sum())
