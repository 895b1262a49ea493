"""What one patient's rows are changes no other patient's rows: which are kept, their order, their codes, their pairs.

A table with an order, or several tables, and a neighbour in which one patient is gone, or has other cells. First the
codes are compared, patient by patient. Then both are fitted, with all releases held fixed: what is released must be the
same bytes, and the exact answer of each query may move by its stated sensitivity at most.

On the code of before, keys were padded to the longest key of the table, and numbers of many digits were read in another
way if one cell of the column was no whole number: both reordered other patients' rows.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from held import FixedReleases
from hypothesis import example, given, settings
from hypothesis import strategies as st

import medsynth
from medsynth import rng
from medsynth.fitting import training
from medsynth.fitting.private_table import PrivateTable
from medsynth.fitting.private_tables import CodedTables, coded_tables, private_tables
from medsynth.io import reader
from medsynth.io import table as tables
from medsynth.io.split import split
from medsynth.patients import conditional
from medsynth.patients.split_rows import split_rows
from medsynth.privacy.contribution import bound_contributions
from medsynth.privacy.queries.noising import WholeNoise
from medsynth.privacy.queries.query import PrivateQuery
from medsynth.privacy.raw_rows import RawRows, levels_added
from medsynth.privacy.release import Release, Releases
from medsynth.schema import Schema
from medsynth.schema.cells import CellKinds
from medsynth.schema.codec import encode
from medsynth.schema.columns.column import numbers_of
from medsynth.schema.columns.date import Date
from medsynth.schema.columns.identifier import Identifier, sort_key
from medsynth.schema.columns.number import Continuous, Count
from medsynth.schema.learned import ColumnKind
from medsynth.schema.linked import LinkedTables

Frames = dict[str, pd.DataFrame]
Cells = Iterator[tuple[str, pd.DataFrame]]

# Comparisons of two cells.

KEYS = st.text(alphabet="0019aA-. ٣४", max_size=6) | st.integers(0, 10**40).map(str)


def signs(ranks: np.ndarray[Any, Any]) -> list[list[int]]:
    found: list[list[int]] = np.sign(ranks[:, None] - ranks[None]).astype(int).tolist()
    return found


@settings(max_examples=60)
@example(["7", "07", "\u0667"], "007")
@example(["A1", "A01", "A1"], "A01")
@given(st.lists(KEYS, min_size=2, max_size=5), KEYS)
def test_two_keys_are_compared_by_themselves(keys: list[str], third: str) -> None:
    """Whatever other keys there are, and wherever they stand. Two ranks are equal for equal keys alone."""
    column = Identifier()
    alone = [[signs(column.ranks(pd.Series([a, b], dtype=object)))[0][1] for b in keys] for a in keys]
    for others in ([], [third], [third * 50]):
        found = column.ranks(pd.Series([*others, *keys, *others], dtype=object))[len(others) :][: len(keys)]
        assert signs(found) == alone
    assert [
        [(sign == 0) == (a == b) for b, sign in zip(keys, row, strict=True)] for a, row in zip(keys, alone, strict=True)
    ]
    assert all(
        alone[i][j] == (a != b) * alone[i][j] == -alone[j][i] for i, a in enumerate(keys) for j, b in enumerate(keys)
    )


@settings(max_examples=100)
@given(KEYS, KEYS, KEYS)
def test_keys_are_in_a_total_order(a: str, b: str, c: str) -> None:
    one, two, three = map(sort_key, (a, b, c))
    assert (one < two) + (two < one) + (a == b) == 1
    assert not (one <= two <= three) or one <= three


def test_digits_in_keys_are_compared_as_numbers() -> None:
    ascending = [
        "",
        "07",
        "7",
        "٨",
        "9",
        "10",
        "10-2",
        "10-10",
        "9" * 5000,
        "1" + "0" * 5000,
        "A",
        "A1B3",
        "A2",
        "A10",
        "A10B",
        "B1",
    ]
    ranks = Identifier().ranks(pd.Series(ascending[::-1], dtype=object))[::-1]
    assert ranks.tolist() == list(range(len(ascending)))


NUMBERS = (
    st.integers(-(10**19), 10**19).map(str) | st.floats().map(repr) | st.sampled_from(["", "x", "0.5", "1e400", "-0"])
)
DAYS = st.dates().map(str) | st.datetimes().map(str) | st.sampled_from(["", "x", "2020-02-30"])
ORDERS = {
    "count": (Count(bounds=(0, 2**30), unknown=5), NUMBERS),
    "number": (Continuous(bounds=(-1000, 1000), decimals=3, whole_from=2.5), NUMBERS),
    "day": (Date(bounds=("2000-01-01", "2020-12-31")), DAYS),
    "minute": (Date(bounds=("2000-01-01", "2020-12-31"), resolution="minute", format="%Y-%m-%d %H:%M"), DAYS),
}  # fmt: skip


@pytest.mark.parametrize("kind", ORDERS)
def test_a_cell_has_its_place_and_its_code_by_itself(kind: str) -> None:
    """Bit for bit. And rows ascend as their codes do, so that no gap between two rows is negative."""
    column, cells = ORDERS[kind]

    @settings(max_examples=50)
    @given(st.lists(cells, min_size=1, max_size=6))
    def check(texts: list[str]) -> None:
        whole = pd.Series(texts, dtype=object)
        place, reading = column.read_rows(whole, {})
        codes, ranks = reading.codes[place], column.ranks(whole)
        for k, text in enumerate(texts):
            one = pd.Series([text], dtype=object)
            assert column.ranks(one).tobytes() == ranks[k : k + 1].tobytes()
            assert column.read_rows(one, {})[1].codes[0] == codes[k]
            assert column.cell_values(one).tobytes() == column.cell_values(whole)[k : k + 1].tobytes()
        known = np.isfinite(ranks)
        assert (np.diff(codes[known][np.argsort(ranks[known], kind="stable")]) >= 0).all()

    check()


CELLS = NUMBERS | DAYS | st.sampled_from(["8.0", "true", "NA", "no", "yes", "007", "\u0663", "8.125"])
KINDS = CellKinds()
FORMS = ColumnKind(cells="decimal", mixed=True), ColumnKind(cells="date", form="%Y-%m-%d"), ColumnKind(cells="word")


def counted(rows: list[tuple[str, str]]) -> tuple[Any, list[Any]]:
    """All exact counts of two columns from which a schema is learned: of levels, and all others."""
    table = tables.Table("t", ("a", "b"), pd.DataFrame(rows, columns=["a", "b"], dtype=object))
    raw, (number, day, word) = RawRows(table, KINDS), FORMS
    levels, usual = raw.levels("a", word, KINDS.usual)
    own = [raw.kinds("a"), raw.magnitudes("a", number), raw.decimals("a", number), raw.years("a", day)]
    return levels, [usual, *own, raw.differences(("a", day), ("b", day))]


@settings(max_examples=50)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=2, max_size=5))
@example([("25288874281771854", "no"), ("8.125", "no")])  # pandas reads the first one otherwise among whole numbers
def test_what_a_schema_is_learned_from_adds_up_over_rows(rows: list[tuple[str, str]]) -> None:
    levels, whole = counted(rows)
    alone = [counted([row]) for row in rows]
    for k, counts in enumerate(whole):
        assert np.array_equal(counts, sum(others[k] for _, others in alone))
    assert levels.to_dict() == reduce(levels_added, (own for own, _ in alone)).to_dict()
    cells = np.array([row[0] for row in rows], dtype=object)
    assert numbers_of(cells).tobytes() == b"".join(numbers_of(cells[k : k + 1]).tobytes() for k in range(len(cells)))


# One table whose patients have rows in order.

PATIENTS, ODD = 150, "p7"  # the patient who is another one in the neighbour
ORDER: dict[str, dict[str, Any]] = {
    "date": {"kind": "date", "bounds": ["2015-01-01", "2020-12-31"], "unknown": "2016-06-01"},
    "number": {"kind": "count", "bounds": [0, 10**9], "unknown": 7},
    "key": {"kind": "identifier"},
}
MARKS = {
    "date": ["2015-03-04", "2015-12-31", "2016-06-01", "2018-02-03", "2019-10-09", "2020-05-05"],
    "number": ["9", "10", "007", "64560677953378411", "64560677953378412", "123"],
    "key": ["9", "10", "0010A", "00200", "A2", "A10"],
}
STRANGE = {
    "date": ["2017-05-05", "2021-07-07", "0001-01-01", "2016-06-01 13:45:00", "no day", ""],
    "number": ["50", "0.5", "1" + "0" * 25, "-1", "1e400", "no number", ""],
    "key": ["00100" + "0" * 30, "٣", "z" * 40, "7", "", "NA"],
}
OTHER_CELLS = {"dose": ["9", "-5", "x", ""], "state": ["c", "none", ""], "sex": ["M", "?"]}


def schema_of(order: str) -> Schema:
    return Schema.from_dict({
        "name": "visits", "target": "state", "unit": "who", "max_rows": 3, "order": "at", "constant": ["sex"],
        "columns": {
            "who": {"kind": "identifier"},
            "row": {"kind": "identifier"},
            "at": ORDER[order],
            "dose": {"kind": "count", "bounds": [0, 9], "missing": True, "unknown": "missing"},
            "state": {"kind": "categorical", "levels": ["a", "b", "c"], "unknown": "a"},
            "sex": {"kind": "binary", "levels": ["F", "M"], "unknown": "F"},
        },
    })  # fmt: skip


def visits(order: str) -> pd.DataFrame:
    """Rows in any order, of patients with one to five of them; `row` names each row.

    Other cells follow from the order's: if patients' rows change places, counts of first rows move by many.
    """
    draw = np.random.default_rng(3)
    whose = np.repeat([f"p{k}" for k in range(PATIENTS)], draw.integers(1, 6, PATIENTS))
    mark = draw.integers(0, len(MARKS[order]), len(whose))
    frame = pd.DataFrame({
        "who": whose, "row": [f"r{k}" for k in range(len(whose))], "at": np.array(MARKS[order])[mark],
        "dose": mark.astype(str), "state": np.array(["a", "b", "c"])[mark % 3],
        "sex": np.where(pd.factorize(whose)[0] % 2, "F", "M"),
    })  # fmt: skip
    return frame.sample(frac=1, random_state=1).astype(object).reset_index(drop=True)


def neighbours(frame: pd.DataFrame, order: str) -> Cells:
    """The table with the patient gone, elsewhere in the file, of another name, and with other cells."""
    own = frame["who"] == ODD
    yield "gone", frame[~own]
    yield "first in the file", pd.concat([frame[own], frame[~own]])
    yield "last in the file", pd.concat([frame[~own], frame[own]])
    yield "of another name", frame.assign(who=frame["who"].where(~own, "somebody"))
    yield "of many more rows", pd.concat([frame, *[frame[own]] * 5])
    for name, cells in {**OTHER_CELLS, "at": STRANGE[order]}.items():
        for cell in cells:
            yield f"{name} is {cell[:9]!r}", frame.assign(**{name: frame[name].where(~own, cell)})
            last = frame.index == frame.index[own][-1]
            yield f"{name} is {cell[:9]!r} once", frame.assign(**{name: frame[name].where(~last, cell)})


def patients_of(frame: pd.DataFrame, schema: Schema) -> dict[str, Any]:
    """Of each patient but one: the rows that are kept, in order, and their codes as the vaults of a fit hold them."""
    table = tables.from_frame(frame.reset_index(drop=True))
    private = PrivateTable(data=table, declared=schema, target="state")
    stay, units = private.bounded_rows(rng.SeededEntropy(0))
    assert stay is not None and units is not None
    rows = split_rows(encode(table, schema.core)[stay], units, schema)
    core = schema.core.columns
    sizes = np.array([core[name].size + core[name].gaps for _ in range(3) for name in schema.core.names])
    assert (rows.later >= 0).all() and (rows.later[:, : len(sizes)] < sizes).all()
    whose, names = table.cells["who"].to_numpy()[stay], table.cells["row"].to_numpy()[stay]
    keys = list(dict.fromkeys(whose))
    later = {key: rows.later[rows.patients_of_later.of_row == k].tolist() for k, key in enumerate(keys)}
    kept = {key: names[whose == key].tolist() for key in keys}
    first = dict(zip(keys, rows.first.tolist(), strict=True))
    last = {key: rows.last[rows.patients_of_last.of_row == k].tolist() for k, key in enumerate(keys)}
    assert all(len(own) == 1 for own in last.values())
    return {key: (kept[key], first[key], later[key], last[key]) for key in keys if key not in (ODD, "somebody")}


@pytest.mark.parametrize("order", ORDER)
def test_a_patient_moves_no_row_of_another(order: str) -> None:
    schema, frame = schema_of(order), visits(order)
    one = patients_of(frame, schema)
    assert len(one) == PATIENTS - 1 and any(len(kept) == 3 for kept, *_ in one.values())
    for what, other in neighbours(frame, order):
        assert patients_of(other, schema) == one, what


def test_rows_of_equal_order_are_as_in_the_file() -> None:
    """As the rows of this patient stand among themselves: rows of others between them say nothing."""
    frame = visits("key").assign(at="V1")
    kept = patients_of(frame, schema_of("key"))
    for key, (names, *_) in kept.items():
        assert names == frame["row"][frame["who"] == key].tolist()[:3]


class OwnDraws:
    """Test entropy: the numbers that rows were given, whatever other rows there are."""

    source = "TEST ONLY: seeded, no privacy"

    def __init__(self, draws: np.ndarray[Any, Any]) -> None:
        self._draws = draws

    def bytes(self, count: int) -> bytes:
        assert count == self._draws.nbytes
        return self._draws.tobytes()


def test_without_an_order_rows_are_kept_by_their_own_numbers() -> None:
    """One secret number a row, independent of all others: it decides about rows of this row's patient alone."""
    frame = visits("key")
    draws = np.random.default_rng(0).integers(0, 2**63, len(frame)).astype(np.uint64)
    own = (frame["who"] == ODD).to_numpy()

    def kept(some: np.ndarray[Any, Any]) -> list[str]:
        table = frame[some].reset_index(drop=True)
        stay, _ = bound_contributions(table["who"], 2, OwnDraws(draws[some]))
        return [row for row, who in zip(table["row"][stay], table["who"][stay], strict=True) if who != ODD]

    whole = kept(np.ones(len(frame), np.bool_))
    assert whole == kept(~own) and len(whole) < (~own).sum()


