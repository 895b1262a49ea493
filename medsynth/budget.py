"""Record what all fits on one table spend: a budget file next to the table, written before the first measurement.

Each fit appends two lines. `reserved` lists all that its plan may release, before anything is measured. `settled`
follows once the model is saved. A fit that is killed in between counts in full. A fit that ends in an error is
`ended`: it counts with its charges until then, if all of them are plain Gaussians.

A resume appends `resumed` and keeps the fit's number, so that the fit counts once. Each start and each resume has an
attempt id, written to the checkpoint first and then here. Its line also counts the checkpoint's records while the fit
runs. A checkpoint continues the fit whose latest attempt it has, if no record is missing. Other copies count as new
fits (docs/decisions/0060). Epsilon is never stored: it is computed from the events. The file contains no cell.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import ArtifactError, BudgetError, MedsynthError, Message
from .io.atomic import sole_writer
from .io.formats import beside
from .privacy.accounting import accountant
from .privacy.accounting.calibration import Plan
from .privacy.accounting.events import Event, Gaussian, from_json, to_json
from .privacy.accounting.unit import SEVERAL_ROWS, PrivacyUnit

SUFFIX = ".medsynth-ledger"
PARTS = "all-parts"  # name of the budget file of a folder whose files are one table
LOCK_SECONDS = 60.0  # how long a fit waits while others write to the same file
LARGEST_DELTA = 0.999
DIGITS = 10  # of the record count in a line, which is overwritten while the fit runs
COUNT = b'"reached": "'  # the bytes before that count
Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One fit on file. `max_rows`: rows per patient if the patient is the privacy unit; None for single rows.
    `one_row_a_patient`: whether it was declared that no two rows share a patient.

    `noise`: whether privacy noise was added. `model`: the model file's name, None until the fit is settled. `ended`:
    whether it ended in an error, so that `events` are its charges and not its whole plan. `stopped`: whether no resume
    can continue it. `attempt`: the id of the latest start or resume. `reached`: the number of checkpoint records when
    the latest one was used. `models`: all names of its model, if a complete checkpoint was resumed. `study`: the digest
    of a federated study, if this is the part of one site. `answers`: the number of answers that have left the site.
    `process`: the process that may send more.
    """

    number: str
    started: str
    method: str
    max_rows: int | None
    noise: bool
    delta: float
    accountant: accountant.Accountant
    events: tuple[tuple[Event, int], ...]
    model: str | None = None
    ended: bool = False
    stopped: bool = False
    models: tuple[str, ...] = ()
    attempt: str = ""
    reached: int = 0
    study: str | None = None
    answers: int = 0
    process: str | None = None
    one_row_a_patient: bool = False

    @property
    def epsilon(self) -> float | None:
        """The cost of the fit at its delta, computed from its events. None if no noise was added."""
        return accountant.epsilon(self.events, self.delta, self.accountant) if self.noise else None

    def describe(self) -> dict[str, object]:
        """Return the fit as plain data, for messages and JSON."""
        return {
            "model": self.model or ("(ended in an error)" if self.ended else "(unfinished)"),
            "started": self.started,
            "method": self.method,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": PrivacyUnit(self.max_rows, self.one_row_a_patient).brief,
        }


@dataclass(frozen=True, kw_only=True)
class Total:
    """The joint cost of several fits: `epsilon` at `delta`. None if one of them has no bound for the unit."""

    epsilon: float | None
    delta: float


