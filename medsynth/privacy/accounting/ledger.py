"""What was charged: an append-only list of labelled events that admits only planned ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import ABOUT, EARLIER, LEANS, ArtifactError, BudgetError, Message
from . import accountant
from .events import Event, from_json, relation, to_json
from .unit import PrivacyUnit, beyond


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """`count` charges of one event under one label, with the L2 sensitivity that its noise was scaled to."""

    label: str
    event: Event
    count: int
    sensitivity: float


@dataclass(kw_only=True)
class Ledger:
    """The record of every release. `allowance` is the plan: each label's event and how often it may be measured.

    A charge beyond the allowance raises BudgetError before anything is drawn, so the total never exceeds the plan.
    """

    delta: float
    accountant: accountant.Accountant
    random_source: str
    allowance: dict[str, tuple[Event, int]]
    max_rows: int | None = None  # Per patient, if the patient is the unit of privacy.
    one_row_a_patient: bool = False  # Whether it was declared that no two rows share a patient.
    notes: list[Message] = field(default_factory=list)
    _entries: list[LedgerEntry] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note for the readers of the model file."""
        self.notes.append(Message.of(text))

    def about(self, kind: str) -> list[Message]:
        """Return the notes of a kind."""
        return [note for note in self.notes if note.about.kind == kind]

    @property
    def relation(self) -> str:
        """Return how neighbouring tables differ."""
        return relation(self.max_rows)

    @property
    def unit(self) -> PrivacyUnit:
        """Return the unit of privacy, as it was declared."""
        return PrivacyUnit(self.max_rows, self.one_row_a_patient)

    @property
    def protects(self) -> str:
        """Return the unit whose change the claim covers, in words.

        If public rows are of the same patients, the claim is about what a model reveals beyond them.
        """
        return self.unit.protects + "".join(beyond(note.about.column, note.about.entry) for note in self.about(LEANS))

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return all charges so far, in order."""
        return tuple(self._entries)

    @property
    def claims(self) -> bool:
        """Return whether a claim is possible: the operating system supplied the noise, and something was charged."""
        return self.random_source == "operating system" and bool(self._entries)

    def charge(self, label: str, event: Event, sensitivity: float) -> None:
        """Charge one measurement before it is drawn. Only `Releases.release` calls it.

        Raises BudgetError if the plan lacks the measurement.
        """
        planned, times = self.allowance.get(label, (None, 0))
        if planned != event or self.times_measured(label) >= times:
            raise BudgetError(f"The plan does not contain another {label!r} with this noise: refused before drawing.")
        last = self._entries[-1] if self._entries else None
        if last and (last.label, last.event, last.sensitivity) == (label, event, sensitivity):
            self._entries[-1] = LedgerEntry(label=label, event=event, count=last.count + 1, sensitivity=sensitivity)
        else:
            self._entries.append(LedgerEntry(label=label, event=event, count=1, sensitivity=sensitivity))

    def composition(self) -> list[tuple[Event, int]]:
        """Return the events with their counts, for an accountant."""
        return [(entry.event, entry.count) for entry in self._entries]

    def epsilon(self) -> float:
        """Return the cost of all charges together at the ledger's delta."""
        return accountant.epsilon(self.composition(), self.delta, self.accountant)

    def with_earlier(self, other: Ledger) -> Ledger:
        """Return the ledger of a model that leans on an earlier fit, with the charges of both.

        The later fit may depend on the earlier releases: this is adaptive composition. The deltas add up.
        """
        earlier = [replace(entry, label=f"{EARLIER}: {entry.label}") for entry in other.entries]
        return replace(
            self,
            delta=min(self.delta + other.delta, 0.999),
            accountant="rdp" if "rdp" in (self.accountant, other.accountant) else "prv",
            notes=[*self.notes, *other.about(LEANS)],
            _entries=[*earlier, *self._entries],
        )

    @property
    def complete(self) -> bool:
        """Return whether exactly the plan has been measured."""
        measured = {entry.label: self.times_measured(entry.label) for entry in self._entries}
        return measured == {label: times for label, (_, times) in self.allowance.items()}

    def times_measured(self, label: str) -> int:
        """Return how often the measurement `label` has been charged."""
        return sum(entry.count for entry in self._entries if entry.label == label)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        return {
            "delta": self.delta,
            "accountant": self.accountant,
            "random_source": self.random_source,
            "relation": self.relation,
            "max_rows_per_patient": self.max_rows,
            "one_row_a_patient": self.one_row_a_patient,
            "notes": list(self.notes),
            "about": [{name: getattr(note.about, name) for name in ABOUT} for note in self.notes],
            "events": [
                {"label": e.label, "count": e.count, "sensitivity": e.sensitivity, **to_json(e.event)}
                for e in self._entries
            ],
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Ledger:
        """Return the ledger in `content`, closed to further charges. Raises ArtifactError if there is none."""
        try:
            max_rows, notes = content["max_rows_per_patient"], content["notes"]
            one_row, about = content.get("one_row_a_patient", False), content.get("about", [None] * len(notes))
            known = isinstance(one_row, bool) and not (one_row and max_rows is not None)
            known &= max_rows is None or (isinstance(max_rows, int) and max_rows > 0)
            if not known or content["relation"] != relation(max_rows) or content["accountant"] not in ("prv", "rdp"):
                raise ArtifactError("The ledger uses a relation or an accountant that this version does not support.")
            entries = [
                LedgerEntry(
                    label=str(row.pop("label")),
                    count=int(row.pop("count")),
                    sensitivity=float(row.pop("sensitivity")),
                    event=from_json(row),
                )
                for row in (dict(row) for row in content["events"])
            ]
            delta = float(content["delta"])
            sound = all(e.count > 0 and 0 < e.sensitivity < math.inf for e in entries) and 0 < delta < 1
            if not sound or not all(type(row["count"]) is int for row in content["events"]):
                raise ArtifactError("The ledger in this file contains an impossible charge.")
            return cls(
                delta=delta,
                accountant=content["accountant"],
                random_source=str(content["random_source"]),
                max_rows=max_rows,
                one_row_a_patient=one_row,
                notes=[Message.stored(str(note), one) for note, one in zip(notes, about, strict=True)],
                allowance={},
                _entries=entries,
            )
        except (KeyError, TypeError, ValueError, BudgetError):
            raise ArtifactError("The ledger in this file is broken.") from None