def test_a_hold_out_tosses_a_coin_for_each_patient(fixed_entropy: None, tmp_path: Path) -> None:
    """Patients come in the order of their first rows, and so do coins: without the last one, the others have theirs."""
    frame = visits("key")
    frame = pd.concat([frame[frame["who"] != ODD], frame[frame["who"] == ODD]])
    found = []
    for k, table in enumerate((frame, frame[frame["who"] != ODD])):
        table.to_csv(tmp_path / f"{k}.csv", index=False)
        outputs = tmp_path / f"{k}a.csv", tmp_path / f"{k}b.csv"
        split(reader.read(tmp_path / f"{k}.csv"), 0.4, *outputs, force=True, unit="who")
        parts = map(reader.read, outputs)
        found.append(
            [[row for row, who in zip(p.cells["row"], p.cells["who"], strict=True) if who != ODD] for p in parts]
        )
    assert found[0] == found[1] and all(found[0])


# Several tables.

WARD = """
name: ward
key: patient
tables:
  patients:
    target: sex
    columns:
      patient: {kind: identifier}
      sex: {kind: binary, levels: [F, M], unknown: F}
      age: {kind: count, bounds: [0, 99], unknown: 50}
  stays:
    order: began
    max_rows: 3
    columns:
      stay: {kind: identifier}
      patient: {kind: identifier}
      began: {kind: count, bounds: [0, 900], unknown: 100}
      ward: {kind: categorical, levels: [heart, lung], unknown: lung}
  tests:
    order: at
    max_rows: 3
    latest: {stay: stays}
    columns:
      patient: {kind: identifier}
      stay: {kind: identifier, missing: true}
      at: {kind: count, bounds: [700, 900], unknown: 800}
      value: {kind: continuous, bounds: [0, 20], decimals: 1, missing: true, unknown: missing}
  notes:
    order: note
    max_rows: 3
    columns:
      note: {kind: identifier}
      patient: {kind: identifier}
      topic: {kind: categorical, levels: [diet, drugs, sleep], unknown: diet}
"""
TABLES = LinkedTables.from_yaml(WARD)
CHANGES: dict[str, dict[str, list[str]]] = {
    "patients": {"sex": ["M", "?"], "age": ["200", "x", "0.5"]},
    "stays": {"began": ["1" + "0" * 25, "-3", "x", "0.5", ""], "ward": ["heart", "none"], "stay": ["", "S1", "9" * 30]},
    "tests": {"at": ["0", "1e9", "x", "0.5", ""], "value": ["20", "x", ""], "stay": ["", "S1", "nobody's"]},
    "notes": {"note": STRANGE["key"], "topic": ["sleep", "none"]},
}


