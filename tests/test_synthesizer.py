"""The estimator: scikit-learn's conventions, and a fit as `medsynth.fit` makes it."""

import inspect

import pandas as pd
import pytest
from sklearn.base import clone

import medsynth
from medsynth.errors import UsageError

FRAME = pd.DataFrame({"ward": ["a", "b"] * 300, "age": range(600), "sick": ["no", "yes", "no"] * 200})


@pytest.mark.usefixtures("quick")
def test_fit_and_sample() -> None:
    made = medsynth.Synthesizer(epsilon=20.0, method="independent", seed=1, rows=600)
    with pytest.raises(UsageError, match="Fit it first"):
        made.sample(3)
    assert made.fit(FRAME) is made and made.model_.claims
    drawn = made.sample(40, seed=2, where={"ward": "a"})
    pd.testing.assert_frame_equal(drawn, medsynth.sample(made.model_, 40, 2, {"ward": "a"}))
    assert list(drawn.columns) == list(FRAME.columns) and set(drawn["ward"]) == {"a"}
    with pytest.raises(UsageError, match="column of the frame"):
        made.fit(FRAME, FRAME["sick"])  # type: ignore[arg-type]


def test_parameters_and_clones() -> None:
    made = medsynth.Synthesizer(epsilon=2.0, schema={"name": "t"}, na_values=("x",), unit="who")
    copy = clone(made)
    assert copy is not made and copy.get_params() == made.get_params() and copy == made
    assert copy.set_params(epsilon=1.0).epsilon == 1.0 and made.epsilon == 2.0
    with pytest.raises(UsageError, match="no parameter 'epsilom'"):
        made.set_params(epsilom=1.0)
    assert "epsilon=2.0" in repr(made)


def test_parameters_are_those_of_fit() -> None:
    known = inspect.signature(medsynth.fit).parameters
    assert set(medsynth.Synthesizer(epsilon=1.0).get_params()) <= set(known)
