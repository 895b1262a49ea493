"""The settings of a fit, declared once: the parameters of `medsynth.fit` and the command's options come from here."""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..errors import URGENT, MedsynthWarning, Message, UsageError, brief, check_keywords, checked_keywords
from ..io.formats import COUNTS_OF_LINES, SavedAs
from ..methods import registry
from ..privacy.accounting.limits import check_budget, default_delta
from ..privacy.accounting.unit import PrivacyUnit, beyond
from ..row_count import MAX_ROWS_PER_PATIENT

if TYPE_CHECKING:
    from ..privacy.accounting.calibration import Plan
    from ..schema import Schema

DEVICES = ("auto", "cpu", "cuda")
FACTS_OF_THE_FILE = {  # settings that earlier versions do not have, in words
    "skip_lines": "the number of lines above the header", "header_lines": "the lines of the header",
    "header_is_names": "that the header has names of columns",
    "skip_rows": "the number of rows to skip below the header",
    "skip_last_rows": "the number of rows to skip at the end",
}  # fmt: skip
PUBLIC_PATIENTS = ("other", "some", "these")  # whose rows the public ones are, compared with the private table
MOST_CITATION = 500  # characters
NO_TARGET = "none"  # in place of a target's name, if no column is to be predicted
MOST_ROWS = 10**11  # of a table
MUCH_EPSILON, MOST_EPSILON = 20, 100  # above the first a fit warns; above the second it needs `anyway`
NO_DP_BUDGET = 300.0  # the schedule of a fit without noise, which makes no claim
Notice = Callable[[str], None]  # receives a message for the user
Phase = Callable[[str], None]  # receives what a fit is doing, in a word or two
Progress = Callable[["Plan", str, int, int, int], None]  # plan, device, steps done, steps in all, lots measured so far


def methods_with(capability: str) -> str:
    """Return the methods that have a capability, in words."""
    return " or ".join(name for name, method in registry.METHODS.items() if getattr(method, capability))


def _setting(default: Any, doc: str, *, common: bool = False) -> Any:
    """Return a field with its default, what help says about it, and whether most people use it."""
    return field(default=default, metadata={"doc": doc, "common": common})


def log_notice(text: str) -> None:
    """Send a message that no `notice` receives to the logger "medsynth" at level INFO.

    A message of a kind in URGENT becomes a MedsynthWarning, which is shown without a configured logger.
    """
    if Message.of(text).about.kind in URGENT:
        warnings.warn(text, MedsynthWarning, stacklevel=2)
    else:
        logging.getLogger("medsynth").info(text)


