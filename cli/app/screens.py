"""What each screen shows, and what happens when its form is sent. All figures come from commands and the library."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import yaml
from markupsafe import Markup

from medsynth.artifact import load
from medsynth.errors import OTHER_ENCODING, MedsynthError, Problem, SchemaError
from medsynth.fitting.budgets import spent_on
from medsynth.fitting.looking import table_to_look_at
from medsynth.fitting.private_table import table_header
from medsynth.fitting.settings import PUBLIC_PATIENTS
from medsynth.io.formats import STATISTICAL, SavedAs, name_of
from medsynth.io.table import Table
from medsynth.schema import Schema
from medsynth.schema.columns.hierarchies import System
from medsynth.schema.columns.parts import apart
from medsynth.schema.declared import parse_yaml
from medsynth.schema.header import facts_of_a_person, person_keys

from ..looking import draft_with, offers
from ..options import whole_number
from ..spoken import spoken
from .choices import ENCODINGS, FORMATS, LARGEST_EPSILON, LEAST_LINES, MADE, WHO, are_few, files, operand, tables
from .columns import FORMATS as OF_DATES
from .columns import KEYS, KINDS_WITH, Fields, content_of, example, fields_of, rules_of, yaml_of
from .jobs import Job
from .session import REVIEW, Session, languages
from .words import ENGLISH, Refusal, placed

Form = Mapping[str, str]
Content = dict[str, Any]
GROUPS = {  # of the review's entries
    "purpose": ("purpose", "uses", "recipient", "recipient_controls", "access", "licence"),
    "risks": ("harms", "expiry", "review_date", "incident_contact"),
    "signatures": ("steward", "privacy_officer", "expert", "expert_date", "expert_reasoning"),
}
SCREEN_OF = {  # of forms, and of commands, that are not named as their screen
    "columns": "columns", "text": "columns", "import": "public", "draft": "public", "take": "public",
    "aside": "public", "check": "public", "approval": "budget", "package": "report", "cancel": "fit",
    "language": "table",
}  # fmt: skip
PREVIEWED, PLOTTED = 20, 2_000  # synthetic rows that are shown, and that plots are drawn from
WRITTEN = (".report.json", ".plan.json", ".provenance.json")  # ends of names of other files that medsynth has written
DICTIONARIES = (".csv", ".json", ".xml", ".xlsx", ".sas7bcat", *STATISTICAL)


def do_language(session: Session, form: Form) -> str:
    """Show the same screen in another language."""
    session.speak(form["language"] if form.get("language") in languages() else session.language)
    return form["screen"] if form.get("screen") in {*SCREEN_OF.values(), "budget", "rows"} else "table"


def show_table(session: Session) -> Content:
    """Show the tables of the folder, and the chosen one's header."""
    header = _header(session)
    return {"tables": tables(session.folder), "header": header, "keys": person_keys(header), "encodings": ENCODINGS}


def _header(session: Session) -> tuple[str, ...]:
    """Return the names in the header of the chosen table. No other line is read."""
    try:
        return _read_header(session) if session.choices.table else ()
    except MedsynthError as error:
        session.tell(str(error), english=True)
        return ()


def _read_header(session: Session) -> tuple[str, ...]:
    path = session.folder / session.choices.table
    return _names(path, path.stat().st_mtime_ns if path.exists() else 0, session.choices.saved)


@lru_cache(maxsize=4)
def _names(path: Path, modified: int, saved: SavedAs) -> tuple[str, ...]:
    """Return a table's header, read once. Screens ask for it again and again; a file of SPSS takes half a second."""
    return table_header(path, saved)


