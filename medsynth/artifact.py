"""The model file: all that left the private side, as safetensors and JSON. It contains no pickle and no row."""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
import stat
import struct
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Arrays
from .errors import (
    EARLIER,
    LEANS,
    NEEDS_MODEL,
    ArtifactError,
    BudgetError,
    MedsynthError,
    UsageError,
    checked_keywords,
    nearest,
)
from .io.atomic import atomic_write
from .io.formats import FileForm
from .methods.registry import preset_of_file
from .mixture.constants import TRUST, TRUST_WORDS
from .privacy.accounting import accountant
from .privacy.accounting.accountant import rounded_up, supports
from .privacy.accounting.ledger import Ledger
from .schema import Schema
from .schema.codec import Where
from .schema.learned import LEARNED_NAME
from .schema.linked import LinkedTables

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 7
QUALITY = "expected_similarity"  # tensor: what the noise leaves of each column, (columns of the core,)
STRUCTURE_ONLY = "STRUCTURE ONLY: drawn from a schema, as evenly as its rules allow. "
NO_TABLE = "No table was read, and nothing is claimed."
LEARNED_SCHEMA = "A fit learned this schema: its levels and bounds carry that fit's claim. No other table was read."
ALONE = "It alone predicts the noisy measurements best. If it may be shared, share it in place of a model."
WORST = 3  # columns that the sentence about quality names
MAX_BYTES = 1 << 30  # largest model file that is read
FIELDS: dict[str, type | UnionType] = {
    "format": int,
    "name": str,
    "method": str,
    "preset": str | None,
    "config": dict,
    "schema": dict,
    "ledger": dict,
    "epsilon": float | None,
    "epsilon_asked": float | int | None,
    "rows": int,
    "rows_declared": bool,
    "rows_read": int | None,
    "device": str,
    "versions": dict,
    "tables": dict | None,
    "form": dict | None,
}
ADDED = {"rows_read": None, "form": None}  # fields that files of earlier versions lack


