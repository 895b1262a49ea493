"""What all fits on one table have spent together: a file beside the table, reserved before the first measurement.

Each fit appends two lines: `reserved`, with all that its plan may release, before anything is measured; and `settled`,
once its model stands. A fit that is killed in between stays on file in full. One that ends in an error is `ended`, with
what it was charged until then, if all of that is plain Gaussian.

A resume appends `resumed` and keeps the number, so that the fit is counted once. Each start and each resume has an
attempt id, in the checkpoint first and then here; its line also counts the checkpoint's records while the fit runs. A
checkpoint goes on with the fit whose latest attempt it has, if no record is missing. Copies that do not are fits of
their own (docs/decisions/0060). Epsilon is never stored: it is computed from the events. No cell of the table is in
the file.
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
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import ArtifactError, BudgetError, MedsynthError
from .io.atomic import sole_writer
from .io.formats import beside
from .privacy.accounting import accountant
from .privacy.accounting.calibration import Plan
from .privacy.accounting.events import Event, Gaussian, from_json, rows_of, to_json

SUFFIX = ".medsynth-ledger"
PARTS = "all-parts"  # names the budget file of a folder whose files are one table
LOCK_SECONDS = 60.0  # how long a fit waits for others that write to the same file
LARGEST_DELTA = 0.999
DIGITS = 10  # of the count of records in a line, which is written over while the fit runs
COUNT = b'"reached": "'  # what stands before it
Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One fit on file. `max_rows`: rows of a patient where the patient is the privacy unit; None for single rows.

    `noise`: whether privacy noise was added. `model`: the model file's name, None until the fit is settled. `ended`:
    whether it ended in an error, so that `events` are what it was charged and not its whole plan. `stopped`: whether
    no resume can go on with it. `attempt`: the id of the latest start or resume; `reached`: how many records its
    checkpoint had when the latest one was used. `models`: all names that its model was given, if a checkpoint that
    holds all of it was resumed. `study`: the digest of a federated study, of which this is the part at one site;
    `answers`: how many answers have left that site; `process`: the one that may send more.
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

    @property
    def epsilon(self) -> float | None:
        """What the fit costs at its delta, computed from its events; None where no noise was added."""
        return accountant.epsilon(self.events, self.delta, self.accountant) if self.noise else None

    def describe(self) -> dict[str, object]:
        """The fit as plain data, for people and JSON."""
        return {
            "model": self.model or ("(ended in an error)" if self.ended else "(unfinished)"),
            "started": self.started,
            "method": self.method,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": "row" if self.max_rows is None else f"patient, up to {rows_of(self.max_rows)}",
        }


@dataclass(frozen=True, kw_only=True)
class Total:
    """What some fits cost together: `epsilon` at `delta`; None where some of them bound nothing for the unit."""

    epsilon: float | None
    delta: float


@dataclass(frozen=True, kw_only=True)
class Spent:
    """All fits on a table, in the order in which they were reserved. `path`: of the file that lists them."""

    fits: tuple[Fit, ...]
    path: Path = Path()

    @property
    def unprotected(self) -> int:
        """How many fits added no noise: no number bounds what these gave away."""
        return sum(not fit.noise for fit in self.fits)

    @property
    def unfinished(self) -> int:
        """How many fits were reserved and neither settled nor ended. They count in full."""
        return sum(fit.model is None and not fit.ended for fit in self.fits)

    def row(self) -> Total:
        """The total for one row. A fit that protects whole patients protects each of their rows as well."""
        return self._total(all(fit.noise for fit in self.fits))

    def patient(self) -> Total:
        """The total for one patient with all of their rows: a number only where every fit protects patients."""
        return self._total(all(fit.noise and fit.max_rows is not None for fit in self.fits))

    def of_study(self, study: str) -> tuple[Fit, ...]:
        """Return the fits of one federated study: more than one where its site has started again."""
        return tuple(fit for fit in self.fits if fit.study == study)

    def _total(self, bounded: bool) -> Total:
        """By plain sums, which hold for any mechanisms, or composed at the summed delta, if smaller: by the exact curve
        where there is one, else by Renyi composition.
        """
        delta = min(sum(fit.delta for fit in self.fits), LARGEST_DELTA)
        if not bounded:
            return Total(epsilon=None, delta=delta)
        plain = math.fsum(fit.epsilon or 0.0 for fit in self.fits)
        events = [event for fit in self.fits for event in fit.events]
        together = accountant.epsilon(events, delta, "prv" if accountant.is_plain(events) else "rdp")
        return Total(epsilon=min(plain, together), delta=delta)

    def sentence(self, running: str | None = None) -> str:
        """The totals in words. `running`: the number of a fit that has just begun, which is no unfinished one."""
        left = sum(fit.model is None and not fit.ended and fit.number != running for fit in self.fits)
        ended = sum(fit.ended for fit in self.fits)
        facts = [f"{left} unfinished, counted in full"] if left else []
        facts += [f"{ended} ended in an error, counted by what was measured"] if ended else []
        facts += ["with this one"] if running else []
        more = f" ({', '.join(facts)})" if facts else ""
        head = f"Fits on this table so far: {len(self.fits)}{more}."
        if self.unprotected:
            return f"{head} {self.unprotected} of them added no noise: no total can be claimed."
        row, patient = self.row(), self.patient()
        single = sum(fit.max_rows is None for fit in self.fits)
        shown = accountant.rounded_up(row.epsilon or 0.0)
        text = f"{head} Together, if all of their models were released: ({shown}, {row.delta:.3g})-"
        text += "differential privacy for one row"
        if patient.epsilon is not None:
            return f"{text}, and for one patient with all of their rows."
        if single < len(self.fits):
            return f"{text}. For one patient no total can be claimed: {single} of the fits protect single rows."
        return f"{text}. A person with several rows is protected less."


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """How a resume goes on: as the fit of that `number`, which is a new one if it is reserved `anew`.

    `closed`: nothing is reserved for it, and it may draw nothing.
    """

    number: str
    anew: bool
    closed: bool


class Budget:
    """The budget file of one table. Appends are locked and on disk before a method returns.

    Raises ArtifactError for a file that is damaged or altered, MedsynthError where it cannot be written.
    """

    def __init__(self, path: Path, table: str = "this table") -> None:
        self.path, self._table = path, table
        self._place, self._number, self._attempt = 0, "", ""  # of the fit that was reserved or resumed last here

    @classmethod
    def of(cls, table: Path) -> Budget:
        """The budget file beside a table: patients.csv has patients.medsynth-ledger.

        A folder of a table's files has one in it. Once that is there, fits of a single file are charged to it too.
        """
        folder = table if os.path.isdir(table) else table.parent
        shared = folder / f"{PARTS}{SUFFIX}"
        return cls(shared if folder is table or shared.exists() else beside(table, SUFFIX), str(table))

    @classmethod
    def on_file(cls, table: Path) -> Budget | None:
        """The budget file of a table, or of the tables in a folder, where there is one."""
        places = cls.of(table), cls.of(table / table.name), cls(beside(table, SUFFIX), str(table))
        return next((found for found in places if found.path.exists()), None)

    def reserve(
        self, plan: Plan, *, method: str, noise: bool, number: str | None = None, study: str | None = None
    ) -> str:
        """Put all that `plan` may release on file, before anything is measured. Returns the fit's number.

        A site that goes on gives its `number`: a reservation that stands already is not made twice, but where the fit
        ended in an error the whole plan is put on file again. A site gives the digest of its `study`.
        """
        found = number or secrets.token_hex(8)
        line = _reservation(found, found, 0, plan, method, noise) | ({} if study is None else {"study": study})
        self._append(lambda fits: None if found in fits and not fits[found].ended else line)
        return found

    def reach(self, count: int) -> None:
        """Note how many records the checkpoint of the fit that was reserved or resumed last here has.

        The fit calls it for each record, before that is used: a copy with fewer records is not taken for the original.
        The count survives the process. It is not forced to the disk, which the record itself is.

        Raises MedsynthError if the fit was resumed from a copy since: that one has the number now.
        """
        try:
            with self.path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # Of the file itself, by whatever name it was opened.
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
            f"A copy of this fit's checkpoint was resumed meanwhile, by {self.path.name}: that fit has the charge now. "
            "This one is stopped, and what it measured since is not used."
        )

    def _own(self, fits: Mapping[str, Fit], number: str) -> bool:
        """Whether the latest attempt of a fit is still the one that was reserved or resumed here."""
        return number != self._number or (number in fits and fits[number].attempt == self._attempt)

    def current(self, attempts: Sequence[str], records: int) -> str | None:
        """Return the number of the fit that a checkpoint with these `attempts` and `records` goes on with.

        None if it has none here.
        """
        found = _current({fit.number: fit for fit in self._fits(self._read())}, attempts, records)
        return None if found is None else found.number

    def running(self, number: str) -> AbstractContextManager[object]:
        """Hold a fit's number while it runs. Raises MedsynthError if another process runs this fit."""
        return sole_writer(self.path.with_name(f"{self.path.name}.{number}"))

    def resume(
        self, plan: Plan, *, method: str, noise: bool, attempts: Sequence[str], records: int, complete: bool
    ) -> Resumed:
        """Go on with the fit of a checkpoint, or put its whole plan on file under a new number.

        `attempts`: the ids in the checkpoint, this resume's last; they must be on disk there before this is called.
        `complete`: whether all measurements of the plan are among its `records`, so that nothing is drawn. It goes on
        with a fit whose latest attempt is among `attempts`, which has used no more records, and has no model yet.
        """
        made = list[Resumed]()

        def decide(fits: Mapping[str, Fit]) -> Line | None:
            found, own = _current(fits, attempts, records), attempts[-1]
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
        """Name the model file of a reserved fit, once it stands. Raises MedsynthError if a copy was resumed since."""

        def decide(fits: Mapping[str, Fit]) -> Line:
            if not self._own(fits, number):
                raise MedsynthError(self._taken_over())
            return {"fit": number, "state": "settled", "model": model}

        self._append(decide)

    def cancel(self, number: str) -> None:
        """Take a reservation back of which nothing was measured. Call it only while the fit's ledger is empty."""
        self._append(lambda fits: {"fit": number, "state": "cancelled"} if self._own(fits, number) else None)

    def end(self, number: str, charged: Sequence[tuple[Event, int]], *, stopped: bool = False) -> None:
        """Count a reserved fit that ended in an error by what it was `charged`, and no longer by its whole plan.

        Call it only once the fit can measure nothing more, and where it has measured all that it ever has in this
        process: charges come before draws, so that no less is on file than was released. When a fit ends may depend on
        what it measured. Gaussian measurements of all rows add up then too, by their squared mu; for others no such
        sum is proven, and the whole plan stays on file. `stopped`: no resume can go on with the fit.
        """
        if charged and not all(isinstance(event, Gaussian) for event, _ in charged):
            return
        events = [[to_json(event), times] for event, times in charged]
        line = {"fit": number, "state": "ended", "events": events, "stopped": stopped}
        self._append(lambda fits: line if self._own(fits, number) else None)

    def opened(self, number: str, process: str, answers: int) -> None:
        """Let one process send the answers of a reserved fit at a site, and no other from now on.

        Args:
            number: the fit's.
            process: what identifies the process.
            answers: how many its checkpoint holds.

        Raises MedsynthError if more have left the site: the checkpoint is an old copy, and would draw some twice.
        """
        line = {"fit": number, "state": "opened", "process": process, "answers": answers}
        self._append(lambda fits: line)

    def answered(self, number: str, process: str, answers: int) -> None:
        """Count the answers that have left the site of a fit, with the one that leaves next.

        Call it once that answer is in the checkpoint, before it is sent. Raises MedsynthError if another process has
        opened the fit since: a copy of the checkpoint may have sent it.
        """
        line = {"fit": number, "state": "answered", "process": process, "answers": answers}
        self._append(lambda fits: line)

    def spent(self) -> Spent:
        """All fits on file. Raises MedsynthError where there is none."""
        if not self.path.exists():
            raise MedsynthError(f"There is no {self.path}: no fit on {self._table} is on file.")
        return Spent(fits=tuple(self._fits(self._read())), path=self.path)

    def _append(self, decide: Callable[[Mapping[str, Fit]], Line | None]) -> None:
        """One line more, on disk when this returns: what `decide` makes of all fits by number, while none else writes.

        None adds nothing.
        """
        if not self.path.parent.is_dir():
            raise MedsynthError(f"{self.path} cannot be written: there is no such folder.")
        try:
            lock = FileLock(self.path.with_name(self.path.name + ".lock"), timeout=LOCK_SECONDS, mode=0o600)
            with lock, os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # The file may have other names, each with a lock of its own.
                content = self._read()
                line = decide({fit.number: fit for fit in self._fits(content)})
                if line is None:
                    return
                added = json.dumps(line).encode() + b"\n"
                self._fits(content + added)  # a line that contradicts the file is refused before it is written
                if COUNT in added:
                    self._place = len(content) + added.find(COUNT) + len(COUNT)
                    self._number, self._attempt = str(line["fit"]), str(line["attempt"])
                file.truncate(len(content))  # a line that a crash cut off reserved nothing: its fit never began
                file.seek(0, os.SEEK_END)
                file.write(added)
                file.flush()
                os.fsync(file.fileno())
        except Timeout:
            raise MedsynthError(f"{self.path} is locked by another fit. Try again once that has ended.") from None
        except OSError as error:
            raise MedsynthError(
                f"{self.path} cannot be written ({error.strerror}): what is spent must stand there."
            ) from None

    def _read(self) -> bytes:
        """The whole lines on file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise ArtifactError(f"{self.path} cannot be read ({error.strerror}).") from None
        return content[: content.rfind(b"\n") + 1]

    def _fits(self, content: bytes) -> list[Fit]:
        """The fits that the lines tell of, without those that were cancelled."""
        fits: dict[str, Fit] = {}
        try:
            for text in content.decode().splitlines():
                line = json.loads(text)
                if "fit" not in line and "ledger" in line:
                    raise ArtifactError(f"{self.path} was written by another version of medsynth. Keep it as a record.")
                number, state = str(line["fit"]), line["state"]
                if state == "reserved" and (number not in fits or fits[number].ended):
                    fits[number] = replace(_reserved(number, line), answers=_answers(fits, number))
                elif state in ("opened", "answered") and number in fits and not fits[number].ended:
                    fits[number] = self._at_a_site(fits[number], line)
                elif state == "resumed" and number in fits and not fits[number].ended and fits[number].model is None:
                    reached = int(line["reached"])
                    fits[number] = replace(fits[number], attempt=str(line["attempt"]), reached=reached)
                elif state == "ended" and number in fits and not fits[number].ended and fits[number].model is None:
                    stopped = line.get("stopped") is True
                    fits[number] = replace(fits[number], events=_part(fits[number], line), ended=True, stopped=stopped)
                elif state == "settled" and number in fits and not fits[number].ended:
                    name, fit = str(line["model"]), fits[number]
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
        """Return a fit at a site after a line of its answers. Raises MedsynthError where a copy has answered."""
        process, answers = str(line["process"]), line["answers"]
        if type(answers) is not int:
            raise ValueError
        if answers < fit.answers or (line["state"] == "answered" and process != fit.process):
            raise MedsynthError(
                f"{self.path} counts answers of this site that its checkpoint lacks, or another process that answers: "
                "there is a copy of the checkpoint. Go on with the latest one, or start anew with `force`, which "
                "charges the whole plan again."
            )
        return replace(fit, answers=answers if line["state"] == "answered" else fit.answers, process=process)


def _current(fits: Mapping[str, Fit], attempts: Sequence[str], records: int) -> Fit | None:
    """The fit whose latest attempt is among `attempts`, if it has used no more than `records`.

    Of several, it is the one that was reserved or resumed last.
    """
    by = {fit.attempt: fit for fit in fits.values() if fit.reached <= records}
    return next((by[attempt] for attempt in reversed(attempts) if attempt in by), None)


def _reservation(number: str, attempt: str, records: int, plan: Plan, method: str, noise: bool) -> Line:
    """The line that puts all that `plan` may release on file."""
    return {
        "fit": number,
        "state": "reserved",
        "attempt": attempt,
        "reached": f"{records:0{DIGITS}}",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": method,
        "max_rows": plan.max_rows,
        "noise": noise,
        "delta": plan.delta,
        "accountant": plan.accountant,
        "events": [[to_json(event), times] for event, times in plan.events.values()],
    }


def _events(line: dict[str, Any]) -> tuple[tuple[Event, int], ...]:
    """The events of a line. Raises ValueError, KeyError, TypeError or BudgetError where it holds none."""
    events = tuple((from_json(event), times) for event, times in line["events"])
    if not events or not all(type(times) is int and times > 0 for _, times in events):
        raise ValueError
    return events


def _part(fit: Fit, line: dict[str, Any]) -> tuple[tuple[Event, int], ...]:
    """The events of an ending line, which are a part of those reserved. Raises as `_events` does."""
    charged, planned = Counter[Event](), Counter[Event]()
    for counts, events in ((charged, _events(line)), (planned, fit.events)):
        for event, times in events:
            counts[event] += times
    if not charged <= planned:
        raise ValueError
    return _events(line)


def _answers(fits: dict[str, Fit], number: str) -> int:
    """Return the answers that have left the site of a fit so far."""
    return fits[number].answers if number in fits else 0


def _reserved(number: str, line: dict[str, Any]) -> Fit:
    """The fit of a reserving line. Raises ValueError, KeyError, TypeError or BudgetError where it is none."""
    max_rows, delta, noise = line["max_rows"], line["delta"], line["noise"]
    known = line["accountant"] in ("prv", "rdp") and type(noise) is bool and isinstance(delta, float) and 0 < delta < 1
    if not (known and (max_rows is None or (type(max_rows) is int and max_rows > 0))):
        raise ValueError
    return Fit(
        number=number,
        attempt=str(line.get("attempt", number)),
        reached=int(line.get("reached", 0)),
        started=str(line["started"]),
        method=str(line["method"]),
        max_rows=max_rows,
        noise=noise,
        delta=delta,
        accountant=line["accountant"],
        events=_events(line),
        study=None if line.get("study") is None else str(line["study"]),
    )
