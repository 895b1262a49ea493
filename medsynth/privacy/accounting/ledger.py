"""What was charged: an append-only list of labelled events that admits only what the plan holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import ArtifactError, BudgetError
from . import accountant
from .events import Event, from_json, relation, to_json


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`count` charges of one event under one label, with the L2 sensitivity that its noise was scaled to."""

    label: str
    event: Event
    count: int
    sensitivity: float


@dataclass(kw_only=True)
class Ledger:
    """The record of every answer. `allowance` is the plan: label to event and how often it may be asked.

    A charge beyond the allowance raises BudgetError before anything is drawn, so the total never exceeds the plan.
    """

    delta: float
    accountant: accountant.Accountant
    random_source: str
    allowance: dict[str, tuple[Event, int]]
    most: int | None = None  # rows of a patient, where the patient is the unit of privacy
    notes: list[str] = field(default_factory=list)
    _entries: list[Entry] = field(default_factory=list)

    @property
    def relation(self) -> str:
        """What neighbouring tables differ in."""
        return relation(self.most)

    @property
    def protects(self) -> str:
        """Whom one change of neighbouring tables is about."""
        return "one row" if self.most is None else f"one patient with up to {self.most} rows"

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges so far, in order."""
        return tuple(self._entries)

    @property
    def claims(self) -> bool:
        """Whether a privacy claim may be made: noise came from the operating system and something was charged."""
        return self.random_source == "operating system" and bool(self._entries)

    def charge(self, label: str, event: Event, sensitivity: float) -> None:
        """Write one answer down. Call it before the answer is drawn. Raises BudgetError if the plan lacks it."""
        planned, times = self.allowance.get(label, (None, 0))
        spent = sum(entry.count for entry in self._entries if entry.label == label)
        if planned != event or spent >= times:
            raise BudgetError(f"The plan does not hold another {label!r} with this noise: refused before drawing.")
        last = self._entries[-1] if self._entries else None
        if last and (last.label, last.event, last.sensitivity) == (label, event, sensitivity):
            self._entries[-1] = Entry(label=label, event=event, count=last.count + 1, sensitivity=sensitivity)
        else:
            self._entries.append(Entry(label=label, event=event, count=1, sensitivity=sensitivity))

    def composition(self) -> list[tuple[Event, int]]:
        """The events with their counts, for an accountant."""
        return [(entry.event, entry.count) for entry in self._entries]

    def epsilon(self) -> float:
        """What all charges together cost at the ledger's delta."""
        return accountant.epsilon(self.composition(), self.delta, self.accountant)

    @property
    def complete(self) -> bool:
        """Whether exactly what was planned has been asked."""
        asked = {entry.label: self.asked(entry.label) for entry in self._entries}
        return asked == {label: times for label, (_, times) in self.allowance.items()}

    def asked(self, label: str) -> int:
        """How often the answer called `label` has been charged."""
        return sum(entry.count for entry in self._entries if entry.label == label)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return {
            "delta": self.delta,
            "accountant": self.accountant,
            "random_source": self.random_source,
            "relation": self.relation,
            "most_rows_a_patient": self.most,
            "notes": list(self.notes),
            "events": [
                {"label": e.label, "count": e.count, "sensitivity": e.sensitivity, **to_json(e.event)}
                for e in self._entries
            ],
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Ledger:
        """The ledger that `content` holds, closed to further charges. Raises ArtifactError where it holds none."""
        try:
            most = content.get("most_rows_a_patient")
            known = most is None or (isinstance(most, int) and most > 0)
            if not known or content["relation"] != relation(most) or content["accountant"] not in ("prv", "rdp"):
                raise ArtifactError("The ledger stands under a relation or accountant that this version does not know.")
            entries = [
                Entry(
                    label=str(row.pop("label")),
                    count=int(row.pop("count")),
                    sensitivity=float(row.pop("sensitivity")),
                    event=from_json(row),
                )
                for row in (dict(row) for row in content["events"])
            ]
            return cls(
                delta=float(content["delta"]),
                accountant=content["accountant"],
                random_source=str(content["random_source"]),
                most=most,
                notes=[str(note) for note in content["notes"]],
                allowance={},
                _entries=entries,
            )
        except (KeyError, TypeError, ValueError, BudgetError):
            raise ArtifactError("The ledger in this file is broken.") from None