@dataclass(frozen=True, kw_only=True)
class Model:
    """A fitted generator with its claim: (`epsilon`, `ledger.delta`) for the unit that its ledger names.

    A model that was fitted without noise has no epsilon and makes no claim.

    `rows`: the public row count, or a noisy count if rows per patient are bounded. `rows_read`: the public row count in
    any case; of several tables, that of patients. `tensors`: the generator, and the noisy measurements that decode its
    rows. The model stores neither a time nor a frame's dtypes: both depend on rows. `tables`: the tables of a model of
    several. Its `schema` then describes patients with their first row in each table. `structure_only`: no table was
    read; the rows follow from a schema alone. Such a model is never in a file. `form`: how the file of the fitted table
    was written, by public facts, as sampled rows are.
    """

    name: str
    method: str
    preset: str | None
    config: dict[str, Any]
    schema: Schema
    ledger: Ledger
    epsilon: float | None
    epsilon_asked: float | None
    rows: int
    rows_declared: bool
    device: str
    versions: dict[str, str]
    tensors: Arrays
    tables: LinkedTables | None = None
    rows_read: int | None = None
    structure_only: bool = False
    form: FileForm = FileForm()

    @property
    def claims(self) -> bool:
        """Whether the model makes a privacy claim."""
        return self.epsilon is not None and self.ledger.claims

    @property
    def seen(self) -> int:
        """The number of its declarations that were made after a look at the table."""
        return sum(schema.seen for schema in self.written.values())

    @property
    def views(self) -> dict[str, Schema]:
        """The schemas of its rows as they are drawn, by table: those of several have the columns of their patient."""
        tables = self.tables
        return {self.name: self.schema} if tables is None else {name: tables.view(name) for name in tables.tables}

    @property
    def written(self) -> dict[str, Schema]:
        """The schemas of its rows as they are written, by table. Their `unit` names the patient of each row."""
        tables = self.tables
        return {self.name: self.schema} if tables is None else {name: tables.written(name) for name in tables.tables}

    def links(self, table: str) -> dict[str, tuple[str, str]]:
        """Return the columns of a table that contain keys of other tables: the table of each, and its column there."""
        return {} if self.tables is None else self.tables.links(table)

    @property
    def quality(self) -> dict[str, float]:
        """The similarity to the fitted rows that the noise leaves in each column, as expected; empty if not known."""
        found = self.tensors.get(QUALITY)
        names = self.schema.core.names
        if found is None or found.shape != (len(names),):
            return {}
        return {name: round(float(one), 4) for name, one in zip(names, found, strict=True)}

    def __repr__(self) -> str:
        return (
            f"Model({self.name!r}, {self.method}, {len(self.schema.columns)} columns, {self.rows} rows: {claim(self)})"
        )

    def _repr_html_(self) -> str:
        facts = {"method": self.method, "columns": len(self.schema.columns), "rows": self.rows, "claim": claim(self)}
        rows = "".join(f"<tr><th>{key}</th><td>{html.escape(str(value))}</td></tr>" for key, value in facts.items())
        return f"<table><caption>{html.escape(self.name)}</caption>{rows}</table>"

    @checked_keywords
    def sample(
        self, n: int | None = None, seed: int | None = None, where: Where = (), balance: bool = False,
        replicates: int | None = None, *, patients: int | None = None, where_any: Where = (),
    ) -> pd.DataFrame:  # fmt: skip
        """Draw synthetic rows, as `medsynth.sample` does."""
        import medsynth  # imported late: the package imports this module

        return medsynth.sample(self, n, seed, where, balance, replicates, patients=patients, where_any=where_any)

    def estimate(self, *questions: str, **settings: Any) -> Any:
        """Return estimates with intervals: `model.estimate("mean(age)", "y ~ a + b", by="sex")`. It costs no privacy.

        Settings: `by`, `where`, `replicates`, `level` and `seed`. Raises UsageError for what is not a question.
        """
        import medsynth  # imported late, as above

        return medsynth.answers_of(self, questions, settings)

    def replicates(self, count: int = 20, seed: int | None = None) -> Iterator[Model]:
        """Yield plausible models, fitted again to the released measurements. This costs no privacy.

        Raises UsageError if the model keeps no measurements, or for a `count` below two.
        """
        import medsynth  # imported late, as above

        return medsynth.replicates_of(self, count, seed)

    def report(self, real: pd.DataFrame | Path | str, output: Path | str | None = None, *, force: bool = False) -> Any:
        """Return a report that compares a fresh sample with `real` rows that no fit has seen. Save it to `output`.

        Raises TableError or MedsynthError if the tables cannot be compared, OutputExists unless `force`.
        """
        import medsynth  # imported late, as above

        return medsynth.report_on(self, real, output, force=force)

    def describe(self) -> dict[str, Any]:
        """Return all that the file contains, except its tensors, as plain data."""
        others = ("format", "schema", "ledger", "tables", "form")
        plain = [key for key in FIELDS if key not in others]  # in a fixed order
        fields = {key: getattr(self, key) for key in plain}
        tables = None if self.tables is None else self.tables.to_dict()
        ledger = self.ledger.to_json()
        # Notes quote names of columns and levels, which may be any text.
        ledger["notes"] = [*map(printable, ledger["notes"])]
        ledger["about"] = [{key: printable(value) for key, value in one.items()} for one in ledger["about"]]
        own = {"schema": self.schema.to_dict(), "ledger": ledger, "tables": tables,
               "form": asdict(self.form)}  # fmt: skip
        return {"format": FORMAT, **fields, **own}

    def save(self, path: Path | str, *, force: bool = False) -> Path:
        """Write the model to `path`, completely or not at all. Raise OutputExists unless `force`."""
        from safetensors.numpy import save

        if self.structure_only:
            raise UsageError("This model follows from a schema alone. Store the schema, and make the model again.")
        body = json.dumps(self.describe())  # columns keep their order
        metadata = {"medsynth": body, "sha256": _digest(body, self.tensors)}
        content = _in_order(save({k: np.ascontiguousarray(t) for k, t in self.tensors.items()}, metadata))
        atomic_write(Path(path), content, force=force)
        return Path(path)


