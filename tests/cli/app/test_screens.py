"""The screens: each in each state, with hostile names and texts in it, and what their forms refuse."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from local_page import CELL, Page, fake, table
from medsynth_cli.app import screens
from medsynth_cli.app.server import STEPS
from medsynth_cli.app.session import languages

from medsynth.io.formats import FileForm
from medsynth.schema import Schema

SCREENS = (*STEPS, "columns")
HOSTILE = "<script>alert(1)</script><img src=x onerror=y>\"'>{{ 7331000000019*7 }}"
MEASURED = {"label": HOSTILE, "multiplier": 2.0, "share": 0.5, "times": 1}
PLAN = {"guess_right": 0.61, "notes": [HOSTILE], "measurements": [MEASURED]}


class Tags(HTMLParser):
    """The tags of a page, each with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def shown(page: Page, screen: str) -> str:
    """A screen that is whole, and in which nothing of what it shows has become a tag."""
    answer = page.get(screen)
    text = answer.get_data(as_text=True)
    assert answer.status_code == 200 and "</html>" in text, (screen, text[:300])
    tags = Tags(text).tags
    assert all((attrs.get("src") or "").endswith("app.js") for tag, attrs in tags if tag == "script")
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert str(7331000000019 * 7) not in text and CELL not in text
    names = [attrs.get("name") for tag, attrs in tags if tag == "form" or attrs.get("name") == "changes"]
    assert names.count("changes") == sum(tag == "form" for tag, _ in tags)
    return text


