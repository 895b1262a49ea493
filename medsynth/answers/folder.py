"""Write a model's noisy tables, a Table 1 with intervals, and a page that explains them, into a folder."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..artifact import Model, claim
from ..errors import MedsynthError
from ..io.atomic import atomic_write, check_outputs
from ..schema import Column
from .estimate import EVERYBODY, Answer, Answers, estimate, groups_of
from .noisy import NoisyTables, noisy_tables

PAGE, TABLE_ONE, FIGURES = "index.html", "table-one.html", "table-one.csv"
MOST_CLASSES = 6  # of a target that divides Table 1 unless `by` does
MOST_SHOWN = 12  # levels of a column in Table 1
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .9em .2em 0;text-align:left;vertical-align:top}"
    "thead{border-top:2px solid;border-bottom:1px solid}tbody{border-bottom:2px solid}td.level{padding-left:1.5em}"
)
COLUMNS = {
    "count": "The released number: the exact count plus noise. It may be negative. Sums of cells are right on average. "
    "Use it to compute with.",
    "noise_std": "The standard deviation of the noise.",
    "std_error": "The standard error of the count for the population: noise and sampling error together.",
    "consistent": "The count by the fitted model: never negative, and the margins of all tables agree. Use it to read.",
}


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

    The folder appears whole or not at all. Raises UsageError for a model that keeps no releases, MedsynthError for a
    folder with other files, OutputExists unless `force`.
    """
    files = [PAGE, *([TABLE_ONE, FIGURES] if replicates else [])]
    listed = noisy_tables(model)
    files += [name_of(one) for one in listed]
    if folder.exists() and not folder.is_dir():
        raise MedsynthError(f"{folder} is a file, but a folder is needed. Choose another `output`.")
    new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        check_outputs(*(folder / name for name in files), force=force)
        texts = {name_of(one): one.lines.to_csv(index=False) for one in listed}
        if replicates:
            groups, answers = table_one(model, by, replicates, level, seed)
            texts[FIGURES] = answers.frame.drop(columns=["replicates"]).to_csv(index=False)
            texts[TABLE_ONE] = page("Table 1", table_one_html(model, groups, answers, level))
        texts[PAGE] = page(f"Noisy tables of {model.name}", explained(model, listed, TABLE_ONE in files))
        for name in files:
            content = texts[name].encode()
            atomic_write(folder / name, lambda file, content=content: file.write(content), force=force)  # type: ignore[misc]
    except BaseException:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    tables = sum(one.lines["table"].nunique() for one in listed)
    return WrittenTables(files=[folder / name for name in files], tables=tables,
                         numbers=sum(len(one.lines) for one in listed))  # fmt: skip


def name_of(one: NoisyTables) -> str:
    """Return the name of a measurement's file."""
    return re.sub("[^a-z0-9]+", "-", one.label.lower()) + ".csv"


def _questions(model: Model, by: str | None) -> list[str]:
    """Return the questions of Table 1: mean and SD, or quartiles on a log scale, or the share of each level."""
    found = list[str]()
    for name, column in model.schema.columns.items():
        if not column.modelled or column.dated or name == by:
            continue
        quoted = f"`{name}`"
        if not column.ordered:
            found += [f"share({quoted}={column.text(code)})" for code in _shown(column)]
        elif column.scale == "log":
            found += [f"median({quoted})", f"quantile({quoted}, 0.25)", f"quantile({quoted}, 0.75)"]
        else:
            found += [f"mean({quoted})", f"sd({quoted})"]
        found += [f"share({quoted}={word})" for word in column.gap_words]
    return found


def _shown(column: Column) -> range:
    """Return the codes of the levels that Table 1 shows: the second of two, or all of a few."""
    return range(1 if column.size == 2 else 0, min(column.size, MOST_SHOWN))


def table_one(
    model: Model, by: str | None, replicates: int, level: float, seed: int
) -> tuple[list[str], Answers]:  # fmt: skip
    """Return the groups of Table 1, all rows first, and its answers."""
    target = model.schema.target
    if by is None and target is not None and model.schema.columns[target].size <= MOST_CLASSES:
        by = target
    asked = _questions(model, by)
    groups = [] if by is None else [words for _, words in groups_of(model, by)]
    sizes = [f"share({group})" for group in groups]
    whole = estimate(model, [*asked, *sizes], replicates=replicates, level=level, seed=seed)
    parts = () if by is None else estimate(model, asked, by=by, replicates=replicates, level=level, seed=seed)
    return [EVERYBODY, *groups], Answers((*whole, *parts))


