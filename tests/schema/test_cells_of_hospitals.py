"""Cells as hospitals write them: each form is declared in one line, read by itself, modelled and written back.

`FORMS` is the table: a declaration, cells as they are written back, other cells with what they are written back as, and
a cell that breaks the form.
"""

import io
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.sampling import Draw
from medsynth.sampling import pipeline as sampling
from medsynth.sampling.rejection import broken
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells, decode, encode, parse
from medsynth.schema.columns.grid import grid
from medsynth.schema.columns.number import WrittenNumber
from medsynth.schema.columns.parts import whole_of


class Form(NamedTuple):
    """A form of cells. `pattern`: what each sampled cell matches."""

    column: dict[str, Any]
    cells: list[str]
    pattern: str
    others: dict[str, str] = {}
    broken: str = "see note"


NUMBER = {"kind": "continuous", "bounds": [0, 100], "decimals": 1}
COUNT = {"kind": "count", "bounds": [0, 99_999]}
DAY = {"kind": "date", "bounds": ["2021-01-01", "2022-12-31"]}
MINUTES = {"kind": "date", "format": "%Y-%m-%d %H:%M", "resolution": "minute"}
FORMS = {
    "unit": Form({**NUMBER, "text": "{} mg", "missing": True}, ["5 mg", "2.5 mg", "10 mg", ""], r"[\d.]+ mg|",
                 {"5mg": "5 mg", "5\u00a0mg": "5 mg", "5. mg": "5 mg", "NA": ""}, "5 ml"),
    "percent": Form({**COUNT, "bounds": [0, 100], "text": "{}%"}, ["96%", "100%", "7%"], r"\d+%",
                    {"96 %": "96%", "101%": "100%"}, "96"),
    "degrees": Form({**NUMBER, "bounds": [30, 45], "text": "{}°C", "zeros": "all"}, ["37.1°C", "36.0°C"],
                    r"\d\d\.\d°C", {"36 °C": "36.0°C"}, "37.1°F"),
    "about": Form({**COUNT, "text": "~{}"}, ["~120", "~7"], r"~\d+", {"~ 7": "~7"}, "120"),
    "dollars": Form({**NUMBER, "bounds": [0, 9999], "decimals": 2, "text": "${1,234.50}", "zeros": "all"},
                    ["$1,572.78", "$12.00"], r"\$(\d,\d{3}|\d{1,3})\.\d\d", {"$1572.78": "$1,572.78"}, "$1,57"),
    "commas": Form({**COUNT, "text": "{1,234}"}, ["8,197", "687"], r"\d?\d,\d{3}|\d{1,3}",
                   {"8197": "8,197", "8.197": "8,197"}, "8,19"),
    "apostrophes": Form({**COUNT, "text": "{1'234}"}, ["5'029", "12"], r"\d?\d'\d{3}|\d{1,3}", {"5’029": "5'029"}),
    "blanks": Form({**COUNT, "text": "{1 179}"}, ["1 179", "9"], r"\d?\d \d{3}|\d{1,3}",
                   {"1\u202f179": "1 179", "1\u00a0179": "1 179"}, "1 17"),
    "plus": Form({**NUMBER, "bounds": [-9, 9], "decimals": 2, "text": "{+0.35}"}, ["+0.35", "-2.5", "0"],
                 r"[+-][\d.]+|0", {"0.35": "+0.35"}),
    "minus": Form({**NUMBER, "bounds": [-9, 9], "text": "{−1.8}"}, ["−1.8", "3"], r"−?[\d.]+", {"-1.8": "−1.8"}),
    "powers": Form({"kind": "continuous", "bounds": [1e8, 1e10], "decimals": -7, "text": "{1.03E+09}"},
                   ["1.03E+09", "6.50E+08"], r"\d\.\d\dE\+\d\d", {"1030000000": "1.03E+09"}),
    "decimal comma": Form({**NUMBER, "text": "{0,5}"}, ["5,1", "4"], r"\d+(,\d)?", {"5.1": "5,1"}),
    "minutes": Form({**COUNT, "bounds": [1, 900], "text": "{} min"}, ["188 min", "9 min"], r"\d+ min"),
    "clock": Form({**COUNT, "bounds": [1, 2000], "text": "{h}:{mm}"}, ["3:08", "27:15"], r"\d+:[0-5]\d",
                  {"03:08": "3:08"}, "3:61"),
    "hours and minutes": Form({**COUNT, "bounds": [1, 900], "text": "{h} h {m} min"}, ["1 h 20 min", "0 h 5 min"],
                              r"\d+ h \d+ min", {"1h 20min": "1 h 20 min"}),
    "limits": Form({**NUMBER, "bounds": [0.5, 90], "scale": "log", "below": "<0.5", "above": ">90"},
                   ["<0.5", ">90", "0.5", "12.3"], r"<0\.5|>90|[\d.]+", {"< 0.5": "<0.5", "0.2": "<0.5", "400": ">90"}),
    "mostly limits": Form({**COUNT, "bounds": [5, 60], "above": ">60", "missing": [-9, "n.d."]},
                          [">60", ">60", ">60", "59", "-9", "n.d."], r">60|\d\d?|-9|n\.d\."),
    "flag": Form({**NUMBER, "text": ["{}", "{} H", "~{}"], "missing": True}, ["4.2 H", "3", "~9.5", ""],
                 r"[\d.]+( H)?|~[\d.]+|", {"4.2H": "4.2 H"}, "4.2 X"),
    "pressure": Form({"kind": "parts", "text": "{}/{}", "missing": True,
                      "parts": [{"kind": "count", "bounds": [60, 260]}, {"kind": "count", "bounds": [30, 160]}]},
                     ["120/80", "155/93", ""], r"\d+/\d+|", {"120 / 80": "120/80", "NA": ""}, "120"),
    "range": Form({"kind": "parts", "text": "{}-{} days", "parts": {"low": {"kind": "count", "bounds": [0, 9]},
                   "high": {"kind": "continuous", "bounds": [0, 9.5], "decimals": 1}}}, ["3-5 days", "0-9.5 days"],
                  r"\d-\d(\.\d)? days", {"3 - 5 days": "3-5 days"}, "3-5"),
    "answers": Form({"kind": "answers", "levels": ["A", "B b", "C"], "between": "; ", "missing": ["n.d."]},
                    ["A; C", "n.d.", "", "B b"], r"(A|B b|C)?(; (B b|C))*|n\.d\.", {"C;A": "A; C"}, "A; D"),
    "answers or none": Form({"kind": "answers", "levels": [1, 2, 3], "between": ",", "none": "none"},
                            ["1,3", "none", "2"], r"none|[123](,[23])*", {"3,1": "1,3"}, "4"),
    "start": Form({**MINUTES, "bounds": ["2021-01-01", "2022-12-31"]}, ["2021-04-24 11:40", "2022-02-06 01:06"],
                  r"\d{4}-\d\d-\d\d \d\d:\d\d", {"2021-04-24T11:40": "2021-04-24 11:40"}, "24.4."),
    "two digits": Form({**DAY, "bounds": ["1920-01-01", "2019-12-31"], "format": "%d.%m.%y", "pivot": 1920},
                       ["01.02.55", "29.02.16"], r"\d\d\.\d\d\.\d\d", {"1955-02-01": "01.02.55"}, "29.02.17"),
    "capitals": Form({**DAY, "format": "%d%^b%Y"}, ["27JUN2021", "01MAR2022"], r"\d\d[A-Z]{3}\d{4}",
                     {"27Jun2021": "27JUN2021"}),
    "German months": Form({**DAY, "format": "%d. %B %Y", "months": "de"}, ["27. März 2021", "01. Dezember 2022"],
                          r"\d\d\. [A-Zä][a-zä]+ \d{4}", {"1. märz 2021": "01. März 2021"}, "27. Juny 2021"),
    "short German months": Form({**DAY, "format": "%d-%b-%y", "months": "de"}, ["27-Okt-21", "01-Mär-22"],
                                r"\d\d-[A-Z][a-zä]{2}-2[12]", {"27-OKT-21": "27-Okt-21", "01-Mrz-22": "01-Mär-22"}),
    "partial dates": Form({**DAY, "format": ["%Y-%m-%d", "%Y-%m", "%Y"], "missing": True, "label": "First seen"},
                          ["2021-04-24", "2022-02", "2021", ""], r"202[12](-\d\d){0,2}|", {"NA": ""}, "2021-13"),
    "unknown days": Form({**DAY, "format": ["%d/%m/%Y", "XX/%m/%Y", "XX/XX/%Y"], "missing": ["unk"]},
                         ["24/04/2021", "XX/02/2022", "XX/XX/2021", "unk"], r"(\d\d|XX)/(\d\d|XX)/202[12]|unk",
                         {"2021-04-24": "24/04/2021"}, "24/XX/2021"),
    "partial German months": Form({**DAY, "format": ["%d. %B %Y", "%B %Y"], "months": "de"},
                                  ["27. März 2021", "Mai 2022"], r"(\d\d\. )?[A-Zä][a-zä]+ 202[12]",
                                  {"1. märz 2021": "01. März 2021"}, "27. 2021"),
    "mixed dates": Form({**DAY, "format": ["%d.%m.%Y", "%Y-%m-%d"]}, ["24.04.2021", "2022-02-01"],
                        r"\d\d\.\d\d\.202[12]|202[12]-\d\d-\d\d", {}, "24.04."),
    "first days": Form({**DAY, "format": "%Y-%m-01"}, ["2021-04-01", "2022-12-01"], r"202[12]-\d\d-01", {},
                       "24.04.2021"),
    "stay": Form({"kind": "parts", "text": "{} - {}", "missing": True, "label": "Stay", "parts": {
                     "first": {**DAY, "format": "%d.%m.%Y"},
                     "last": {"kind": "date", "after": "stay.first", "bounds": [0, 60], "format": "%d.%m.%Y"}}},
                 ["24.04.2021 - 30.04.2021", "01.03.2022 - 01.03.2022", ""], r"(\d\d\.\d\d\.202[123]( - |$)){2}|",
                 {"24.04.2021-30.04.2021": "24.04.2021 - 30.04.2021"}, "24.04.2021"),
    "ordered words": Form({"kind": "ordinal", "levels": ["neg", "(+)", "+", "++"], "missing": ["n.d."]},
                          ["neg", "++", "(+)", "n.d.", "+"], r"neg|\(\+\)|\+\+?|n\.d\.", {}, "+++"),
    "titres": Form({"kind": "ordinal", "levels": ["<1:20", "1:20", "1:40", ">1:40"]},
                   ["1:20", ">1:40", "<1:20", "1:40"], r"<1:20|1:[24]0|>1:40", {}, "1:30"),
    "grades": Form({"kind": "ordinal", "levels": [0, "(1)", "1+", "2+"]}, ["0", "(1)", "2+"], r"0|\(1\)|[12]\+",
                   {"0.0": "0"}),
    "half days": Form({**MINUTES, "bounds": ["2021-01-01", "2022-12-31"], "format": "%m/%d/%Y %I:%M %p"},
                      ["09/23/2022 09:55 AM", "01/16/2021 06:30 PM"], r"\d\d/\d\d/\d{4} [01]\d:[0-5]\d [AP]M"),
    "visit": Form({"kind": "parts", "text": "{} {}", "parts": {
                      "day": {**DAY, "format": "%d.%m.%Y"},
                      "time": {**MINUTES, "format": "%H:%M", "bounds": ["1900-01-01", "1900-01-01"]}}},
                  ["24.04.2021 08:15", "03.04.2022 15:00"], r"\d\d\.\d\d\.202[12] \d\d:\d\d", {}, "24.04.2021"),
    "limits with units": Form({**NUMBER, "bounds": [1, 50], "text": "{} ng/l", "below": ["<0.5 ng/l", "<1 ng/l"]},
                              ["<0.5 ng/l", "<1 ng/l", "7.5 ng/l"], r"<0\.5 ng/l|<1 ng/l|[\d.]+ ng/l", {}, "7.5"),
}  # fmt: skip