def ward_tables() -> Frames:
    draw = np.random.default_rng(5)
    keys = np.array([f"p{k}" for k in range(PATIENTS)])
    first = pd.DataFrame(
        {"patient": keys, "sex": draw.choice(["F", "M"], PATIENTS), "age": draw.integers(0, 99, PATIENTS)}
    )

    def several(most: int) -> Any:
        return np.repeat(keys, np.where(keys == ODD, most, draw.integers(0, most + 1, PATIENTS)))

    stays, tests, notes = several(5), several(4), several(5)
    began = draw.choice(["9", "64560677953378411", "64560677953378412", "500", "650", "710"], len(stays))
    ward, mark = draw.choice(["heart", "lung"], len(stays)), draw.integers(0, len(MARKS["key"]), len(notes))
    at, value = draw.integers(700, 900, len(tests)), draw.uniform(0, 20, len(tests)).round(1)
    numbers = [f"S{k}" for k in range(len(stays))]
    topics = np.array(["diet", "drugs", "sleep"])[mark % 3]  # rows that change places are seen in their counts
    made = {
        "patients": first,
        "stays": pd.DataFrame({"stay": numbers, "patient": stays, "ward": ward, "began": began}),
        "tests": pd.DataFrame({"patient": tests, "stay": "", "at": at, "value": value}),
        "notes": pd.DataFrame({"note": np.array(MARKS["key"])[mark], "patient": notes, "topic": topics}),
    }
    return {
        name: frame.sample(frac=1, random_state=1)[list(TABLES.tables[name].columns)].astype(str).reset_index(drop=True)
        for name, frame in made.items()
    }


