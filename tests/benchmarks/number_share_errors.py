"""How far a fit's shares of number columns are from the rows', as its generator is fitted: settings tried.

    python tests/benchmarks/number_share_errors.py --tables thyroid clinic --epsilons 3.7 1 --runs 12 --data FOLDER

Total variation, on the mean over number columns, in the cells of the fine grid and in the 32 even ones of the first
look; and of all columns and of classes as in class_share_errors.py, with its tables and seeds: THESE FITS MAKE NO
PRIVACY CLAIM. Fine cells are another number where a setting changes that. Differences from the settings as they stand,
with their standard errors.
"""

from __future__ import annotations

from typing import Any

import class_share_errors
import numpy as np
from noise_by_measurement import Figures

from medsynth.io.table import from_frame
from medsynth.transforms.table_codec import encode

FIGURES = ("fine cells", "even cells", *class_share_errors.FIGURES[:3])
SETTINGS: dict[str, dict[str, Any]] = {
    "as it stands": {},
    "no cell tells of its neighbours": {"CURVATURES": (1000.0,), "ROUGHNESSES": (7.0,)},
    "one curvature, 1": {"CURVATURES": (1.0,), "ROUGHNESSES": (0.0,)},
    "no roughness": {"ROUGHNESSES": (0.0,)},
    "more of both": {"CURVATURES": (0.03, 0.1, 0.3, 1.0), "ROUGHNESSES": (0.0, 0.1, 0.3, 1.0, 3.0)},
    "24 fine cells": {"FINE_CELLS": 24},
    "32 fine cells": {"FINE_CELLS": 32},
    "64 fine cells": {"FINE_CELLS": 64},
}


def figures(name: str, run: int, data: str | None, epsilon: float, changes: dict[str, Any]) -> Figures:
    """Of one fit's beginning."""
    known, train, test, target = class_share_errors.beginning(name, run, data, epsilon, changes)
    names, found = list(known.schema.columns), []
    codes = encode(from_frame(train[names]), known.schema)
    for column, survey in known.numbers.surveys.items():
        if column == target:
            continue
        fine, shares = known.numbers.grids[column], known.start.bins[column].shares
        rows = np.bincount(fine.cell_of(codes[:, names.index(column)]), minlength=fine.cells)
        gap = shares / shares.sum() - rows / rows.sum()
        found.append([np.abs(some).sum() / 2 for some in (gap, np.bincount(survey.parents(fine), gap))])
    some = class_share_errors.compared(known, train, test, target)
    return {**dict(zip(FIGURES[:2], map(float, np.mean(found, axis=0)), strict=True)), **some}


if __name__ == "__main__":
    class_share_errors.print_settings(__doc__, SETTINGS, FIGURES, figures, 12)