def do_table(session: Session, form: Form) -> str:
    """Choose a table, then say how it was saved, and who is a row of it."""
    if "encoding" in form:
        lines = {name: form.get(name, "").strip() for name in LEAST_LINES}
        session.refuse(no_such_format=form["encoding"] not in ENCODINGS, no_whole_number=not are_few(lines))
        session.change(encoding=form["encoding"], header_is_names="header_is_names" in form, **lines)
        return "table"
    if "unit" not in form:
        own = isinstance(session.jobs.running, Job)
        session.refuse(no_such_table=form.get("table") not in tables(session.folder), still_running=own)
        session.choose(form["table"])
        try:
            _read_header(session)
        except MedsynthError as error:
            if OTHER_ENCODING in error.problems:
                session.choices.encoding = ENCODINGS[1]
                session.tell(session.say("read_as_windows"))
        session.change()
        return "table"
    who = form.get("who")
    session.refuse(say_who=who not in WHO)
    unit = form["unit"] if who == "several" else ""
    order = form.get("order", "") if unit else ""
    unknown = not {unit, order} <= {"", *_header(session)}
    session.refuse(no_such_column=unknown, name_the_patient=who == "several" and not unit)
    most, patients = (_whole(session, form[key]) if unit and form.get(key) else least
                      for key, least in (("max_rows", 1), ("patients", 0)))  # fmt: skip
    session.change(who=who, unit=unit, order=order, max_rows=most, patients=patients)
    return "public"


def _whole(session: Session, text: str) -> int:
    with suppress(Exception):  # typer's own error, with a sentence for the command line
        if (number := whole_number(text)) >= 1:
            return number
    raise Refusal(session.say("no_whole_number"))


def show_public(session: Session) -> Content:
    """Show where public knowledge about the columns may come from, and what is declared already."""
    found = [name for name in files(session.folder) if name.lower().endswith(DICTIONARIES)]
    own = session.choices.table
    likely = [name for name in sorted(found, key=own.__ne__) if not name.endswith(WRITTEN)
              and not name_of(Path(name)).endswith(MADE) and (name != own or has_labels(name))]  # fmt: skip
    problems = _problems(session)
    declared = session.has(session.choices.schema) and not problems
    learned = len(Schema.load(session.folder / session.choices.schema).open) if declared else 0
    return {"dictionaries": likely, "problems": problems, "learned": learned,
            "check": session.jobs["check"], "looks": session.looks}  # fmt: skip


def has_labels(name: str) -> bool:
    """Return whether a file of that name can have labels next to its rows."""
    return name.lower().endswith((*STATISTICAL, ".sas7bcat"))


def _problems(session: Session, text: str = "") -> list[Problem]:
    """Return what the schema file, or a `text` in its place, lacks without the table."""
    if not (text or session.has(session.choices.schema)):
        return []
    header = _header(session)
    try:
        schema = Schema.from_yaml(text) if text else Schema.load(session.folder / session.choices.schema)
    except MedsynthError as error:
        return placed(error, header, session.texts) or [Problem(kind=ENGLISH, text=session.short(str(error)))]
    patient = _patient(session)
    if session.choices.who == "one":
        return [Problem(text=session.say("patient_declared").format(schema.unit))] if schema.unit else []
    if patient and patient != {key: getattr(schema, key) for key in patient}:
        return [Problem(text=session.say("patient_undeclared").format(session.choices.unit))]
    return []


def _patient(session: Session) -> dict[str, Any]:
    """Return the keys of a schema that say whose rows are whose, as they were answered."""
    chosen = session.choices
    if chosen.who == "one":
        return {"one_row_a_patient": True}
    found = {"unit": chosen.unit, "max_rows": chosen.max_rows} if chosen.unit else {}
    return found | ({"order": chosen.order} if found and chosen.order else {})


def _start(session: Session, step: str, words: list[str], screen: str, as_json: bool = True) -> str:
    """Start a command for a screen, unless another one runs. The form that started it starts no second one."""
    if session.jobs.start(step, words, as_json):
        session.changes += 1
    else:
        session.tell(session.say("still_running"))
    return screen


