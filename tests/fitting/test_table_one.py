"""A published Table 1: its form is checked before the fit, its figures are met, and it shows no relation of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import leans_on
from medsynth.errors import LEANS, TRUSTED, UsageError
from medsynth.fitting.table_one import ROWS, check_table_one, codes_of, groups_of, is_table_one
from medsynth.io.reader import read
from medsynth.mixture.constants import UNKNOWN
from medsynth.schema import Schema

HEADER = "column,level,class,mean,sd,median,q1,q3,percent\n"
CLASSES = "diagnosis,normal,,,,,,,93\ndiagnosis,subclinical,,,,,,,5\ndiagnosis,overt,,,,,,,2.1\n"
AGES = "age_years,,normal,50,15,,,,\nage_years,,subclinical,57,14,,,,\nage_years,,overt,60,12,,,,\n"
REST = """tsh_miu_l,,,,,1.8,0.9,3.1,
sex_at_birth,F,,,,,,,66
referral_source,general practice,,,,,,,60
referral_source,endocrinology,,,,,,,20
referral_source,antenatal,,,,,,,10
referral_source,psychiatry,,,,,,,4
referral_source,surgery,,,,,,,3
"""


def table(text: str) -> Any:
    Path("table1.csv").write_text(HEADER + text)
    return read("table1.csv")


def of(codes: Any, clinic: Schema, name: str) -> Any:
    column = codes[:, clinic.core.names.index(name)]
    return column[column != UNKNOWN]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_rows_of_a_table_1_have_its_figures(clinic: Schema) -> None:
    found = table(CLASSES + AGES + REST)
    check_table_one(found, clinic, 1.0)
    codes = codes_of(found, clinic.core, UNKNOWN)
    columns, target = clinic.core.columns, clinic.core.names.index("diagnosis")
    age = clinic.core.names.index("age_years")
    for place, (level, mean, sd, share) in enumerate([("normal", 50, 15, 0.93), ("overt", 60, 12, 0.021)]):
        own = codes[(codes[:, target] == (0, 2)[place]) & (codes[:, age] != UNKNOWN), age] + 18
        assert len(own) == round(ROWS * share), level
        assert own.mean() == pytest.approx(mean, abs=0.6) and own.std() == pytest.approx(sd, rel=0.1)
    tsh = columns["tsh_miu_l"].values(of(codes, clinic, "tsh_miu_l"), {})
    assert np.quantile(tsh, [0.25, 0.5, 0.75]) == pytest.approx([0.9, 1.8, 3.1], abs=0.02) and tsh.min() > 0
    assert np.bincount(of(codes, clinic, "sex_at_birth")) == pytest.approx([660, 340])  # the level left takes the rest
    assert np.bincount(of(codes, clinic, "referral_source"))[-1] == pytest.approx(30, abs=1)
    assert np.bincount(of(codes, clinic, "diagnosis"))[1] > ROWS * 0.05


def test_no_row_of_a_table_1_knows_two_columns(clinic: Schema) -> None:
    codes = codes_of(table(CLASSES + AGES + REST), clinic.core, UNKNOWN)
    others = np.delete(codes, clinic.core.names.index("diagnosis"), axis=1)
    assert ((others != UNKNOWN).sum(1) <= 1).all()


def test_a_mean_below_its_deviations_is_skewed(clinic: Schema) -> None:
    codes = codes_of(table("tsh_miu_l,,,5,20,,,,\nage_years,,,50,15,,,,\n"), clinic.core, UNKNOWN)
    tsh = clinic.core.columns["tsh_miu_l"].values(of(codes, clinic, "tsh_miu_l"), {})
    assert (tsh == 0).mean() < 0.01 and 3 < tsh.mean() < 6 and np.median(tsh) < 2


def test_the_header_decides() -> None:
    assert is_table_one(table(AGES))
    for header in ("column,mean,colour", "age_years,mean,sd", "column,level"):
        Path("open.csv").write_text(f"{header}\n{'1,' * header.count(',')}1\n{'2,' * header.count(',')}2\n")
        assert not is_table_one(read("open.csv"))


REFUSED = {
    "four digits": ("age_years,,,50.12,15,,,,\n", "'mean' must be a number of at most 3 digits"),
    "four digits of a share": ("sex_at_birth,F,,,,,,,62.51\n", "'percent' must be a number of at most 3 digits"),
    "no number": ("age_years,,,fifty,15,,,,\n", "'mean' must be a number"),
    "no column": ("age,,,50,15,,,,\n", "no such column"),
    "no level": ("sex_at_birth,X,,,,,,,62\n", "not one that the schema declares"),
    "no figures": ("age_years,,,50,,,,,\n", "`mean` and `sd`"),
    "a level of a number": ("age_years,old,,50,15,,,,\n", "one line without a level"),
    "levels twice": ("sex_at_birth,F,,,,,,,60\nsex_at_birth,F,,,,,,,40\n", "each level once"),
    "too few percents": ("referral_source,surgery,,,,,,,60\n", "add up to 100"),
    "descending": ("age_years,,,,,50,60,40,\n", "`median`, `q1` and `q3`"),
    "a negative deviation": ("age_years,,,50,-15,,,,\n", "`mean` and `sd`"),
    "no classes": (AGES, "all classes"),
    "a class that is missing": (CLASSES + AGES.splitlines()[0] + "\n", "all classes"),
    "a class of the target": ("diagnosis,normal,normal,,,,,,93\n", "need all classes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_1_that_cannot_be_meant_is_refused(name: str, clinic: Schema) -> None:
    text, words = REFUSED[name]
    with pytest.raises(UsageError, match=words):
        check_table_one(table(text + "clinic_visits,,,3,2,,,,\n"), clinic, 1.0)


def test_trailing_zeros_and_percent_signs_are_read() -> None:
    found = groups_of(table("sex_at_birth,F,,,,,,,62.5%\ntt4_nmol_l,,,1200,10,,,,\n"))
    assert found["sex_at_birth", ""][0].figures == {"percent": 62.5}
    assert found["tt4_nmol_l", ""][0].figures == {"mean": 1200, "sd": 10}
    with pytest.raises(UsageError, match="3 digits"):
        groups_of(table("tt4_nmol_l,,,1230.0,10,,,,\nage_years,,,50,15,,,,\n"))


def test_figures_by_class_replace_those_of_all_patients(clinic: Schema) -> None:
    found = groups_of(table("age_years,,,70,1,,,,\n" + CLASSES + AGES))
    assert {of for name, of in found if name == "age_years"} == {"normal", "subclinical", "overt"}


def test_a_small_epsilon_is_refused_with_the_reason(clinic: Schema) -> None:
    with pytest.raises(UsageError, match=r"`epsilon` of 0\.5 or more.*too few to notice"):
        check_table_one(table(CLASSES + AGES), clinic, 0.49)
    check_table_one(table(CLASSES + AGES), clinic, None)


@pytest.mark.usefixtures("quick")
def test_a_fit_leans_on_a_table_1(patients: Path) -> None:
    table(CLASSES + AGES + REST)
    words = ["--epsilon", "3", "--rows", "300", "--public", "table1.csv", "--citation", "Smith 2020"]
    for verb in ("plan", "fit"):
        done = CliRunner().invoke(app, [verb, str(patients), *words])
        assert done.exit_code == 0, done.stderr
    model = medsynth.load("patients.medsynth")
    (declared,), (trusted,) = model.ledger.about(LEANS), model.ledger.about(TRUSTED)
    assert f"{len((CLASSES + AGES + REST).splitlines())} lines of a Table 1" in declared
    assert f"trusted {trusted.about.entry}" in leans_on(model) and "alone" not in trusted.about.entry
    assert len(medsynth.sample(model, 20)) == 20
    with pytest.raises(UsageError, match="not from a Table 1"):
        medsynth.plan(patients, epsilon=3, method="dp-gan", public="table1.csv", citation="c")
    with pytest.raises(UsageError, match="0.5 or more"):
        medsynth.plan(patients, epsilon=0.2, public="table1.csv", citation="c")


@pytest.mark.nightly
@pytest.mark.usefixtures("quick")
def test_a_bare_table_may_have_a_table_1(patients: Path) -> None:
    table(CLASSES + AGES + REST)
    Path("patients.schema.yaml").unlink()
    model = medsynth.fit(
        patients, epsilon=20, public="table1.csv", citation="c", anyway=True, notice=lambda text: None
    )  # fmt: skip
    assert model.ledger.complete and len(medsynth.sample(model, 20)) == 20