@dataclass(frozen=True, kw_only=True)
class Spent:
    """All fits on a table, in the order of their reservation. `path`: the budget file."""

    fits: tuple[Fit, ...]
    path: Path = Path()

    @property
    def unprotected(self) -> int:
        """The number of fits without noise. Nothing bounds what they released."""
        return sum(not fit.noise for fit in self.fits)

    @property
    def unfinished(self) -> int:
        """The number of fits that were reserved but neither settled nor ended. They count in full."""
        return sum(fit.model is None and not fit.ended for fit in self.fits)

    def row(self) -> Total:
        """Return the total for one row. A fit that protects whole patients also protects each of their rows."""
        return self._total(all(fit.noise for fit in self.fits))

    def patient(self) -> Total:
        """Return the total for one patient with all their rows. It has an epsilon only if all fits protect patients."""
        return self._total(all(fit.noise for fit in self.fits) and not self._of_rows)

    @property
    def _of_rows(self) -> int:
        """The number of fits that protect single rows: a patient may have several by what each fit declared."""
        several = any(fit.max_rows is not None for fit in self.fits)
        return sum(fit.max_rows is None and (several or not fit.one_row_a_patient) for fit in self.fits)

    def of_study(self, study: str) -> tuple[Fit, ...]:
        """Return the fits of one federated study. There are several if its site was started again."""
        return tuple(fit for fit in self.fits if fit.study == study)

    def _total(self, bounded: bool) -> Total:
        """Return the smaller of two bounds: plain sums, which hold for any mechanisms, and the composition at the
        summed delta (by the exact curve if there is one, else by Renyi composition).
        """
        delta = min(sum(fit.delta for fit in self.fits), LARGEST_DELTA)
        if not bounded:
            return Total(epsilon=None, delta=delta)
        plain = math.fsum(fit.epsilon or 0.0 for fit in self.fits)
        events = [event for fit in self.fits for event in fit.events]
        together = accountant.epsilon(events, delta, "prv" if accountant.is_plain(events) else "rdp")
        return Total(epsilon=min(plain, together), delta=delta)

    def sentence(self, running: str | None = None) -> str:
        """Return the totals in words. `running`: the number of a fit that has just begun and is not unfinished."""
        left = sum(fit.model is None and not fit.ended and fit.number != running for fit in self.fits)
        ended = sum(fit.ended for fit in self.fits)
        facts = [f"{left} unfinished, counted in full"] if left else []
        facts += [f"{ended} ended in an error, counted by what was measured"] if ended else []
        facts += ["this one included"] if running else []
        more = f" ({', '.join(facts)})" if facts else ""
        head = f"Fits on this table: {len(self.fits)}{more}."
        if self.unprotected:
            return f"{head} {self.unprotected} of them added no noise, so no total can be claimed."
        row = self.row()
        patient = self.patient()
        shown = accountant.rounded_up(row.epsilon or 0.0)
        delta = f"{Decimal(f'{row.delta:.3g}'):f}"
        text = f"{head} All of them together cost epsilon {shown} at delta {delta} for one row"
        unfinished = f" ({', '.join(facts)})" if left or ended else ""
        short = f"Fits on this table: {len(self.fits)}{unfinished}; in all epsilon {shown} at delta {delta}"
        if patient.epsilon is not None:
            return Message(f"{text}, and for one patient with all of their rows.", f"{short} for one patient.")
        if self._of_rows < len(self.fits):
            return f"{text}. No total can be claimed for one patient: {self._of_rows} of the fits protect single rows."
        return Message(f"{text}: {SEVERAL_ROWS}.", f"{short} for one row: {SEVERAL_ROWS}.")


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """How a resume continues: as the fit of this `number`. With `anew` it is a new fit.

    `closed`: nothing is reserved for it, and it may draw nothing.
    """

    number: str
    anew: bool
    closed: bool


