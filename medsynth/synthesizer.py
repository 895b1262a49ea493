"""Fit and sample with one object, by the conventions of scikit-learn. The fitted model is `model_`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .artifact import Model
from .errors import UsageError, checked_keywords, did_you_mean
from .fitting.pipeline import fit
from .sampling import sample

if TYPE_CHECKING:
    import pandas as pd

    from .schema import Schema
    from .schema.codec import Where


@dataclass(kw_only=True)
class Synthesizer:
    """An estimator with the parameters of `medsynth.fit`. `sklearn.base.clone` copies it.

    Every call of `fit` spends its epsilon again. A grid search over synthesizers spends one epsilon per fit.

    >>> import pandas as pd
    >>> visits = pd.DataFrame({"ward": ["a", "b"] * 300, "age": range(600), "sick": ["no", "yes", "no"] * 200})
    >>> synthesizer = Synthesizer(epsilon=20.0, method="independent").fit(visits)
    >>> synthesizer.sample(5).shape, synthesizer.model_.epsilon <= 20
    ((5, 3), True)
    """

    epsilon: float
    delta: float | None = None
    schema: Schema | Mapping[str, object] | Path | str | None = None
    target: str | None = None
    method: str | None = None
    preset: str | None = None
    settings: Mapping[str, object] | None = None
    rows: int | None = None
    na_values: Sequence[str] = ()
    drop: Sequence[str] = ()
    one_row_a_patient: bool = False
    unit: str | None = None
    max_rows: int | None = None
    seed: int | None = None
    anyway: bool = False
    model_: Model = field(init=False, repr=False, compare=False)

    def fit(self, frame: pd.DataFrame, y: None = None) -> Self:
        """Fit a model to the frame, which includes the target. `y` must be None. Raise what `medsynth.fit` raises."""
        if y is not None:
            raise UsageError("Leave the labels out. They are a column of the frame: name it as `target`.")
        self.model_ = fit(frame, **self.get_params())
        return self

    def sample(
        self, n: int | None = None, *, seed: int | None = None, where: Where = (), patients: int | None = None,
        where_any: Where = (),
    ) -> pd.DataFrame:  # fmt: skip
        """Draw `n` synthetic rows, or whole `patients`, as `medsynth.sample` does. Raise UsageError before `fit`."""
        if not hasattr(self, "model_"):
            raise UsageError("This synthesizer has no model yet. Fit it first.")
        return sample(self.model_, n, seed, where, patients=patients, where_any=where_any)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. `deep` has no effect, because no parameter is an estimator."""
        return {parameter.name: getattr(self, parameter.name) for parameter in fields(self) if parameter.init}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. Raise UsageError for an unknown name."""
        for name, value in params.items():
            if name not in self.get_params():
                raise UsageError(f"A Synthesizer has no parameter {name!r}.{did_you_mean(name, self.get_params())}")
            setattr(self, name, value)
        return self


Synthesizer.__init__ = checked_keywords(Synthesizer.__init__)  # type: ignore[method-assign]
