"""Choices become words that the real commands accept, and never options that nobody chose."""

import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from local_page import CELL, Page, table
from medsynth_cli.app.choices import FORMATS, Choices, files, load, shown, tables
from medsynth_cli.main import app

GROUP: Any = typer.main.get_command(app)
NAMES = [
    "ward.csv",
    "-ward.csv",
    "--output=x.csv",
    "--help.csv",
    "a b.csv",
    "'\"<i>.csv",
    "{replicate}.csv",
    "-.csv",
    "$(x);.csv",
]


def parsed(words: list[str]) -> dict[str, Any]:
    """What the command's own parser makes of the words. An option that it does not know is a failure."""
    group, rest = GROUP, words
    with group.make_context("medsynth", [], resilient_parsing=True) as context:
        while hasattr(group, "commands"):
            group, rest = group.commands[rest[0]], rest[1:]
        try:
            inner = group.make_context("command", list(rest), parent=context)
        except Exception as error:  # the class belongs to a private module of typer
            raise AssertionError(f"{type(error).__name__}: {error}") from None
        with inner:
            return {name: _path(value) if name in PATHS else value for name, value in inner.params.items()}


PATHS = ("table", "model_file", "dictionary", "review", "synthetic")


def _path(value: Any) -> Any:
    """A path as the command gets it: `./x` is `x`."""
    return [Path(one) for one in value] if isinstance(value, list) else value and Path(value)


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hostile", ["", "-x", "--force", "--output=/x"])
def test_every_command_is_parsed_as_it_was_meant(name: str, hostile: str) -> None:
    """No name of a file, and no answer of a person, is read as an option."""
    where = [f"{hostile}=1", "age=-1..4"]
    chosen = Choices(table=name, unit=hostile, max_rows=3, patients=90, target=hostile, where=where, replicates=2)
    chosen.public, chosen.citation, chosen.public_patients = name, hostile or "Smith", "some"
    for resume in (False, True):
        found = parsed(chosen.fit(False, resume=resume, force=resume))
        assert (str(found["public"]), found["citation"], found["public_patients"]) == (name, hostile or "Smith", "some")
        assert (found["table"], found["epsilon"], found["holdout"]) == (Path(name), 3.7, 0.25)
        assert (found["resume"], found["force"], found["output"]) == (resume, resume, None)
        assert (found["unit"] or "", found["target"] or "") == (hostile, hostile)
        assert found["max_rows"] == (3 if hostile else None)
    assert parsed(chosen.plan(False))["table"] == Path(name)
    assert parsed(chosen.check())["table"] == Path(name)
    drawn = parsed(chosen.sample(force=True))
    assert drawn["model_file"] == Path(chosen.model) and drawn["output"] == chosen.synthetic and drawn["force"]
    assert drawn["where"] == where and (drawn["n"], drawn["replicates"]) == (10000, 2)
    chosen.shareable = True
    for words in (chosen.report("review.yaml"), chosen.package("review.yaml")):
        found = parsed(words)
        assert found["review"] == Path("review.yaml") and not found["force"]
        assert str(found["synthetic"]) == chosen.synthetic
    assert str(parsed(chosen.report(None))["output"]) == chosen.page


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
def test_forms_start_commands_that_are_parsed_as_meant(folder: Path, page: Page, name: str) -> None:
    """The commands of the second screen, with hostile names of the table and of the dictionary."""
    table(folder, name)
    (folder / "--labels-are-public.json").write_text("{}")
    page.post("table", {"table": name})
    assert page.session.choices.table == name
    page.post("draft")
    page.wait()
    job = page.session.jobs["public"]
    assert job and parsed(job.words)["table"] == Path(name)
    page.post("import", {"of --labels-are-public.json": "on"})
    page.wait()
    job = page.session.jobs["public"]
    assert job and job.words[:2] == ["schema", "import"]
    found = parsed(job.words)
    assert not found["labels_are_public"] and not found["force"]
    assert [Path("--labels-are-public.json")] in found.values()


