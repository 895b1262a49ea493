"""Rows that a user declares public: their declaration stands wherever the model goes, and private ones are refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_clinic
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import claim, leans_on
from medsynth.errors import LEANS, STUDY_TRUST, TRUSTED, Message, TableError, UsageError
from medsynth.fitting.holdout import was_fitted
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.private_table import PrivateTable, open_table
from medsynth.fitting.public_rows import public_rows_of, settled_by
from medsynth.fitting.settings import MOST_CITATION, FitSettings
from medsynth.io.reader import read
from medsynth.mixture.constants import TRUST, TRUST_WORDS, UNKNOWN
from medsynth.mixture.method import LatentMixture
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.accountant import rounded_up
from medsynth.report.data.verdict import Review
from medsynth.schema import Schema
from medsynth.schema.codec import encode, known_codes
from medsynth.sidecars.facts import gather

pytestmark = pytest.mark.usefixtures("quick")
CITATION = "Smith et al. 2020, Cohort of the North"


@pytest.fixture(scope="module")
def clinic() -> Schema:
    return small_clinic.schema(small_clinic.FEW)


@pytest.fixture
def patients(patients_of_few_columns: Path) -> Path:
    return patients_of_few_columns


@pytest.fixture
def open_csv(patients: Path) -> Path:
    """Public rows next to patients.csv."""
    small_clinic.cohort(200, 99, small_clinic.FEW).to_csv("open.csv", index=False)
    return Path("open.csv")


def fit(table: Any, **options: Any) -> medsynth.Model:
    given: dict[str, Any] = {"epsilon": 3, "rows": 300, "public": "open.csv", "citation": CITATION, **options}
    return medsynth.fit(table, **given)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, [*words])


def test_the_declaration_stands_wherever_the_model_goes(patients: Path, open_csv: Path) -> None:
    """Before the fit, in the ledger, in the model file, in the rows' provenance; the claim stays as it is."""
    told = list[str]()
    model = fit(patients, notice=told.append)
    digest = hashlib.sha256(open_csv.read_bytes()).hexdigest()
    before = next(text for text in told if "declared `public` public" in text)
    assert CITATION in before and "other patients" in before
    kept = medsynth.load(model.save(Path("m.medsynth")))
    (declared,), (trusted,) = kept.ledger.about(LEANS), kept.ledger.about(TRUSTED)
    assert digest in declared and "200 rows" in declared and declared.about.entry == CITATION
    assert trusted.about.entry in TRUST_WORDS and any("was trusted" in text for text in told)
    leans = leans_on(kept)
    assert leans.startswith(f"These rows lean on: {CITATION} (public), trusted {trusted.about.entry}. Its own misfit")
    assert "beyond" not in claim(kept) and kept.config["public"] is True
    assert run("sample", "--model", "m.medsynth", "--output", "s.csv").exit_code == 0
    assert leans in json.loads(Path("s.csv.provenance.json").read_text())["note"]
    assert leans in gather(kept, Path("m.medsynth"), Path("s.csv"), Review()).statement
    assert leans_on(medsynth.fit(patients, epsilon=3, rows=300)) == ""


@pytest.mark.parametrize("whose", ["some", "these"])
def test_a_claim_about_the_same_patients_is_about_what_lies_beyond(whose: str, patients: Path, open_csv: Path) -> None:
    model = fit(patients, public_patients=whose)
    beyond = f", beyond what {CITATION} shows"
    assert beyond in claim(model) and beyond in claim(model, brief=True) and beyond in model.ledger.protects
    planned = medsynth.plan(patients, epsilon=3, public=open_csv, citation=CITATION, public_patients=whose)
    assert any("You declared `public` public" in note and CITATION in note for note in planned.notes)
    assert beyond in planned.protects and beyond in str(planned)


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
def test_the_first_page_of_a_report_names_the_public_rows(patients: Path, open_csv: Path) -> None:
    fitted = ["fit", "patients.csv", "--epsilon", "3", "--public", "open.csv", "--holdout", "0.3"]
    assert run(*fitted, "--citation", "Smith <b>2020</b>").exit_code == 0
    assert run("sample").exit_code == 0
    done = run("report", "--output", "r.html")
    assert done.exit_code == 0, done.stderr
    page = Path("r.html").read_text()
    assert "lean on: Smith &lt;b&gt;2020&lt;/b&gt; (public), trusted " in page and "Its own misfit is " in page


