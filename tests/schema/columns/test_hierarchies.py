"""Codes in hierarchies: positions nest, and the levels are chosen by charged noisy counts alone."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import SchemaError
from medsynth.fitting import training
from medsynth.io.table import from_frame
from medsynth.privacy import hierarchy_selection
from medsynth.schema import Categorical, Schema
from medsynth.schema.codec import encode, hierarchy_positions
from medsynth.schema.columns.hierarchies import SYSTEMS, Branches, Hierarchy

TREE = {"medicine": {"heart": ["infarct", "angina"], "kidney": []}, "surgery": ["hip", "knee"], "psychiatry": []}
KNOWN: dict[str, Hierarchy] = {**SYSTEMS, "tree": Branches(TREE)}
TEXTS = {
    "icd10": ["E11.90", "E11.9", "e119", "E11", "C7A.1", "Z99.9", "A00.0"],
    "icd10-plain": ["E119", "E11", "I10"],
    "atc": ["A10BA02", "A10BA", "A10", "A", "V99XX99"],
    "tree": ["infarct", "heart", "surgery", "knee", "psychiatry"],
}
COLUMNS: dict[str, dict[str, Any]] = {
    "icd": {"kind": "categorical", "hierarchy": "icd10", "unknown": "other", "missing": True},
    "drug": {"kind": "categorical", "hierarchy": "atc", "unknown": "other"},
    "ward": {"kind": "categorical", "hierarchy": TREE, "unknown": "elsewhere"},
    "y": {"kind": "binary", "levels": [0, 1]},
}


def schema(**changes: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "y", "columns": {**COLUMNS, **changes}})


def table(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.5
    icd = np.where(y, rng.choice(["E11.90", "E11.65", "I10"], rows), rng.choice(["J45.9", "J44.1", ""], rows))
    icd[:3], icd[3] = "Q78.4", "not a code"
    drug = rng.choice(["A10BA02", "C09AA05", "C09AA03", "R03AC02"], rows)
    ward = rng.choice(["infarct", "angina", "hip", "hospice"], rows, p=[0.4, 0.3, 0.29, 0.01])
    return pd.DataFrame({"icd": icd, "drug": drug, "ward": ward, "y": y.astype(int)})


@pytest.mark.parametrize("name", KNOWN)
def test_places_nest_and_children_are_apart(name: str) -> None:
    known = KNOWN[name]
    for text in TEXTS[name]:
        chain = known.chain(text)
        assert chain and chain[-1].stop <= known.size < 2**31
        for outer, inner in zip(chain, chain[1:], strict=False):
            assert outer.start < inner.start and inner.stop <= outer.stop  # the outer one's own place comes first
            assert inner in known.children(outer)
    below = known.children(None)
    for node in (None, below[0], below[-1]):
        some = known.children(node)
        assert all(a.stop <= b.start for a, b in zip(some, some[1:], strict=False))
        if node:
            assert all(node.start < child.start and child.stop <= node.stop for child in some)


def test_the_map_of_nodes_agrees_with_the_chains() -> None:
    known, rng = SYSTEMS["icd10"], np.random.default_rng(1)
    codes = [f"{rng.choice(list('ABEI'))}{rng.integers(0, 99):02}.{rng.integers(0, 9)}" for _ in range(500)]
    where = np.array([known.chain(code)[-1].start for code in codes], np.int32)
    nodes = known.children(known.chain("E")[-1]) + known.children(known.chain("I")[-1])
    cells = hierarchy_selection.node_cells(nodes).cell_of(where)
    for code, cell in zip(codes, cells, strict=True):
        label = known.chain(code)[1].label
        assert (nodes[cell].label if cell < len(nodes) else None) == (label if code[0] in "EI" else None)
    assert (hierarchy_selection.node_cells([]).cell_of(where) == 0).all()


@pytest.mark.statistical
def test_levels_are_chosen_as_fine_as_the_counts_carry(quick: None, seeded_entropy: None) -> None:
    """The seed is fixed: it cannot fail by chance."""
    model = medsynth.fit(table(), epsilon=8, schema=schema(), rows=3000, method="independent", seed=0)
    icd, drug, ward = ([str(level) for level in model.schema.columns[name].levels] for name in ("icd", "drug", "ward"))
    assert {"E", "E11", "E11.9", "E11.6", "I10", "J45.9", "J44.1", "other"} <= set(icd)
    assert not any(level.startswith("Q") for level in icd)  # three patients do not make a level
    assert {"A10BA02", "C09AA05", "C09AA", "other"} <= set(drug)
    assert {"infarct", "angina", "hip", "medicine", "elsewhere"} <= set(ward) and "knee" not in ward
    labels = [entry.label for entry in model.ledger.entries]
    assert [f"hierarchy level {d}" for d in range(1, 6)] == [label for label in labels if label.startswith("hierarchy")]
    entry = model.ledger.entries[0]
    assert entry.sensitivity == pytest.approx(math.sqrt(3)) and model.ledger.complete
    assert model.epsilon is not None and model.epsilon <= 8
    drawn = medsynth.sample(model, 2000, seed=0)
    assert set(drawn["icd"].dropna()) <= set(icd) and drawn["icd"].isna().any()
    assert Schema.from_yaml(model.schema.to_yaml()) == model.schema


@pytest.mark.nightly_for("dp-cgan")
@pytest.mark.parametrize("method", ["mixture", "dp-cgan"])
def test_codes_are_modelled_and_resumed(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    options: dict[str, Any] = {
        "epsilon": 3.7,
        "schema": schema(),
        "rows": 3000,
        "method": method,
        "checkpoint": tmp_path / "c",
    }
    model = medsynth.fit(table(), **options)
    from medsynth.privacy.queries import query

    monkeypatch.setattr(query, "noised", lambda *args: pytest.fail("a release was drawn twice"))
    again = medsynth.fit(table(), resume=True, **options)
    assert again.schema == model.schema and all((again.tensors[k] == t).all() for k, t in model.tensors.items())


def test_levels_named_by_hand_cost_nothing(quick: None) -> None:
    named = schema(
        icd={**COLUMNS["icd"], "levels": ["E11", "E", "J", "other"]},
        drug={**COLUMNS["drug"], "levels": ["A10B", "C", "other"]},
        ward={**COLUMNS["ward"], "levels": ["medicine", "hip", "elsewhere"]},
    )
    codes = encode(from_frame(table()), named)
    icd = named.columns["icd"].levels
    assert {icd[k] for k in set(codes[:, 0]) if k < 4} == {"E11", "J", "other"}
    model = medsynth.fit(table(), epsilon=3.7, schema=named, rows=3000, method="independent")
    assert not any("codes" in entry.label for entry in model.ledger.entries)


def test_unknown_codes_and_missing_ones_have_places() -> None:
    columns = {n: c for n, c in schema().columns.items() if isinstance(c, Categorical)}
    found = hierarchy_positions(from_frame(table()), columns)
    size = SYSTEMS["icd10"].size
    assert found[3, 0] == size and (found[table()["icd"] == "", 0] == size).all() and found[:, 0].max() == size


def test_the_report_compares_real_codes_at_the_chosen_level() -> None:
    from medsynth.report.data.columns import cells_of, comparable

    named = schema(icd={**COLUMNS["icd"], "levels": ["E11", "J", "other"]})
    read = pd.read_csv(io.StringIO(table().to_csv(index=False)))
    found = comparable(cells_of(read), named, frozenset(), "real", [])["icd"]
    assert set(found.dropna()) == {"E11", "J", "other"} and (found.isna() == read["icd"].isna()).all()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"kind": "categorical", "hierarchy": "icd11", "unknown": "o"}, "icd10"),
        ({"kind": "categorical", "hierarchy": "icd10"}, "needs `unknown`"),
        ({"kind": "ordinal", "hierarchy": "icd10", "unknown": "o"}, "cannot be ordinal"),
        ({"kind": "categorical", "hierarchy": {"a": ["b", "b"]}, "unknown": "o"}, "twice"),
        ({"kind": "categorical", "hierarchy": {"a": "bc"}, "unknown": "o"}, "lists of words"),
        ({"kind": "categorical", "hierarchy": {"a": [1, 2]}, "unknown": "o"}, "lists of words"),
        ({"kind": "categorical", "hierarchy": {}, "unknown": "o"}, "lists of words"),
        ({"kind": "categorical", "hierarchy": "icd10", "levels": ["E"], "unknown": "o"}, "one of the levels"),
    ],
)
def test_what_is_no_hierarchy_is_refused(column: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict({"name": "t", "columns": {"x": column}})


def test_a_target_in_a_hierarchy_needs_levels() -> None:
    with pytest.raises(SchemaError, match="List its classes in"):
        medsynth.fit(table(), epsilon=3, schema=schema().with_target("ward"), rows=3000)


def test_the_memory_of_many_levels_is_estimated_before_it_is_taken(quick: None) -> None:
    many = Categorical(levels=tuple(f"l{k}" for k in range(9000)))
    small, large = (Schema(name="t", target="y", columns={"x": many, "y": column}) for column in (
        schema().columns["y"], Categorical(levels=tuple(f"c{k}" for k in range(200)))))  # fmt: skip
    assert training.fit_memory_gib(small) < training.MUCH_MEMORY_GIB < training.fit_memory_gib(large)


@pytest.mark.parametrize("name", SYSTEMS)
def test_digits_of_another_alphabet_are_in_no_code(name: str) -> None:
    for text in ("C０３CA01", "E１1.9", "A٠٣", "C03CA０1"):
        assert SYSTEMS[name].chain(text) in ((), SYSTEMS[name].chain(text.upper()))
    assert SYSTEMS["atc"].chain("C０３CA01") == ()
