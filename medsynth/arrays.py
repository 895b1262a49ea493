"""The types of arrays, by what they hold. Shapes are in docstrings, such as (rows, columns)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Texts = NDArray[np.object_]
Arrays = dict[str, NDArray[np.float32]]  # the tensors of a model, by name