def hostile(folder: Path) -> None:
    """Put everything into the folder that the screens show, with tags in it."""
    header = ("patient", HOSTILE.replace('"', ""), "sex")
    table(folder, "ward.csv", header)
    column = {"kind": "categorical", "levels": [HOSTILE, "b"], "unit": HOSTILE}
    columns: dict[str, Any] = dict.fromkeys(header, column)
    schema = {"name": HOSTILE, "columns": columns, "rules": [HOSTILE], "target": HOSTILE}
    (folder / "ward.schema.yaml").write_text(json.dumps(schema))
    (folder / "ward.synthetic.csv").write_text(f"a,b\n{HOSTILE.replace(',', '')},2\n")
    (folder / "review.yaml").write_text(json.dumps({"purpose": HOSTILE, "steward": [HOSTILE], HOSTILE: 1}))
    (folder / "<img src=x>.csv").write_text("a\n1\n")
    (folder / "<img src=x onerror=y>.json").write_text("{}")
    for name in ("ward.medsynth", "ward.report.html", "ward.medsynth-checkpoint"):
        (folder / name).write_text(HOSTILE)


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("state", ["empty", "chosen", "hostile", "failed", "ended"])
def test_each_screen_in_each_state(state: str, language: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(folder, "other.csv")
    if state != "empty" and state != "chosen":
        hostile(folder)
    scripts = {"failed": f"print({HOSTILE!r}, file=sys.stderr); sys.exit(1)", "ended": f"print({json.dumps(PLAN)!r})"}
    fake(monkeypatch, scripts.get(state, "pass"))
    page = Page(folder, "" if state == "empty" else "ward.csv", language).enter()
    if state in scripts:
        rows = {"rows": "10", "format": ".csv", "where": HOSTILE}
        forms = {"budget": {"epsilon": "1"}, "fit": {"agreed": "on"}, "rows": rows}
        for step, form in (forms | {name: {} for name in ("check", "draft", "package", "report")}).items():
            page.post(step, form)
            page.wait()
        monkeypatch.setattr("medsynth_cli.app.screens._drawings", lambda session, plan: [])
    for screen in SCREENS:
        if state == "empty" and screen != "table":
            assert page.get(screen).status_code == 303
        else:
            text = shown(page, screen)
            assert f'<html lang="{language}">' in text
    page.session.jobs.stop()


def test_a_running_command_is_shown_on_its_screen(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "import time; time.sleep(600)")
    page.post("fit", {"agreed": "on"})
    assert "data-job" in shown(page, "fit") and page.get("job?step=fit").json["running"]  # type: ignore[index]
    for screen in SCREENS:
        shown(page, screen)
    page.post("budget", {"epsilon": "2"})
    assert "still running" in page.said("budget")
    assert page.post("cancel").headers["Location"].split("#")[0].endswith("/fit")
    page.wait()
    assert "Stopped" in shown(page, "fit")


def test_a_person_takes_what_cells_look_like_line_by_line(folder: Path) -> None:
    """Looks are on the page alone: no file of the folder has a cell, and a line that is not ticked stays open."""
    dose = [f"{k % 37 + 1} mg" for k in range(90)]
    rows = zip(dose, [f"{k % 27 + 1:02}.03.2020" for k in range(90)], [f"{k % 41}%" for k in range(90)], strict=True)
    (folder / "looked.csv").write_text("dose,<b>seen on,share\n" + "".join(f"{','.join(row)}\n" for row in rows))
    page = Page(folder, "looked.csv").enter()
    page.post("draft", {"looks": "1"})
    text = shown(page, "public")
    lines = [one.line for one in page.session.looks]
    assert "{} mg" in text and "PRIVATE" in text and len(lines) == 3
    assert not (folder / "looked.schema.yaml").exists()
    page.post("take", {"0": "on"})
    schema = Schema.load(folder / "looked.schema.yaml")
    assert schema.seen == 1 and set(schema.open) == {"dose", "<b>seen on", "share"}  # a dose has no bounds
    assert schema.columns["dose"].to_dict() == {"kind": "count", "text": "{} mg", "seen": True}
    assert not page.session.looks and "PRIVATE" not in shown(page, "public")
    page.post("take", {"all": "1"})
    assert Schema.load(folder / "looked.schema.yaml") == schema, "a form that is not shown takes nothing"
    (folder / "looked.schema.yaml").unlink()
    page.post("draft", {"looks": "1"})
    page.post("take", {"all": "1"})
    assert Schema.load(folder / "looked.schema.yaml").seen == 3
    saved = "".join(path.read_text() for path in folder.iterdir() if path.name != "looked.csv" and path.is_file())
    assert not any(cell in saved for cell in dose)


def test_many_columns_are_shown(folder: Path) -> None:
    table(folder, header=tuple(f"column{k}" for k in range(300)))
    page = Page(folder, "ward.csv").enter()
    assert shown(page, "columns").count('class="column"') == 300
    form: dict[str, str] = {"rules": "", "target": ""}
    for k in range(300):
        form |= {f"{k}.name": f"column{k}", f"{k}.kind": "count", f"{k}.low": "0", f"{k}.high": "9"}
    assert page.post("columns", form).headers["Location"].split("#")[0].endswith("/public")
    assert (
        len(
            json.loads(
                "{" + (folder / "ward.schema.yaml").read_text().split("columns:")[1].replace("\n  ", ",")[1:] + "}"
            )
        )
        == 300
    )


# What forms refuse


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "",
        "other.csv\0",
        "../work/ward.csv",
        "./ward.csv",
        "link.csv",
        "ward.csv/",
        ".",
    ],
)
def test_only_offered_tables_are_chosen(page: Page, folder: Path, name: str) -> None:
    (folder / "link.csv").symlink_to("/etc/passwd")
    page.post("table", {"table": name})
    assert page.session.choices.table == "ward.csv" and "not in the folder" in page.said()


@pytest.mark.parametrize(
    "name", ["../dictionary.json", "/etc/passwd", "link.json", "ward.csv", "ward.csv.json", "pipe.json", ""]
)
def test_only_offered_dictionaries_are_imported(page: Page, folder: Path, name: str) -> None:
    (folder.parent / "dictionary.json").write_text("{}")
    (folder / "link.json").symlink_to(folder.parent / "dictionary.json")
    os.mkfifo(folder / "pipe.json")
    page.post("import", {f"of {name}": "on"})
    assert page.session.jobs["public"] is None and "Tick the file" in page.said("public")


