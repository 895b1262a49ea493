"""The protocol's classifiers on training tables that a generator may well make."""

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data import protocol
from tests.benchmarks.figures import score


def test_boosted_trees_learn_from_many_rows_of_which_one_has_a_class_of_its_own(rng: np.random.Generator) -> None:
    """scikit-learn splits rows off by class from 10,001 rows on, and refuses to where a class has a single row."""
    labels = np.array(["rare", *["a", "b"] * 5_020])
    x = rng.normal(size=(len(labels), 1)) + (labels == "b")[:, None]
    model = protocol.classifiers(labels)["hgb"].set_params(max_iter=3).fit(x, labels)
    assert list(model.classes_) == ["a", "b", "rare"]
    assert protocol.classifiers(labels[1:])["hgb"].early_stopping == "auto"


def test_a_training_table_of_one_class_predicts_it_and_scores_by_chance() -> None:
    train = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": ["a"] * 3})
    test = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "b", "a", "b"]})
    found = protocol.predict(train, test, "y")
    assert all((made.probabilities == 0.5).all() and set(made.labels) == {"a"} for made in found.values())
    figures = score(train, test, "y")
    assert figures["mean"] == figures["best"] == 0.5 and figures["micro_hard"]["lr"] == 0.5


def test_a_test_table_of_one_class_has_no_micro_auroc() -> None:
    truth = np.array(["a", "a"])
    assert np.isnan(protocol.micro_hard(truth, truth, np.array(["a"])))


@pytest.mark.parametrize("gap", [np.nan, None])
def test_features_are_numbers_without_gaps_over_the_levels_of_either_table(gap: float | None) -> None:
    train = pd.DataFrame({"word": ["u", "v", gap], "number": [1.0, gap, 5.0], "empty": [np.nan] * 3, "y": list("aba")})
    test = pd.DataFrame({"word": ["w"], "number": [np.nan], "empty": [np.nan], "y": ["a"]})
    x, x_test = protocol.features(train, test, "y")
    assert np.isfinite(x).all() and np.isfinite(x_test).all() and x.shape == (3, 5)
    assert (
        x[1, 0] == x_test[0, 0] == 3.0 and x_test[0, -1] == 1.0
    )  # the median; the level that the test table has alone
