"""What a user declares public: the door that refuses private rows, the declaration, and the trust of a fit.

It is a table of rows, a Table 1 (table_one.py), or the model of an earlier fit, which draws the rows. Such a model is
not public: its cost is added to that of the fit. No private row is read here, and no public row is compared with one: a
renamed copy of the private table passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..arrays import Arrays, Codes
from ..artifact import Model, load, trust_of
from ..budget import Budget
from ..errors import EARLIER, LEANS, LOST, NEEDS_SCHEMA, STUDY_TRUST, TRUSTED, Message, TargetError, UsageError, some
from ..io import table as io_table
from ..methods import registry
from ..mixture.constants import UNKNOWN
from ..privacy import partition_selection
from ..privacy.accounting import accountant
from ..privacy.accounting.accountant import rounded_up
from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Event, Gaussian, Thresholded
from ..privacy.accounting.ledger import Ledger
from ..privacy.accounting.unit import PrivacyUnit
from ..rng import SeededEntropy
from ..sampling import provenance
from ..sampling.draw import Draw
from ..sampling.pipeline import sample_codes
from ..schema import Schema
from ..schema.codec import check_header, csv_cells, encode, known_codes
from ..schema.columns.column import Column
from ..schema.inference import OTHER, with_empty
from .budgets import MODEL
from .expectation import OfPublicRows
from .holdout import budgets_of_rows, lists
from .private_table import PrivateTable, read_table
from .private_tables import PrivateTables
from .settings import PUBLIC_PATIENTS, FitOptions, FitSettings, Notice
from .table_one import check_table_one, codes_of, is_table_one

WHOSE = {  # `public_patients`, in words
    "other": "They are of other patients than the private rows.",
    "some": "They are of some of the patients of the private rows.",
    "these": "They are of the patients of the private rows.",
}
DRAWN = 10_000  # rows of an earlier fit
SETTLED_STD = 1.0  # of counts of public rows by which they settle columns: a level needs some six rows
LEVEL_CHANCE = 1e-5  # of a level that no public row has
LACKING = 0.05  # share of the model's rows without a value, beyond that of the public rows


@dataclass(frozen=True, kw_only=True)
class PublicRows:
    """Rows that the user declared public. `digest`: SHA-256 of their file's bytes. `patients`: a key of WHOSE.
    `partial`: whether they may lack columns, and have other levels than the schema. `earlier`: the model of an earlier
    fit that drew them, whose claim covers the patients of both fits.
    """

    data: io_table.Table = field(repr=False)
    digest: str
    citation: str
    patients: str
    partial: bool
    earlier: Model | None = None

    def remark(self, plan: Plan) -> Message:
        """Return the notice about them, with the ledger's note. Raise BudgetError if both fits have no joint bound."""
        if self.earlier is not None:
            both, events = plan.ledger("").with_earlier(self.earlier.ledger), self.earlier.ledger.composition()
            cost = rounded_up(accountant.epsilon([*events, *plan.events.values()], both.delta, both.accountant))
            own = f"An earlier fit draws public rows: a model file of SHA-256 {self.digest}. Source: {self.citation}."
            total = f"The claim is for both fits together: epsilon {cost} at delta {both.delta:g}."
            note = Message(f"{own} Its charges are here, too.", None, kind=LEANS, column=EARLIER, entry=self.citation)
            return Message(f"{own} {total}", None, note=note)
        source = f"Source: {self.citation}. {WHOSE[self.patients]}"
        what = "rows were" if not is_table_one(self.data) else "lines of a Table 1 were"
        declared = f"{len(self.data.cells)} {what} declared public by the user: a file of SHA-256 {self.digest}."
        note = Message(f"{declared} {source}", None, kind=LEANS, column=self.patients, entry=self.citation)
        own = f"You declared `public` public. {source} The claim does not cover them."
        return Message(f"{own} If nobody has published them, stop here.", None, note=note)

    def codes(self, core: Schema) -> Codes:
        """Return the codes of the core's columns, (rows, columns). If `partial`, what is not known is UNKNOWN."""
        if is_table_one(self.data):
            return codes_of(self.data, core, UNKNOWN)
        return known_codes(self.data, core, UNKNOWN) if self.partial else encode(self.data, core)


