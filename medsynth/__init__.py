"""Synthetic patient tables with an end-to-end accounted differential-privacy guarantee.

>>> import medsynth
>>> sorted(medsynth.__all__)
['MedsynthError', 'Model', 'Schema', 'fit', 'load', 'sample']

From a table to synthetic rows (here a simulated clinic; `fit` also takes the path of a CSV file):

>>> from medsynth import Schema, fit, sample
>>> from medsynth_sample_data import simulate
>>> schema = Schema.from_yaml(simulate.schema_text())
>>> model = fit(simulate.cohort(400, seed=1), schema=schema, epsilon=3.7, rows=400)
>>> 3.3 < model.epsilon <= 3.7, model.ledger.delta
(True, 1e-05)
>>> synthetic = sample(model, 1000)
>>> synthetic.shape == (1000, len(schema.names))
True
>>> sorted(synthetic["sex_at_birth"].unique())
['F', 'M']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .artifact import Model, load
    from .errors import MedsynthError
    from .fitting import fit
    from .sampling import sample
    from .schema import Schema

__version__ = "0.1.0"
__all__ = ["MedsynthError", "Model", "Schema", "fit", "load", "sample"]
_HOMES = {
    "MedsynthError": "errors",
    "Model": "artifact",
    "Schema": "schema",
    "fit": "fitting",
    "load": "artifact",
    "sample": "sampling",
}


def __getattr__(name: str) -> object:
    """Public names are imported when first used, so that the help need not wait for PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'medsynth' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
