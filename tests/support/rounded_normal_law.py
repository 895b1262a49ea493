"""The law of a rounded normal variable, against which samplers are tested."""

from typing import Any

import numpy as np
from scipy import stats


def chance_of(found: Any, scale: int) -> float:
    """Return the p-value of draws of standard deviation `scale` by the exact table of whole numbers: chi-squared."""
    values = np.arange(-4 * scale, 4 * scale + 1)
    inside = stats.norm.cdf((values + 0.5) / scale) - stats.norm.cdf((values - 0.5) / scale)
    expected = np.append(inside, 1 - inside.sum()) * len(found)
    observed = [int((found == value).sum()) for value in values]
    return float(stats.chisquare([*observed, len(found) - sum(observed)], expected).pvalue)