def in_notebook() -> bool:
    """Return whether a notebook runs this code."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def print_notice(text: str, *, verbose: bool = False) -> None:
    """Print a message where a notebook shows it, in short unless `verbose`."""
    if shown := text if verbose else brief(text):
        print(shown, flush=True)


def silent(name: str) -> None:
    """Ignore what a fit is doing."""


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """How to read a table: what is public about its columns, and the patient of each row."""

    schema: Schema | Mapping[str, object] | Path | str | None = _setting(
        None, "Schema YAML [default: TABLE's .schema.yaml].", common=True
    )
    target: str | None = _setting(
        None, 'Column to predict, or "none" [default: the schema\'s, else the last column].', common=True
    )
    encoding: str | None = _setting(
        None, "Encoding of a text table, such as cp1252 [default: UTF-8, or UTF-16 by its mark]."
    )
    skip_lines: int | None = _setting(
        None, "Lines above the header of a text table or a workbook; 0 if the header itself begins with #."
    )
    skip_rows: int | None = _setting(None, "Rows below the header that are not patients, such as units.")
    skip_last_rows: int | None = _setting(None, "Last rows that are not patients, such as totals.")
    header_lines: int | None = _setting(
        None, "Lines of the header of a text table, if names contain line breaks [default: 1]."
    )
    header_is_names: bool = _setting(
        False, "Declare that the header has names of columns, although they look like values."
    )
    decimal_comma: bool = _setting(
        False, "Write sampled rows with decimal commas; for text with semicolons, tabs, bars."
    )
    na_values: Sequence[str] = _setting(
        (), "Codes of missing values to add to the usual ones, such as n.d.,-5; without a schema."
    )
    drop: Sequence[str] = _setting(
        (), "Columns to leave out, such as free text: notes,comments. No model learns them, and no sample has them."
    )
    unit: str | None = _setting(
        None, "The column that names the patient of each row: the claim is for one patient.", common=True
    )
    max_rows: int | None = _setting(None, "With `unit`: the most rows that count per patient [default: 1].")
    one_row_a_patient: bool = _setting(
        False, "Declare that no two rows share a patient: the claim is for one patient.", common=True
    )

    def __post_init__(self) -> None:
        counts = ("max_rows", "header_lines", *COUNTS_OF_LINES)
        check_kinds(**{name: getattr(self, name) for name in counts})
        if self.header_lines is not None and self.header_lines < 1:
            raise UsageError("`header_lines` must be 1 or more: the number of lines of the header.")
        if self.target == "":
            raise UsageError("`target` is empty. Name a column, or leave it out.")
        if self.unit is not None and self.one_row_a_patient:
            raise UsageError("Give one of `unit` and `one_row_a_patient`: rows share patients, or no two rows do.")
        if self.max_rows is not None and self.unit is None:
            raise UsageError("`max_rows` is the most rows per patient. Set `unit` to the column of patients as well.")
        if self.max_rows is not None and not 1 <= self.max_rows <= MAX_ROWS_PER_PATIENT:
            raise UsageError(f"`max_rows` must be between 1 and {MAX_ROWS_PER_PATIENT}.")

    @property
    def saved(self) -> SavedAs:
        """How the table's file was saved."""
        return SavedAs(**{one.name: getattr(self, one.name) for one in fields(SavedAs)})

    @property
    def facts_of_the_file(self) -> dict[str, str]:
        """What is declared of the header and of other rows: one phrase per setting, by its name."""
        given = {name: getattr(self, name) for name in FACTS_OF_THE_FILE}
        return {
            name: f"{FACTS_OF_THE_FILE[name]}{'' if value is True else f', {value}'}, as `{name}` declares"
            for name, value in given.items() if value is not None and value is not False
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FitSettings(TableSettings):
    """What to fit and at what cost: together with the table, all that the measurements of a fit depend on.

    Raises UsageError for a value out of its range, before a table is opened.
    """

    epsilon: float | None = _setting(None, "Privacy budget; 3.7 in the thyroid study.", common=True)
    delta: float | None = _setting(
        None, "Delta of the guarantee [default: 1e-5, or less for more than 10,000 public rows]."
    )
    method: str | None = _setting(None, f"The method [default: {registry.DEFAULT}].")
    preset: str | None = _setting(None, "A preset of a method.")
    microbatches: int | None = _setting(
        None,
        f"{methods_with('microbatches')}: clip mean gradients of this many groups of rows, in place of each row's.",
    )
    inference: Sequence[str] = _setting((), "A regression that matters: 'y ~ a + b', 'y ~ a * b'; may be given again.")
    settings: Mapping[str, object] | None = _setting(None, "NAME=VALUE: a setting of the method; may be given again.")
    rows: int | None = _setting(
        None, "Declare the public row count, rounded if you like [default: the table's own].", common=True
    )
    patients: int | None = _setting(
        None, "Declare the number of patients, rounded if you like, for a forecast; with several rows per patient."
    )
    public: Path | str | None = _setting(
        None, f"Rows or a Table 1 that you declare public, or an earlier fit's model: {methods_with('public_rows')}."
    )
    citation: str | None = _setting(None, "With `public`: who published these rows, when and where.")
    public_patients: str = _setting("other", "Whose rows `public` has: other patients', of some of these, or these.")
    device: str = _setting("auto", "auto, cpu or cuda.")
    seed: int | None = _setting(None, "Repeat initial weights and latent draws; never noise.")
    anyway: bool = _setting(False, f"Fit although epsilon is above {MOST_EPSILON}, or most is noise.")
    no_dp: bool = _setting(False, "Add no noise: NOT PRIVATE, for comparison.")

    def __post_init__(self) -> None:
        check_kinds(epsilon=self.epsilon, delta=self.delta, rows=self.rows, patients=self.patients, seed=self.seed)
        super().__post_init__()
        if self.no_dp == (self.epsilon is not None):
            raise UsageError("Give exactly one of `epsilon` and `no_dp`.")
        check_budget(self.budget, self.delta_of(self.rows))
        if (self.epsilon or 0.0) > MOST_EPSILON and not self.anyway:
            raise UsageError(
                f"`epsilon` {self.epsilon:g} promises nothing: it bounds a change of odds by a factor of "
                f"10^{self.epsilon / np.log(10):.0f}. Values up to about 10 are common. To go on, set `anyway`."
            )
        check_rows(self.rows)
        check_citation(self)
        method = registry.settle(self.method, self.preset)
        if registry.METHODS[method].ignores_target:
            if self.target not in (None, NO_TARGET):
                raise UsageError(f"The method {method} draws each column by itself. Leave out `target`.")
            object.__setattr__(self, "target", NO_TARGET)
        if self.device not in DEVICES:
            raise UsageError("`device` must be auto, cpu or cuda.")

    @property
    def source(self) -> str:
        """The citation of public rows, without a final full stop; empty without one."""
        return " ".join((self.citation or "").split()).rstrip(".")

    def protects(self, unit: PrivacyUnit) -> str:
        """Return what the claim of a fit covers, in words."""
        return unit.protects + beyond(self.public_patients, self.source)

    @property
    def budget(self) -> float:
        """The epsilon of the plan; in a fit without noise it sets the schedule alone."""
        return NO_DP_BUDGET if self.epsilon is None else self.epsilon

    def delta_of(self, rows: int | None) -> float:
        """Return the given delta, or the default for this public number of rows."""
        return default_delta(rows) if self.delta is None else self.delta


FitSettings.__init__ = checked_keywords(FitSettings.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, kw_only=True)
class FitOptions(FitSettings):
    """A fit's settings, and how to run it. No measurement depends on the fields added here.

    `checkpoint`: a private file that keeps each release. `resume`: continue the fit of this checkpoint. `budget_table`:
    the table whose budget counts the fit, if `table` is a frame or a part of another table. `model_name`: the model's
    name in the budget file. `split_number`: of the split that kept rows out of the table. `plan`: the file of the
    approved plan, which the fit may not exceed. `notice` receives messages
    for the user; `progress` the steps done, or True for a bar; `phase` the current phase. A notebook shows the messages
    and the bar by default, the messages in full if `verbose`.
    """

    checkpoint: Path | None = None
    resume: bool = False
    budget_table: Path | str | None = None
    model_name: str | None = None
    split_number: str | None = None
    plan: Path | str | None = None
    notice: Notice = log_notice
    verbose: bool = False
    progress: Progress | bool | None = None
    phase: Phase = silent

    @property
    def folder(self) -> Path | None:
        """Where a fit stores a large table's codes: next to the checkpoint, which is as private."""
        return self.checkpoint.absolute().parent if self.checkpoint else None


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def keywords_of(settings: Callable[P, Any]) -> Callable[[Callable[[T, Any], R]], Callable[Concatenate[T, P], R]]:
    """Turn `verb(table, settings)` into `verb(table, *, epsilon=..., ...)`: its keywords are the settings' fields."""

    def decorate(verb: Callable[[T, Any], R]) -> Callable[Concatenate[T, P], R]:
        first, _ = inspect.signature(verb).parameters.values()
        known = inspect.signature(settings).parameters

        @wraps(verb)
        def run(table: T, /, *none: P.args, **keywords: P.kwargs) -> R:
            if none:
                raise UsageError(f"Name the parameters: {verb.__name__}(table, epsilon=3.7).")
            check_keywords(keywords, known, verb.__name__)
            return verb(table, settings(*none, **keywords))

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [first, *known.values()], return_annotation="Model"
        )
        return run

    return decorate