def do_public(session: Session, form: Form) -> str:
    """Go on: with the schema file, if there is one."""
    session.change(codes=form.get("codes", "").replace(",", " "))
    _complete(session)
    return "budget"


def _complete(session: Session) -> None:
    """Raise Refusal before it was said who a row is, for a schema that no fit can use, and for one that contradicts."""
    session.refuse(say_who=session.choices.who not in WHO)
    if found := _problems(session):
        raise Refusal(session.say("schema_first").format(found[0].column or found[0].text))


def do_import(session: Session, form: Form) -> str:
    """Write the schema from a data dictionary in the folder."""
    names = [operand(name) for name in show_public(session)["dictionaries"] if f"of {name}" in form]
    session.refuse(no_dictionary_ticked=not names)
    words = ["schema", "import", *names, "--table", operand(session.choices.table), *session.choices.saved_as]
    public = ["--labels-are-public"] * ("labels_are_public" in form)
    return _start(session, "public", [*words, *public, *["--force"] * ("replace" in form)], "public")


def do_draft(session: Session, form: Form) -> str:
    """Draft the schema from the header, or show what cells look like and ask what of it to take."""
    if "looks" in form:
        session.looks = offers(_table_to_look_at(session))
        session.change()
        return "public"
    words = ["schema", "draft", operand(session.choices.table), *session.choices.saved_as]
    return _start(session, "public", [*words, "--yes"], "public")


def do_take(session: Session, form: Form) -> str:
    """Draft the schema with the entries that the person took."""
    session.refuse(other_tab=session.has(session.choices.schema))
    offered, session.looks = session.looks, []
    taken = {one.name for k, one in enumerate(offered) if "all" in form or f"{k}" in form}
    session.write(session.choices.schema, draft_with(session.choices.name, _table_to_look_at(session), taken))
    session.tell(session.say("saved").format(session.choices.schema))
    return "public"


def _table_to_look_at(session: Session) -> Table:
    return table_to_look_at(session.folder / session.choices.table, session.choices.saved)


def do_aside(session: Session, form: Form) -> str:
    """Rename the schema file, so that a fit learns the schema."""
    path = session.folder / session.choices.schema
    aside = path.with_name(f"{session.choices.name}.unused.schema.yaml")
    session.refuse(aside_exists=os.path.lexists(aside))
    if os.path.lexists(path):
        session.changes += 1
        path.rename(aside)
    return "public"


def do_check(session: Session, form: Form) -> str:
    """Compare the table with its schema. What comes of it is private, and is shown here alone."""
    return _start(session, "check", session.choices.check(), "public")


def show_columns(session: Session) -> Content:
    """Show a field for each public fact about each column, and the file itself."""
    text, content = "", Content()
    try:
        text = session.read(session.choices.schema)
        content = content_of(text)
    except MedsynthError as error:
        session.tell(str(error), english=True)
    header, problems = _header(session), _problems(session)
    fields = [one.spoken(*session.spoken) for one in fields_of(content, header)]
    formats = {form: example(form) for form in dict.fromkeys((*OF_DATES, *(one.format for one in fields)))}
    return {
        "fields": fields, "kinds": list(KEYS), "text": text, "commented": "#" in text, "formats": formats,
        "of": KINDS_WITH, "systems": get_args(System),
        "problems": problems, "faulty": {one.column for one in problems if one.column}, "keys": person_keys(header),
        "constant": content.get("constant", facts_of_a_person(header)), "rules": rules_of(content),
        "target": str(content.get("target") or ""),
    }  # fmt: skip


def do_columns(session: Session, form: Form) -> str:
    """Write the schema file from the fields."""
    session.write(session.choices.schema, typed(session, form))
    return _saved(session)


