"""Rules take some rows away, and the shares of values stay: within a row, with constants, under `balance`."""

from typing import Any

import numpy as np
import pytest

from medsynth.arrays import Codes
from medsynth.errors import UsageError
from medsynth.sampling.patients import resample_given_constants
from medsynth.sampling.rejection import broken, rejection_sample
from medsynth.sampling.sampler import single_rows
from medsynth.schema import Schema

COLUMNS: dict[str, Any] = {
    "low": {"kind": "count", "bounds": [0, 99], "missing": True},
    "high": {"kind": "count", "bounds": [0, 99], "missing": True},
    "sex": {"kind": "binary", "levels": ["F", "M"]},
    "pregnant": {"kind": "binary", "levels": ["no", "yes"]},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": True},
    "stay": {"kind": "count", "bounds": [0, 30]},
    "y": {"kind": "binary", "levels": ["0", "1"]},
}
RULES = {
    "two numbers": ["low <= high"],
    "a level implies another": ["pregnant = yes implies sex = F"],
    "a level implies a number": ["ward = a implies stay > 20"],
    "the target": ["y = 1 implies stay > 10"],
    "several": ["low <= high", "pregnant = yes implies sex = F", "y = 1 implies stay > 10"],
}
CHANCES = {"sex": [0.5, 0.5], "pregnant": [0.9, 0.1], "ward": [0.3, 0.4, 0.1, 0.2], "y": [0.8, 0.2]}
ROWS = 20_000


def schema(rules: list[str]) -> Schema:
    return Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS, "rules": rules})


def sampler(rows: int, seed: int | None, fixed: dict[str, Codes] | None = None) -> Codes:
    """Independent columns; numbers are missing in one row of ten."""
    rng, found = np.random.default_rng(seed), list[Any]()
    for name, column in COLUMNS.items():
        if fixed and name in fixed:
            found.append(fixed[name])
        elif name in CHANCES:
            found.append(rng.choice(len(CHANCES[name]), rows, p=CHANCES[name]))
        else:
            most = column["bounds"][1] + 1
            found.append(np.where((rng.random(rows) < 0.1) & (most == 100), most, rng.integers(0, most, rows)))
    return np.stack(found, 1).astype(np.int32)


def shares(codes: Codes) -> dict[str, list[float]]:
    """Shares of levels and of missing values, and of the quarters of numbers."""
    found = {}
    for k, (name, column) in enumerate(schema([]).columns.items()):
        groups = codes[:, k] if column.categorical else codes[:, k] * 4 // column.size
        found[name] = (np.bincount(groups, minlength=5) / len(codes)).tolist()
    return found


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_shares_stay_where_rules_take_rows_away(rules: list[str]) -> None:
    """Within four standard errors; rows are no copies of one another more often than free ones are."""
    found, free = rejection_sample(sampler, schema(rules), ROWS, 1), sampler(200_000, 2)
    assert not broken(found, schema(rules)).any()
    wanted = shares(free)
    for name, own in shares(found).items():
        assert own == pytest.approx(wanted[name], abs=4 * np.sqrt(0.25 / ROWS) + 0.002), name
    assert len(np.unique(found, axis=0)) > 0.97 * len(np.unique(sampler(ROWS, 3), axis=0))


def test_a_table_without_constraints_is_what_the_model_draws() -> None:
    assert np.array_equal(rejection_sample(sampler, schema([]), 50, 1), sampler(50, 1))


@pytest.mark.nightly
def test_few_rows_are_drawn_from_the_same_shares() -> None:
    table = schema(RULES["two numbers"])
    few = np.concatenate([rejection_sample(sampler, table, 20, seed) for seed in range(60)])
    assert (few[:, 0] == 100).mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / len(few)))


def test_a_rule_that_contradicts_the_shares_is_met_all_the_same() -> None:
    """No pregnant row is possible: the rest keeps its shares."""
    found = rejection_sample(sampler, schema(["pregnant = no", "low <= high"]), 5000, 1)
    assert not found[:, 3].any()
    assert (found[:, 0] == 100).mean() == pytest.approx(0.1, abs=0.02)


def test_rows_of_a_patient_with_constants_keep_their_shares() -> None:
    table = schema(["pregnant = yes implies sex = F", "low <= high"])
    own = Schema.from_dict({
        "name": "t", "target": "y", "unit": "who", "max_rows": 3, "constant": ["sex"], "rules": list(table.rules),
        "columns": {**COLUMNS, "who": {"kind": "identifier"}},
    })  # fmt: skip
    codes = rejection_sample(sampler, own, ROWS, 1)
    patients = np.repeat(np.arange(ROWS // 2), 2)
    resample_given_constants(codes, patients, sampler, own, np.random.default_rng(0))
    again = codes[1::2]
    assert (again[:, 2] == codes[::2, 2]).all()
    assert (again[:, 0] == 100).mean() == pytest.approx(0.1, abs=0.012)
    assert (again[:, 3] == 1).mean() == pytest.approx(0.1, abs=0.012)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("rules", "possible"),
    [(["y = 1 implies stay > 10"], True), (["y = 1 implies stay > 30"], False), (["y = 0"], False)],
)
def test_even_classes_are_met_or_refused(rules: list[str], possible: bool) -> None:
    def even(rows: int, seed: int | None, fixed: dict[str, Codes] | None = None) -> Codes:
        codes = sampler(rows, seed)
        codes[:, -1] = np.random.default_rng(seed).integers(0, 2, rows)
        return codes

    if possible:
        found = single_rows(even, schema(rules), 4000, 1, halved=True, even=True)
        assert found[:, -1].mean() == pytest.approx(0.5, abs=0.03)
    else:
        with pytest.raises(UsageError, match="as many rows of each class"):
            single_rows(even, schema(rules), 4000, 1, halved=True, even=True)
