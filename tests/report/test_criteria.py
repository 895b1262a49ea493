"""Singling out and linking: copies of training rows are found, and other rows of the same population are not."""

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data.tables import Tables
from medsynth.report.sections.criteria import criteria
from medsynth.rng import numpy_stream

ROWS = 600


def population(seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    age = draw.normal(50, 15, ROWS).round(1)
    return pd.DataFrame({
        "age": np.where(draw.random(ROWS) < 0.1, np.nan, age), "dose": draw.gamma(2, 3, ROWS).round(1),
        "tsh": draw.lognormal(0, 1, ROWS), "sex": draw.choice(["f", "m"], ROWS),
        "site": draw.choice([*"abcdef", None], ROWS), "y": np.where(age + draw.normal(0, 9, ROWS) > 50, "1", "0"),
    })  # fmt: skip


@pytest.mark.parametrize("copied", [True, False])
def test_copies_are_found_and_other_rows_are_not(copied: bool) -> None:
    train, real = population(1), population(2)
    made = train.sample(frac=1, random_state=0) if copied else population(3)
    found = criteria(Tables(real, made, train, "y", frozenset(["age", "dose", "tsh"])), numpy_stream(1, "test"))
    assert found is not None and found.rows == ROWS
    assert [attack.name for attack in found.found] == ["singling out", "singling out", "linking"]
    for attack in found.found[1:] if copied else found.found:  # three columns fit too many rows to find copies
        low, high = attack.excess.low, attack.excess.high
        assert low is not None and high is not None
        assert (low > 0.4) if copied else (low < 0 < high), attack


@pytest.mark.parametrize("rows", [15, 600])
def test_few_rows_and_empty_columns(rows: int) -> None:
    """Too few rows have no figures. A column that is empty, or constant, or a table of one column, ends in no error."""
    real, made, train = (population(k)[:rows].assign(gone=np.nan, same="x") for k in range(3))
    found = criteria(Tables(real, made, train, "y", frozenset(["age", "dose", "tsh", "gone"])), numpy_stream(0, "t"))
    assert (found is None) == (rows == 15)
    one = [frame[["y"]] for frame in (real, made, train)]
    alone = criteria(Tables(one[0], one[1], one[2], "y", frozenset()), numpy_stream(0, "t"))
    assert alone is None
