"""Which codes a patient has, over all tables: measurements, draws of the model, and rows that have these codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from medsynth.patients.codes import Together, columns_of_codes, most_codes, names_of_codes
from medsynth.patients.codes_training import chosen_codes, latent_correlations, train_together
from medsynth.privacy.queries.rows import CodedRows
from medsynth.schema.linked import LinkedTables, joint

CODES = 60
TEXT = f"""
name: codes
key: patient
tables:
  patients:
    target: sex
    columns:
      patient: {{kind: identifier}}
      sex: {{kind: binary, levels: [F, M]}}
  conditions:
    order: day
    max_rows: 6
    columns:
      patient: {{kind: identifier}}
      day: {{kind: count, bounds: [0, 99]}}
      condition: {{kind: categorical, levels: {[f"c{k}" for k in range(CODES)]}}}
  drugs:
    order: given
    max_rows: 4
    columns:
      patient: {{kind: identifier}}
      given: {{kind: count, bounds: [0, 99]}}
      drug: {{kind: categorical, levels: {[f"d{k}" for k in range(CODES)]}}}
      urgent: {{kind: binary, levels: ["no", "yes"]}}
"""


@pytest.fixture(scope="module")
def tables() -> LinkedTables:
    return LinkedTables.from_yaml(TEXT)


def patients(count: int, tables: LinkedTables, rng: np.random.Generator) -> tuple[Any, Any]:
    """Codes of the joint schema, and of which codes patients have: drug 0 follows condition 0, most others are rare."""
    schema = joint(tables).core
    names = [*names_of_codes(tables).values()]
    chance = np.array([0.4 if level < 4 else 0.02 for _, level in names])
    has = rng.random((count, len(names))) < chance
    same = rng.random(count) < 0.8
    has[same, CODES] = has[same, 0]
    sizes = [tables.tables[name].max_rows for name in tables.others]
    for table, most in enumerate(sizes):
        own = has[:, table * CODES : (table + 1) * CODES]
        own &= own.cumsum(1) <= most
    codes = np.zeros((count, len(schema.columns)), np.int32)
    for table, name in enumerate(tables.others):
        own = has[:, table * CODES : (table + 1) * CODES]
        column = {"conditions": "condition", "drugs": "drug"}[name]
        codes[:, schema.names.index(f"rows of {name}")] = own.sum(1)
        codes[:, schema.names.index(f"{name}.{column}")] = np.where(
            own.any(1), (own * rng.random(own.shape)).argmax(1), CODES
        )
    return codes, has.astype(np.int32)


class Exact:
    """Answers without noise; keeps the queries and the answers."""

    def __init__(self, codes: Any, names: tuple[str, ...]) -> None:
        self.rows = CodedRows(codes, names, np.zeros((len(codes), 0), np.uint64))
        self.queries = list[Any]()

    def measure(self, label: str, query: Any) -> Any:
        self.queries.append(query)
        scales = query.scales(1.0)
        total = query.finished(query.exact(self.rows))
        return query.result([whole * scale.unit for whole, scale in zip(total, scales, strict=True)])

    def measure_second_moments(self, label: str, vectors: Any, given: Any, width: int) -> Any:
        from medsynth.privacy.queries.moments import SecondMoments

        return self.measure(label, SecondMoments(vectors, given, width))


class NoNoise:
    """A plan of measurements without noise."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def noise(self, label: str) -> float:
        return 0.0


def trained(count: int, tables: LinkedTables) -> tuple[Together, Any, Any, Exact]:
    codes, has = patients(count, tables, np.random.default_rng(0))
    schema = joint(tables)
    vault = Exact(np.column_stack([codes, has]), (*schema.core.names, *names_of_codes(tables)))
    wide = np.zeros((count, len(schema.columns)), np.int32)
    wide[:, [schema.names.index(name) for name in schema.core.names]] = codes
    return train_together(vault, NoNoise(count), tables, schema, wide), wide, has, vault  # type: ignore[arg-type]


def test_a_table_has_one_column_of_codes_that_with_the_most_levels(tables: LinkedTables) -> None:
    assert columns_of_codes(tables) == {"conditions": "condition", "drugs": "drug"}
    assert most_codes(tables) == 6 + 4