def without(frames: Frames, names: tuple[str, ...]) -> Frames:
    return {n: f[f["patient"] != ODD] if n in names else f for n, f in frames.items()}


def neighbouring_tables(frames: Frames) -> Iterator[tuple[str, Frames]]:
    yield "gone", without(frames, tuple(frames))
    for name in TABLES.others:
        yield f"gone from {name}", without(frames, (name,))
    yield "gone from all but the first", without(frames, TABLES.others)
    moved = {n: pd.concat([f[f["patient"] == ODD], f[f["patient"] != ODD]]) for n, f in frames.items()}
    yield "first in all files", moved
    for name, columns in CHANGES.items():
        frame, own = frames[name], frames[name]["patient"] == ODD
        for column, cells in columns.items():
            for cell in cells:
                yield (
                    f"{name}.{column} is {cell[:9]!r}",
                    {**frames, name: frame.assign(**{column: frame[column].where(~own, cell)})},
                )


def codes_of_patients(frames: Frames) -> dict[str, Any]:
    """Of each patient but one: the codes of the patient, and of the rows that follow in each table."""
    read = {
        name: tables.Table(name, tuple(map(str, frame)), frame.reset_index(drop=True)) for name, frame in frames.items()
    }
    coded: CodedTables = coded_tables(private_tables(TABLES, read))
    core = coded.schema.core.columns
    assert (coded.patients >= 0).all()
    assert (coded.patients < [column.size + column.gaps for column in core.values()]).all()
    keys = frames["patients"]["patient"].tolist()
    found = {key: [*rows] for key, *rows in zip(keys, coded.patients.tolist(), coded.together.tolist(), strict=True)}
    for name, rows in coded.rows.items():
        some = set(frames[name]["patient"])
        for k, key in enumerate(key for key in keys if key in some):
            found[key] += [name, rows.first[k].tolist(), rows.later[rows.patients_of_later.of_row == k].tolist()]
    return {key: own for key, own in found.items() if key != ODD}


