"""For bare_tables.py: a drafted schema filled in, and a plain pipeline beside which the report's baseline is held.

A person fills a draft from public knowledge. Here a rule stands in for one: bounds half wider than the numbers of the
whole table, the levels and codes of missing values that its source documents, and `after` for the dates of which
`schema check` says that they come after another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import yaml
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from medsynth.fitting.private_table import table_kinds
from medsynth.fitting.schema_check import related_dates
from medsynth.report.data import protocol
from medsynth.report.data.columns import cells_of
from medsynth.report.data.predictions import TaskPredictions
from medsynth.report.data.tables import gather
from medsynth.schema import Schema
from medsynth.schema.header import draft

CODES = ("", "?", "NA", "N/A", ".", "-9", "999", "unknown")
FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%d.%m.%Y")
FEW = 20  # values of a column whose levels are named
MODELS: dict[str, Callable[[], Any]] = {
    "lr": lambda: LogisticRegression(max_iter=2000),
    "hgb": lambda: HistGradientBoostingClassifier(random_state=0),
}


def drafted(path: Path, target: str) -> tuple[Schema, dict[str, list[str]]]:
    """The schema drafted for the table at `path`, filled in; and the codes of missing values of each column."""
    texts = pd.read_csv(path, dtype=str, keep_default_na=False)
    plain = yaml.safe_load(re.sub("TODO", "null", draft("drafted", table_kinds(path))))
    codes, columns = {}, {}
    for name, line in plain["columns"].items():
        found = set(texts[name]) & set(CODES)
        if line["kind"] == "categorical":  # a word among words is a level
            found &= {""}
        codes[name] = sorted(found)
        columns[name] = (
            line if line["kind"] == "identifier" else _filled(texts[name], found, line["kind"], name == target)
        )
    schema = Schema.from_dict({"name": "drafted", "target": target, "columns": columns})
    for second, first in related_dates(texts, schema).items():
        columns[second] |= {"after": first, "bounds": _days_after(texts, schema, first, second)}
        if "missing" in columns[first]:
            columns[second].setdefault("missing", True)
    return Schema.from_dict({"name": "drafted", "target": target, "columns": columns}), codes


def _days_after(texts: pd.DataFrame, schema: Schema, first: str, second: str) -> list[int]:
    """Bounds of the days between two dates, half wider than these: what a person would know of a length of stay."""
    start, end = (np.floor(np.asarray(schema.columns[n].cell_values(texts[n]), float)) for n in (first, second))
    low, high = np.nanmin(end - start), np.nanmax(end - start)
    room = (high - low) / 4
    return [0 if 0 <= low < room else int(low - room), int(np.ceil(high + room))]


def _filled(cells: pd.Series, codes: set[str], kind: str, target: bool) -> dict[str, Any]:
    """The line of one column."""
    known = cells[~cells.isin(list(codes))]
    missing = [int(code) if re.fullmatch(r"-?\d+", code) else code for code in sorted(codes)]
    line: dict[str, Any] = {"missing": True if missing == [""] else missing} if missing else {}
    for form in FORMS if kind == "date" else ():
        days = pd.to_datetime(known, format=form, errors="coerce")
        if days.notna().all():
            ends = [f"{days.min().year - 1}-01-01", f"{days.max().year + 1}-12-31"]
            timed = {"resolution": "minute"} if "%H" in form else {}
            return line | timed | {"kind": "date", "bounds": ends, "format": form}
    levels = sorted(set(known))
    if kind == "categorical" or len(levels) <= (10**6 if target else FEW):
        if {level.lower() for level in levels} == {"true", "false"}:
            return line | {"kind": "binary", "levels": [False, True], "spelling": levels[-1].replace("False", "True")}
        named = sorted(levels, key=float) if kind == "continuous" else levels
        named = sorted(map(int, levels)) if kind == "count" else named
        several = "ordinal" if kind == "continuous" else "categorical"
        return line | {"kind": "binary" if len(levels) == 2 else several, "levels": named}
    numbers = pd.to_numeric(known)
    room = (numbers.max() - numbers.min()) / 4
    wide = [0 if 0 <= numbers.min() < room else np.floor(numbers.min() - room), np.ceil(numbers.max() + room)]
    if kind == "count":
        return line | {"kind": "count", "bounds": [int(end) for end in wide]}
    places = min(int(known.str.partition(".")[2].str.len().max()), 6)
    return line | {"kind": "continuous", "bounds": [float(end) for end in wide], "decimals": places}


def baselines(train: Path, test: Path, target: str, schema: Schema, codes: dict[str, list[str]]) -> dict[str, float]:
    """AuROC on the held-out rows, mean of two classifiers: the report's real baseline, and a plain pipeline."""
    scaled = {"lr": make_pipeline(StandardScaler(), MODELS["lr"]()), "hgb": MODELS["hgb"]()}
    cells = [cells_of(pd.read_csv(path, dtype=str, keep_default_na=False)) for path in (test, train)]
    found = gather(cells[0], cells[1], cells[1], target, schema, np.random.default_rng(0), disjoint=True)
    with mock.patch.object(protocol, "classifiers", lambda labels: scaled):
        report = TaskPredictions(found).real
    truth = found.real[target].astype(str).to_numpy()
    own = [_macro(truth, made.probabilities, found.classes()) for made in report.values()]
    return {"baseline": float(np.mean(own)), "pipeline": _pipeline(train, test, target, schema, codes)}


def _pipeline(train: Path, test: Path, target: str, schema: Schema, codes: dict[str, list[str]]) -> float:
    frames = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in (train, test)]
    names = [n for n in map(str, frames[0]) if n != target and schema.columns[n].modelled]
    words = [n for n in names if schema.columns[n].categorical]
    rest = [n for n in names if n not in words]
    ready = []
    for frame in frames:
        known = frame.assign(**{n: frame[n].mask(frame[n].isin(codes[n]), np.nan) for n in names})
        for n in rest:
            form = getattr(schema.columns[n], "format", None)
            days = pd.to_datetime(known[n], format=form) if form else None
            known[n] = pd.to_numeric(known[n]) if days is None else (days - pd.Timestamp("1900-01-01")).dt.days
        ready.append(known)
    hot = make_pipeline(SimpleImputer(strategy="constant", fill_value=""), OneHotEncoder(handle_unknown="ignore"))
    coded = ColumnTransformer(
        [("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), rest), ("words", hot, words)],
        sparse_threshold=0,
    )
    x, x_test = coded.fit_transform(ready[0]), coded.transform(ready[1])
    fitted = [model().fit(x, ready[0][target]) for model in MODELS.values()]
    truth = ready[1][target].to_numpy()
    return float(np.mean([_macro(truth, one.predict_proba(x_test), one.classes_) for one in fitted]))


def _macro(truth: Any, chances: Any, classes: Any) -> float:
    present = [k for k, level in enumerate(classes) if 0 < (truth == level).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == classes[k], chances[:, k]) for k in present]))
