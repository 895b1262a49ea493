"""Find the budget files of whatever names the data: a table, a part of a split, a folder, a tables file, a model, the
budget file itself, or a link to one of these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..budget import SUFFIX, Budget, Fit, Spent
from ..errors import MedsynthError
from ..io.formats import SUFFIXES, beside, name_of
from ..schema.declared import ENDING
from .holdout import HELD_OUT, TRAIN, budget_of_model, budgets_of_rows, lists
from .source import Source, find, is_folder, is_linked

MODEL = ".medsynth"  # the ending of a model file


def spent_on(data: Path) -> Spent:
    """Return all fits on the data that a path names, whatever they were given: one table, its folder or all tables.

    Raises MedsynthError if there is no budget file, which names the places that were searched.
    """
    found = {budget.path.resolve(): budget for budget in _budgets(data.absolute()) if budget.path.exists()}
    if not found:
        raise MedsynthError(_nowhere(data))
    fits = dict[str, Fit]()
    for budget in found.values():
        for fit in budget.spent().fits:
            fits.setdefault(fit.number, fit)  # a copy of a budget file lists the same fits
    first = next(iter(found.values()))
    return Spent(fits=tuple(sorted(fits.values(), key=lambda fit: fit.started)), path=first.path)


def _budgets(data: Path) -> Iterator[Budget]:
    """Yield the budget files, existing or not, with fits on the data that a path names, under a link's names, too."""
    for path in dict.fromkeys([data, data.resolve()]):
        if path.name.endswith(MODEL):
            yield from _of_model(path)
        elif path.name.endswith(SUFFIX):
            yield from _with(path)
        elif is_linked(path):
            yield from _of_tables(path)
        else:
            yield from _of_table(path)


def _of_model(model: Path) -> Iterator[Budget]:
    """Yield the budget that lists a model, and the others of the same data."""
    own = budget_of_model(model, None)
    near = sorted([*model.parent.glob(f"*{SUFFIX}"), *model.parent.glob(f"*/*{SUFFIX}")])
    for path in [*([own.path] if own else []), *(path for path in near if lists(Budget(path), model))]:
        yield from _with(path)


def _with(path: Path) -> Iterator[Budget]:
    """Yield a budget by its file, and the others of the same data."""
    yield Budget(path)
    source = _source(path.parent)
    if source and path in (budget.path for budget in _of_source(source)):
        yield from _of_tables(path.parent)
    else:
        yield from _of_table(path.with_name(path.name.removesuffix(SUFFIX)))


def _of_table(table: Path) -> Iterator[Budget]:
    """Yield the budgets of a table, or of a part of one, and that of the tables of its folder."""
    yield Budget.of(table)
    yield Budget(beside(table, SUFFIX), str(table))
    yield from budgets_of_rows(table)
    whole = _whole(table.parent)
    for folder in (whole, *(budget.path.parent for budget in budgets_of_rows(whole))):
        source = _source(folder)
        if source and any(name_of(table) == name_of(file) for file in _files(source)):
            yield from _of_source(source)


def _of_tables(data: Path) -> Iterator[Budget]:
    """Yield the budgets of the tables that a folder or a file of tables names, and those of each single table."""
    folder = data if is_folder(data) else data.parent
    if is_folder(data):
        yield from filter(None, [Budget.on_file(data)])
        yield from budgets_of_rows(data)
        if Budget.of(data).path.exists():  # its files are one table, and some may have been fitted alone
            yield from map(Budget, sorted(data.glob(f"*{SUFFIX}")))
    source = _source(data) or _source(_whole(folder))
    if source is not None:
        yield from _of_source(source)
        yield from map(Budget.of, _files(source))


def _of_source(source: Source) -> Iterator[Budget]:
    """Yield the budget of several tables, under each name that a fit gives it: by their file, and by their folder."""
    names = [source.name, source.tables.name, source.folder.resolve().name]
    names += [path.name.removesuffix(ENDING) for path in sorted(source.folder.glob(f"*{ENDING}"))]
    yield from (Budget(source.folder / f"{name}{SUFFIX}") for name in dict.fromkeys(names))


def _source(place: Path) -> Source | None:
    """Return the tables that a folder or a file names; None if it names none."""
    with suppress(MedsynthError):
        return find(place)
    return None


def _files(source: Source) -> Iterator[Path]:
    """Yield the files of the tables that are there."""
    for name in source.tables.tables:
        with suppress(MedsynthError):
            yield source.file(name)


def _whole(folder: Path) -> Path:
    """Return the folder that a folder of training or held-out tables was split from."""
    return folder.with_name(folder.name.removesuffix(HELD_OUT).removesuffix(TRAIN)) if folder.name else folder


def _nowhere(data: Path) -> str:
    """Return the message for data without a budget file."""
    if not data.exists() and not any(data.with_name(data.name + ending).exists() for ending in SUFFIXES):
        return f"There is no {data}, and no budget file of this name. Check the name."
    looked = sorted({os.path.relpath(budget.path) for budget in _budgets(data.absolute())})
    return f"No budget file, so no fit on it is on file: {data}. These were searched: {', '.join(looked)}."