def _in_order(content: bytes) -> bytes:
    """Return the file with its header's keys sorted, because safetensors writes them in varying order."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.dumps(json.loads(content[8 : 8 + length]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def _digest(body: str, tensors: Arrays) -> str:
    """Return a checksum of all content. It detects damage, but it is not a signature."""
    total = hashlib.sha256(body.encode())
    for name in sorted(tensors):
        total.update(f"{name}{tensors[name].shape}".encode() + tensors[name].tobytes())
    return total.hexdigest()


def load(path: Path | str) -> Model:
    """Return the model in the file `path`.

    Raises ArtifactError, with one message, for a file that is missing, foreign, truncated or altered.
    """
    path = Path(path)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ArtifactError(f"{path} is not a file. Name a model file.")
        if found.st_size > MAX_BYTES:
            raise ArtifactError(f"{path} is too large for a medsynth model. Name a model file.")
        content = path.read_bytes()
    except (OSError, ValueError):
        if near := nearest(path.name, [one.name for one in path.parent.glob("*.medsynth")]):
            raise ArtifactError(f"{path} does not exist, or cannot be read. Did you mean {near}?") from None
        raise ArtifactError(f"{path} does not exist, or cannot be read. Fit a model first.", NEEDS_MODEL) from None
    try:
        return _parse(content)
    except MedsynthError as error:
        raise ArtifactError(f"{path}: {error}") from None
    except Exception:  # a hostile file may cause any exception in a parser
        raise ArtifactError(f"{path} is not a medsynth model, or it is damaged. Copy it again, or fit again.") from None


def _parse(content: bytes) -> Model:
    from safetensors.numpy import load as load_tensors

    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    body = metadata["medsynth"]
    fields = ADDED | json.loads(body)
    if fields["format"] != FORMAT:
        version = str(dict(fields.get("versions", {})).get("medsynth", ""))
        written = f"medsynth {version}" if re.fullmatch(r"[\w.+-]{1,40}", version) else "another version of medsynth"
        raise ArtifactError(f"it was written by {written}. Install that version, or fit again.")
    tensors = load_tensors(content)
    if _digest(body, tensors) != metadata["sha256"] or set(fields) != set(FIELDS):
        raise ArtifactError("it was altered after it was written. Copy it again, or fit again.")
    if not all(t.dtype == np.float32 and np.isfinite(t).all() for t in tensors.values()):
        raise ArtifactError("it contains tensors of the wrong type. Copy it again, or fit again.")
    if not all(isinstance(fields[k], kind) for k, kind in FIELDS.items()) or not all(
        isinstance(text, str) for text in fields["versions"].values()
    ):
        raise ArtifactError("it contains fields of the wrong type. Copy it again, or fit again.")
    if not (fields["rows"] > 0 and math.isfinite(fields["epsilon"] or 0.0)):
        raise ArtifactError("its row count or epsilon is not a number. Copy it again, or fit again.")
    # A column may have any name, and a file's form is one of a few.
    others = {key: value for key, value in fields.items() if key not in ("schema", "tables", "form")}
    if any(unprintable(text) for text in _texts(others)):
        raise ArtifactError("it contains control characters. Do not use it.")
    fields.pop("format")
    fields["preset"] = preset_of_file(fields["method"], fields["preset"], fields["config"])
    schema = Schema.from_dict(fields.pop("schema"))
    ledger = Ledger.from_json(fields.pop("ledger"))
    tables = fields.pop("tables")
    _check_epsilon(fields["epsilon"], ledger)
    linked = None if tables is None else LinkedTables.from_dict(tables)
    form = FileForm(**(fields.pop("form") or {}))
    return Model(**fields, schema=schema, ledger=ledger, tensors=tensors, tables=linked, form=form)


def _check_epsilon(epsilon: float | None, ledger: Ledger) -> None:
    """Raise ArtifactError unless the file's epsilon is what its ledger's events cost. It is never trusted."""
    try:
        if epsilon is None:
            right = not ledger.claims
        else:
            right = epsilon > 0 and supports(ledger.composition(), ledger.delta, float(epsilon), ledger.accountant)
    except BudgetError:
        right = False
    if not right:
        raise ArtifactError("its epsilon is not the sum of its ledger. Do not use it.")


def _texts(content: object) -> Iterator[str]:
    """Yield all texts in plain data."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(content, list):
        for value in content:
            yield from _texts(value)


