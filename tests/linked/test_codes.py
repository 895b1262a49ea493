"""From cells of several tables to codes: by plain loops over a few patients, and for each mistake its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import MedsynthError, SchemaError
from medsynth.fitting.private_tables import PrivateTables, coded_tables, open_tables, private_tables
from medsynth.fitting.source import find
from medsynth.io.table import Table, from_frame
from medsynth.sampling.patients import PatientRows
from medsynth.sampling.placing import NEVER, Placed, view_of
from medsynth.schema.linked import LinkedTables, joint, name_in_joint, own

from .conftest import write


def read(frames: dict[str, pd.DataFrame], tables: LinkedTables) -> PrivateTables:
    texts = {
        name: frame.astype(str).replace({"NaT": "", "nan": ""}).reset_index(drop=True) for name, frame in frames.items()
    }
    return private_tables(tables, {n: Table(n, tuple(map(str, frame.columns)), frame) for n, frame in texts.items()})


@pytest.mark.nightly
def test_codes_are_those_of_plain_loops(frames: dict[str, pd.DataFrame], tables: LinkedTables) -> None:
    coded = coded_tables(read(frames, tables))
    names = joint(tables).core.names
    assert coded.patients.shape == (300, len(names)) and set(coded.rows) == {"stays", "tests"}
    keys, column = frames["patients"]["patient"].tolist(), {name: k for k, name in enumerate(names)}
    start = pd.Timestamp("1990-01-01")
    for place, key in enumerate(keys):
        stays = frames["stays"][frames["stays"]["patient"] == key].sort_values("admitted", kind="stable").head(3)
        taken = frames["tests"][frames["tests"]["patient"] == key].sort_values("taken", kind="stable").head(4)
        row = coded.patients[place]
        assert row[column["rows of stays"]] == len(stays) and row[column["rows of tests"]] == len(taken)
        agreed = frames["consent"][frames["consent"]["patient"] == key]
        assert row[column["rows of consent"]] == len(agreed)
        if len(agreed):
            assert row[column["consent.given"]] == ["true", "false"].index(agreed["given"].iloc[0])
        if len(stays):
            assert row[column["stays.admitted"]] == (stays["admitted"].iloc[0] - start).days
            assert row[column["stays.discharged"]] == (stays["discharged"] - stays["admitted"]).dt.days.iloc[0]
        if len(taken):
            before = stays["admitted"][stays["admitted"] <= taken["taken"].iloc[0]]
            assert row[column["tests.stays so far"]] == len(before)
            since = before.iloc[-1] if len(before) else start
            assert row[column["tests.taken after stays"]] == (taken["taken"].iloc[0] - since).days
        for name, count in (("stays", len(stays)), ("tests", len(taken)), ("consent", len(agreed))):
            if not count:  # an empty cell in every column of the first row that is not there
                for one in own(tables, name):
                    kind = joint(tables).columns[name_in_joint(name, one)]
                    code = row[column[name_in_joint(name, one)]]
                    assert kind.gap_words[code - kind.size] == ""
    several = frames["stays"].groupby("patient").size().clip(upper=3)
    assert len(coded.rows["stays"].later) == (several - 1).sum()


def test_a_form_and_back_is_the_same(frames: dict[str, pd.DataFrame], tables: LinkedTables) -> None:
    """Rows placed by stays, as the chain sees them, become the same rows again."""
    from medsynth.fitting.private_tables import _kept
    from medsynth.schema.codec import encode

    private = read(frames, tables)
    first = encode(private.cells["patients"], tables.view("patients").core)
    kept: dict[str, PatientRows] = {name: _kept(private, name, first) for name in ("stays", "tests")}
    form, rows = view_of(tables, "tests", kept, np.arange(300)), kept["tests"]
    core = form.core(rows.codes, rows.whose)
    back, never = form.rows(core, None, rows.whose)
    assert not never.any()
    np.testing.assert_array_equal(back, rows.codes)
    assert isinstance(form, Placed)
    np.testing.assert_array_equal(form.possible(core, rows.whose), core)


def test_an_event_comes_after_the_last_of_several_visits_of_one_time(tables: LinkedTables) -> None:
    """An event between two visits of one time could not have a date, so it comes after the last of them."""
    starts = np.array([[10, 10, NEVER], [10, 20, 20], [0, 0, NEVER]])
    form = Placed(tables.view("tests"), tables, "tests", "stays", starts)
    names = form.of_chain.core.names
    core = np.zeros((4, len(names)), np.int32)
    core[:, names.index(form.number)] = [1, 2, 1, 0]
    whose = np.array([0, 1, 2, 2])
    moved = form.possible(core, whose)
    assert moved[:, names.index(form.number)].tolist() == [2, 3, 2, 2]
    assert not form.rows(moved, None, whose)[1].any()


def test_a_patient_decides_nothing_about_another(frames: dict[str, pd.DataFrame], tables: LinkedTables) -> None:
    """Whatever one patient's rows are: all other patients have the same codes, first and later ones."""
    key = frames["stays"]["patient"].value_counts().index[0]
    gone = {name: frame if name == "patients" else frame[frame["patient"] != key] for name, frame in frames.items()}
    one, other = (coded_tables(read(side, tables)) for side in (frames, gone))
    differs = (one.patients != other.patients).any(1)
    assert differs.tolist() == (frames["patients"]["patient"] == key).tolist()
    for name in ("stays", "tests"):
        left = len(one.rows[name].later) - len(other.rows[name].later)
        assert 0 < left <= tables.tables[name].max_rows - 1
        remaining = {tuple(row) for row in other.rows[name].later}
        assert remaining <= {tuple(row) for row in one.rows[name].later}