def faults(session: Session, form: Form) -> dict[str, list[str]]:
    """Return what is wrong with the fields of each column, by its number. Nothing is written."""
    names = {form[key]: key.removesuffix(".name") for key in form if key.endswith(".name")}
    found: dict[str, list[str]] = {number: [] for number in names.values()}
    with suppress(MedsynthError):  # of the file, which the screen shows
        for one in _problems(session, typed(session, form)):
            if one.column in names:
                found[names[one.column]].append(one.text)
    return found


def typed(session: Session, form: Form) -> str:
    """Return the schema's text with what the fields say."""
    content = content_of(session.read(session.choices.schema))
    offered = {one.name for one in fields_of(content, _header(session))}
    found = list[Fields]()
    constant = list[str]()
    patient = _patient(session)
    for k in itertools.takewhile(lambda k: f"{k}.name" in form, itertools.count()):
        answers = {name: form.get(f"{k}.{name}", "").replace("\r\n", "\n") for name in Fields._fields}
        if answers["kind"] in KEYS and answers["name"] in offered:
            found.append(Fields(**answers).heard(*session.spoken))
            constant += [answers["name"]] * (f"{k}.constant" in form)
    content.setdefault("name", session.choices.name)
    patient |= {"constant": constant} if "unit" in patient else {}
    rules = form.get("rules", "").replace("\r\n", "\n")
    return yaml_of(content, found, rules, form.get("target", ""), patient)


def do_text(session: Session, form: Form) -> str:
    """Write the schema file as it was typed."""
    session.write(session.choices.schema, form.get("text", "").replace("\r\n", "\n"))
    return _saved(session)


def _saved(session: Session) -> str:
    """Return to the form while the file has problems, else to the screen before it."""
    session.tell(session.say("saved").format(session.choices.schema))
    return "columns" if _problems(session) else "public"


def show_budget(session: Session) -> Content:
    """Show the plan of the fit, what a guess could reach, and what earlier fits have spent."""
    plan = _plan(session)
    return {"job": session.jobs["budget"], "plan": plan, "spent": _spent(session), "header": _header(session),
            "drawings": _drawings(session, plan), "others": _others(session), "whose": PUBLIC_PATIENTS,
            "approval": session.jobs["approval"], "asking": _asking(session), "asked": GROUPS["purpose"],
            "review": _known_review(session)}  # fmt: skip


def _others(session: Session) -> list[str]:
    """Return the names of the other tables of the folder, which may be public."""
    with suppress(OSError):  # a folder that is gone
        return [name for name in tables(session.folder) if name != session.choices.table]
    return []


def _plan(session: Session) -> Content:
    """Return the plan for the present choices, or an empty one."""
    job = session.jobs["budget"]
    words = session.choices.plan(session.has(session.choices.schema))
    return job.result if isinstance(job, Job) and job.code == 0 and job.words == words else {}


def _spent(session: Session) -> str:
    """Return in a sentence what all fits on the table have spent, or an empty text."""
    with suppress(MedsynthError):
        return spent_on(session.folder / session.choices.table).sentence()
    return ""


def _drawings(session: Session, plan: Content) -> list[Markup]:
    """Return the pictures of a plan: how often a guess is right, and what any attacker can reach."""
    from medsynth.report.data.reach import Reach
    from medsynth.report.page import charts

    if not plan:
        return []
    reach = Reach(**{name: plan.get(name, 0.0) for name in Reach.model_fields})
    made = enumerate((charts.odds(reach), charts.tradeoff(reach)))
    return [Markup(spoken(drawing.render(k), session.texts)) for k, drawing in made]


