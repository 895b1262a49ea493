"""Every query that a method asks can be written, is read as it was, and has the same exact answer and release."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth.methods.registry import METHODS
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.queries.measurements import QUERIES
from medsynth.privacy.queries.rows import CodedRows
from medsynth.privacy.queries.wire import Columns, read, read_features, write
from medsynth.privacy.vault import Vault
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema
from medsynth.transforms.hierarchies import hierarchy

PLAIN: dict[str, Any] = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "scale": "log"},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}
MIXED: dict[str, Any] = {name: {**column, "missing": True} for name, column in PLAIN.items()} | {
    "site": {"kind": "categorical", "levels": ["n", "e", "s", "w"], "missing": True},
    "icd": {"kind": "categorical", "hierarchy": "icd10", "unknown": "?"},
    "y": PLAIN["y"],
}
SUM: dict[str, Any] = {**PLAIN, "sum": {"kind": "continuous", "bounds": [0, 300], "decimals": 1}}
NUMBERS: dict[str, Any] = {f"c{k}": {"kind": "count", "bounds": [0, 50]} for k in range(60)} | {"y": PLAIN["y"]}
BITS: dict[str, Any] = {f"c{k}": {"kind": "binary", "levels": [0, 1]} for k in range(150)} | {"y": PLAIN["y"]}
ROWS, SEEN = 50, set[type]()


def fit(columns: dict[str, Any], *, rows: int = 80, **options: Any) -> Schema:
    rng, frame = np.random.default_rng(0), dict[str, Any]()
    for name, c in columns.items():
        levels = ["E11.9", "I10"] if "hierarchy" in c else c.get("levels")
        values = rng.choice(levels, rows) if levels else rng.integers(0, 90, rows)
        frame[name] = pd.Series(values, dtype=object).mask(rng.random(rows) < (0.2 if c.get("missing") else 0), None)
    definition: dict[str, Any] = {"name": "t", "target": options.pop("target", "y"), "columns": dict(columns)}
    if "sum" in columns:
        frame["sum"], definition["rules"] = (
            frame["age"].astype(float) + frame["dose"].astype(float),
            ["sum = age + dose"],
        )
    if options.pop("patients", False):
        frame["who"] = rng.integers(0, rows // 2, rows).astype(str)
        definition["columns"] |= {"who": {"kind": "identifier"}}
        definition |= {"unit": "who", "max_rows": 3}
    schema = Schema.from_dict(definition)
    budget: dict[str, Any] = {"no_dp": True} if options.get("method") == "loss-noise" else {"epsilon": 3.7}
    return medsynth.fit(pd.DataFrame(frame), schema=schema, rows=rows, seed=1, **budget, **options).schema


def columns_of(names: tuple[str, ...], schema: Schema) -> Columns:
    """Of the vault that holds the rows, or of that which holds places in hierarchies, or of none."""
    core = schema.core
    if names == core.names:
        return Columns.of(core)
    return Columns({name: hierarchy(vars(core.columns[name])["hierarchy"]).size + 1 for name in names})


FITS = (
    [(name, PLAIN, {"method": name}) for name in METHODS]
    + [(f"{name} mixed", MIXED, {"method": name}) for name in ("mixture", "dp-cgan", "gs-wgan")]
    + [
        ("no class", {n: c for n, c in PLAIN.items() if n != "y"}, {"target": None}),
        ("number as target", MIXED, {"target": "age"}),
        ("number as target dp-cgan", MIXED, {"target": "age", "method": "dp-cgan"}),
        ("patients", PLAIN, {"patients": True}),
        ("computed column", SUM, {"rows": 4000}),
        ("thyroid-study", PLAIN, {"preset": "thyroid-study", "method": "dp-cgan", "microbatches": 4}),
        ("many rows", PLAIN, {"rows": 30_000}),
        ("wide", NUMBERS, {"rows": 3000}),
        ("wider", BITS, {"rows": 5000}),
    ]
)  # fmt: skip


@pytest.mark.matrix
@pytest.mark.nightly_for("wide", "wider", "thyroid-study", "dp-gan")
@pytest.mark.parametrize("name, columns, options", FITS, ids=[name for name, *_ in FITS])
def test_queries_are_what_they_were_once_they_are_read(
    name: str, columns: dict[str, Any], options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    if name != "wider":  # of hundreds of columns second moments are measured, and not by a quick fit's allocation
        request.getfixturevalue("quick")
    asked, encodings = dict[str, Any](), list[Any]()
    measure, split = Vault.measure, Vault.split_into_shards

    def asking(self: Any, label: str, query: Any) -> Any:
        asked[label] = (query, self._Vault__parts[0]._RowsInMemory__names)
        return measure(self, label, query)

    def splitting(self: Any, count: int, features: Any, *rest: Any) -> Any:
        encodings.append(features)
        return split(self, count, features, *rest)

    patch = request.getfixturevalue("monkeypatch")
    patch.setattr(Vault, "measure", asking)
    patch.setattr(Vault, "split_into_shards", splitting)
    schema = fit(columns, **options)
    assert asked
    for label, (query, names) in asked.items():
        SEEN.add(type(query))
        known = columns_of(names, schema)
        again = read(write(query, known), known)
        assert type(again) is type(query) and again is not query
        rows = CodedRows(
            codes_of(known), names, np.random.default_rng(2).integers(0, 2**64, (ROWS, query.draws), dtype=np.uint64),
            PrivacyUnits(np.arange(ROWS) // 2, 2),
        )  # fmt: skip
        exact, same = query.exact(rows), again.exact(rows)
        assert len(exact) == len(same) and all(map(np.array_equal, exact, same)), label
        assert query.sensitivity(2) == again.sensitivity(2)
        released = [one.noised(exact, 0.7, SeededEntropy(1)) for one in (query, again)]
        assert all(map(np.array_equal, *released))
        one, other = (asker.result(released[0]) for asker in (query, again))
        assert plain(one) == plain(other)
    for features in encodings:
        known = Columns.of(schema.core)
        sent = read_features(write(features, known), known)
        assert torch.equal(sent(codes_of(known)), features(codes_of(known)))


def codes_of(known: Columns) -> Any:
    rng, found = np.random.default_rng(1), np.zeros((ROWS, len(known.sizes)), np.int32)
    for k, size in enumerate(known.sizes.values()):
        found[:, k] = rng.integers(0, size, ROWS)
    return found


def plain(found: Any) -> Any:
    values = found.values() if isinstance(found, dict) else found
    return [np.asarray(value).tolist() for value in values], list(found) if isinstance(found, dict) else None


def test_every_kind_of_query_was_asked(request: pytest.FixtureRequest) -> None:
    """Where all fits above were run in this process."""
    here = [item for item in request.session.items if item.nodeid.startswith("tests/methods/test_written_queries.py")]
    if len(here) > len(FITS) and not hasattr(request.config, "workerinput"):
        assert set(QUERIES) == SEEN
