"""Write a model's noisy tables, a Table 1 with intervals, and a page that explains them, into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ..artifact import Model, claim
from ..io.atomic import atomic_write, check_outputs, whole_folder
from ..schema import Column
from .estimate import Answer, Estimates, estimate
from .noisy import noisy_tables

PAGE, TABLE_ONE, FIGURES = "index.html", "table-one.html", "table-one.csv"
MOST_CLASSES = 6  # of a target that divides Table 1 unless `by` does
MOST_SHOWN = 12  # levels of a column in Table 1


@dataclass(frozen=True, kw_only=True)
class WrittenTables:
    """The `files` of a folder, the number of `tables` with noise and of their `numbers`."""

    files: list[Path]
    tables: int
    numbers: int


def write_tables(
    model: Model, folder: Path, *, by: str | None = None, replicates: int = 20, level: float = 0.95, seed: int = 0,
    force: bool = False,
) -> WrittenTables:  # fmt: skip
    """Write all noisy tables of a model, and with `replicates` a Table 1 by the column `by`, by default the target.

    Raises UsageError for a model that keeps no releases, MedsynthError for a folder that cannot be written,
    OutputExists unless `force`. A new folder appears whole or not at all.
    """
    listed = noisy_tables(model)
    texts = {one.file: one.lines.to_csv(index=False) for one in listed}
    files = [folder / name for name in (PAGE, *([TABLE_ONE, FIGURES] if replicates else []), *texts)]
    with whole_folder(folder):
        check_outputs(*files, force=force)
        if replicates:
            answers = table_one(model, by, replicates, level, seed)
            texts[FIGURES] = answers.frame.to_csv(index=False)
            groups = {one.group: one.rows for one in answers}
            texts[TABLE_ONE] = _page(model, "Table 1", groups=groups, lines=lines_of(model, answers, groups),
                                     level=f"{level:.0%}")  # fmt: skip
        texts[PAGE] = _page(model, f"Noisy tables of {model.name}", groups={}, listed=listed, rows=model.rows,
                            table_one=TABLE_ONE * bool(replicates), figures=FIGURES,
                            charged={entry.label: entry for entry in model.ledger.entries})  # fmt: skip
        for path in files:
            atomic_write(path, texts[path.name].encode(), force=force)
    return WrittenTables(files=files, tables=sum(one.lines["table"].nunique() for one in listed),
                         numbers=sum(len(one.lines) for one in listed))  # fmt: skip


def _page(model: Model, title: str, **given: Any) -> str:
    """Return a page that needs no other file."""
    from jinja2 import Environment, StrictUndefined

    text = (resources.files(__package__) / "templates" / "page.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(text)
    return template.render(title=title, claim=claim(model), **given)


def table_one(model: Model, by: str | None, replicates: int, level: float, seed: int) -> Estimates:
    """Return the answers of Table 1: of all rows, then of each level of `by`, by default of the target."""
    target = model.schema.target
    if by is None and target is not None and model.schema.columns[target].size <= MOST_CLASSES:
        by = target
    lines = [line for name, column in model.schema.columns.items() for line in _lines(name, column)]
    asked = [text for line in lines for text in line[1:]]
    return estimate(model, asked, by=by, overall=True, replicates=replicates, level=level, seed=seed)


def _lines(name: str, column: Column) -> list[tuple[str, ...]]:
    """Return the lines of a column in Table 1: what each shows, and the questions that it answers."""
    if not column.modelled or column.dated:
        return []
    quoted = f"`{name}`"
    found: list[tuple[str, ...]] = [("mean (SD)", f"mean({quoted})", f"sd({quoted})")]
    if not column.ordered:
        first = 1 if column.size == 2 else 0  # the second of two levels
        shown = [column.text(code) for code in range(first, min(column.size, MOST_SHOWN))]
        found = [(column.value_labels.get(word, word), f"share({quoted}={word})") for word in shown]
    elif column.scale == "log":
        found = [("median [quartiles]", *(f"quantile({quoted}, {part})" for part in (0.5, 0.25, 0.75)))]
    return found + [(word or "missing", f"share({quoted}={word})") for word in column.gap_words]


class PrintedLine(NamedTuple):
    """A line of Table 1: its title, whether it is a level of a line above, and each group's text and interval."""

    title: str
    level: bool
    cells: list[tuple[str, str]]


def lines_of(model: Model, answers: Estimates, groups: Mapping[str, float]) -> list[PrintedLine]:
    """Return Table 1 as journals print it: one line per number or level, one column per group. `groups`: with rows."""
    found = {(one.group, one.question): one for one in answers}
    lines = list[PrintedLine]()
    for name, column in model.schema.columns.items():
        unit = getattr(column, "unit", None)
        title = f"{column.title or name}{f', {unit}' if unit else ''}"
        own = _lines(name, column)
        if own and not column.ordered:
            lines.append(PrintedLine(f"{title}, n (%)", False, [("", "")] * len(groups)))
        for what, *texts in own:
            cells = [_cell([found[group, text] for text in texts], rows) for group, rows in groups.items()]
            level = texts[0].startswith("share")
            lines.append(PrintedLine(what if level else f"{title}, {what}", level, cells))
    return lines


def _cell(answers: list[Answer], rows: float) -> tuple[str, str]:
    """Return the text and the interval of a cell: an estimate with its spread, or a count with its share."""
    first, *others = answers
    if not first.answered or first.estimate is None or first.low is None or first.high is None:
        return "-", ""
    if first.question.startswith("share"):
        return f"{rows * first.estimate:.0f} ({first.estimate:.1%})", f"{first.low:.1%} to {first.high:.1%}"
    spread = ", ".join(_number(one.estimate or 0.0) for one in others)
    marks = "()" if len(others) == 1 else "[]"
    text = f"{_number(first.estimate)} {marks[0]}{spread}{marks[1]}"
    return text, f"{_number(first.low)} to {_number(first.high)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