def do_budget(session: Session, form: Form) -> str:
    """Keep the budget and plan the fit, or go on to it."""
    if "go_on" in form:
        return "fit"
    try:
        epsilon = float(form.get("epsilon", "").replace(",", "."))
    except ValueError:
        raise Refusal(session.say("no_number")) from None
    target = form.get("target", "")
    unknown = target not in ("", "none", *_header(session))
    session.refuse(no_such_column=unknown, no_number=not 0 < epsilon < LARGEST_EPSILON)
    public, whose = form.get("public", ""), form.get("public_patients", PUBLIC_PATIENTS[0])
    session.refuse(no_such_table=public not in ("", *_others(session)) or whose not in PUBLIC_PATIENTS)
    _complete(session)
    citation = " ".join(form.get("citation", "").split()) if public else ""
    session.change(epsilon=epsilon, target=target, holdout="holdout" in form, public=public, citation=citation,
                   public_patients=whose if public else PUBLIC_PATIENTS[0])  # fmt: skip
    return _start(session, "budget", session.choices.plan(session.has(session.choices.schema)), "budget")


def _asking(session: Session) -> list[str]:
    """Return the command that writes the page for approval."""
    chosen = session.choices
    return chosen.approve(session.has(chosen.schema), REVIEW if session.has(REVIEW) else None)


def do_approval(session: Session, form: Form) -> str:
    """Keep what is asked for, and write the page for approval, with the plan's file next to it."""
    _complete(session)
    _keep_review(session, form)
    return _start(session, "approval", [*_asking(session), *["--force"] * ("replace" in form)], "budget")


def show_fit(session: Session) -> Content:
    """Show what the fit will spend, or how far it is, or what it has written."""
    return {"job": session.jobs["fit"], "spent": _spent(session), "plan": _plan(session),
            "interrupted": session.has(session.choices.checkpoint)}  # fmt: skip


def do_fit(session: Session, form: Form) -> str:
    """Start the fit, or go on with an interrupted one."""
    resume = "resume" in form
    session.refuse(tick_agreed=not resume and "agreed" not in form)
    _complete(session)
    chosen = session.choices
    if not resume:
        session.change(approved="approved" in form and session.has(chosen.approved_plan))
    words = chosen.fit(session.has(chosen.schema), plan=chosen.approved, resume=resume, force="replace" in form)
    return _start(session, "fit", words, "fit", as_json=False)


def do_cancel(session: Session, form: Form) -> str:
    """Interrupt the command that runs."""
    if job := session.jobs.running:
        job.stop()
    return SCREEN_OF.get(job.step, job.step) if job else "fit"


def show_rows(session: Session) -> Content:
    """Show the synthetic rows: a preview, and a plot of each column."""
    made = session.has(session.choices.synthetic)
    return {"job": session.jobs["rows"], "formats": FORMATS, "made": made, "preview": _preview(session) if made else []}


def _preview(session: Session) -> list[list[str]]:
    """Return the header and the first rows of the synthetic table, which is written as the model's table was."""
    with suppress(MedsynthError, OSError, ValueError, csv.Error):
        if session.choices.format != ".csv":
            cells = _drawn(session.folder / session.choices.synthetic).head(PREVIEWED)
            return [list(cells), *cells.to_numpy().tolist()]
        form = load(session.folder / session.choices.model).form
        with open(session.folder / session.choices.synthetic, encoding=form.encoding, newline="") as file:
            return list(itertools.islice(csv.reader(file, delimiter=form.delimiter), PREVIEWED + 1))
    return []


def _drawn(path: Path) -> pd.DataFrame:
    """Return the first rows of a synthetic table, as texts."""
    from medsynth.report.data.tables import read

    return read(path).cells.head(PLOTTED)


def plots(session: Session) -> list[tuple[str, Markup]]:
    """Return a drawing of each column of the first synthetic rows, by name."""
    from medsynth.report.page import charts
    from medsynth.report.sections.fidelity import column_summaries

    cells = _drawn(session.folder / session.choices.synthetic)
    schema = load(session.folder / session.choices.model).schema if session.has(session.choices.model) else None
    cells = apart(cells, schema.columns) if schema else cells
    found = [one for one in column_summaries(cells, schema).columns if one.name != session.choices.unit]
    drawn = [(one.name, charts.bars(one.name, one.labels, None, one.shares, one.kind == "number")) for one in found]
    return [(name, Markup(drawing.render(k))) for k, (name, drawing) in enumerate(drawn)]