def test_a_command_is_shown_as_a_shell_reads_it() -> None:
    words = Choices(table="$(x) 'a'.csv", where=["a=b;c"]).sample()
    assert shlex.split(shown(words)) == ["medsynth", *words]


def test_choices_are_kept(tmp_path: Path) -> None:
    made = Choices(
        table="ward.csv", who="several", unit="patient", epsilon=1.5, where=["a=b"], format=".sav", shareable=True
    )
    made.save(tmp_path)
    assert load(tmp_path, "ward.csv") == made and load(tmp_path, "other.csv") == Choices(table="other.csv")
    assert load(tmp_path, "ward.parquet").epsilon == Choices().epsilon  # another table of the same name


def test_a_public_table_outside_the_folder_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, kept in (("../open.csv", False), ("link.csv", False), ("open.csv", True)):
        (tmp_path / "open.csv").touch()
        (tmp_path / "data" / "open.csv").touch()
        if name == "link.csv":
            (tmp_path / "data" / name).symlink_to(tmp_path / "open.csv")
        made = Choices(table="ward.csv", public=name, citation="c", epsilon=1.5)
        made.save(tmp_path / "data")
        assert (load(tmp_path / "data", "ward.csv") == made) is kept


def test_choices_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """They do not say who a row is. Only a column of patients answers that: nobody had to choose the other answer."""
    for unit, who in (("patient", "several"), ("", "")):
        old = asdict(Choices(table="ward.csv", unit=unit, epsilon=1.5))
        del old["who"]
        (tmp_path / "ward.medsynth-app").write_text(json.dumps(old))
        found = load(tmp_path, "ward.csv")
        assert (found.who, found.unit, found.epsilon) == (who, unit, 1.5)


def test_the_answer_about_rows_is_an_option() -> None:
    for declared in (False, True):
        one, open_ = Choices(table="ward.csv", who="one"), Choices(table="ward.csv")
        assert parsed(one.fit(declared))["one_row_a_patient"] and parsed(one.plan(declared))["one_row_a_patient"]
        assert not parsed(open_.fit(declared))["one_row_a_patient"]


def test_a_schema_file_replaces_the_answers_about_patients_and_codes(page: Page, folder: Path) -> None:
    page.session.change(who="several", unit="patient", codes="-9")
    chosen = page.session.choices
    asked = parsed(chosen.fit(page.session.has(page.session.choices.schema)))
    assert (asked["unit"], asked["max_rows"], asked["na_values"]) == ("patient", 1, ["-9"])
    (folder / chosen.schema).write_text("name: ward")
    asked = parsed(chosen.fit(page.session.has(page.session.choices.schema)))
    assert (asked["unit"], asked["max_rows"], asked["na_values"]) == (None, None, ())
    assert parsed(chosen.plan(page.session.has(page.session.choices.schema)))["unit"] is None
    assert "--unit" not in page.get("fit").text and "--na-values" not in page.get("fit").text


HOSTILE: dict[str, Any] = {
    "table": "../../etc/passwd", "unit": "a\0b", "max_rows": -1, "target": "\ud800", "epsilon": float("nan"),
    "holdout": "yes", "rows": 10**18, "where": [["--force"]], "replicates": True, "format": "/../../x",
    "order": "a\n", "encoding": "../x", "who": "--force", "codes": "\ud800", "shareable": 1, "skip_lines": "-1",
    "header_lines": "0", "header_is_names": "yes", "skip_rows": "1.5", "skip_last_rows": "1234567",
    "public": "../../etc/passwd", "citation": "a\0b", "public_patients": "mine", "patients": -1,
    "approved": "yes",
}  # fmt: skip


def test_each_entry_is_checked() -> None:
    assert set(HOSTILE) == set(asdict(Choices()))


