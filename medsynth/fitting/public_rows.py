"""Rows that a user declares public: the door that refuses private ones, the declaration, and the trust of a fit.

No private row is read here, and no public row is compared with one: a renamed copy of the private table passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..arrays import Arrays, Codes
from ..errors import LEANS, NEEDS_SCHEMA, TRUSTED, Message, UsageError
from ..io import table as io_table
from ..methods import registry
from ..mixture.constants import TRUST, TRUST_WORDS, UNKNOWN
from ..privacy.accounting.ledger import Ledger
from ..schema import Schema
from ..schema.codec import check_header, encode, known_codes
from .holdout import budgets_of_rows
from .private_table import PrivateTable, read_table
from .private_tables import PrivateTables
from .settings import FitOptions, FitSettings

WHOSE = {  # `public_patients`, in words
    "other": "They are of other patients than the private rows.",
    "some": "They are of some of the patients of the private rows.",
    "these": "They are of the patients of the private rows.",
}
ALONE = "Public rows alone predict the noisy measurements best. If they may be shared, share them in place of a model."


@dataclass(frozen=True, kw_only=True)
class PublicRows:
    """Rows that the user declared public. `digest`: SHA-256 of their file's bytes. `patients`: a key of WHOSE.
    `partial`: whether they may lack columns, and have other levels than the schema.
    """

    data: io_table.Table = field(repr=False)
    digest: str
    citation: str
    patients: str
    partial: bool

    @property
    def remark(self) -> Message:
        """The notice about them, with the ledger's note."""
        source = f"Source: {self.citation}. {WHOSE[self.patients]}"
        declared = f"{len(self.data.cells)} rows were declared public by the user: a file of SHA-256 {self.digest}."
        note = Message(f"{declared} {source}", None, kind=LEANS, column=self.patients, entry=self.citation)
        own = f"You declared the rows of `public` public. {source} The claim does not cover them."
        return Message(own, None, note=note)

    def codes(self, core: Schema) -> Codes:
        """Return the codes of the core's columns, (rows, columns). If `partial`, what is not known is UNKNOWN."""
        return known_codes(self.data, core, UNKNOWN) if self.partial else encode(self.data, core)


def refuse_private_rows_as_public(table: Path | str, public: Path | str) -> None:
    """Raise UsageError if the public table is the private table's own file, one of its files, or a hold-out's part."""
    own = (Path(public), Path(public).parent)  # a private table may be a folder
    if Path(table).exists() and Path(public).exists() and any(Path(table).samefile(path) for path in own):
        raise UsageError("`public` is the private table itself. Pass a table whose rows are public.")
    budgets = [{one.path.resolve() for one in budgets_of_rows(Path(path))} for path in (table, public)]
    if set.intersection(*budgets):
        raise UsageError("`public` is a part of the private table. Pass a table whose rows are public.")


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
    for file in tables.values():
        if isinstance(file, Path | str):
            refuse_private_rows_as_public(file, settings.public)
    method = registry.METHODS[registry.settle(settings.method, settings.preset)]
    schema, partial = private.declared, not method.whole_public_rows
    if schema.open and not partial:
        raise UsageError("`public` needs a declared schema to read its rows. Draft a schema first.", NEEDS_SCHEMA)
    data = read_table(settings.public, settings.saved)
    if not partial:
        check_header(data, schema)
        encode(data, schema.core)
    elif not set(data.header) & set(schema.header):
        raise UsageError(f"{data.where} has no column of the private table. Columns are matched by their names.")
    digest = hashlib.sha256(Path(settings.public).read_bytes()).hexdigest()
    return PublicRows(
        data=data, digest=digest, citation=settings.source,
        patients=settings.public_patients, partial=partial,
    )  # fmt: skip


def note_trust(tensors: Arrays, options: FitOptions, ledger: Ledger) -> None:
    """Report how far the fit trusted public rows, and how well these alone predict what was measured."""
    if TRUST not in tensors:
        return
    words, misfit = TRUST_WORDS[int(tensors[TRUST][0])], float(tensors[TRUST][1])
    text = (
        f"Public rows ({options.source}) were trusted {words}. Their own misfit is {misfit:.1f}: the squared error of "
        f"public rows alone, relative to that of noise.{f' {ALONE}' if words == TRUST_WORDS[-1] else ''}"
    )
    options.notice(text)
    ledger.note(Message(text, None, kind=TRUSTED, entry=words))