def refuse_private_rows_as_public(table: Path | str, public: Path | str) -> None:
    """Raise UsageError if the public table is the private table's own file, one of its files, or a hold-out's part.

    Rows that an earlier fit on the table drew are refused, too: its cost is not in their file.
    """
    own = (Path(public), Path(public).parent)  # a private table may be a folder
    if Path(table).exists() and Path(public).exists() and any(Path(table).samefile(path) for path in own):
        raise UsageError("`public` is the private table itself. Pass a table whose rows are public.")
    own_budgets = [*budgets_of_rows(Path(table)), Budget.of(Path(table))]
    budgets = [*budgets_of_rows(Path(public)), Budget.of(Path(public))]
    if {one.path.resolve() for one in own_budgets} & {one.path.resolve() for one in budgets}:
        raise UsageError("`public` is a part of the private table. Pass a table whose rows are public.")
    made = provenance.load(Path(public))
    if made is not None and any(lists(one, Path(made.model)) for one in own_budgets if one.path.exists()):
        raise UsageError(
            "An earlier fit on the private table drew the rows of `public`. Pass its model file in their place. Then "
            "the claim states the cost of both fits."
        )


def public_rows_of(private: PrivateTable, settings: FitSettings, tables: Mapping[str, object]) -> PublicRows | None:
    """Read the rows that the user declares public, with the encoding of the private table; None without them.

    Args: `tables`: what is fitted, and the table whose budget counts the fit. Raises UsageError if the rows are the
    private ones or cannot be used, and TableError for a file that is not a table. If the method needs whole rows and
    the file does not meet the schema, raises SchemaError, without a cell.
    """
    if settings.public is None:
        return None
    if private.order is not None or isinstance(private, PrivateTables):
        raise UsageError("`public` rows do not follow patients over time or over tables. Leave out `public`.")
    method = registry.METHODS[registry.settle(settings.method, settings.preset)]
    schema, partial = private.declared, not method.whole_public_rows
    earlier = load(settings.public) if partial and Path(settings.public).suffix == MODEL else None
    for file in tables.values() if earlier is None else ():
        if isinstance(file, Path | str):
            refuse_private_rows_as_public(file, settings.public)
    if schema.open and not partial:
        raise UsageError("`public` needs a declared schema to read its rows. Draft a schema first.", NEEDS_SCHEMA)
    if earlier is None:
        data = read_table(settings.public, settings.saved)
    else:
        data = _drawn(earlier, settings, PrivacyUnit(private.max_rows, private.one_row_a_patient))
    if is_table_one(data):
        if not partial:
            raise UsageError(f"{settings.method} learns from public rows, not from a Table 1. Leave out `method`.")
        check_table_one(data, schema, settings.epsilon)
    elif not partial:
        check_header(data, schema)
        encode(data, schema.core)
    elif not set(data.header) & set(schema.header):
        raise UsageError(f"{data.where} has no column of the private table. Columns are matched by their names.")
    digest = hashlib.sha256(Path(settings.public).read_bytes()).hexdigest()
    return PublicRows(
        data=data, digest=digest, citation=settings.source,
        patients=settings.public_patients, partial=partial, earlier=earlier,
    )  # fmt: skip


def _drawn(model: Model, settings: FitSettings, unit: PrivacyUnit) -> io_table.Table:
    """Return rows of an earlier fit. Raise UsageError if its cost cannot be added to that of a fit for this unit."""
    trusted = any(note.about.entry == "server" for note in model.ledger.about(STUDY_TRUST))
    if not model.claims or trusted or settings.no_dp or settings.public_patients != PUBLIC_PATIENTS[0]:
        raise UsageError(
            "The claim adds up the costs of both fits, for the patients of both. So `public` must be a model fitted "
            "with `epsilon`, and not by a server that sites trust. Leave out `no_dp` and `public_patients`."
        )
    if model.ledger.unit != unit or model.tables is not None:
        raise UsageError(
            f"The earlier fit protects {model.ledger.unit.protects}, and this one {unit.protects}. Costs add up for "
            "the same unit of one table. Declare the same, or leave out `public`."
        )
    (schema,) = model.written.values()
    return io_table.from_frame(csv_cells(sample_codes(model, Draw(rows=DRAWN, seed=0)), schema), str(settings.public))