def test_a_patient_changes_no_code_of_another_in_several_tables() -> None:
    frames = ward_tables()
    one = codes_of_patients(frames)
    assert len(one) == PATIENTS - 1
    for what, other in neighbouring_tables(frames):
        assert codes_of_patients(other) == one, what


# Whole fits.


class WatchedReleases:
    """Releases held fixed; and of each query the exact answer, as its noise weighs it, with its stated sensitivity."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fixed = FixedReleases(monkeypatch)
        self.exact: list[tuple[str, float, np.ndarray[Any, Any]]] = []
        held, true = Releases.release, WholeNoise.released
        asked: list[tuple[str, float]] = []

        def release(releases: Releases, label: str, sensitivity: float, draw: Any) -> Release:
            asked.append((label, sensitivity))
            return held(releases, label, sensitivity, draw)

        def released(noising: Any, query: PrivateQuery[Any], total: Any, std: float, entropy: Any) -> Any:
            scales = zip(query.finished(total), query.scales(std), strict=True)
            weighed = [np.ravel(whole) * (scale.unit * std / scale.std) for whole, scale in scales]
            self.exact.append((*asked[-1], np.concatenate(weighed)))
            return true(noising, query, total, std, entropy)

        monkeypatch.setattr(Releases, "release", release)
        monkeypatch.setattr(WholeNoise, "released", released)

    def again(self) -> None:
        """From here on outcomes are those on record, and answers are those of another table."""
        self.fixed.again()
        self.exact = []


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, quick: None, fixed_entropy: None) -> WatchedReleases:
    monkeypatch.setattr(training, "SIMULATED_PATIENTS", 2000)
    monkeypatch.setattr(conditional, "STEPS", 2)
    return WatchedReleases(monkeypatch)


Fit = Callable[[Any], Any]


def is_held(watched: WatchedReleases, fit: Fit, one: Any, others: Mapping[str, Any]) -> None:
    """The same bytes, and exact answers that moved by no more than a patient's record may move them.

    A patient who is gone moves an answer by its sensitivity at most, one with other cells by twice as much.
    """
    expected, answers = fit(one), watched.exact
    coded = [label for label, _ in watched.fixed.known if "schema: " not in label]
    assert [label for label, *_ in answers] == coded and len(coded) > 5
    for what, other in others.items():
        watched.again()
        assert fit(other) == expected, what
        assert watched.fixed.at == len(watched.fixed.known)
        times = 1 if what == "gone" else 2
        for (label, sensitivity, before), (same, as_stated, now) in zip(answers, watched.exact, strict=True):
            assert (label, sensitivity) == (same, as_stated)
            assert np.linalg.norm(now - before) <= times * sensitivity * (1 + 1e-6), (what, label)


def model_of(fit: Callable[..., medsynth.Model], folder: Path) -> Any:
    """All that a fit gives away: the bytes of the model file, and each notice and step of progress."""
    told: list[Any] = []
    model = fit(
        epsilon=600, anyway=True, rows=450, seed=1, notice=told.append, progress=lambda plan, *facts: told.append(facts)
    )
    return model.save(folder / "m.medsynth", force=True).read_bytes(), told


@pytest.mark.nightly_for("date-independent", "number-independent", "date-mixture", "number-mixture", "key-mixture")
@pytest.mark.parametrize("method", ["independent", "mixture"])
@pytest.mark.parametrize("order", ORDER)
def test_fits_of_patients_in_order_differ_by_measurements_alone(
    order: str, method: str, watched: WatchedReleases, tmp_path: Path
) -> None:
    frame, schema = visits(order), schema_of(order)
    some = {"gone", f"at is {STRANGE[order][0][:9]!r} once"}
    some |= set() if (order, method) == ("key", "independent") else {"first in the file", "dose is 'x'", "at is ''"}
    others = dict(neighbours(frame, order))

    def fit(table: pd.DataFrame) -> Any:
        return model_of(partial(medsynth.fit, table.reset_index(drop=True), schema=schema, method=method), tmp_path)

    is_held(watched, fit, frame, {what: others[what] for what in some})


OPEN = {
    "{kind: categorical, levels: [heart, lung], unknown: lung}": "{kind: categorical}",
    "{kind: continuous, bounds: [0, 20], decimals: 1, missing: true, unknown: missing}": "{kind: continuous}",
    "      age: {kind: count, bounds: [0, 99], unknown: 50}\n": "",
    "      topic: {kind: categorical, levels: [diet, drugs, sleep], unknown: diet}\n": "",
    "key: patient\n": "key: patient\nother_columns: learn\n",
}


@pytest.mark.nightly_for("mixture", "open")
@pytest.mark.parametrize("form", ["independent", "mixture", "open"])
def test_fits_of_several_tables_differ_by_measurements_alone(
    form: str, watched: WatchedReleases, tmp_path: Path
) -> None:
    declared, method = WARD, "independent" if form == "open" else form
    for old, new in OPEN.items() if form == "open" else ():
        assert old in declared
        declared = declared.replace(old, new)

    def fit(frames: Frames) -> Any:
        folder = tmp_path / "ward"
        folder.mkdir(exist_ok=True)
        for name, frame in frames.items():
            frame.to_csv(folder / f"{name}.csv", index=False)
        (folder / "ward.tables.yaml").write_text(declared)
        (folder / "ward.medsynth-ledger").unlink(missing_ok=True)
        return model_of(partial(medsynth.fit, folder, method=method), tmp_path)

    frames = ward_tables()
    some = {"gone", f"notes.note is {STRANGE['key'][0][:9]!r}"}
    some |= {"gone from stays", "stays.began is 'x'", "tests.stay is 'S1'"} if form == "mixture" else set()
    some |= {"stays.ward is 'none'", "tests.value is 'x'", "patients.age is '0.5'"} if form == "open" else set()
    others = dict(neighbouring_tables(frames))
    is_held(watched, fit, frames, {what: others[what] for what in some})
    assert any("schema: " in label for label, _ in watched.fixed.known) == (form == "open")
