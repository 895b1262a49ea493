"""No code reads a message: with other words, all that a program can see stays as it is.

`medsynth.errors.said` is the one place where words are made. Here it writes all letters in full width, except
in names of parameters, from which the command line makes flags. Whatever is compared is the same but for that.
"""

import dataclasses
import json
import re
import shutil
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_letters
from typing import Any

import numpy as np
import pandas as pd
import pytest
import test_matrix
from medsynth_cli.flags import hints
from medsynth_cli.main import app
from test_matrix import CASES, model  # noqa: F401  # a fixture
from typer.testing import CliRunner

import medsynth
from medsynth import errors
from medsynth.artifact import load
from medsynth.errors import MedsynthError, MedsynthWarning, Message
from medsynth.fitting.schema_check import check_schema
from medsynth.io.table import from_frame
from medsynth.schema import Schema
from medsynth.schema.codec import encode

WIDE = {ord(letter): ord(letter) + 0xFEE0 for letter in ascii_letters}


def loud(text: str) -> str:
    return re.sub(r"(`[^`]*`)|([^`]+)", lambda match: match[1] or match[2].translate(WIDE), text)


@contextmanager
def loudly(words: Callable[[str], str] = loud) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "said", words)
        yield


def alike(run: Callable[[], Any]) -> Any:
    """What `run` returns, the same with all words replaced. Something of it was replaced."""
    usual = run()
    with loudly():
        other = run()
    assert repr(usual) == unicodedata.normalize("NFKC", repr(other)) != repr(other)
    return usual


def table(rows: int = 600) -> pd.DataFrame:
    """A table with a key, a lost column, a cell beyond bounds and a last column of one value."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "age": rng.integers(18, 90, rows), "sex": rng.choice(["m", "f"], rows), "lost": [f"k{k}" for k in range(rows)],
        "seen": "2020-01-02 08:30", "person_id": np.arange(rows) + 10**7, "form_complete": 2,
    })  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_exit_codes(name: str, model: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setitem(CASES, name, dataclasses.replace(CASES[name], text=""))
    with loudly():
        test_matrix.test_case(name, model, tmp_path, monkeypatch)


@pytest.mark.nightly
@pytest.mark.usefixtures("quick", "seeded_entropy")
def test_a_fit_and_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of notices, warnings, notes, keys of JSON, and which lines a short output shows."""
    monkeypatch.chdir(tmp_path)
    table().to_csv("t.csv", index=False)

    def kinds() -> list[Any]:
        told, caught = list[Message](), list[str]()
        options: dict[str, Any] = {"epsilon": 20.0, "method": "independent", "seed": 1}
        made = medsynth.fit(table(), notice=told.append, **options)  # type: ignore[arg-type]
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", MedsynthWarning)
            medsynth.fit(table(), **options)
        caught += [str(one.message) for one in found if one.category is MedsynthWarning]
        loaded = load(made.save("m.medsynth", force=True))
        assert [note.about for note in loaded.ledger.notes] == [note.about for note in made.ledger.notes]
        return [[(one.about, one.brief, str(one)) for one in told], caught, [note.about for note in made.ledger.notes]]

    told, caught, notes = alike(kinds)
    assert {"lost", "times", "no target"} <= {about.kind for about, _, _ in told} and len(caught) == 3
    assert {"learned", "no target"} <= {about.kind for about in notes}

    def as_json() -> dict[str, Any]:
        Path("t.medsynth-ledger").unlink(missing_ok=True)
        facts: dict[str, Any] = json.loads(CliRunner().invoke(app, [
            "fit", "t.csv", "--epsilon", "20", "--method", "independent", "--seed", "1", "--json", "--force",
        ]).stdout)  # fmt: skip
        return facts

    facts = alike(as_json)
    assert facts["target"] is None and len(facts["learned"]) == 5 and not facts["learned"][0].startswith("Learned")


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees", "seeded_entropy")
def test_a_report(tmp_path: Path) -> None:
    """Sections, notes and verdicts of a model without a target, on rows that another split held out."""

    def built() -> Any:
        folder = tmp_path / "rows"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        table().to_csv(folder / "t.csv", index=False)
        words = ["--epsilon", "20", "--method", "independent", "--seed", "1", "--holdout", "0.3"]
        runner = CliRunner()
        assert (
            runner.invoke(app, ["fit", str(folder / "t.csv"), *words, "-o", str(folder / "t.medsynth")]).exit_code == 0
        )
        found = load(folder / "t.medsynth")
        page = found.report(folder / "t.heldout.csv")
        content = page.model_dump(mode="json")
        return [sorted(page.sections), page.notes, content["sections"]["ledger"], page.fitted_rows]

    assert alike(built)[1]


def test_what_a_schema_check_counts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,sex\n" + "40,m\n" * 30 + "400,m\n" * 5 + "40,x\n" * 3)
    columns = "age: {kind: count, bounds: [0, 120]}\n  sex: {kind: binary, levels: [f, m], unknown: f}"
    (tmp_path / "t.schema.yaml").write_text(f"name: t\ntarget: sex\ncolumns:\n  {columns}\n")
    remarks = check_schema(path, None).remarks
    assert any("5 cells are outside" in one for one in remarks) and any("3 cells are read" in one for one in remarks)
    with loudly():
        assert check_schema(path, None).remarks == remarks