def with_earlier(model: Model, public: PublicRows | None) -> Model:
    """Return the model with the charges of the earlier fit that it leans on, and the epsilon of both together."""
    if public is None or public.earlier is None:
        return model
    ledger = model.ledger.with_earlier(public.earlier.ledger)
    return replace(model, ledger=ledger, epsilon=None if model.epsilon is None else ledger.epsilon())


def note_trust(tensors: Arrays, options: FitOptions, ledger: Ledger) -> None:
    """Report how far the fit trusted public rows, and how well these alone predict what was measured."""
    trusted, misfit = trust_of(tensors)
    if trusted:
        text = f"What is public ({options.source}) was trusted {trusted}. {misfit}"
        options.notice(text)
        ledger.note(Message(text, None, kind=TRUSTED, entry=trusted))


def settled_by(private: PrivateTable, public: PublicRows | None, notice: Notice) -> PrivateTable:
    """Return the table with its open columns settled by public rows, so that the fit does not pay to learn them.

    The code that learns open columns reads the public rows, with little noise from a fixed seed. It reads no private
    row. A column stays open if the public rows lack it, or if all its values are lost there.
    """
    names = [] if public is None or is_table_one(public.data) else [n for n in private.open if n in public.data.header]
    if public is None or not names:
        return private
    declared, rows = private.declared, len(public.data.cells)
    target = declared.target if declared.target in names else None
    asked = declared.with_columns({name: declared.columns[name] for name in names}, target=target, rules=())
    events = dict[str, tuple[Event, int]]()
    for label, some_names in partition_selection.asked(asked).items():
        noise = SETTLED_STD * len(some_names) ** -0.5
        named = label in (partition_selection.TARGET, partition_selection.LEVELS)
        event = Thresholded(multiplier=noise, delta=LEVEL_CHANCE) if named else Gaussian(multiplier=noise)
        events[label] = event, 1
    plan = Plan(epsilon_asked=1.0, epsilon=1.0, delta=LEVEL_CHANCE, rows=rows, accountant="prv", events=events)
    entropy = SeededEntropy(0)
    raw = partition_selection.RawVault(
        public.data, rows, OfPublicRows(plan.ledger(entropy.source), entropy), asked, private.na_values, rows_std=0.0
    )
    try:
        learned = raw.measure_schema(required=False)
    except TargetError:  # all its columns are keys
        return private
    columns = learned.schema.columns
    found = {name: columns[name] for name, one in learned.columns.items() if not one.lost}
    if learned.schema.target is None:
        found.pop(target or "", None)
    found |= {name: with_strangers(column) for name, column in found.items() if name != target and column.categorical}
    text = f"The public rows settle what is open of {len(found)} columns ({some([*found])}). No budget learns them."
    notice(Message(text, None))
    left = tuple(name for name in private.undeclared if name not in found)
    own = declared.with_columns(declared.columns | found)
    return replace(private, declared=own, undeclared=left, settled=tuple(found))


def with_strangers(column: Column) -> Column:
    """Return a column of levels in which a value that public rows lack is `other` if there is one, else missing.

    After learning from the rows themselves it may be another level, because noisy counts show how few such rows are.
    """
    content = column.to_dict()
    if content.get("unknown") in (OTHER, "missing"):
        return column
    gaps = content.get("missing", False)
    missing = with_empty(gaps) if isinstance(gaps, list | tuple) else True
    return type(column).model_validate({**content, "missing": missing, "unknown": "missing"})


def note_lacking(
    public: PublicRows, core: Schema, codes: Codes, settled: Collection[str], notice: Notice, ledger: Ledger
) -> None:
    """Name settled columns that are empty in more rows of the model than of the public rows, which lack their values.

    `codes`: rows of the model, (rows, columns). So this follows from releases.
    """
    own = public.codes(core)
    shares = dict[str, float]()
    for k, name in enumerate(core.names):
        known = own[own[:, k] != UNKNOWN, k]
        if name in settled and len(known):
            size = core.columns[name].size
            shares[name] = float((codes[:, k] >= size).mean() - (known >= size).mean())
    lacking = [f"{name} (about {share:.0%})" for name, share in shares.items() if share > LACKING]
    if lacking:
        text = (
            f"The public rows lack values of {', '.join(lacking)}: this share of the model's rows is empty there. "
            "Declare these columns, or fit without `public`."
        )
        notice(Message(text, kind=LOST))
        ledger.note(text)