def test_only_columns_of_the_header_are_chosen(page: Page) -> None:
    page.post("table", {"who": "several", "unit": "../x", "max_rows": "3"})
    page.post("budget", {"epsilon": "1", "target": "--force"})
    assert (page.session.choices.unit, page.session.choices.target) == ("", "") and not page.session.jobs["budget"]
    page.post("table", {"who": "several", "unit": "patient", "max_rows": "3"})
    assert page.session.choices.unit == "patient" and page.session.choices.max_rows == 3


def test_only_tables_of_the_folder_are_public(page: Page, folder: Path) -> None:
    page.post("table", {"who": "one", "unit": ""})
    for name in ("../open.csv", "ward.csv", "open.csv"):
        page.post("budget", {"epsilon": "1", "public": name, "citation": "Smith"})
        assert page.session.choices.public == "" and "not in the folder" in page.said("budget")
    (folder / "open.csv").write_text((folder / "ward.csv").read_text())
    page.post("budget", {"epsilon": "1", "public": "open.csv", "citation": " Smith  2020 ", "public_patients": "some"})
    chosen = page.session.choices
    assert (chosen.public, chosen.citation, chosen.public_patients) == ("open.csv", "Smith 2020", "some")
    page.wait()
    job = page.session.jobs["budget"]
    assert job and "--citation=Smith 2020" in job.words
    page.post("budget", {"epsilon": "1", "public": ""})
    assert "--public" not in " ".join(chosen.plan(False))


# Who is a row?


def answers(page: Page) -> dict[str, str]:
    """What the form about rows shows as chosen and typed."""
    tags = Tags(page.get("table").get_data(as_text=True)).tags
    found = {str(attrs["name"]): str(attrs["value"]) for tag, attrs in tags
             if tag == "input" and attrs.get("name") in ("who", "max_rows")
             and (attrs.get("type") != "radio" or "checked" in attrs)}  # fmt: skip
    text = page.get("table").get_data(as_text=True)
    for name in ("unit", "order"):
        options = text.partition(f'name="{name}"')[2].partition("</select>")[0]
        found[name] = options.partition("<option selected>")[2].partition("<")[0]
    return found


@pytest.mark.parametrize("language", languages())
def test_nothing_about_rows_is_preselected(language: str, folder: Path) -> None:
    page = Page(folder, "ward.csv", language, who="").enter()
    assert answers(page) == {"max_rows": "5", "unit": "", "order": ""}
    assert page.get("table").get_data(as_text=True).count('name="who" value="one" required') == 1


@pytest.mark.parametrize(("form", "step"), [({"epsilon": "1"}, "budget"), ({"agreed": "on"}, "fit"), ({}, "public")])
def test_nothing_goes_on_without_an_answer(form: dict[str, str], step: str, folder: Path) -> None:
    page = Page(folder, "ward.csv", who="").enter()
    page.post("table", {"unit": "", "max_rows": "5"})
    assert page.session.choices.who == "" and "how many rows a patient can have" in page.said()
    page.post(step, form)
    assert not page.session.jobs[step] and "how many rows a patient can have" in page.said(step)


def test_a_refused_form_shows_what_was_chosen_and_typed(folder: Path) -> None:
    page = Page(folder, "ward.csv", who="").enter()
    typed = {"who": "several", "unit": "age", "order": "sex", "max_rows": "many"}
    target = page.post("table", typed).headers["Location"]
    assert "/table" in target and page.session.choices.who == ""
    text = page.get("table").get_data(as_text=True)
    assert 'value="several" checked' in text and 'value="many"' in text
    assert "<option selected>age<" in text and "<option selected>sex<" in text
    assert answers(page) == {"max_rows": "5", "unit": "", "order": ""}  # once
    page.session.change(who="one")
    page.post("budget", {"epsilon": "9", "changes": "old"})
    assert "Another tab" in page.said("budget")
    assert 'value="3.7"' in page.get("budget").get_data(as_text=True)  # what an old form says is not shown again
    page.post("budget", {"epsilon": "3,x", "target": "age"})
    text = page.get("budget").get_data(as_text=True)
    assert 'value="3,x"' in text and "<option selected>age<" in text and 'name="holdout" checked' not in text
    (folder / "ward.medsynth").write_text("a model")
    page.post("rows", {"rows": "ten", "format": ".sav", "where": "age=1"})
    text = page.get("rows").get_data(as_text=True)
    assert 'value="ten"' in text and '".sav" selected' in text and ">age=1<" in text


