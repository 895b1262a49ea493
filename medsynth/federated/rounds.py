"""Store a site's answers on disk before they are sent. A restarted site charges them again.

The file is a checkpoint (`privacy/checkpoint.py`), and as private. It replaces the checkpoint of a fit. Answers are
found by number and digest of the request: the same request gets the same bytes, and another request with this number
gets no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..arrays import Floats
from ..errors import MedsynthError
from ..privacy.accounting.ledger import Ledger
from ..privacy.checkpoint import Checkpoint, StoredArrays
from ..privacy.release import SECRET
from .masks import new_nonce

RUN, FINISHED, NONCE = "run of the server", "finished", "nonce of this start"


@dataclass(frozen=True)
class Asked:
    """The current request. `kept`: its public arrays that a restarted site needs."""

    number: int
    digest: str
    sensitivity: float
    kept: Sequence[Floats] = ()


@dataclass(frozen=True)
class Answered(Asked):
    """A measurement that a site has answered: the request, its label and the answer."""

    label: str = ""
    arrays: Sequence[Floats] = ()


class Rounds(Checkpoint):
    """The checkpoint of a site. `facts` identify study and table. With `resume`, the answers on file are kept.

    Raises UsageError if the file belongs to another study or table, MedsynthError if it was altered.
    """

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        super().__init__(path, facts, resume=resume)
        self.answers: dict[int, Answered] = {}
        self.run: str | None = None
        self.nonce: str | None = None  # of this start, set when the site joins
        self.nonces: dict[str, str] = {}  # of all sites that the run has named
        self.finished = False
        self.asked: Asked | None = None
        self._secrets: dict[str, StoredArrays] = {}  # numbers that are drawn once and never released
        try:
            for label, arrays, names in self.rest():
                self._again(label, arrays, names)
        except ValueError:
            raise MedsynthError(f"{path} was altered, or another version of medsynth wrote it.") from None

    def _again(self, label: str, stored: StoredArrays, names: list[str]) -> None:
        """Read a record on file. Raise ValueError if it is not a site's record."""
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
        """The arrays that were kept from requests, in order."""
        return [self.answers[number].kept for number in sorted(self.answers) if self.answers[number].kept]

    def charge_again(self, ledger: Ledger) -> None:
        """Charge a new ledger with all answers on file. Raise BudgetError if they are not in the plan."""
        for answered in self.answers.values():
            planned = ledger.allowance.get(answered.label)
            if planned is None:
                raise MedsynthError(f"{self.path} does not match the plan: another version of medsynth wrote it.")
            ledger.charge(answered.label, planned[0], answered.sensitivity)

    def replay(self, label: str) -> tuple[StoredArrays, list[str]] | None:
        """Return numbers that were drawn once. Answers on file are found in `answers`, before anything is charged."""
        found = self._secrets.get(label)
        return None if found is None else (found, [])

    def store(self, label: str, arrays: StoredArrays, names: list[str]) -> None:
        """Write the answer to the current request, or numbers that are drawn once, to disk."""
        if label.startswith(SECRET):
            super().store(label, arrays, names)
            self._secrets[label] = arrays
            return
        assert self.asked is not None
        own = self.asked
        arrays = [*(arrays.values() if isinstance(arrays, Mapping) else arrays)]
        names = [str(own.number), own.digest, repr(own.sensitivity), str(len(arrays))]
        super().store(label, [*arrays, *own.kept], names)
        self.answers[own.number] = Answered(own.number, own.digest, own.sensitivity, own.kept, label, arrays)

    def join(self) -> str:
        """Return the nonce of this start. It is on file before it is sent, so a resumed site has the same nonce."""
        if self.nonce is None:
            drawn = new_nonce()
            super().store(NONCE, [], [drawn])
            self.nonce = drawn
        return self.nonce

    def bind(self, run: str, among: Mapping[str, str]) -> None:
        """From now on, answer only this run of the server, with these starts of the sites that it named."""
        nonces = {**self.nonces, **among}
        if (self.run, self.nonces) != (run, nonces):
            super().store(RUN, [], [run, *(text for pair in nonces.items() for text in pair)])
            self.run, self.nonces = run, nonces

    def finish(self) -> None:
        """Stop answering. Delete the answers from the file, because the model contains them."""
        self.finished = True
        run = self.run or ""
        self.path.unlink(missing_ok=True)
        super().store(RUN, [], [run])
        super().store(FINISHED, [], [])