class EpsilonSoFar:
    """Epsilon after a number of releases of a plan. Its table is computed once, at the first call."""

    def __init__(self) -> None:
        self._table: list[tuple[int, float]] = []

    def __call__(self, plan: Plan, releases: int) -> float:
        """Return epsilon after that many releases."""
        if not self._table:
            self._table = list(plan.epsilon_by_release())
        return next((epsilon for steps, epsilon in self._table if releases <= steps), plan.epsilon)


@contextmanager
def progress_bar(show: bool) -> Iterator[tuple[Progress, Phase]]:
    """Show a bar with the phase, device, rows per second, epsilon so far and the time left; nothing unless `show`.

    The rows are expected rows, since lot sizes are private. Epsilon comes from the plan's table.
    """
    if not show:
        yield (lambda plan, device, done, total, lots: None), silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", detail="", total=None)
        spent = EpsilonSoFar()

        def advance(plan: Plan, device: str, done: int, total: int, lots: int) -> None:
            event, _ = plan.events[plan.most_frequent]
            elapsed = bar.tasks[0].elapsed or 0.0
            rows = lots * plan.rows * getattr(event, "rate", 1.0) / elapsed if elapsed else 0
            detail = f"{rows:,.0f} rows/s, epsilon {spent(plan, lots):.2f}"
            bar.update(task, description=f"fitting on {device}", completed=done, total=total, detail=detail)

        yield advance, lambda name: bar.update(task, description=name)


