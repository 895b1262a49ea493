"""What a site has answered so far: on disk, whole, before it is sent, and charged again when the site starts anew.

The file is a checkpoint (`privacy/checkpoint.py`) and as private. It takes the place of a fit's own: an answer is found
by the request's number and digest, so that the same request gets the same bytes, and another of that number nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import MedsynthError
from ..privacy.accounting.ledger import Ledger
from ..privacy.checkpoint import Arrays, Checkpoint, Floats
from ..privacy.release import SECRET
from .masks import new_nonce

RUN, FINISHED, NONCE = "run of the server", "finished", "nonce of this start"


@dataclass(frozen=True)
class Asked:
    """The request in hand. `kept`: what of it, public as it is, a site needs that starts anew."""

    number: int
    digest: str
    sensitivity: float
    kept: Sequence[Floats] = ()


@dataclass(frozen=True)
class Answered(Asked):
    """A measurement that a site has answered: to which request, and what."""

    label: str = ""
    arrays: Sequence[Floats] = ()


class Rounds(Checkpoint):
    """The checkpoint of a site. `facts` identify study and table; with `resume` what is on file counts as answered.

    Raises UsageError where the file is of another study or table, MedsynthError where it was altered.
    """

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        super().__init__(path, facts, resume=resume)
        self.answers: dict[int, Answered] = {}
        self.run: str | None = None
        self.nonce: str | None = None  # of this start, once the site has joined
        self.nonces: dict[str, str] = {}  # of all sites that the run has named
        self.finished = False
        self.asked: Asked | None = None
        self._secrets: dict[str, Arrays] = {}  # what was drawn once and is never released
        try:
            for label, arrays, names in self.rest():
                self._again(label, arrays, names)
        except ValueError:
            raise MedsynthError(f"{path} was altered, or is of another version of medsynth.") from None

    def _again(self, label: str, stored: Arrays, names: list[str]) -> None:
        """Take a record that is on file. Raises ValueError where it is none of a site's."""
        arrays = [*(stored.values() if isinstance(stored, Mapping) else stored)]
        if label == RUN:
            self.run, *pairs = names
            self.nonces = dict(zip(pairs[::2], pairs[1::2], strict=True))
        elif label == NONCE:
            (self.nonce,) = names
        elif label == FINISHED:
            self.finished = True
        elif label.startswith(SECRET):
            self._secrets[label] = arrays
        else:
            number, digest, sensitivity, count = names
            own, kept = arrays[: int(count)], arrays[int(count) :]
            self.answers[int(number)] = Answered(int(number), digest, float(sensitivity), kept, label, own)

    @property
    def steps(self) -> list[Sequence[Floats]]:
        """What was kept of each request of which anything was, in order."""
        return [self.answers[number].kept for number in sorted(self.answers) if self.answers[number].kept]

    def charge_again(self, ledger: Ledger) -> None:
        """Charge a new ledger with all that is on file. Raises BudgetError where the plan does not hold it."""
        for answered in self.answers.values():
            planned = ledger.allowance.get(answered.label)
            if planned is None:
                raise MedsynthError(f"{self.path} holds what the plan does not: it is of another version of medsynth.")
            ledger.charge(answered.label, planned[0], answered.sensitivity)

    def replay(self, label: str) -> tuple[Arrays, list[str]] | None:
        """What was drawn once. No answer: one that is on file is found in `answers`, before anything is charged."""
        found = self._secrets.get(label)
        return None if found is None else (found, [])

    def store(self, label: str, arrays: Arrays, names: list[str]) -> None:
        """Put the answer to the request in hand on disk, or what was drawn once."""
        if label.startswith(SECRET):
            super().store(label, arrays, names)
            self._secrets[label] = arrays
            return
        assert self.asked is not None
        own, arrays = self.asked, [*(arrays.values() if isinstance(arrays, Mapping) else arrays)]
        names = [str(own.number), own.digest, repr(own.sensitivity), str(len(arrays))]
        super().store(label, [*arrays, *own.kept], names)
        self.answers[own.number] = Answered(own.number, own.digest, own.sensitivity, own.kept, label, arrays)

    def join(self) -> str:
        """Return the nonce of this start, which is on file before anybody gets it: a site that resumes has the same."""
        if self.nonce is None:
            drawn = new_nonce()
            super().store(NONCE, [], [drawn])
            self.nonce = drawn
        return self.nonce

    def bind(self, run: str, among: Mapping[str, str]) -> None:
        """Answer this run of the server alone from now on, and these starts of the sites that it has named."""
        nonces = {**self.nonces, **among}
        if (self.run, self.nonces) != (run, nonces):
            super().store(RUN, [], [run, *(text for pair in nonces.items() for text in pair)])
            self.run, self.nonces = run, nonces

    def finish(self) -> None:
        """Answer nothing any more. The answers leave the file: they are in the model, and need not lie here."""
        self.finished, run = True, self.run or ""
        self.path.unlink(missing_ok=True)
        super().store(RUN, [], [run])
        super().store(FINISHED, [], [])