def at(frame: pd.DataFrame, row: int, key: str) -> pd.DataFrame:
    """The table with another key in a row."""
    keys = frame["patient"].tolist()
    return frame.assign(patient=[*keys[:row], key, *keys[row + 1 :]])


Change = Callable[[pd.DataFrame], pd.DataFrame]
MISTAKES: dict[str, tuple[str, Change, str]] = {
    "an orphan": ("stays", lambda f: at(f, 4, "stranger"), "row 5: no row of 'patients'"),
    "an empty key": ("patients", lambda f: at(f, 2, ""), "row 3: no key"),
    "a key that comes twice": (
        "patients",
        lambda f: pd.concat([f, f.head(1)]),
        "row 301: an earlier row has the same key",
    ),
    "a level that is none": ("stays", lambda f: f.assign(ward="attic"), "not a declared level"),
    "a column more": ("consent", lambda f: f.assign(more=1), "column 3, 'more', is not in the schema 'consent'"),
    "a column less": ("tests", lambda f: f.drop(columns="value"), "no column 'value'"),
    "a day that is none": ("tests", lambda f: f.assign(taken="someday"), "column 'taken', row 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_without_a_cell(
    mistake: str, frames: dict[str, pd.DataFrame], tables: LinkedTables, tmp_path: Path
) -> None:
    name, change, words = MISTAKES[mistake]
    folder = write({**frames, name: change(frames[name])}, tmp_path / "ward")
    with pytest.raises(MedsynthError) as found:
        coded_tables(open_tables(find(folder)))
    assert words in str(found.value) and f"{name}.csv" in str(found.value)
    assert not any(cell in str(found.value) for cell in ("stranger", "attic", "someday", "K1"))


def test_columns_that_are_left_out(frames: dict[str, pd.DataFrame], tables: LinkedTables, tmp_path: Path) -> None:
    from .conftest import TABLES

    text = TABLES.replace("key: patient\n", "key: patient\nother_columns: leave out\n")
    folder = write({**frames, "consent": frames["consent"].assign(note="a sentence")}, tmp_path / "ward", text)
    assert open_tables(find(folder)).cells["consent"].header == ("patient", "given")


def test_a_table_of_nobody(frames: dict[str, pd.DataFrame], tables: LinkedTables) -> None:
    """Two rows of one patient, and no row of another table: patients are coded, and none has a later row."""
    few = {**frames, "tests": frames["tests"].head(0), "stays": frames["stays"].drop_duplicates("patient")}
    coded = coded_tables(read(few, tables))
    assert (coded.patients[:, joint(tables).core.names.index("rows of tests")] == 0).all()
    assert len(coded.rows["tests"].later) == len(coded.rows["stays"].later) == 0


def test_frames_are_read_as_their_files() -> None:
    key, number = {"kind": "identifier"}, {"kind": "count", "bounds": [0, 9]}
    own = {"a": {"columns": {"k": key, "v": number}}, "b": {"columns": {"k": key, "w": number}}}
    frames = {"a": pd.DataFrame({"k": [1, 1], "v": [2, 3]}), "b": pd.DataFrame({"k": [1, 1], "w": [2, 3]})}
    tables = LinkedTables.from_dict({"name": "x", "key": "k", "tables": own})
    with pytest.raises(SchemaError, match="row 2: an earlier row has the same key"):
        private_tables(tables, {name: from_frame(frame) for name, frame in frames.items()})
