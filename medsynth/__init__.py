"""Synthetic patient tables with an end-to-end accounted differential-privacy guarantee.

>>> import medsynth
>>> sorted(medsynth.__all__)[:5]
['FitSettings', 'MedsynthError', 'MedsynthWarning', 'Model', 'Schema']
>>> sorted(medsynth.__all__)[5:]
['Synthesizer', 'combine', 'fit', 'load', 'plan', 'sample', 'sample_tables', 'structure_model', 'verify']

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
>>> model.sample(5, where={"sex_at_birth": "F", "age_years": (30, None)})["sex_at_birth"].unique().tolist()
['F']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from pandas import DataFrame

    from .answers.estimate import Estimates
    from .artifact import Model, load, verify
    from .combining import combine
    from .errors import MedsynthError, MedsynthWarning
    from .fitting.pipeline import fit
    from .fitting.planning import plan
    from .fitting.settings import FitSettings
    from .report.document import Report
    from .sampling import sample, sample_tables
    from .sampling.structure import structure_model
    from .schema import Schema
    from .synthesizer import Synthesizer

__version__ = "0.2.0"
__all__ = [
    "FitSettings",
    "MedsynthError",
    "MedsynthWarning",
    "Model",
    "Schema",
    "Synthesizer",
    "combine",
    "fit",
    "load",
    "plan",
    "sample",
    "sample_tables",
    "structure_model",
    "verify",
]
_HOMES = {
    "FitSettings": "fitting.settings",
    "MedsynthError": "errors",
    "MedsynthWarning": "errors",
    "Model": "artifact",
    "Schema": "schema",
    "Synthesizer": "synthesizer",
    "combine": "combining",
    "fit": "fitting.pipeline",
    "load": "artifact",
    "plan": "fitting.planning",
    "sample": "sampling",
    "sample_tables": "sampling",
    "structure_model": "sampling.structure",
    "verify": "artifact",
}


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted([*__all__, "__version__"])


def report_on(model: Model, real: DataFrame | Path | str, output: Path | str | None, *, force: bool) -> Report:
    """Do what `Model.report` does. The report is built in a layer above the model."""
    from pathlib import Path

    from . import sampling
    from .report.build import build, save
    from .report.data.tables import read

    rows = read(Path(real)) if isinstance(real, str | Path) else real
    synthetic = sampling.sample(model)
    counts = {model.name: own} if (own := synthetic.attrs.get("counts")) else {}
    made = build(synthetic=synthetic, real=rows, model=model, drawn_by_model=True, title=model.name,
                 notes=sampling.cut_short(counts))  # fmt: skip
    if output is not None:
        save(made, Path(output), force=force)
    return made


def replicates_of(model: Model, count: int, seed: int | None) -> Iterator[Model]:
    """Do what `Model.replicates` does. Models are fitted in a layer above the model."""
    from .sampling.replicates import replicates

    return replicates(model, count, seed)


def answers_of(model: Model, questions: tuple[str, ...], settings: dict[str, Any]) -> Estimates:
    """Do what `Model.estimate` does. Answers come from a layer above the model."""
    from .answers.estimate import estimate

    return estimate(model, questions, **settings)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that the help does not wait for PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'medsynth' has no attribute {name!r}.{did_you_mean(name, _HOMES)}")
    import importlib

    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