def do_rows(session: Session, form: Form) -> str:
    """Draw rows."""
    session.refuse(no_such_format=form.get("format") not in FORMATS)
    replicates = form.get("replicates", "").strip()
    session.change(
        rows=_whole(session, form.get("rows", "")), format=form["format"],
        where=[line.strip() for line in form.get("where", "").splitlines() if line.strip()],
        replicates=_whole(session, replicates) if replicates else 0,
    )  # fmt: skip
    return _start(session, "rows", session.choices.sample(force="replace" in form), "rows")


def show_report(session: Session) -> Content:
    """Show the form of the review, the page, and what may leave."""
    chosen = session.choices
    written = [chosen.synthetic, f"{chosen.synthetic}.provenance.json"]
    parts = tuple(f"{chosen.name}{part}." for part in MADE[:2])
    kept = [chosen.table, *(name for name in files(session.folder) if name.startswith(parts))]
    times = [(session.folder / name).stat().st_mtime if session.has(name) else 0.0
             for name in (chosen.page, chosen.synthetic, REVIEW)]  # fmt: skip
    pages = [f"{chosen.name}.report.html", f"{chosen.name}.open.report.html"]
    return {
        "job": session.jobs["report"], "package": session.jobs["package"], "groups": GROUPS,
        "review": _known_review(session), "page": session.has(chosen.page),
        "kept": chosen.approved and session.has(chosen.approved_plan), "stale": 0 < times[0] < max(times),
        "leaves": [name for name in (*written, pages[1], f"{chosen.name}.package") if session.has(name)],
        "stays": [name for name in (*kept, pages[0], f"{chosen.name}.report.json") if session.has(name)],
    }  # fmt: skip


def _review(session: Session) -> Content:
    """Return what the review file says already."""
    found = parse_yaml(session.read(REVIEW), REVIEW)
    if found is not None and not isinstance(found, dict):
        raise SchemaError(f"{REVIEW} must name entries, such as `purpose: teaching`. Correct it, or rename it.")
    return found or {}


def _known_review(session: Session) -> Content:
    """Return what the review file says already, or nothing with a message if it cannot be read."""
    try:
        return _on_screen(_review(session))
    except MedsynthError as error:
        session.tell(str(error), english=True)
        return {}


def _on_screen(review: Content) -> Content:
    return review | {"uses": uses[0] if isinstance(uses := review.get("uses"), list) and uses else None}  # one of them


def _keep_review(session: Session, form: Form) -> None:
    """Keep what only people know. Other keys of the file are kept."""
    old = _review(session)
    entries = itertools.chain(*GROUPS.values())
    given = {name: form[name].replace("\r\n", "\n").strip() for name in entries if name in form}
    changed = {name: text for name, text in given.items() if text != str(_on_screen(old).get(name) or "")}
    if answers := {name: [text] * bool(text) if name == "uses" else text or None for name, text in changed.items()}:
        session.write(REVIEW, yaml.safe_dump(old | answers, allow_unicode=True, sort_keys=False))


def do_report(session: Session, form: Form) -> str:
    """Keep what only people know, and write the report, internal or shareable."""
    _keep_review(session, form)
    if "save" in form:
        session.tell(session.say("saved").format(REVIEW))
        return "report"
    session.change(shareable=form.get("kind") == "shareable")
    review, kept = (name if session.has(name) else "" for name in (REVIEW, session.choices.approved_plan))
    words = session.choices.report(review, plan=session.choices.approved and bool(kept), force="replace" in form)
    return _start(session, "report", words, "report")


def do_package(session: Session, form: Form) -> str:
    """Write the folder to hand over."""
    words = session.choices.package(REVIEW if session.has(REVIEW) else None, force="replace" in form)
    return _start(session, "package", words, "report")