class Budget:
    """The budget file of one table. Each append is locked, and on disk before the method returns.

    Raises ArtifactError for a file that is damaged or altered, MedsynthError if it cannot be written.
    """

    def __init__(self, path: Path, table: str = "this table") -> None:
        self.path, self._table = path, table
        self._place, self._number, self._attempt = 0, "", ""  # of the fit that this object reserved or resumed last

    @classmethod
    def of(cls, table: Path) -> Budget:
        """Return the budget file next to a table: patients.medsynth-ledger for patients.csv.

        A folder with the files of one table contains its budget file. Then fits of a single file are charged to it too.
        """
        folder = table if os.path.isdir(table) else table.parent
        shared = folder / f"{PARTS}{SUFFIX}"
        return cls(shared if folder is table or shared.exists() else beside(table, SUFFIX), str(table))

    @classmethod
    def on_file(cls, table: Path) -> Budget | None:
        """Return the existing budget file of a table, or of the tables in a folder, or None."""
        places = cls.of(table), cls.of(table / table.name), cls(beside(table, SUFFIX), str(table))
        return next((found for found in places if found.path.exists()), None)

    def reserve(
        self, plan: Plan, *, method: str, noise: bool, number: str | None = None, study: str | None = None
    ) -> str:
        """Put all that `plan` may release on file, before anything is measured. Return the fit's number.

        A site that continues passes its `number`: its reservation is not made twice. If the fit ended in an error, the
        whole plan is put on file again. A site also passes the digest of its `study`.
        """
        found = number or secrets.token_hex(8)
        line = _reservation(found, found, 0, plan, method, noise) | ({} if study is None else {"study": study})
        self._append(lambda fits: None if found in fits and not fits[found].ended else line)
        return found

    def reach(self, count: int) -> None:
        """Write the number of checkpoint records of the fit that this object reserved or resumed last.

        The fit calls this before it uses a record, so that a copy with fewer records cannot pass as the original. The
        count survives the process. Unlike the record, it is not forced to disk.

        Raises MedsynthError if a copy of the checkpoint was resumed since then: that fit has the number now.
        """
        try:
            with self.path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # Locks the file itself, under any of its names.
                file.seek(self._place - len(COUNT))
                if file.read(len(COUNT)) != COUNT:
                    raise ArtifactError(f"{self.path} was altered while a fit was running. Restore it from a copy.")
                _, *later = file.read().splitlines()
                if any(json.loads(line)["fit"] == self._number for line in later):
                    raise MedsynthError(self._taken_over())
                file.seek(self._place)
                file.write(f"{count:0{DIGITS}}".encode())
        except OSError as error:
            raise MedsynthError(f"{self.path} cannot be written ({error.strerror}).") from None

    def _taken_over(self) -> str:
        return (
            f"{self.path.name} shows that a copy of this fit's checkpoint was resumed. That fit has the charge now. "
            "This one stops, and its later measurements are not used."
        )

    def _own(self, fits: Mapping[str, Fit], number: str) -> bool:
        """Return whether the latest attempt of a fit is still the one that this object reserved or resumed."""
        return number != self._number or (number in fits and fits[number].attempt == self._attempt)

    def current(self, attempts: Sequence[str], records: int) -> str | None:
        """Return the number of the fit that a checkpoint with these `attempts` and `records` continues.

        Return None if there is no such fit on file.
        """
        found = _current({fit.number: fit for fit in self._fits(self._read())}, attempts, records)
        return None if found is None else found.number

    def running(self, number: str) -> AbstractContextManager[object]:
        """Lock a fit's number while it runs. Raise MedsynthError if another process runs this fit."""
        return sole_writer(self.path.with_name(f"{self.path.name}.{number}"))

    def resume(
        self, plan: Plan, *, method: str, noise: bool, attempts: Sequence[str], records: int, complete: bool
    ) -> Resumed:
        """Continue the fit of a checkpoint, or put its whole plan on file under a new number.

        `attempts`: the ids in the checkpoint, this resume's last. They must be on disk before the call. `complete`:
        whether the checkpoint's `records` contain all measurements of the plan, so that nothing is drawn. A fit is
        continued if its latest attempt is among `attempts`, it used no more records, and it has no model yet.
        """
        made = list[Resumed]()

        def decide(fits: Mapping[str, Fit]) -> Line | None:
            found = _current(fits, attempts, records)
            own = attempts[-1]
            anew = found is None or (found.model is not None and not complete)
            number = own if found is None or anew else found.number
            closed = found is not None and not anew and (found.stopped or found.model is not None)
            made.append(Resumed(number=number, anew=anew, closed=closed))
            if closed:
                return None
            if anew or (found is not None and found.ended):
                return _reservation(number, own, records, plan, method, noise)
            return {"fit": number, "state": "resumed", "attempt": own, "reached": f"{records:0{DIGITS}}"}

        self._append(decide)
        return made[0]

    def settle(self, number: str, model: str) -> None:
        """Record the model file of a reserved fit, once it is saved. Raise MedsynthError if a copy was resumed."""

        def decide(fits: Mapping[str, Fit]) -> Line:
            if not self._own(fits, number):
                raise MedsynthError(self._taken_over())
            return {"fit": number, "state": "settled", "model": model}

        self._append(decide)

    def cancel(self, number: str) -> None:
        """Take back a reservation without any measurement. Call it only while the fit's ledger is empty."""
        self._append(lambda fits: {"fit": number, "state": "cancelled"} if self._own(fits, number) else None)

    def end(self, number: str, charged: Sequence[tuple[Event, int]], *, stopped: bool = False) -> None:
        """Count a reserved fit that ended in an error by what it was `charged`, and no longer by its whole plan.

        Call it only if the fit can measure nothing more, and made all of its measurements in this process. Charges
        come before draws, so the file never shows less than was released. The moment at which a fit ends may depend on
        its measurements. Gaussian measurements of all rows still add up by their squared mu. No such sum is proven for
        others, so the whole plan stays on file. `stopped`: no resume can continue the fit.
        """
        if charged and not all(isinstance(event, Gaussian) for event, _ in charged):
            return
        events = [[to_json(event), times] for event, times in charged]
        line = {"fit": number, "state": "ended", "events": events, "stopped": stopped}
        self._append(lambda fits: line if self._own(fits, number) else None)

    def opened(self, number: str, process: str, answers: int) -> None:
        """From now on, let only one process send the answers of a reserved fit at a site.

        Args:
            number: the fit's number.
            process: the id of the process.
            answers: the number of answers in its checkpoint.

        Raises MedsynthError if more have left the site: the checkpoint is an old copy, and would draw some twice.
        """
        line = {"fit": number, "state": "opened", "process": process, "answers": answers}
        self._append(lambda fits: line)

    def answered(self, number: str, process: str, answers: int) -> None:
        """Count the answers that have left the site of a fit, including the one that is sent next.

        Call it when that answer is in the checkpoint, before it is sent. Raises MedsynthError if another process has
        opened the fit since then: a copy of the checkpoint may have sent it.
        """
        line = {"fit": number, "state": "answered", "process": process, "answers": answers}
        self._append(lambda fits: line)

    def spent(self) -> Spent:
        """Return all fits on file. Raise MedsynthError if there is no budget file."""
        if not self.path.exists():
            raise MedsynthError(f"There is no {self.path}, so no fit on {self._table} is on file.")
        return Spent(fits=tuple(self._fits(self._read())), path=self.path)

    def _append(self, decide: Callable[[Mapping[str, Fit]], Line | None]) -> None:
        """Append the line that `decide` makes from all fits by number, while no other process writes.

        The line is on disk when this returns. None appends nothing.
        """
        if not self.path.parent.is_dir():
            raise MedsynthError(f"{self.path} cannot be written: there is no such folder. Create it first.")
        try:
            lock = FileLock(self.path.with_name(self.path.name + ".lock"), timeout=LOCK_SECONDS, mode=0o600)
            with lock, os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # The file may have other names, each with its own lock.
                content = self._read()
                line = decide({fit.number: fit for fit in self._fits(content)})
                if line is None:
                    return
                added = json.dumps(line).encode() + b"\n"
                self._fits(content + added)  # refuses a line that contradicts the file before it is written
                if COUNT in added:
                    self._place = len(content) + added.find(COUNT) + len(COUNT)
                    self._number, self._attempt = str(line["fit"]), str(line["attempt"])
                file.truncate(len(content))  # drops a line that a crash cut off: its fit never began
                file.seek(0, os.SEEK_END)
                file.write(added)
                file.flush()
                os.fsync(file.fileno())
        except Timeout:
            raise MedsynthError(f"{self.path} is locked by another fit. Try again when that fit has ended.") from None
        except OSError as error:
            raise MedsynthError(
                f"{self.path} cannot be written ({error.strerror}). A fit must record there what it spends."
            ) from None

    def _read(self) -> bytes:
        """Return the complete lines on file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise ArtifactError(f"{self.path} cannot be read ({error.strerror}).") from None
        return content[: content.rfind(b"\n") + 1]

    def _fits(self, content: bytes) -> list[Fit]:
        """Return the fits in these lines, without those that were cancelled."""
        fits: dict[str, Fit] = {}
        try:
            for text in content.decode().splitlines():
                line = json.loads(text)
                if "fit" not in line and "ledger" in line:
                    raise ArtifactError(f"{self.path} was written by another version of medsynth. Keep it as a record.")
                number = str(line["fit"])
                state = line["state"]
                if state == "reserved" and (number not in fits or fits[number].ended):
                    answers = fits[number].answers if number in fits else 0
                    fits[number] = replace(_reserved(number, line), answers=answers)
                elif state in ("opened", "answered") and number in fits and not fits[number].ended:
                    fits[number] = self._at_a_site(fits[number], line)
                elif state == "resumed" and number in fits and not fits[number].ended and fits[number].model is None:
                    reached = int(line["reached"])
                    fits[number] = replace(fits[number], attempt=str(line["attempt"]), reached=reached)
                elif state == "ended" and number in fits and not fits[number].ended and fits[number].model is None:
                    stopped = line.get("stopped") is True
                    fits[number] = replace(fits[number], events=_part(fits[number], line), ended=True, stopped=stopped)
                elif state == "settled" and number in fits and not fits[number].ended:
                    name = str(line["model"])
                    fit = fits[number]
                    fits[number] = replace(fit, model=name, models=(*fit.models, name))
                elif state == "cancelled" and number in fits and fits[number].model is None and not fits[number].ended:
                    del fits[number]
                else:
                    raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BudgetError):
            raise ArtifactError(
                f"{self.path} is damaged or was altered. Restore it from a copy: it is the only record of the total."
            ) from None
        return list(fits.values())

    def _at_a_site(self, fit: Fit, line: dict[str, Any]) -> Fit:
        """Return a fit at a site after a line about its answers. Raise MedsynthError if a copy has answered."""
        process = str(line["process"])
        answers = line["answers"]
        if type(answers) is not int:
            raise ValueError
        if answers < fit.answers or (line["state"] == "answered" and process != fit.process):
            raise MedsynthError(
                f"{self.path} counts answers that this site's checkpoint lacks, or another process that answers. So "
                "there is a copy of the checkpoint. Continue with the latest one, or start again with `force`, which "
                "charges the whole plan once more."
            )
        return replace(fit, answers=answers if line["state"] == "answered" else fit.answers, process=process)


def _current(fits: Mapping[str, Fit], attempts: Sequence[str], records: int) -> Fit | None:
    """Return the fit whose latest attempt is among `attempts`, if it has used no more than `records`.

    If there are several, return the one that was reserved or resumed last.
    """
    by = {fit.attempt: fit for fit in fits.values() if fit.reached <= records}
    return next((by[attempt] for attempt in reversed(attempts) if attempt in by), None)


def _reservation(number: str, attempt: str, records: int, plan: Plan, method: str, noise: bool) -> Line:
    """Return the line that reserves all that `plan` may release."""
    return {
        "fit": number,
        "state": "reserved",
        "attempt": attempt,
        "reached": f"{records:0{DIGITS}}",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": method,
        "max_rows": plan.max_rows,
        "one_row_a_patient": plan.one_row_a_patient,
        "noise": noise,
        "delta": plan.delta,
        "accountant": plan.accountant,
        "events": [[to_json(event), times] for event, times in plan.events.values()],
    }


def _events(line: dict[str, Any]) -> tuple[tuple[Event, int], ...]:
    """Return the events of a line. Raise ValueError, KeyError, TypeError or BudgetError if it has none."""
    events = tuple((from_json(event), times) for event, times in line["events"])
    if not events or not all(type(times) is int and times > 0 for _, times in events):
        raise ValueError
    return events


def _part(fit: Fit, line: dict[str, Any]) -> tuple[tuple[Event, int], ...]:
    """Return the events of an `ended` line, a part of those reserved. Raise as `_events` does."""
    charged, planned = Counter[Event](), Counter[Event]()
    for counts, events in ((charged, _events(line)), (planned, fit.events)):
        for event, times in events:
            counts[event] += times
    if not charged <= planned:
        raise ValueError
    return _events(line)


def _reserved(number: str, line: dict[str, Any]) -> Fit:
    """Return the fit of a `reserved` line. Raise ValueError, KeyError, TypeError or BudgetError for other lines."""
    max_rows, delta, noise = line["max_rows"], line["delta"], line["noise"]
    known = line["accountant"] in ("prv", "rdp") and type(noise) is bool and isinstance(delta, float) and 0 < delta < 1
    one_row = line.get("one_row_a_patient", False)  # files of earlier versions do not say it
    known &= type(one_row) is bool and not (one_row and max_rows is not None)
    if not (known and (max_rows is None or (type(max_rows) is int and max_rows > 0))):
        raise ValueError
    return Fit(
        number=number,
        attempt=str(line.get("attempt", number)),
        reached=int(line.get("reached", 0)),
        started=str(line["started"]),
        method=str(line["method"]),
        max_rows=max_rows,
        one_row_a_patient=one_row,
        noise=noise,
        delta=delta,
        accountant=line["accountant"],
        events=_events(line),
        study=None if line.get("study") is None else str(line["study"]),
    )