def check_kinds(**numbers: object) -> None:
    """Raise UsageError for a parameter that should be a number and is not one."""
    for name, value in numbers.items():
        whole = name in ("rows", "patients", "seed", "max_rows", "header_lines", *COUNTS_OF_LINES)
        kinds = int | np.integer if whole else int | float | np.integer | np.floating
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise UsageError(f"`{name}` must be a {'whole ' if whole else ''}number.")


def check_citation(settings: FitSettings) -> None:
    """Raise UsageError for public rows that nobody says who has published, and for such words without public rows."""
    if settings.public_patients not in PUBLIC_PATIENTS:
        raise UsageError(f"`public_patients` must be {', '.join(PUBLIC_PATIENTS)}: whose rows `public` has.")
    if settings.public is None:
        if settings.citation is not None or settings.public_patients != PUBLIC_PATIENTS[0]:
            raise UsageError("`citation` and `public_patients` describe the rows of `public`. Pass their table too.")
    elif not settings.source:
        raise UsageError("`public` needs a `citation`: who published these rows, when and where.")
    elif len(settings.source) > MOST_CITATION or not str(settings.citation).isprintable():
        raise UsageError(f"`citation` must be one printable line of at most {MOST_CITATION} characters.")


def check_rows(rows: int | None) -> None:
    """Raise UsageError for a declared number of rows that no table has."""
    if rows is not None and rows < 2:
        raise UsageError("`rows` must be two or more.")
    if rows is not None and rows > MOST_ROWS:
        raise UsageError(f"`rows` must be at most {MOST_ROWS}.")


def method_settings(settings: FitSettings, *, public: bool) -> dict[str, object]:
    """Return the settings that configure the method. Raise UsageError if they declare public rows themselves."""
    if "public" in (settings.settings or {}):
        raise UsageError("`settings` cannot declare public rows. Pass their table as `public`.")
    named = {"microbatches": settings.microbatches, "public": public or None,
             "inference": tuple(settings.inference) or None}  # fmt: skip
    return {**(settings.settings or {}), **{name: value for name, value in named.items() if value is not None}}