def test_the_answer_and_the_schema_may_not_contradict(page: Page, folder: Path) -> None:
    column = {"kind": "count", "bounds": [0, 9]}
    columns = {"patient": {"kind": "identifier"}, **dict.fromkeys(("age", "sex", "note"), column)}
    schema = {"name": "ward", "unit": "patient", "max_rows": 2, "constant": ["sex"], "columns": columns}
    (folder / "ward.schema.yaml").write_text(yaml.safe_dump(schema))
    assert "names the patients of several rows" in shown(page, "public")
    page.post("budget", {"epsilon": "1"})
    assert not page.session.jobs["budget"]
    form = {"0.name": "age", "0.kind": "count", "0.low": "0", "0.high": "9", "rules": "", "target": ""}
    page.post("columns", form)
    saved = yaml.safe_load((folder / "ward.schema.yaml").read_text())
    assert saved["one_row_a_patient"] is True and not {"unit", "max_rows", "constant"} & set(saved)
    page.session.change(who="several", unit="patient", max_rows=3)
    page.post("columns", form)
    saved = yaml.safe_load((folder / "ward.schema.yaml").read_text())
    assert "one_row_a_patient" not in saved and (saved["unit"], saved["max_rows"]) == ("patient", 3)


def test_a_column_is_checked_before_it_is_saved(page: Page, folder: Path) -> None:
    """In the page's own words, at the column's number. Nothing is written."""
    form = {"0.name": "age", "0.kind": "count", "0.low": "9", "0.high": "2", "1.name": "sex", "1.kind": "binary"}
    found = page.post("faults", form).get_json()
    assert found["1"] == [] and [text.split(":")[0] for text in found["0"]] == ["Lowest and highest value"]
    assert not (folder / "ward.schema.yaml").exists()
    shown_for = dict(re.findall(r'<label class="of ([^"]*)">(Lowest value|How cells write it)', shown(page, "columns")))
    assert shown_for == {"count continuous date parts": "Lowest value", "date time": "How cells write it"}


def test_only_columns_of_the_table_get_into_the_schema(page: Page, folder: Path) -> None:
    form = {
        "0.name": "age",
        "0.kind": "count",
        "0.low": "0",
        "0.high": "9",
        "1.name": "<b>",
        "1.kind": "count",
        "2.name": "sex",
        "2.kind": "../",
    }
    page.post("columns", form)
    text = (folder / "ward.schema.yaml").read_text()
    assert '"age"' in text and "<b>" not in text and "sex" not in text


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "", "ten", "9" * 30, "1e99", "١e٣x", "\0"])
def test_only_whole_numbers_are_rows(page: Page, number: str) -> None:
    page.post("rows", {"rows": number, "format": ".csv"})
    assert page.session.choices.rows == 10000 and "whole number" in page.said("rows") and not page.session.jobs["rows"]


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1000", "", "x", "1e999"])
def test_only_a_number_is_an_epsilon(page: Page, epsilon: str) -> None:
    page.post("budget", {"epsilon": epsilon})
    assert page.session.choices.epsilon == 3.7 and "number above 0" in page.said("budget")


@pytest.mark.parametrize("format", ["", ".exe", "/../../x", ".csv/x", "csv"])
def test_only_offered_formats_are_written(page: Page, format: str) -> None:
    page.post("rows", {"rows": "10", "format": format})
    assert page.session.choices.format == ".csv" and not page.session.jobs["rows"]


