"""The report's real baseline is what a plain scikit-learn pipeline reaches, whatever the schema made of the files."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from medsynth.report.data import tables as inputs
from medsynth.report.data.columns import cells_of, missing_codes
from medsynth.report.data.protocol import TaskPredictions
from medsynth.schema import Schema

MODELS: dict[str, Callable[[], Any]] = {
    "lr": lambda: LogisticRegression(max_iter=2000),
    "hgb": lambda: HistGradientBoostingClassifier(random_state=0),
}


def patients(codes: tuple[Any, ...] = (), rows: int = 1600) -> pd.DataFrame:
    """Patients whose class depends on three columns; `codes` stand in a fifth of the cells of two of them."""
    rng = np.random.default_rng(5)
    age, tsh = rng.integers(18, 95, rows), rng.gamma(2.0, 1.5, rows).round(2)
    ward = rng.choice(np.array(["A", "B", "C", "D"], dtype=object), rows)
    logit = 0.05 * (age - 55) + 0.8 * (tsh - 3) + 1.5 * (ward == "B")
    made = pd.DataFrame({"age": age, "tsh": tsh, "ward": ward, "noise": rng.normal(size=rows).round(3)}, dtype=object)
    for name in ("age", "tsh") if codes else ():
        hit = rng.random(rows) < 0.2
        made.loc[hit, name] = rng.choice(np.array(codes, dtype=object), int(hit.sum()))
    return made.assign(sick=(rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int))


def declared(**columns: Any) -> Schema:
    known: dict[str, Any] = {
        "age": {"kind": "count", "bounds": [18, 110]},
        "tsh": {"kind": "continuous", "bounds": [0, 50], "decimals": 2},
        "ward": {"kind": "categorical", "levels": ["A", "B", "C", "D"]},
        "noise": {"kind": "continuous", "bounds": [-9, 9], "decimals": 3},
        "sick": {"kind": "binary", "levels": [0, 1]},
    }
    return Schema.from_dict({"name": "t", "target": "sick", "columns": known | columns})


MISSING = {
    "age": {"kind": "count", "bounds": [18, 110], "missing": [-9, -8]},
    "tsh": {"kind": "continuous", "bounds": [0, 50], "decimals": 2, "missing": [-9, -8]},
}
SPOILED = {  # what a schema learned under much noise may say: numbers taken for words, bounds cut short
    "age": {"kind": "categorical", "levels": ["other"], "unknown": "other", "missing": True},
    "tsh": {"kind": "continuous", "bounds": [0, 2], "decimals": 0, "missing": True},
    "ward": {"kind": "categorical", "levels": ["A", "other"], "unknown": "other"},
}
CASES: dict[str, tuple[tuple[Any, ...], Schema | None, bool]] = {
    "no schema, no code": ((), None, False),
    "no schema, words and a number as codes": (("?", "N/A", -9), None, False),
    "no schema, a large number as code": ((9999,), None, False),
    "declared, no code": ((), declared(), False),
    "declared codes": ((-9, -8), declared(**MISSING), False),
    "a schema learned badly": ((), declared(**SPOILED), True),
    "a schema learned badly, with codes": (("?", -9), declared(**SPOILED), True),
}


def plain_pipeline(model: Any, train: pd.DataFrame, test: pd.DataFrame, codes: tuple[Any, ...]) -> float:
    """AuROC of a pipeline as textbooks have it, the codes known to be missing values."""
    frames = [t.drop(columns="sick").astype(str).replace([str(c) for c in codes], np.nan) for t in (train, test)]
    numbers = ["age", "tsh", "noise"]
    x, x_test = (f.assign(**{n: pd.to_numeric(f[n]) for n in numbers}) for f in frames)
    coded = ColumnTransformer(
        [("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
         ("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["ward"])]
    )  # fmt: skip
    fitted = make_pipeline(coded, model).fit(x, train["sick"])
    return float(roc_auc_score(test["sick"], fitted.predict_proba(x_test)[:, 1]))


@pytest.mark.parametrize("case", CASES)
def test_the_real_baseline_is_a_plain_pipelines(case: str) -> None:
    codes, schema, learned = CASES[case]
    frame = patients(codes)
    train, real = frame.iloc[:1000].reset_index(drop=True), frame.iloc[1000:].reset_index(drop=True)
    scaled = {"lr": make_pipeline(StandardScaler(), MODELS["lr"]()), "hgb": MODELS["hgb"]()}
    held, fitted = cells_of(real), cells_of(train)
    rng = np.random.default_rng(0)
    tables = inputs.gather(held, fitted, fitted, "sick", schema, rng, learned=learned, disjoint=True)
    for name, made in TaskPredictions(tables, lambda labels: scaled).real.items():
        mine = roc_auc_score(real["sick"].astype(str) == "1", made.probabilities[:, 1])
        assert mine == pytest.approx(plain_pipeline(MODELS[name](), train, real, codes), abs=0.01), name


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ("1 2 3 4 ?", "?"),
        ("1 2 3 4 NA unknown -", "NA unknown -"),
        ("20 35 50 999 -9", "999 -9"),
        ("20 35 50 80 99", ""),  # 99 years are an age
        ("-3 2 -5 8 -9", ""),  # where values may be negative, -9 may be one
        ("-9 -9 -9 4 5", ""),  # a code in most cells says something of its own
        ("a b ? unknown", ""),  # a word among words is a level
        ("007 008 ?", ""),
    ],
)
def test_codes_are_recognised_where_they_are_plain(cells: str, found: str) -> None:
    assert missing_codes(pd.Series(cells.split(), dtype=object)) == frozenset(found.split())


def test_rows_that_share_values_stay_in_a_split_that_is_known() -> None:
    few = pd.DataFrame({"a": ["0", "1"] * 50, "b": ["x", "x", "y", "y"] * 25, "sick": ["0", "1"] * 50})
    known, unknown = (
        inputs.gather(few, few, pd.concat([few, few.assign(a="2")]), "sick", None, np.random.default_rng(0), disjoint=d)
        for d in (True, False)
    )
    assert known.train is not None and len(known.train) == 200 and not known.notes
    assert unknown.train is not None and len(unknown.train) == 100 and "100 rows" in unknown.notes[0]
