"""REDCap's data dictionary: the CSV file of 18 columns that a project's designer writes, or that its API exports."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter

from ..io.table import is_number, whole_text
from ..schema.header import normalised
from ..schema.rules import Expression, Number, Operation
from ..schema.schema import MAX_RULES
from .entry import DescribedTable, Entry, Type
from .files import Faults, Sheet
from .redcap_logic import Levels, NotExpressible, branching, calculation, checkbox_column, columns_of, interval
from .redcap_project import Project

FORM = "REDCap data dictionary"
# The columns that are read, as the designer and as the API names them. The others are about how a form looks.
NAMES = {
    "name": ("Variable / Field Name", "field_name"),
    "form": ("Form Name", "form_name"),
    "type": ("Field Type", "field_type"),
    "label": ("Field Label", "field_label"),
    "note": ("Field Note", "field_note"),
    "choices": ("Choices, Calculations, OR Slider Labels", "select_choices_or_calculations"),
    "validation": ("Text Validation Type OR Show Slider Number", "text_validation_type_or_show_slider_number"),
    "low": ("Text Validation Min", "text_validation_min"),
    "high": ("Text Validation Max", "text_validation_max"),
    "identifier": ("Identifier?", "identifier"),
    "logic": ("Branching Logic (Show field only if...)", "branching_logic"),
    "required": ("Required Field?", "required_field"),
}
READ = {normalised(title): key for key, titles in NAMES.items() for title in titles}
NEEDED = ("name", "type", "choices", "validation")
FIELDS = re.compile(r"\[(\w+)\]")  # that a calculation reads
FIELD = re.compile(r"[a-z][a-z0-9_]*")
# A raw export writes every date with the year first, however the form shows it.
MOMENTS: Mapping[str, tuple[Type, str]] = {
    "date": ("date", "%Y-%m-%d"),
    "datetime": ("datetime", "%Y-%m-%d %H:%M"),
    "datetime_seconds": ("datetime", "%Y-%m-%d %H:%M:%S"),
    "time": ("time", "%H:%M"),
    "time_hh_mm_ss": ("time", "%H:%M:%S"),
}
ORDERS = {"dmy": "%d-%m-%Y", "mdy": "%m-%d-%Y"}
NUMBER = re.compile(r"number(?:_(\d)dp)?(_comma_decimal)?")
IDENTIFYING = ("email", "phone", "ssn", "mrn", "vmrn")  # starts of validation types
SEVERAL = frozenset(("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"))
STATUS = {"0": "Incomplete", "1": "Unverified", "2": "Complete"}
UNIT = re.compile(r"[^\s.,;:]{1,12}")  # a note that is one short word
CODE, WORDS = re.compile(r"[\w./+-]+"), re.compile(r"[\w./+ -]+")  # of choices; the second if the first is not a number
UNMOVING = re.compile(r"-?\d[\d.,: T/-]*")  # a limit that is written out, unlike `today` and `[other_field]`


def is_redcap(header: Iterable[str]) -> bool:
    """Return whether a header is that of a data dictionary."""
    known = {READ.get(normalised(title)) for title in header}
    return known.issuperset(NEEDED)


def redcap(sheet: Sheet, project: Project, header: Collection[str], faults: Faults) -> DescribedTable:
    """Return the table that a data dictionary describes, as a raw export of the project writes it.

    The `header` of the table shows whether a record has several rows, if no file about the project does.
    """
    if not SEVERAL.isdisjoint(header) and not project.several_rows:
        project = replace(project, repeats=True)
    keys = {title: READ[normalised(title)] for title in sheet.header if normalised(title) in READ}
    rows = [(line, {key: cells[title] for title, key in keys.items()}) for line, cells in sheet.lines]
    entries = list[Entry]()
    logic = dict[str, str]()
    left_out = list[str]()
    for line, row in rows:
        for key in READ.values():
            row.setdefault(key, "")
        name = row["name"]
        hidden = bool(row["logic"])
        if not FIELD.fullmatch(name):
            faults.add(line, f"{name[:40]!r} is not a name of a REDCap field. Use lower-case letters, digits and _.")
        elif row["type"] == "descriptive":
            left_out.append(f"{name}: a text on the form, not a column")
        else:
            try:
                made = [_in_project(one, project, hidden) for one in _entries(line, row, first=not entries)]
            except NotUnderstood as why:
                made = []
                left_out.append(f"{name}: its columns are not declared, since {why}")
            entries += made
            logic |= {one.name: row["logic"] for one in made if hidden}
    forms = dict.fromkeys(row["form"] for _, row in rows if row["form"])
    entries[1:1] = _events(project)
    entries += _added_by_redcap(forms)
    entries, rules, remarks = _with_rules(entries, logic)
    several = project.several_rows and bool(entries)
    head: dict[str, object] = {"unit": entries[0].name, "max_rows": project.max_rows} if several else {}
    return DescribedTable(name="", entries=tuple(entries), rules=rules, head=head, remarks=(*left_out, *remarks))


class NotUnderstood(Exception):
    """The choices of a field cannot be read. The message gives the reason."""


def _entries(line: int, row: dict[str, str], first: bool) -> Iterator[Entry]:
    """Yield a field's columns: one, or for checkboxes one per choice. A field that is not understood stays open.

    Raises NotUnderstood for checkboxes whose choices cannot be read, since these name the columns.
    """
    name = row["name"]
    kind = row["type"]
    required = row["required"].lower() == "y"
    entry = Entry(name=name, line=line, type="text", label=row["label"], may_be_empty=not required)
    if first:
        yield replace(entry, type="key", may_be_empty=False)
    elif row["identifier"].lower() == "y":
        yield replace(entry, type="identifying")
    elif kind in ("yesno", "truefalse"):
        words = ("No", "Yes") if kind == "yesno" else ("False", "True")
        yield replace(entry, type="levels", levels=("0", "1"), labels=dict(zip("01", words, strict=True)))
    elif kind in ("radio", "dropdown", "select", "checkbox"):
        try:
            choices = _choices(row)
        except NotUnderstood as why:
            if kind == "checkbox":
                raise
            yield replace(entry, type="levels", open=(str(why),))
            return
        if kind != "checkbox":
            yield replace(entry, type="levels", levels=tuple(choices), labels=choices)
            return
        for code, label in choices.items():
            own = replace(entry, name=checkbox_column(name, code), label=f"{row['label']}: {label}", may_be_empty=False)
            yield replace(own, type="levels", levels=("0", "1"), labels={"0": "Unchecked", "1": "Checked"})
    elif kind == "slider":
        yield replace(entry, type="integer", low=row["low"] or "0", high=row["high"] or "100")
    elif kind == "calc":
        yield replace(entry, type="number", rule=row["choices"], may_be_empty=False)
    elif kind == "sql":
        yield replace(entry, type="levels", open=("a query of the project lists the levels",))
    elif kind == "text":
        yield _text_field(entry, row)
    elif kind in ("notes", "textarea", "file", "signature"):
        yield entry
    else:
        yield replace(entry, type="", open=(f"{kind[:40]!r} is not a REDCap field type" if kind else "no field type",))


def _text_field(entry: Entry, row: dict[str, str]) -> Entry:
    """Return the column of a text field, whose validation type decides what it contains."""
    kind = row["validation"].lower()
    open_ends = list[str]()
    ends = {"low": row["low"], "high": row["high"]}
    for end, text in ends.items():
        if text and not UNMOVING.fullmatch(text):
            ends[end] = ""
            open_ends.append(f"the limit {text[:30]!r} is not a fixed value")
    base, _, order = kind.rpartition("_")
    if base in MOMENTS and order in (*ORDERS, "ymd"):
        kind = base
    if kind in MOMENTS:
        type_, form = MOMENTS[kind]
        if type_ == "time":
            return replace(entry, type=type_, format=form)
        limits = {end: _year_first(text, order) for end, text in ends.items()}
        return replace(entry, type=type_, format=form, low=limits["low"], high=limits["high"], open=tuple(open_ends))
    found = NUMBER.fullmatch(kind)
    if found or kind in ("integer", "int", "float"):
        low, high = (text.replace(",", ".") for text in ends.values())
        places = int(found[1]) if found and found[1] else None
        unit, why = (row["note"], ("the unit is the field's note",)) if UNIT.fullmatch(row["note"]) else ("", ())
        type_ = "integer" if kind.startswith("int") else "number"
        return replace(
            entry, type=type_, low=low, high=high, decimals=places, unit=unit, guesses=why, open=tuple(open_ends)
        )
    return replace(entry, type="identifying") if kind.startswith(IDENTIFYING) else entry


def _year_first(text: str, order: str) -> str:
    """Return a limit of a date with the year first; some projects write limits as the form shows dates.

    >>> _year_first("31-12-2024", "dmy"), _year_first("2024-12-31 10:00", "dmy")
    ('2024-12-31', '2024-12-31 10:00')
    """
    with suppress(ValueError, KeyError):
        return datetime.strptime(text[:10].replace("/", "-"), ORDERS[order]).date().isoformat()
    return text


def _choices(row: dict[str, str]) -> dict[str, str]:
    """Return the labels by code in `1, Mild | 2, Severe`. Raise NotUnderstood for other texts, as for | in a label."""
    found = dict[str, str]()
    for k, part in enumerate(row["choices"].split("|"), 1):
        code, comma, label = part.partition(",")
        code = code.strip()
        form = CODE if row["choices"][:1].isdigit() else WORDS
        if not comma or not form.fullmatch(code):
            raise NotUnderstood(f"choice {k} must be a code, a comma and a label, as in 1, Mild")
        if code in found:
            raise NotUnderstood(f"two choices have the code {code[:40]!r}")
        found[code] = label.strip()
    return found


def _in_project(entry: Entry, project: Project, hidden: bool) -> Entry:
    """Return an entry with what the project adds: missing-data codes, and rows in which its form is absent."""
    if entry.type == "key":
        return entry
    empty = entry.may_be_empty or hidden or project.several_rows or (bool(project.missing) and "___" in entry.name)
    codes = {} if "___" in entry.name else project.missing
    return replace(entry, may_be_empty=empty, missing=tuple(codes), labels={**codes, **entry.labels})


def _events(project: Project) -> list[Entry]:
    """Return the columns that an export has if a record has several rows."""
    event, form, instance = (
        Entry(name=name, line=0, type="levels", only_if_in_table=True, open=("pass the project's XML file as well",))
        for name in ("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance")
    )
    if project.events:
        event = replace(event, levels=project.events, open=(), only_if_in_table=False)
    if project.repeating_forms:
        form = replace(form, levels=project.repeating_forms, open=(), only_if_in_table=False)
    why = ("the project does not limit how often a form repeats",)
    alone = not project.repeating_forms
    return [
        replace(event, may_be_empty=False), form,
        replace(instance, type="integer", low="1", open=why, only_if_in_table=alone),
    ]  # fmt: skip


def _added_by_redcap(forms: Iterable[str]) -> list[Entry]:
    """Return the columns that REDCap adds to some exports."""
    group = Entry(name="redcap_data_access_group", line=0, type="levels", only_if_in_table=True)
    person = Entry(name="redcap_survey_identifier", line=0, type="identifying", only_if_in_table=True)
    stamps = [Entry(name=f"{form}_timestamp", line=0, type="text", only_if_in_table=True) for form in forms]
    status = [
        Entry(name=f"{form}_complete", line=0, type="levels", levels=tuple(STATUS), labels=STATUS, ordered=True,
              label=f"Status of the form {form}", only_if_in_table=True) for form in forms
    ]  # fmt: skip
    return [group, person, *stamps, *status]


def _with_rules(entries: list[Entry], logic: dict[str, str]) -> tuple[list[Entry], tuple[str, ...], list[str]]:
    """Return entries with calculations as definitions, the rules of branching logic, and what is not expressible."""
    learned = {one.name for one in entries if one.type not in ("text", "identifying", "key")}
    made = _calculations(entries)
    remarks = list[str]()
    levels = _comparable([made.get(one.name, one) for one in entries])
    rules = [one.rule for one in made.values() if one.rule][:MAX_RULES]
    for name, text in logic.items():
        try:
            if name not in learned:
                continue
            if (found := made.get(name)) and found.rule:
                raise NotExpressible("REDCap computes hidden calculations as well")
            if len(rules) == MAX_RULES:
                raise NotExpressible(f"a schema can have at most {MAX_RULES} rules")
            rules.append(branching(name, text, levels))
        except NotExpressible as reason:
            remarks.append(f"{name}: its branching logic is not taken ({reason})")
    return [made.get(one.name, one) for one in entries], tuple(rules), remarks


def _comparable(entries: Iterable[Entry]) -> Levels:
    """Return the columns that logic can read: numbers, and those with levels."""
    numbers: Levels = {one.name: None for one in entries if one.type in ("integer", "number")}
    return {**numbers, **{one.name: one.levels for one in entries if one.type == "levels" and one.levels}}


def _calculations(entries: list[Entry]) -> dict[str, Entry]:
    """Return the calculated fields with their definitions and bounds, each after those that it reads."""
    waiting = {one.name: one for one in entries if one.rule}
    reads = {name: waiting.keys() & set(FIELDS.findall(one.rule)) for name, one in waiting.items()}
    sorter = TopologicalSorter(reads)
    with suppress(CycleError):
        sorter.prepare()
    known = {one.name: one for one in entries if not one.rule}
    levels = dict(_comparable(known.values()))
    made = dict[str, Entry]()
    while ready := sorter.get_ready():
        for name in ready:
            made[name] = known[name] = _calculated(waiting[name], known, levels)
            levels[name] = None
            sorter.done(name)
    why = ("its calculation is not taken (it reads itself)",)
    return made | {name: replace(one, rule="", open=why) for name, one in waiting.items() if name not in made}


def _calculated(entry: Entry, known: Mapping[str, Entry], levels: Levels) -> Entry:
    """Return a calculated field: defined by a rule if one can express it, within bounds that follow from its fields."""
    try:
        found = calculation(entry.rule, levels)
    except NotExpressible as reason:
        return replace(entry, rule="", may_be_empty=True, open=(f"its calculation is not taken ({reason})",))
    read = [known[word] for word in columns_of(found.formula)]
    whole = found.decimals == 0 or (_is_whole(found.formula) and all(map(_holds_whole, read)))
    exact = found.exact and all(one.type != "levels" for one in read)
    entry = replace(
        entry, type="integer" if whole else "number", decimals=None if whole else found.decimals,
        rule=f"{entry.name} = {found.text}" if exact else "",
        may_be_empty=entry.may_be_empty or any(one.may_be_empty for one in read),
    )  # fmt: skip
    ranges = {one.name: ends for one in read if (ends := _range(one))}
    if not found.exact:  # an empty field counts as zero
        ranges = {name: (min(low, 0.0), max(high, 0.0)) for name, (low, high) in ranges.items()}
    try:
        low, high = interval(found.formula, ranges)
    except NotExpressible as reason:
        return replace(entry, open=(f"its fields do not bound it ({reason})",))
    if low == high:
        return replace(entry, open=("it is constant",))
    step = 10.0 ** max(math.floor(math.log10(high - low)) - 2, 0 if whole else -12)  # three digits, rounded outward
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step
    why = ("its bounds follow from those of its fields",)
    return replace(entry, low=f"{first:.12g}", high=f"{last:.12g}", guesses=why)


def _is_whole(formula: Expression) -> bool:
    """Return whether a formula of whole numbers is whole."""
    if isinstance(formula, Operation):
        return formula.sign != "/" and _is_whole(formula.left) and _is_whole(formula.right)
    return not isinstance(formula, Number) or formula.value.is_integer()


def _holds_whole(entry: Entry) -> bool:
    return entry.type == "integer" or (entry.type == "levels" and all(map(whole_text, entry.levels)))


def _range(entry: Entry) -> tuple[float, float] | None:
    """Return the lowest and the highest value of a column, if it has both and they are numbers."""
    ends = entry.levels if entry.type == "levels" else (entry.low, entry.high)
    if entry.type not in ("integer", "number", "levels") or not all(map(is_number, ends)):
        return None
    return min(map(float, ends)), max(map(float, ends))