def unprintable(text: str) -> bool:
    """Return whether a text contains line breaks, terminal escapes or marks of writing direction."""
    return any(unicodedata.category(mark) in ("Cc", "Cf", "Zl", "Zp") for mark in text)


def printable(text: str) -> str:
    r"""Return a text with escapes in place of what `unprintable` finds.

    >>> printable("age\u200b"), printable("größe")
    ('age\\u200b', 'größe')
    """
    return "".join(ascii(mark)[1:-1] if unprintable(mark) else mark for mark in text)


def verify(model: Model) -> dict[str, float]:
    """Return epsilon as `claimed`, as computed by an independent accountant (`pld`), and by Renyi composition (`rdp`).

    Raises MedsynthError if the claim is too small or missing, or if dp-accounting is not installed.
    """
    if model.epsilon is None or not model.claims:
        raise MedsynthError("This model makes no privacy claim, so there is nothing to verify.")
    events = model.ledger.composition()
    delta = model.ledger.delta
    try:
        pld = accountant.cross_check(events, delta)
    except ImportError:
        raise MedsynthError("`verify` needs dp-accounting. Run: pip install 'medsynth[verify]'.") from None
    if pld > model.epsilon + max(0.005, 0.005 * model.epsilon):
        raise MedsynthError(
            f"The claim is wrong: the model claims {model.epsilon:.4f}, but costs {pld:.4f}. Do not share this model."
        )
    return {"pld": pld, "claimed": model.epsilon, "rdp": accountant.epsilon(events, delta, "rdp")}


def quality(model: Model) -> str | None:
    """Return what the noise leaves of single columns in one sentence or two; None if the model does not say."""
    found = model.quality
    if not found:
        return None
    worst = sorted(found, key=lambda name: found[name])[:WORST]
    least = ", ".join(f"{name} {found[name]:.0%}" for name in worst)
    mean = sum(found.values()) / len(found)
    return f"With the noise, a column is about {mean:.0%} like the real one. Least alike: {least}."


def leans_on(model: Model) -> str:
    """Return what public rows a model leans on, how far the fit trusted them, and their misfit; empty without any."""
    notes = model.ledger.about(LEANS)
    words = {EARLIER: "an earlier fit, whose cost is in the claim"}
    found = [f"{note.about.entry} ({words.get(note.about.column, 'public')})" for note in notes]
    trusted, misfit = trust_of(model.tensors)
    if not found:
        return ""
    return f"These rows lean on: {'; '.join(found)}{f', trusted {trusted}. {misfit}' if trusted else '.'}"


def trust_of(tensors: Arrays) -> tuple[str, str]:
    """Return how far a fit trusted public rows, and how well these alone predict what it measured, in words.

    Both are empty without such rows.
    """
    if TRUST not in tensors:
        return "", ""
    place, misfit = (float(one) for one in tensors[TRUST])
    trusted = TRUST_WORDS[int(place)]
    if not misfit:
        return trusted, "It shows nothing of what was measured."
    text = f"Its own misfit is {misfit:.1f}: the squared error of what is public alone, relative to that of noise."
    return trusted, text + (f" {ALONE}" if trusted == TRUST_WORDS[-1] else "")


SEEN = " Entries declared after a look at the table: {}. The claim takes them as given."


def claim(model: Model, *, brief: bool = False) -> str:
    """Return the claim in one sentence. `brief` leaves out the definition of neighbouring tables."""
    if model.structure_only:
        return STRUCTURE_ONLY + (LEARNED_SCHEMA if model.schema.name == LEARNED_NAME else NO_TABLE)
    if model.epsilon is None:
        return "NOT DIFFERENTIALLY PRIVATE: fitted without noise (`no_dp`). Share neither this model nor its rows."
    if not model.claims:
        return "This model makes NO privacy claim: its noise did not come from the operating system."
    relation = "" if brief else f"{model.ledger.relation}; "
    return (
        f"({rounded_up(model.epsilon)}, {model.ledger.delta:g})-differential privacy for {model.ledger.protects}; "
        f"{relation}accountant {model.ledger.accountant.upper()}.{SEEN.format(model.seen) if model.seen else ''}"
    )