def schema(**columns: dict[str, Any]) -> Schema:
    content = {"name": "t", "target": "died", "one_row_a_patient": True}
    found = Schema.from_dict({**content, "columns": {**columns, "died": {"kind": "binary", "levels": ["no", "yes"]}}})
    again = Schema.from_yaml(found.to_yaml())  # each form is one line of YAML
    assert again == found
    assert again.to_dict() == found.to_dict()
    return found


def table(name: str, cells: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: cells, "died": ["no", "yes"] * (len(cells) // 2) + ["no"] * (len(cells) % 2)})


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_read_and_written_back(name: str) -> None:
    form = FORMS[name]
    declared = schema(**{name: form.column})
    cells = [*form.cells, *form.others]
    codes = encode(from_frame(table(name, cells)), declared)
    assert csv_cells(codes, declared)[name].tolist() == [*form.cells, *form.others.values()]
    # In a frame, missing cells are empty, and all others have the same text as in a file.
    texts = [form.others.get(cell, cell) for cell in cells]
    again = from_frame(decode(codes, declared))
    column = declared.header[name].get(name)
    if not (column and column.dated) or len(declared.header[name]) > 1:  # moments have one text in frames
        assert [*again.cells[name]] == texts
        assert (encode(again, declared) == codes).all()


@pytest.mark.parametrize("name", FORMS)
def test_a_broken_cell_moves_no_other_row(name: str) -> None:
    form = FORMS[name]
    column = {**form.column, "missing": form.column.get("missing", True), "unknown": "missing"}
    declared = schema(**{name: column})
    cells = [*form.cells, *form.others, form.cells[0]]
    usual = encode(from_frame(table(name, cells)), declared)
    found = encode(from_frame(table(name, [*cells[:-1], form.broken])), declared)
    assert (found[:-1] == usual[:-1]).all()
    # The broken cell is missing, and not near a number.
    assert {*csv_cells(found, declared)[name][-1:]} <= {"", "-9", "n.d.", "unk"}
    with pytest.raises(SchemaError, match=r"row \d") as refused:
        encode(from_frame(table(name, [*cells[:-1], form.broken])), schema(**{name: form.column}))
    assert form.broken not in str(refused.value)


ROWS = 1200
RULES = ["pressure.1 > pressure.2", "range.low <= range.high", "`answers.A` = yes implies flag > 2"]
FORMATS: dict[str, tuple[str, Callable[[pd.DataFrame, Path], None]]] = {
    "csv": (".csv", lambda frame, path: frame.to_csv(path, index=False)),
    "semicolons": (".csv", lambda frame, path: frame.to_csv(path, index=False, sep=";")),
    "parquet": (".parquet", lambda frame, path: frame.to_parquet(path)),
    "workbook": (".xlsx", lambda frame, path: frame.to_excel(path, index=False)),
    "sav": (".sav", lambda frame, path: __import__("pyreadstat").write_sav(frame, path)),
}


def drawn(declared: Schema, rows: int) -> pd.DataFrame:
    """Return a table of a schema: a tenth of missing cells, three tenths of limits, and values around the middle."""
    rng = np.random.default_rng(0)
    codes = []
    for column in declared.columns.values():
        limits = [*column.limits.values()] if isinstance(column, WrittenNumber) else []
        own = np.floor(rng.beta(3, 4, rows) * column.size).astype(np.int64)
        own = np.where(np.isin(own, limits), column.size // 2, own)
        own = np.where(rng.random(rows) < 0.3, rng.choice(limits, rows), own) if limits else own
        if column.part is None or column.part.index == 0:  # parts of a cell are missing together
            gone = np.where(rng.random(rows) < 0.1, rng.integers(0, max(column.gaps, 1), rows), -1)
        codes.append(np.where(gone >= 0, column.size + gone, own) if column.gaps else own)
    return csv_cells(np.column_stack(codes).astype(np.int32), declared)


@pytest.mark.parametrize("kind", ["csv", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in [*FORMATS][1:])])
def test_a_fit_keeps_each_form_and_its_shares(kind: str, quick: None, seeded_entropy: None, tmp_path: Path) -> None:
    some = FORMS if kind != "csv" else {n: FORMS[n] for n in ("unit", "limits", "flag", "pressure", "answers", "clock")}
    ending, write = FORMATS[kind]
    names = {name: name.replace(" ", "_") for name in some}  # an SPSS file has no blanks in names
    rules = [rule for rule in RULES if kind == "csv" and "range" not in rule]
    declared = Schema.from_dict({**schema(**{names[n]: f.column for n, f in some.items()}).to_dict(), "rules": rules})
    frame = drawn(declared, ROWS)
    write(frame, tmp_path / f"t{ending}")
    model = medsynth.fit(tmp_path / f"t{ending}", schema=declared, epsilon=50, rows=ROWS)
    model.save(tmp_path / "t.medsynth")
    text = sampling.sample_csv(medsynth.load(tmp_path / "t.medsynth"), Draw(rows=1000, seed=1))
    made = pd.read_csv(io.StringIO(text), sep=model.form.delimiter, dtype=str, keep_default_na=False)
    assert [*made] == [*frame]
    for name, form in some.items():
        assert all(re.fullmatch(form.pattern, cell) for cell in made[names[name]]), name
        words = {*map(str, form.column.get("missing", ()) if form.column.get("missing") is not True else [""])}
        words |= {*form.column.get("below", ()), form.column.get("above", "")}
        for word in words:
            real, own = ((table[names[name]] == word).mean() for table in (frame, made))
            assert abs(real - own) < 0.07, (name, word)


def minutes(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700 * 24 * 60, rows), unit="min")
    length = pd.to_timedelta(rng.gamma(3, 60, rows).round() + 5, unit="min")
    visit = [
        f"{d:%d.%m.%Y} {h:02}:{m:02}"
        for d, h, m in zip(start, rng.integers(8, 15, rows), rng.integers(0, 60, rows), strict=True)
    ]
    return pd.DataFrame({
        "start": start.strftime("%Y-%m-%d %H:%M"), "end": (start + length).strftime("%Y-%m-%d %H:%M"), "visit": visit,
        "same_day": start.strftime("%d.%m.%Y"), "died": rng.choice(["no", "yes"], rows),
    })  # fmt: skip


END = {**MINUTES, "after": "start", "bounds": [0, 2000]}
SAME_DAY = {**DAY, "after": "visit.day", "bounds": [0, 0], "format": "%d.%m.%Y"}


def test_minutes_between_timestamps_and_days_are_read_and_written_back() -> None:
    declared = schema(start=FORMS["start"].column, end=END, visit=FORMS["visit"].column, same_day=SAME_DAY)
    frame = minutes(50)
    codes = encode(from_frame(frame), declared)
    assert (csv_cells(codes, declared) == frame).all(axis=None)
    lengths = pd.to_datetime(frame["end"]) - pd.to_datetime(frame["start"])
    assert (codes[:, 1] == lengths.dt.total_seconds() / 60).all()
    assert (codes[:, declared.names.index("same_day")] == 0).all()


@pytest.mark.nightly
def test_minutes_stay_minutes_and_hours_stay_hours(quick: None, seeded_entropy: None) -> None:
    declared = schema(start=FORMS["start"].column, end=END, visit=FORMS["visit"].column, same_day=SAME_DAY)
    frame = minutes(ROWS)
    model = medsynth.fit(frame, schema=declared, epsilon=50, rows=ROWS)
    made = from_frame(medsynth.sample(model, 1000, seed=1)).cells
    real, own = ((pd.to_datetime(t["end"]) - pd.to_datetime(t["start"])).dt.total_seconds() / 60 for t in (frame, made))
    assert abs(own.median() - real.median()) < 20
    hours = made["visit"].str[11:13].astype(int)
    assert hours.between(8, 14).mean() > 0.97
    assert (pd.to_datetime(made["same_day"]).dt.strftime("%d.%m.%Y") == made["visit"].str[:10]).all()


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_each_limit_has_a_cell_of_its_own(scale: str) -> None:
    column = schema(x={**NUMBER, "bounds": [1, 1e6], "scale": scale, "below": ["<0.5", "<1"], "above": ">1e6"}).columns[
        "x"
    ]
    cells = grid(column, 30)
    assert [*cells.edges[:3]] == [0, 1, 2]
    assert [*cells.edges[-2:]] == [column.size - 1, column.size]
    assert len(cells.edges) - 1 <= 30
    plain = schema(x={**NUMBER, "bounds": [1, 1e6], "scale": scale}).columns["x"]
    assert (grid(plain, 27).edges + 2 == cells.edges[2:-1]).all()  # numbers have the same cells as without limits


def test_a_date_without_a_day_is_within_its_time_and_not_always_on_the_same_day() -> None:
    column = schema(x=FORMS["partial dates"].column | {"bounds": ["1900-01-01", "2099-12-31"]}).columns["x"]
    for form, least in (("{}", 120), ("{}-06", 15)):
        texts = np.array([form.format(year) for year in range(1900, 2100)], dtype=object)
        read = column.cell_values(pd.Series(texts))
        days = [date.fromordinal(int(day)) for day in read]
        assert [f"{day.year}-{day.month:02}"[: len(text)] for day, text in zip(days, texts, strict=True)] == [*texts]
        assert len({(day.month, day.day) for day in days}) >= least
        assert (column.cell_values(pd.Series(texts[::-1])) == read[::-1]).all()  # the cell alone decides


def test_words_are_in_their_order_wherever_they_are_shown() -> None:
    levels = [*FORMS["ordered words"].column["levels"]]
    declared = schema(x={**FORMS["ordered words"].column, "dtype": "category"})
    column = declared.columns["x"]
    frame = decode(encode(from_frame(table("x", ["++", "neg", "n.d.", "(+)"])), declared), declared)
    assert column.describe().domain == ", ".join(levels)
    assert frame["x"].dtype == pd.CategoricalDtype([*levels, "n.d."], ordered=True)
    assert frame.sort_values("x")["x"].tolist() == ["neg", "(+)", "++", "n.d."]
    assert parse("x=(+)", declared) == {"x": ((1, 1),)}
    text = "name: t\ncolumns: {x: {kind: ordinal, levels: [>1:20, 1:40]}}"
    with pytest.raises(SchemaError, match="begin with a sign in quotes"):
        Schema.from_yaml(text)


def test_labels_of_shared_cells_stay_with_the_whole() -> None:
    columns = {
        "rr": {**FORMS["pressure"].column, "label": "Blood pressure"},
        "symptoms": {**FORMS["answers"].column, "label": "Symptoms", "value_labels": {"A": "Ache"}},
    }
    declared = schema(**columns)
    assert declared.to_dict()["columns"]["rr"]["label"] == "Blood pressure"  # type: ignore[index]
    assert [column.label for column in declared.columns.values()] == [None, None, "Ache", None, None, None]
    wholes = [whole_of(own) for own in declared.header.values()]
    assert [whole and whole.label for whole in wholes] == ["Blood pressure", "Symptoms", None]


def test_parts_of_a_cell_are_missing_together() -> None:
    declared = schema(**{name: FORMS[name].column for name in ("pressure", "answers", "flag")})
    codes = encode(from_frame(drawn(declared, 40)), declared)
    assert not broken(codes, declared).any()
    codes[3, 1] = declared.columns["pressure.2"].size * (codes[3, 1] < declared.columns["pressure.2"].size)
    assert broken(codes, declared).tolist() == [k == 3 for k in range(40)]


@pytest.mark.parametrize(("column", "words"), [
    ({**NUMBER, "text": "mg"}, "one pair of braces"),
    ({**NUMBER, "text": ["{}"]}, "two or more different examples"),
    ({**NUMBER, "below": "<0.5"}, "narrow the bounds"),
    ({**NUMBER, "above": ["-9", ">100"], "missing": [-9]}, "not codes of missing values"),
    ({"kind": "parts", "text": "{}", "parts": [COUNT, COUNT]}, "once for each part"),
    ({"kind": "parts", "text": "{}/{}", "parts": [COUNT, {"kind": "cout"}]}, "columns.x.2: there is no kind"),
    ({"kind": "answers", "levels": ["A", "A;B"]}, "not contain `between`"),
    ({**COUNT, "part": 1}, "cannot declare `part`"),
    ({**DAY, "pivot": 1920}, "%y"),
    ({**DAY, "format": ["%Y-%m-%d"]}, "two or more different examples"),
    ({**DAY, "format": ["%Y-%m-%d", "unknown"]}, "format must have"),
    ({"kind": "date", "format": ["%Y-%m-%d", "%Y"]}, "a list in `format` needs `bounds`"),
    ({**DAY, "fromat": "%Y"}, "'format'"),
    ({"kind": "answers", "levels": ["A", "B"], "value_labels": {"C": "x"}}, "'C' is not one of the `levels`"),
])  # fmt: skip
def test_a_wrong_declaration_is_refused_with_a_cure(column: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(words)):
        schema(x=column)