def test_a_fit_needs_the_agreement(page: Page) -> None:
    for form in ({}, {"agreed": "on", "changes": "7"}, {"replace": "on"}):
        page.post("fit", form)
        assert not page.session.jobs["fit"]
    assert "Tick the box" in page.said("fit") or page.session.changes == 0
    page.post("fit", {"agreed": "on"})
    page.wait()
    job = page.session.jobs["fit"]
    assert job and job.words == page.session.choices.fit(page.session.has(page.session.choices.schema))


def test_nothing_is_replaced_without_a_tick(page: Page, folder: Path) -> None:
    """Neither by the page, nor by a command that it starts."""
    kept = "name: ward\ncolumns: {age: {kind: count, bounds: [0, 9]}}\n"
    (folder / "ward.schema.yaml").write_text(kept)
    (folder / "dictionary.json").write_text("{}")
    forms = {
        "fit": {"agreed": "on"},
        "rows": {"rows": "9", "format": ".csv"},
        "report": {},
        "package": {},
        "import": {"of dictionary.json": "on"},
    }
    for step, form in forms.items():
        for tick in ({}, {"replace": "on"}):
            page.post(step, form | tick)
            page.wait()
            job = page.session.jobs["public" if step == "import" else step]
            assert job and ("--force" in job.words) == bool(tick), step
    assert (folder / "ward.schema.yaml").read_text() == kept


def test_putting_a_schema_aside_replaces_none(page: Page, folder: Path) -> None:
    (folder / "ward.schema.yaml").write_text("new")
    page.post("aside")
    assert (folder / "ward.unused.schema.yaml").read_text() == "new" and not (folder / "ward.schema.yaml").exists()
    (folder / "ward.schema.yaml").write_text("newer")
    page.post("aside")
    assert (folder / "ward.unused.schema.yaml").read_text() == "new" and "put aside" in page.said("public")
    (folder / "ward.unused.schema.yaml").unlink()
    (folder / "ward.unused.schema.yaml").symlink_to("nowhere")
    page.post("aside")
    assert (folder / "ward.schema.yaml").read_text() == "newer"


# Two tabs


def test_an_old_form_changes_nothing(page: Page) -> None:
    old = page.session.state()
    page.post("budget", {"epsilon": "1"})
    page.wait()
    for changes in (old, "", "0", "-1", "x" * 1000):
        page.post("budget", {"epsilon": "9", "changes": changes})
        assert page.session.choices.epsilon == 1 and "Another tab" in page.said("budget")


def test_an_agreement_is_for_the_table_that_it_names(page: Page, folder: Path) -> None:
    """In another tab another table was chosen, with as many answers as the first one had."""
    table(folder, "other.csv")
    page.post("budget", {"epsilon": "1"})
    page.wait()
    old = page.session.state()
    page.post("table", {"table": "other.csv"})
    page.post("fit", {"agreed": "on", "changes": old})
    assert page.session.jobs["fit"] is None


def test_an_agreement_starts_one_fit(page: Page) -> None:
    """A form that is sent twice: by a double click, or by going back after the fit has ended."""
    form = {"agreed": "on", "replace": "on", "changes": page.session.state()}
    page.post("fit", form)
    page.wait()
    first = page.session.jobs["fit"]
    page.post("fit", form)
    assert page.session.jobs["fit"] is first


@pytest.mark.parametrize("form", ["text", "columns"])
def test_a_schema_that_was_edited_elsewhere_is_not_replaced(page: Page, folder: Path, form: str) -> None:
    path = folder / "ward.schema.yaml"
    page.post("text", {"text": "name: a"})
    old = page.session.state()
    path.write_text("name: b\n")
    os.utime(path, ns=(1, 1))
    page.post(form, {"text": "name: c", "changes": old})
    assert path.read_text() == "name: b\n" and "Another tab" in page.said("columns")


# The review