@pytest.mark.parametrize("entry", HOSTILE)
def test_hostile_saved_choices_are_ignored(tmp_path: Path, entry: str) -> None:
    content = asdict(Choices(table="ward.csv", epsilon=1.5)) | {entry: HOSTILE[entry]}
    (tmp_path / "ward.medsynth-app").write_text(json.dumps(content))
    assert load(tmp_path, "ward.csv") == Choices(table="ward.csv")


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b"{}", b"null", b"[" * 100_000, b'{"rows": ' + b"9" * 5000 + b"}", b" " * (1 << 21)],
    ids=["empty", "no text", "list", "object", "null", "deep", "digits", "large"],
)  # fmt: skip
def test_garbage_of_saved_choices_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ward.medsynth-app").write_bytes(content)
    assert load(tmp_path, "ward.csv") == Choices(table="ward.csv")


def test_saved_choices_that_are_no_file_are_ignored(tmp_path: Path) -> None:
    """A pipe would keep the page waiting for ever."""
    path = tmp_path / "ward.medsynth-app"
    os.mkfifo(path)
    assert load(tmp_path, "ward.csv") == Choices(table="ward.csv")
    path.unlink()
    outside = tmp_path.parent / "outside.json"
    outside.write_text(json.dumps(asdict(Choices(table="ward.csv", epsilon=1.5))))
    path.symlink_to(outside)
    assert load(tmp_path, "ward.csv") == Choices(table="ward.csv")


@settings(max_examples=15)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=3), st.text())
def test_no_answer_becomes_an_option(where: list[str], unit: str) -> None:
    chosen = Choices(table="ward.csv", where=where, unit=unit)
    assert (parsed(chosen.sample())["where"] or []) == where
    assert (parsed(chosen.fit(False))["unit"] or "") == unit


def test_only_files_of_the_folder_are_offered(tmp_path: Path) -> None:
    folder, outside = tmp_path / "work", tmp_path / "outside.csv"
    folder.mkdir()
    outside.write_text(f"a\n{CELL}\n")
    table(folder)
    for name in ("ward.train.csv", "ward.heldout.csv", "ward.synthetic.csv", "ward.structure.csv", ".hidden.csv"):
        (folder / name).write_text("a\n1\n")
    (folder / "link.csv").symlink_to(outside)
    (folder / "inside.csv").symlink_to(folder / "ward.csv")
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / "two\nlines.csv").write_text("a\n1\n")
    (folder / os.fsdecode(b"no\xfftext.csv")).write_text("a\n1\n")
    assert tables(folder) == ["inside.csv", "ward.csv"]
    assert "link.csv" not in files(folder)


def test_formats_are_those_of_the_command() -> None:
    assert all(parsed(Choices(table="a.csv", format=one).sample())["output"].endswith(one) for one in FORMATS)


def test_a_header_that_begins_with_a_hash_is_declared_on_the_page(folder: Path) -> None:
    """Before that the page shows no name, and after that all of them."""
    (folder / "t.csv").write_text("# a note\n#ward,stage\nBasel,II\nBern,I\n")
    page = Page(folder).enter()

    def shown(**form: str) -> str:
        page.post("table", form)
        return page.get("table").text

    text = shown(table="t.csv")
    assert "“Lines above the header”" in text and "Basel" not in text and "stage" not in text
    assert "stage" not in shown(encoding="", skip_lines="x") and page.session.choices.skip_lines == ""
    assert "stage" not in shown(encoding="", header_lines="0") and page.session.choices.header_lines == ""
    text = shown(encoding="", skip_lines="1")
    assert "<code>#ward</code>" in text and "<code>stage</code>" in text and "Basel" not in text
    chosen = page.session.choices
    assert chosen.saved_as == ["--skip-lines", "1"] and parsed(chosen.check())["skip_lines"] == 1
    shown(encoding="", skip_lines="1", header_is_names="on")
    assert parsed(chosen.fit(False))["header_is_names"] is True
    shown(encoding="", skip_rows="2", skip_last_rows="1")
    assert (chosen.saved.skip_rows, chosen.saved.skip_last_rows) == (2, 1) and chosen.saved.skip_lines is None
    assert all(parsed(words)["skip_rows"] == 2 for words in (chosen.fit(False), chosen.plan(False), chosen.check()))
    assert parsed(chosen.report(None))["skip_last_rows"] == 1