def test_a_patient_moves_the_measurements_by_one_at_most(tables: LinkedTables) -> None:
    """Whoever is emptied, and the patient with as many codes as can be by the root of these, which counts exactly."""
    _, wide, has, vault = trained(400, tables)
    counts, pairs = vault.queries
    assert counts.sensitivity(1) == pairs.sensitivity(1) == 1
    most = np.zeros_like(vault.rows.codes[:1])
    first = most.shape[1] - 2 * CODES
    most[0, first : first + 6] = most[0, first + CODES : first + CODES + 4] = 1
    none = np.empty_like(most[:0])
    for row in [*vault.rows.codes[:50, None], most, np.full_like(most, 1)]:
        for query in (counts, pairs):
            scales = query.scales(1.0)  # each array in units of its own noise
            parts = list[float]()
            for some in (row, none):
                draws = np.zeros((len(some), 0), np.uint64)
                answer = query.finished(query.exact(CodedRows(some, vault.rows.names, draws)))
                parts.append([a * s.unit / s.std for a, s in zip(answer, scales, strict=True)])  # type: ignore[arg-type]
            moved = np.concatenate([(a - b).ravel() for a, b in zip(*parts, strict=True)])  # type: ignore[call-overload]
            assert np.linalg.norm(moved) <= 1
    assert np.linalg.norm(counts.vectors(most).numpy()) == pytest.approx(1)  # nobody is clipped


def test_codes_are_drawn_as_often_and_together(tables: LinkedTables) -> None:
    model, wide, has, _ = trained(4000, tables)
    schema = joint(tables)
    made = drawn(model, wide, schema, tables)
    names = [*names_of_codes(tables).values()]
    places = [names.index((int(t), int(level))) for t, level in model.which]
    assert {0, CODES} <= set(places)
    assert np.abs(made[:, places].mean(0) - has[:, places].mean(0)).max() < 0.04
    real = np.corrcoef(has[:, 0], has[:, CODES])[0, 1]
    assert real > 0.6 and np.corrcoef(made[:, 0], made[:, CODES])[0, 1] > 0.7 * real
    assert abs(np.corrcoef(made[:, 1], made[:, CODES + 1])[0, 1]) < 0.1  # these two are independent
    restored = Together.restored(model.tensors(schema), schema)
    assert restored is not None and (drawn(restored, wide, schema, tables) == made).mean() > 0.999


def drawn(model: Together, wide: Any, schema: Any, tables: LinkedTables) -> Any:
    counts, first = dict[int, Any](), dict[int, Any]()
    for table, (name, column) in enumerate(columns_of_codes(tables).items()):
        counts[table] = wide[:, schema.names.index(f"rows of {name}")].astype(np.int64)
        first[table] = wide[:, schema.names.index(f"{name}.{column}")].astype(np.int64)
    found = model.draw(wide, schema, [0, 1], counts, first, np.random.default_rng(1))
    made = np.zeros((len(wide), 2 * CODES), np.bool_)
    for table, (levels, has) in found.items():
        made[:, table * CODES + levels] = has
        assert (has.sum(1) <= counts[table]).all()
        known = np.isin(first[table], levels) & (counts[table] > 0)
        assert made[known, table * CODES + first[table][known]].all()  # the first row is drawn already
    return made


@pytest.mark.parametrize("correlation", [-0.6, 0.3, 0.8])
def test_covariances_become_correlations_of_normal_variables(correlation: float) -> None:
    shares = np.array([0.3, 0.1])
    cut = -norm.ppf(shares)
    both = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf(-cut)
    covariance = np.array([[0.0, both - shares.prod()], [0.0, 0.0]])
    assert latent_correlations(covariance, shares)[0, 1] == pytest.approx(correlation, abs=0.01)


def test_codes_are_chosen_by_noisy_counts_and_as_many_as_the_noise_allows() -> None:
    counts = np.array([50.0, 400.0, 2.0, 300.0, 250.0])
    assert chosen_codes(counts, 40, 1000, 5.0).tolist() == [1, 3, 4]
    assert chosen_codes(counts, 4000, 1000, 5.0).tolist() == [1, 3]  # two, even if nothing is clear
    assert chosen_codes(counts, 1, 50, 5.0).tolist() == [1, 3]  # few patients: each pair has much noise