def test_a_review_keeps_what_the_form_does_not_show(page: Page, folder: Path) -> None:
    path = folder / "review.yaml"
    path.write_text("purpose: old\nthresholds: {epsilon: {limit: 4, source: us}}\nsteward: [a, b]\n")
    page.post(
        "report",
        {
            "save": "1",
            "purpose": "new\r\nline",
            "steward": "['a', 'b']",
            "recipient": "",
            "thresholds": "x",
            "other": "y",
        },
    )
    assert yaml.safe_load(path.read_text()) == {
        "purpose": "new\nline", "thresholds": {"epsilon": {"limit": 4, "source": "us"}}, "steward": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"[1]", b"\xff", b"a: &a [*a]", b"text", b"{", b"a: 1\na: 2"])
def test_a_review_that_is_none_is_said_and_kept(page: Page, folder: Path, content: bytes) -> None:
    (folder / "ward.synthetic.csv").write_text("a\n1\n")
    (folder / "review.yaml").write_bytes(content)
    assert "review.yaml" in page.said("report")
    page.post("report", {"save": "1", "purpose": "new"})
    assert (folder / "review.yaml").read_bytes() == content


def test_the_preview_reads_the_rows_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with semicolons was one column."""
    (tmp_path / "t.synthetic.csv").write_bytes("größe;ort\n1,5;A\n".encode("cp1252"))
    session: Any = SimpleNamespace(
        folder=tmp_path, choices=SimpleNamespace(format=".csv", synthetic="t.synthetic.csv", model="t.medsynth")
    )
    assert screens._preview(session) == []  # without a model nobody knows
    form = FileForm(delimiter=";", encoding="cp1252", decimal=",")
    monkeypatch.setattr(screens, "load", lambda path: SimpleNamespace(form=form))
    assert screens._preview(session) == [["größe", "ort"], ["1,5", "A"]]


def test_the_language_is_chosen_on_the_page(page: Page) -> None:
    """Before a table is chosen, too; the same screen comes back, and an unknown language changes nothing."""
    for language, there, other in (("de", "Sechs Schritte", "English"), ("xx", "Sechs Schritte", "English"),
                                   ("en", "Six steps", "Deutsch")):  # fmt: skip
        answer = page.post("language", {"language": language, "screen": "table"})
        assert answer.status_code == 303 and "/table" in answer.headers["Location"]
        text = page.get("table").get_data(as_text=True)
        assert there in text and f">{other}</button>" in text


@pytest.mark.parametrize("language", languages())
def test_a_board_approves_before_the_fit(language: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page writes what `plan --page` writes, and the fit keeps to it unless the person takes the tick away."""
    monkeypatch.setattr("medsynth_cli.app.screens._drawings", lambda session, plan: [])
    plan = PLAN | {"epsilon": 2.0, "on_file": {"fits": 0, "epsilon_after": 2.0}}
    fake(monkeypatch, f"print({json.dumps(plan)!r})")
    page = Page(folder, "ward.csv", language).enter()
    page.post("budget", {"epsilon": "2"})
    page.wait()
    page.post("approval", {"purpose": "teaching"})
    page.wait()
    job = page.session.jobs["approval"]
    planned = page.session.choices.plan(False)
    assert job and job.words == [*planned, "--page", "ward.plan.html", "--review", "review.yaml"]
    assert "teaching" in (folder / "review.yaml").read_text() and page.get("approval").status_code == 404
    (folder / "ward.plan.html").write_text("<h1>to sign</h1>")
    (folder / "ward.plan.json").write_text("{}")
    text = shown(page, "budget")
    assert 'download="ward.plan.html"' in text and "ward.plan.json" in shown(page, "fit")
    sent = page.get("approval")
    assert sent.data == b"<h1>to sign</h1>" and "sandbox" in sent.headers["Content-Security-Policy"]
    page.post("fit", {"agreed": "on"})
    page.wait()
    assert (job := page.session.jobs["fit"]) and "--plan" not in job.words
    page.post("fit", {"agreed": "on", "approved": "on"})
    page.wait()
    assert (job := page.session.jobs["fit"]) and job.words[-2:] == ["--plan", "ward.plan.json"]
    page.post("report", {"kind": "internal"})
    page.wait()
    assert (job := page.session.jobs["report"]) and "--plan ward.plan.json" in " ".join(job.words)
