"""Attacks on a person over several tables, next to attacks on single rows of one table.

Row attacks can miss what all rows of a person together reveal (arXiv 2602.07126). The patients of the simulated OMOP
tables are split: `train` is fitted, half of the others are controls, and half are the attacker's reference. A person is
a point: numbers of rows per table, and per column the mean of its numbers or the number of its rows with each frequent
level. `copies` are the fitted patients' own rows: what an attack finds if nothing protects them. `strangers` are other
patients of the simulation: what it finds by chance.

Prints the largest advantage (2 AuROC - 1; 0 is chance) of the report's membership attacks, on rows of one table (the
worst table), on persons by one table (the worst one), and on persons by all tables.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from medsynth.report.data.tables import points
from medsynth.report.sections.attacks import ATTACKS, MembershipAttack, memberships
from medsynth.rng import numpy_stream
from tests.benchmarks.common import RESULTS, Run, completed, markdown, options, spread, values

FIELDS = ["rows of", "epsilon", "run", "rows of one table", "persons by one table", "persons by all tables", "bound"]
TABLES = ("person", "visit_occurrence", "condition_occurrence", "drug_exposure", "measurement")
KEY, MOST_LEVELS, MOST_ROWS = "person_id", 30, 2000
Tables = dict[str, pd.DataFrame]


def compared(frame: pd.DataFrame) -> list[str]:
    """Return the columns of a table that attacks use: numbers, dates and concepts, and no keys."""
    return [name for name in map(str, frame) if not name.endswith("_id") or name.endswith("concept_id")]


def persons(tables: Tables, known: Tables) -> Tables:
    """Return a frame per table with a row per person, the same columns for all sides; levels are those of `known`."""
    index, found = pd.Index(sorted(set(tables["person"][KEY]))), Tables()
    for name, frame in tables.items():
        by = frame.groupby(KEY)
        made: dict[str, Any] = {"rows": by.size()}
        for column in compared(frame):
            if column.endswith("concept_id"):
                for level in known[name][column].value_counts().index[:MOST_LEVELS]:
                    made[f"{column} {level}"] = (frame[column] == level).groupby(frame[KEY]).sum()
            else:
                made[column] = by[column].mean()
        own = pd.DataFrame(made).reindex(index)
        found[name] = own.assign(rows=own["rows"].fillna(0)).add_prefix(f"{name} ")
    return found


def numeric(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose dates are days."""
    dates = [name for name in map(str, frame) if name.endswith("_date")]
    days = {name: (pd.to_datetime(frame[name]) - pd.Timestamp("1970-01-01")).dt.days for name in dates}
    return frame.assign(**days)


def advantage(frames: list[pd.DataFrame], person: Any = None) -> float:
    """Return the largest advantage, from members, controls, the attacker's reference rows and synthetic rows.

    `person`: of each member and control, if a person has several rows.
    """
    members, controls, reference, synthetic = frames
    *candidates, reference_points, made = points(frozenset(members.columns), [members, controls, reference, synthetic])
    member = np.repeat([True, False], [len(members), len(controls)])
    both = np.concatenate(candidates)
    run = [attack for attack in ATTACKS.values() if isinstance(attack, MembershipAttack)]
    scored = [(attack, attack.score(both, reference_points, made)) for attack in run]
    worst, found = memberships(scored, member, numpy_stream(0, "persons"), person)
    return next(float(one.advantage.value or 0.0) for one in found if one.name == worst)


def some(frame: pd.DataFrame, number: int) -> pd.DataFrame:
    """Return at most MOST_ROWS rows."""
    return frame if len(frame) <= MOST_ROWS else frame.sample(MOST_ROWS, random_state=number)


def one(job: Run, patients: int) -> Run:
    """Return the advantages on one set of synthetic tables."""
    from medsynth_sample_data import omop

    import medsynth

    number, source = int(job["run"]), job["rows of"]
    every = {name: frame for name, frame in omop.simulate(patients, number).items() if name in TABLES}
    who = np.random.default_rng(number).permutation(every["person"][KEY].to_numpy())
    ends = np.array([0, 0.5, 0.75, 1.0]) * len(who)
    sides = [
        {name: frame[frame[KEY].isin(who[int(a) : int(b)])].reset_index(drop=True) for name, frame in every.items()}
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
    bound = 1.0
    if source in ("copies", "strangers"):
        made = sides[0] if source == "copies" else omop.simulate(patients // 2, 1000 + number)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cdm"
            path.mkdir()
            for name, frame in sides[0].items():
                frame.to_csv(path / f"{name}.csv", index=False)
            limits: dict[str, Any] = {"no_dp": True} if source == "no noise" else {"epsilon": float(job["epsilon"])}
            model = medsynth.fit(path, notice=lambda text: None, **limits)
            made = medsynth.sample_tables(model, patients=len(sides[0]["person"]))
        bound = 1.0 if model.epsilon is None else float(np.tanh(model.epsilon / 2))
    four = [{name: numeric(pd.DataFrame(tables[name])) for name in TABLES} for tables in (*sides, made)]
    rows = []
    for name in TABLES[1:]:
        kept = [some(tables[name], number) for tables in four]
        person = np.concatenate([kept[0][KEY], kept[1][KEY]])
        rows.append(advantage([frame[compared(frame)] for frame in kept], person))
    by_table = [persons(tables, four[0]) for tables in four]
    alone = [advantage([tables[name] for tables in by_table]) for name in TABLES]
    together = advantage([pd.concat([*tables.values()], axis=1) for tables in by_table])
    figures = dict(zip(FIELDS[3:], (max(rows), max(alone), together, bound), strict=True))
    return dict(job) | {name: round(figure, 3) for name, figure in figures.items()}


def summary(runs: list[Run]) -> str:
    """Return a line per source of rows and epsilon: medians and ranges."""
    lines = []
    for source, epsilon in dict.fromkeys((run["rows of"], str(run["epsilon"])) for run in runs):
        own = [run for run in runs if (run["rows of"], str(run["epsilon"])) == (source, epsilon)]
        lines.append([source, epsilon, len(own), *(spread(values(own, name), 3) for name in FIELDS[3:])])
    return markdown(["rows of", "epsilon", "runs", *FIELDS[3:]], lines)


def main(words: list[str]) -> None:
    """Run what is missing, and print the table."""
    parser = options("persons", __doc__, output="persons.csv")
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.7])
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(words)
    RESULTS.mkdir(exist_ok=True)
    sources: list[tuple[str, Any]] = [(source, "-") for source in ("copies", "strangers", "no noise")]
    sources += [("medsynth", epsilon) for epsilon in given.epsilons]
    jobs: list[Run] = [
        {"rows of": source, "epsilon": epsilon, "run": number}
        for number in range(given.runs) for source, epsilon in sources
    ]  # fmt: skip
    print(summary(completed(given.output, FIELDS, jobs, lambda job: one(job, given.patients))))