def table_one_html(model: Model, groups: Sequence[str], answers: Answers, level: float) -> str:
    """Return Table 1 as journals print it: one line per number or level, one column per group."""
    found = {(one.group, one.question): one for one in answers}
    sizes = {one.group: one.rows for one in answers}
    lines = list[str]()
    for name, column in model.schema.columns.items():
        quoted = f"`{name}`"
        title = html.escape(f"{column.title or name}{f', {unit}' if (unit := getattr(column, 'unit', None)) else ''}")
        if (EVERYBODY, f"mean({quoted})") in found:
            lines.append(_line(f"{title}, mean (SD)", [_spread(found, g, f"mean({quoted})", f"sd({quoted})")
                                                       for g in groups]))  # fmt: skip
        elif (EVERYBODY, f"median({quoted})") in found:
            ends = [f"quantile({quoted}, {part})" for part in ("0.25", "0.75")]
            lines.append(_line(f"{title}, median [quartiles]", [_spread(found, g, f"median({quoted})", *ends)
                                                                for g in groups]))  # fmt: skip
        words = [column.text(code) for code in _shown(column)] if not column.ordered else []
        levels = [(word, f"share({quoted}={word})") for word in (*words, *column.gap_words)]
        levels = [(word, text) for word, text in levels if (EVERYBODY, text) in found]
        if words and levels:
            lines.append(_line(f"{title}, n (%)", [""] * len(groups)))
        for word, text in levels:
            shown = html.escape(column.value_labels.get(word, word) or "missing")
            lines.append(_line(shown, [_share(found[g, text], sizes[g]) for g in groups], "level"))
    heads = "".join(f"<th scope=col>{html.escape(g)}<br>n ≈ {sizes[g]:.0f}</th>" for g in groups)
    note = (
        f"Each cell shows the estimate and its {level:.0%} interval, which includes the noise of privacy and the "
        "sampling error. Differences between groups have their own intervals: use <code>medsynth estimate</code>. "
        f"A dash: the releases cannot answer. {html.escape(claim(model, brief=True))}"
    )
    return (f"<h1>Table 1</h1><table><thead><tr><th scope=col>Characteristic</th>{heads}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table><p>{note}</p>")  # fmt: skip


def _line(title: str, cells: Sequence[str], kind: str = "") -> str:
    head = f'<td class="{kind}">{title}</td>' if kind else f"<th scope=row>{title}</th>"
    return f"<tr>{head}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _number(value: float | None) -> str:
    """Return a number with as many digits as a table prints."""
    return "-" if value is None else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _spread(found: dict[tuple[str, str], Answer], group: str, middle: str, *others: str) -> str:
    one = found[group, middle]
    if not one.answered:
        return "-"
    more = ", ".join(_number(found[group, text].estimate) for text in others)
    marks = "()" if len(others) == 1 else "[]"
    return f"{_number(one.estimate)} {marks[0]}{more}{marks[1]}<br>{_number(one.low)} to {_number(one.high)}"


def _share(one: Answer, rows: float) -> str:
    if not one.answered or one.estimate is None or one.low is None or one.high is None:
        return "-"
    return f"{rows * one.estimate:.0f} ({one.estimate:.1%})<br>{one.low:.1%} to {one.high:.1%}"


def explained(model: Model, listed: Sequence[NoisyTables], with_table_one: bool) -> str:
    """Return the page: what was asked, what the columns mean, and how to use them."""
    charged = {entry.label: entry for entry in model.ledger.entries}
    lines = [
        _line(f'<a href="{name_of(one)}">{html.escape(one.label)}</a>',
              [html.escape(one.asked), str(len(one.lines)), f"{charged[one.label].event.multiplier:.3g}",
               f"{charged[one.label].sensitivity:.3g}"])
        for one in listed
    ]  # fmt: skip
    heads = "".join(f"<th scope=col>{word}</th>" for word in
                    ("measurement", "what was asked", "lines", "noise multiplier", "sensitivity"))  # fmt: skip
    meaning = "".join(f"<dt><code>{name}</code></dt><dd>{text}</dd>" for name, text in COLUMNS.items())
    first = f'<p><a href="{TABLE_ONE}">Table 1 with intervals</a>, and <a href="{FIGURES}">its figures</a>.</p>'
    return (
        f"<h1>Noisy tables of {html.escape(model.name)}</h1><p>{html.escape(claim(model))}</p>"
        f"<p>These are all numbers that left the private table of about {model.rows} rows. Everything else, the "
        "synthetic rows too, was computed from them. This folder costs no further privacy.</p>"
        f"{first * with_table_one}<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        f"<h2>Columns of the files</h2><dl>{meaning}</dl><p>Each line is a cell of a table. <code>column_1</code> and "
        "<code>cell_1</code> name its first axis, and so on. Several files count the same rows with independent noise: "
        "average their counts with weights of one over the squared <code>noise_std</code>.</p>"
    )


def page(title: str, body: str) -> str:
    """Return a page that needs no other file."""
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{STYLE}</style></head><body>{body}</body></html>\n")  # fmt: skip