FAULTS = {
    "levels": ("a: {kind: binary, levels: [1]}", "a", "levels"),
    "bounds": ("a: {kind: date, bounds: [2020-01-01, 2020-13-45]}", "a", "low"),
    "key": ("a: {kind: count, bounds: [0, 9], decimal: 3}", "a", "more"),
    "kind": ("a: {kind: counts}", "a", "kind"),
    "of a column": ("a: {kind: date, bounds: [0, 9], after: c}", "a", "after"),
    "of the target": ("a: {kind: identifier}\ntarget: a", "a", "kind"),
    "of a rule": ("a: {kind: count, bounds: [0, 9]}\nrules: [a < q]", "", ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fields_that_the_page_marks(name: str, tmp_path: Path) -> None:
    pytest.importorskip("flask")
    from medsynth_cli.app import screens
    from medsynth_cli.app.session import Session

    text, column, entry = FAULTS[name]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    lines = text.split("\n")
    own = "\n".join([f"columns:\n  {lines[0]}\n  b: {{kind: count, bounds: [0, 9]}}", *lines[1:]])
    (tmp_path / "t.schema.yaml").write_text(f"name: t\n{own}\n")

    def marked() -> list[tuple[str, str, str]]:
        return [(one.kind, one.column, one.entry) for one in screens._problems(Session(tmp_path.resolve(), "t.csv"))]

    usual = marked()
    with loudly():
        assert marked() == usual
    assert usual[0][1:] == (column, entry), usual


def test_what_follows_from_an_error(tmp_path: Path) -> None:
    """The command that cures it, and the encoding that the page tries."""
    pytest.importorskip("flask")
    from medsynth_cli.app import screens
    from medsynth_cli.app.session import Session

    def cures() -> list[str]:
        found = list[str]()
        for wrong in (lambda: Schema.load("none.yaml"), lambda: load("none.medsynth")):
            with pytest.raises(MedsynthError) as error:
                wrong()
            found += [str(error.value), *hints(error.value, "t.csv")]
        return found

    assert [line.split(":")[0] for line in alike(cures)[1::2]] == ["Draft a schema", "Fit a model first"]
    (tmp_path / "t.csv").write_bytes("größe,b\n1,2\n".encode("cp1252"))
    with loudly(str.upper):
        session = Session(tmp_path.resolve())
        screens.do_table(session, {"table": "t.csv"})
        assert session.choices.encoding == "cp1252"


def test_notes_of_earlier_files_are_shown_as_before(quick: None) -> None:
    """Files of earlier versions tell the kinds of their notes by the first words alone."""
    ledger = medsynth.fit(table(80), no_dp=True, method="independent", notice=lambda text: None).ledger
    content = json.loads(json.dumps(ledger.to_json()))
    content["notes"] = ["Learned: LOST: lost. No value.", "Rows were held out of this fit, by independent draws: split "
                        "0123456789abcdef.", "Another note."]  # fmt: skip
    del content["about"]
    old = type(ledger).from_json(content)
    assert old.notes == content["notes"] and [note.about.kind for note in old.notes] == ["learned", "split", ""]
    assert (
        old.about("learned")[0].sentence == "LOST: lost. No value." and old.notes[1].about.entry == "0123456789abcdef"
    )
    again = type(ledger).from_json(json.loads(json.dumps(old.to_json())))
    assert again.notes == old.notes and [note.about for note in again.notes] == [note.about for note in old.notes]
    some: list[object] = [
        [{}] * 3,
        [{"kind": "", "column": ""}] * 2,
        "abc",
        [{"kind": "a", "column": "", "row": 3}] * 3,
    ]
    for broken in some:
        with pytest.raises(errors.ArtifactError, match="broken"):
            type(ledger).from_json({**content, "about": broken})


@pytest.mark.parametrize("cell", ["CANARY", "7431862951"])
def test_a_problem_contains_no_cell(cell: str) -> None:
    """Its column and its row, for the owner of the table."""
    columns = {
        "a": {"kind": "count", "bounds": [0, 9], "out_of_range": "error"},
        "b": {"kind": "categorical", "levels": ["x", "y"]},
        "c": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "out_of_range": "error"},
    }
    good = pd.DataFrame({"a": ["1"] * 9, "b": "x", "c": "2020-02-03"})
    for name in columns:
        wrong = good.copy()
        wrong.loc[4, name] = cell
        with pytest.raises(errors.SchemaError) as error:
            encode(from_frame(wrong), Schema.from_dict({"name": "t", "columns": columns}))
        (problem,) = error.value.problems
        assert (problem.column, problem.row) == (name, 5) and problem.cure
        assert cell not in repr(problem) and cell not in str(error.value)


def test_a_file_says_of_a_note_what_is_public(quick: None) -> None:
    """The place of a row is for the owner of the rows, and so are the words of an error."""
    ledger = medsynth.fit(table(80), no_dp=True, method="independent", notice=lambda text: None).ledger
    note = Message("A note.", kind="any")
    note.about = errors.Problem(kind="any", column="age", row=17, text="seventeen", cure="seventeen")
    ledger.note(note)
    stored = ledger.to_json()["about"][-1]
    assert stored == {"kind": "any", "column": "age", "entry": ""}
