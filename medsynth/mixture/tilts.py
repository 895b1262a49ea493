"""Estimate single columns and class sizes from noisy counts and public rows.

The density of public rows, times a smooth tilt, competes with an even density by the evidence of the noisy counts. Only
released counts and public rows are read here.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..methods.marginals import log_evidence, posterior_mode
from ..schema.columns.grid import Grid
from . import constants as k
from .grids import Survey


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
    measured = survey.measured(fine, counts, std)

    def fits(base: Floats, sizes: tuple[float, ...]) -> tuple[Floats, Floats]:
        """Return the shares by tilts of each size, (sizes, cells), and their log evidence."""
        found, evidence = [], []
        for size in sizes:
            precision = np.linalg.inv(size**2 * smooth + np.diag(chance + 1e-4))
            mode = posterior_mode(measured, rows, np.log(base), precision)
            found.append(np.exp(mode))
            evidence.append(log_evidence(measured, rows, found[-1], mode - np.log(base), precision))
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
