"""How far a fit's shares of number columns are from the rows', as its generator is fitted: settings tried.

    python tests/benchmarks/number_share_errors.py --tables thyroid clinic --epsilons 3.7 1 --runs 12 --data FOLDER

Total variation, on the mean over number columns, in the cells of the fine grid, in the 32 even ones of the first look,
and in the panel's 20 bins, even ones and those between the rows' quantiles; and of all columns and of classes as in
class_share_errors.py, with its tables and seeds: THESE FITS MAKE NO PRIVACY CLAIM. Fine cells are another number where
a setting changes that. Differences from the settings as they stand, with their standard errors.
"""

from __future__ import annotations

from typing import Any

import class_share_errors
import numpy as np
import pandas as pd
import panel_bins
from noise_by_measurement import Figures
from numpy.typing import NDArray

from medsynth.io.table import from_frame
from medsynth.methods.warm_dp_cgan.marginals.adaptive_grids import coarse_grid
from medsynth.transforms.column import Column
from medsynth.transforms.grid import Grid
from medsynth.transforms.table_codec import encode


def at_the_panels_bins(column: Column) -> Grid:
    """The coarse grid of a column whose schema has the panel's even bins as cut points."""
    points = panel_bins.Grid(column).cut_points
    return coarse_grid(column.model_copy(update={"cut_points": tuple(points)}))


FIGURES = ("fine cells", "even cells", "even bins", "quantile bins", *class_share_errors.FIGURES[:3])
SETTINGS: dict[str, dict[str, Any]] = {
    "as it stands": {},
    "no cell tells of its neighbours": {"CURVATURES": (1000.0,), "ROUGHNESSES": (7.0,)},
    "one curvature, 1": {"CURVATURES": (1.0,), "ROUGHNESSES": (0.0,)},
    "no roughness": {"ROUGHNESSES": (0.0,)},
    "more of both": {"CURVATURES": (0.03, 0.1, 0.3, 1.0), "ROUGHNESSES": (0.0, 0.1, 0.3, 1.0, 3.0)},
    "24 fine cells": {"FINE_CELLS": 24},
    "32 fine cells": {"FINE_CELLS": 32},
    "64 fine cells": {"FINE_CELLS": 64},
    "128 fine cells": {"FINE_CELLS": 128},
    "20 frequent values at most": {"MOST_FREQUENT": 20},
    "even bins as cut points": {"coarse_grid": at_the_panels_bins},
}


def in_bins(bins: panel_bins.Grid, shares: NDArray[np.float64], values: int) -> NDArray[np.float64]:
    """Shares of a panel's bins, (size,), by those of each value in turn and of what is missing, (codes,)."""
    each = pd.Series((bins.low + np.arange(values)) * bins.step).reindex(range(len(shares)))  # NaN: missing
    return np.asarray(np.bincount(bins.codes(each), shares), np.float64)


def figures(name: str, run: int, data: str | None, epsilon: float, changes: dict[str, Any]) -> Figures:
    """Of one fit's beginning."""
    known, train, test, target = class_share_errors.beginning(name, run, data, epsilon, changes)
    names, found = list(known.schema.columns), []
    codes = encode(from_frame(train[names]), known.schema)
    panels = [panel_bins.grids(known.schema, fitted) for fitted in (None, train)]
    for column, survey in known.numbers.surveys.items():
        if column == target:
            continue
        fine, shares = known.numbers.grids[column], known.start.bins[column].shares
        own, widths = codes[:, names.index(column)], np.diff(fine.ends)
        rows = np.bincount(fine.cell_of(own), minlength=fine.cells)
        gap = shares / shares.sum() - rows / rows.sum()
        each = np.repeat(shares / shares.sum() / widths, widths)
        each -= np.bincount(own, minlength=len(each)) / len(own)
        binned = [in_bins(some[column], each, known.schema.columns[column].size) for some in panels]
        every = (gap, np.bincount(survey.parents(fine), gap), *binned)
        found.append([np.abs(some).sum() / 2 for some in every])
    some = class_share_errors.compared(known, train, test, target)
    return {**dict(zip(FIGURES[:4], map(float, np.mean(found, axis=0)), strict=True)), **some}


if __name__ == "__main__":
    class_share_errors.print_settings(__doc__, SETTINGS, FIGURES, figures, 12)