def test_plan_and_fit_mean_the_same(patients: Path, open_csv: Path) -> None:
    words = ["patients.csv", "--epsilon", "3", "--rows", "300", "--public", "open.csv", "--citation", CITATION]
    done, planned = run("fit", *words), run("plan", "--json", *words)
    assert done.exit_code == planned.exit_code == 0, done.stderr + planned.stderr
    model = medsynth.load("patients.medsynth")
    labels = {one["label"] for one in json.loads(planned.stdout)["measurements"]}
    assert labels == {entry.label for entry in model.ledger.entries}
    plain = plan_fit(patients, FitSettings(epsilon=3, rows=300))[0]
    assert plan_fit(patients, FitSettings(epsilon=3, rows=300, public=open_csv, citation="c"))[0] == plain


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no citation": ({"citation": None}, "needs a `citation`"),
    "an empty citation": ({"citation": " "}, "needs a `citation`"),
    "a long citation": ({"citation": "x" * (MOST_CITATION + 1)}, "printable line"),
    "a citation of two lines": ({"citation": "Smith\n2020"}, "printable line"),
    "nobody's rows": ({"public_patients": "mine"}, "`public_patients` must be other, some, these"),
    "a citation of nothing": ({"public": None}, "Pass their table too"),
    "intervals": ({"inference": ["diagnosis ~ age_years"]}, "whether intervals then cover"),
    "another method": ({"method": "gs-wgan"}, "does not learn from public rows"),
    "no column": ({"public": "other.csv"}, "no column of the private table"),
    "the table itself": ({"public": "patients.csv"}, "is the private table itself"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused_before_anything_is_spent(name: str, patients: Path, open_csv: Path) -> None:
    Path("other.csv").write_text("x,y\n1,2\n3,4\n")
    changed, words = REFUSED[name]
    for verb in (fit, lambda table, **options: medsynth.plan(table, **options)):
        given = {"epsilon": 3, "public": "open.csv", "citation": CITATION, **changed}
        with pytest.raises(UsageError, match=words):
            verb(patients, **given)
    assert not list(Path().glob("*.medsynth*"))


def test_a_part_of_the_table_is_not_taken_for_public_rows(patients: Path) -> None:
    """Neither a hold-out of this fit nor of an earlier one."""
    assert run("fit", "patients.csv", "--epsilon", "3", "--holdout", "0.3").exit_code == 0
    for part in ("patients.heldout.csv", "patients.train.csv"):
        assert Path(part).exists()
        for table in ("patients.csv", "patients.train.csv"):
            with pytest.raises(UsageError, match="`public` is"):
                medsynth.fit(table, epsilon=3, public=part, citation="c")


@pytest.mark.parametrize("name", ["patients.csv.gz", "patients.parquet"])
def test_another_form_of_the_table_is_not_taken_for_public_rows(name: str, patients: Path) -> None:
    """Also before the first fit, without a budget file, and without comparing a row."""
    other = small_clinic.cohort(50, 99)
    (other.to_parquet if name.endswith("parquet") else other.to_csv)(name, index=False)
    for verb in (lambda table, **options: medsynth.plan(table, epsilon=3, **options), fit):
        with pytest.raises(UsageError, match="`public` is a part of the private table"):
            verb(patients, public=name, citation="c")


# Earlier fits


@pytest.fixture
def earlier(patients: Path) -> medsynth.Model:
    """An earlier fit of the same table, its file and its rows."""
    assert run("fit", "patients.csv", "--epsilon", "2.5", "--rows", "300", "--output", "a.medsynth").exit_code == 0
    assert run("sample", "--model", "a.medsynth", "--output", "a.csv").exit_code == 0
    return medsynth.load("a.medsynth")


@pytest.mark.nightly
def test_the_claim_is_the_sum_over_the_fits_that_a_model_leans_on(patients: Path, earlier: medsynth.Model) -> None:
    told = list[str]()
    model = fit(patients, public="a.medsynth", notice=told.append)
    own = [pair for pair in model.ledger.composition() if pair not in earlier.ledger.composition()]
    events = [*earlier.ledger.composition(), *own]
    assert len(events) == len(model.ledger.composition())
    total = accountant.epsilon(events, 2e-5, "prv")
    assert model.epsilon == pytest.approx(total) and total > 3 and model.ledger.delta == pytest.approx(2e-5)
    stated = f"epsilon {rounded_up(total)} at delta 2e-05"
    assert any(stated in text and CITATION in text for text in told)
    assert any(stated in note for note in medsynth.plan(patients, epsilon=3, rows=300, public="a.medsynth",
                                                        citation=CITATION).notes)  # fmt: skip
    kept = medsynth.load(model.save(Path("b.medsynth")))
    assert kept.claims and f"({rounded_up(total)}, 2e-05)" in claim(kept) and "beyond" not in claim(kept)
    assert f"{CITATION} (an earlier fit, whose cost is in the claim), trusted " in leans_on(kept)
    costs = [one["epsilon"] for one in _on_file()]
    assert costs == pytest.approx([earlier.epsilon, model.epsilon_asked], rel=0.01)
    third = fit(patients, public="b.medsynth", citation="Third")
    assert {note.about.entry for note in third.ledger.about(LEANS)} == {"Third", CITATION}
    assert third.ledger.delta == pytest.approx(3e-5) and medsynth.load(third.save(Path("c.medsynth"))).claims


def _on_file() -> Any:
    return json.loads(run("ledger", "--table", "patients.csv", "--json").stdout)["fits"]


@pytest.mark.nightly
def test_a_model_of_an_earlier_fit_has_seen_later_held_out_rows(patients: Path, earlier: medsynth.Model) -> None:
    words = ["patients.csv", "--epsilon", "3", "--holdout", "0.3"]
    for more, seen in ([[], False], [["--public", "a.medsynth", "--citation", "c", "--force"], True]):
        assert run("fit", *words, *more).exit_code == 0
        path = Path("patients.medsynth")
        assert was_fitted(medsynth.load(path), path, Path("patients.heldout.csv")) is seen


def test_an_earlier_fit_whose_cost_cannot_be_added_is_refused(patients: Path, earlier: medsynth.Model) -> None:
    bare = replace(earlier.ledger, notes=[Message("Trust", None, kind=STUDY_TRUST, entry="server")])
    replace(earlier, ledger=bare).save("server.medsynth")
    replace(earlier, ledger=replace(earlier.ledger, one_row_a_patient=False)).save("rows.medsynth")
    replace(earlier, epsilon=None, ledger=replace(earlier.ledger, random_source="none")).save("plain.medsynth")
    many = (
        {"public": "a.medsynth", "public_patients": "these"},
        {"public": "a.medsynth", "epsilon": None, "no_dp": True},
    )
    for options in ({"public": "server.medsynth"}, {"public": "plain.medsynth"}, *many):
        with pytest.raises(UsageError, match="adds up the costs of both fits"):
            fit(patients, **options)
    with pytest.raises(UsageError, match="The earlier fit protects one row"):
        fit(patients, public="rows.medsynth")


def test_rows_of_an_earlier_fit_on_the_table_are_refused(patients: Path, earlier: medsynth.Model) -> None:
    """Their cost is on file, and not in the rows: only the model's file adds it up."""
    with pytest.raises(UsageError, match="An earlier fit on the private table drew the rows"):
        fit(patients, public="a.csv")


def test_a_file_that_is_not_a_table_is_named(patients: Path) -> None:
    with pytest.raises(TableError, match=r"none\.csv"):
        fit(patients, public="none.csv")


def test_replicates_of_a_model_with_public_rows_are_refused(patients: Path, open_csv: Path) -> None:
    model = fit(patients)
    with pytest.raises(UsageError, match="whether intervals then cover"):
        list(model.replicates(2))


def test_several_tables_and_patients_over_time_are_refused(patients: Path, open_csv: Path) -> None:
    schema = Schema.load("patients.schema.yaml").to_dict()
    del schema["one_row_a_patient"]
    schema["columns"] = {"who": {"kind": "identifier"}, "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
                         **schema["columns"]}  # fmt: skip
    frame = pd.read_csv(patients, dtype=str, keep_default_na=False)
    frame["who"], frame["day"] = [f"p{k // 2}" for k in range(len(frame))], "2020-03-01"
    with pytest.raises(UsageError, match="over time"):
        fit(frame, schema={**schema, "unit": "who", "order": "day", "max_rows": 2}, rows=None)


# Coding


def test_public_cells_are_coded_as_private_ones_if_the_schema_allows_them(clinic: Schema, open_csv: Path) -> None:
    table = read("open.csv")
    assert np.array_equal(known_codes(table, clinic.core, UNKNOWN), encode(table, clinic.core))
    frame = pd.read_csv("open.csv", dtype=str, keep_default_na=False)
    frame.loc[3, "sex_at_birth"], frame.loc[5, "age_years"], frame["hospital"] = "unheard-of", "young", "north"
    frame.drop(columns="diagnosis").to_csv("open.csv", index=False)
    found = known_codes(read("open.csv"), clinic.core, UNKNOWN)
    names = clinic.core.names
    unknown = found == UNKNOWN
    assert unknown[:, names.index("diagnosis")].all() and unknown[3, names.index("sex_at_birth")]
    assert unknown[5, names.index("age_years")] and unknown.sum() == len(frame) + 2
    assert np.array_equal(found[~unknown], encode(table, clinic.core)[~unknown])


def test_the_method_gets_the_public_rows_and_no_others(
    patients: Path, open_csv: Path, clinic: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    true = LatentMixture.fit

    def watched(*arguments: Any, public: Any = None) -> Any:
        given.append(public)
        return true(*arguments, public=public)

    monkeypatch.setattr(LatentMixture, "fit", watched)
    fit(patients)
    medsynth.fit(patients, epsilon=3, rows=300)
    assert np.array_equal(given[0], encode(read("open.csv"), clinic.core)) and given[1] is None


@pytest.mark.parametrize("kept", [["age_years", "sex_at_birth"], ["diagnosis", "age_years"]])
def test_public_rows_of_some_columns_fit(kept: list[str], patients: Path, open_csv: Path) -> None:
    pd.read_csv("open.csv")[kept].to_csv("open.csv", index=False)
    model = fit(patients)
    assert model.ledger.complete and len(medsynth.sample(model, 20)) == 20
    assert int(model.tensors[TRUST][0]) in (0, 1, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["mixture", "independent", "margins"])
def test_a_bare_table_may_have_public_rows(method: str, patients: Path, open_csv: Path) -> None:
    """They settle its columns, so that nothing is spent on these, and inform what is measured of them."""
    Path("patients.schema.yaml").unlink()
    model = fit(patients, epsilon=20, method=method, anyway=True, notice=lambda text: None)
    assert model.ledger.complete and len(model.ledger.about(TRUSTED)) == 1
    assert not any("schema" in entry.label for entry in model.ledger.entries)
    assert len(medsynth.sample(model, 20)) == 20


def settled(table: Path) -> tuple[PrivateTable, list[str]]:
    """Return a table without a schema after public rows settled it, and what the fit said of that."""
    settings = FitSettings(epsilon=3, public="open.csv", citation="c", rows=300)
    told = list[str]()
    private = open_table(table, settings, told.append)
    return settled_by(private, public_rows_of(private, settings, {}), told.append), told


def test_public_rows_settle_what_is_open_and_no_private_row_does(patients: Path, open_csv: Path) -> None:
    """Other private cells change nothing of it. What the public rows lack stays open, and is paid for."""
    Path("patients.schema.yaml").unlink()
    private, told = settled(patients)
    assert private.settled == small_clinic.FEW and not private.open and any("settle" in text for text in told)
    frame = pd.read_csv(patients, dtype=str, keep_default_na=False)
    frame.assign(sex_at_birth="z", age_years="-5", t3_nmol_l="one", diagnosis="").to_csv("other.csv", index=False)
    assert settled(Path("other.csv"))[0].declared == private.declared
    pd.read_csv("open.csv")[["age_years", "diagnosis"]].to_csv("open.csv", index=False)
    assert [*settled(patients)[0].open] == ["sex_at_birth", "t3_nmol_l"]
    planned = medsynth.plan(patients, epsilon=3, public="open.csv", citation="c", rows=300)
    assert "schema: levels" in list(planned.measurements["measurement"])
    assert "schema: target levels" not in list(planned.measurements["measurement"])


@pytest.mark.parametrize("cell", ["", "unheard-of", "1e9", "=1+1"])
def test_a_private_cell_that_public_rows_lack_ends_no_fit(cell: str, patients: Path, open_csv: Path) -> None:
    """It becomes missing or another level, in each column."""
    Path("patients.schema.yaml").unlink()
    frame = pd.read_csv(patients, dtype=str, keep_default_na=False)
    for place, name in enumerate(frame):
        frame.loc[place, name] = cell
    frame.to_csv("patients.csv", index=False)
    assert fit(patients, anyway=True, notice=lambda text: None).ledger.complete


def test_what_the_public_rows_lack_is_said(patients: Path, open_csv: Path) -> None:
    """A level that no public row has is never read as another one: its cells are empty, and the fit names it."""
    Path("patients.schema.yaml").unlink()
    pd.read_csv("open.csv").assign(sex_at_birth="F").to_csv("open.csv", index=False)
    told = list[str]()
    model = fit(patients, anyway=True, epsilon=20, notice=told.append)
    real = (pd.read_csv(patients)["sex_at_birth"] == "M").mean()
    assert abs(medsynth.sample(model, 1000)["sex_at_birth"].isna().mean() - real) < 0.15
    assert any("lack values of sex_at_birth" in text for text in told)


def test_a_partly_declared_table_may_have_public_rows(patients: Path, open_csv: Path) -> None:
    """The codes of its declared columns are those of the settled schema."""
    schema = Schema.load("patients.schema.yaml").to_dict()
    del schema["columns"]["sex_at_birth"]["levels"]
    model = fit(patients, schema=schema, epsilon=30, notice=lambda text: None)
    drawn, real = medsynth.sample(model, 1000), pd.read_csv(patients)
    for name in ("sex_at_birth", "diagnosis"):
        shares = (frame[name].value_counts(normalize=True, dropna=False) for frame in (drawn, real))
        assert (next(shares) - next(shares)).abs().max() < 0.1


def test_a_fit_without_noise_may_have_public_rows(patients: Path, open_csv: Path) -> None:
    model = fit(patients, epsilon=None, no_dp=True)
    assert "NOT DIFFERENTIALLY PRIVATE" in claim(model) and len(medsynth.sample(model, 20)) == 20


def test_a_killed_fit_is_resumed_with_the_same_public_rows_alone(patients: Path, open_csv: Path) -> None:
    fit(patients, checkpoint=Path("c"))
    assert fit(patients, checkpoint=Path("c"), resume=True).ledger.complete
    with pytest.raises(UsageError, match="another fit"):
        fit(patients, checkpoint=Path("c"), resume=True, citation="Jones 2021")
    Path("open.csv").write_text(Path("open.csv").read_text() + Path("open.csv").read_text().splitlines()[-1] + "\n")
    with pytest.raises(UsageError, match="another fit"):
        fit(patients, checkpoint=Path("c"), resume=True)
