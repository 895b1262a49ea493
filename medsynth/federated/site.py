"""A site of a federated fit: its table, vault, ledger, checkpoint, budget file and log. It answers bytes with bytes.

The server is an adversary: it may ask for anything. A site answers what its own plan holds, at its own plan's noise,
once; the same request again gets the same bytes. All else is refused, and leaves a line in the site's log.

A site decides by public facts alone whether it answers: the study, its plan, the request, and what it was asked before.
After that it reads rows, and one kind of reply is left: numbers of a fixed form, with their noise. A row on which a
query fails adds nothing to them (`privacy/queries/query.py`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import rng
from ..budget import Budget
from ..errors import BudgetError, MedsynthError, QueryError, UsageError, did_you_mean
from ..fitting.private_rows import coded, codes_of, vault_of
from ..fitting.private_table import open_table
from ..fitting.settings import Notice, TableSettings
from ..io.table import Table
from ..methods.gs_wgan import GRADIENTS
from ..privacy.accounting.ledger import Ledger
from ..privacy.queries.noising import NoiseShare, Noising, Unnoised, WholeNoise, from_words
from ..privacy.queries.query import RowQuery
from ..privacy.release import Releases
from ..schema.codec import encode
from .critics import SiteCritics, Step
from .derivation import Derived, derived, digest_of, with_numbers
from .masks import SecretKey, masked, new_nonce
from .rounds import Asked, Rounds
from .study import FORMAT, Study
from .transport import arrays_of, body_of, digest, grouped, packed, request

COULD_NOT = "This site could not answer. Its log says more."


class Refused(MedsynthError):
    """What a site does not answer, and why: no word of it depends on a row."""


class Site:
    """One site's rows behind its own vault, for one study that whoever starts it has agreed to.

    table: a CSV or Parquet file, next to which its budget file lies; folder: where checkpoint and log go; key: the
    site's secret key, for a secure sum. `resume` goes on with what a site that was killed has answered. A site that
    starts again without its checkpoint gives `notice`: it draws a new nonce and reserves the whole plan once more.
    Raises TableError or SchemaError for a table that does not meet the study's schema, before anything is reserved;
    UsageError if the study does not name the site, the key is not the study's, or the checkpoint is an old copy.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        table: Path | Table,
        folder: Path,
        *,
        key: SecretKey | None = None,
        encoding: str | None = None,
        resume: bool = False,
        notice: Notice = lambda text: None,
    ) -> None:
        self.study, self.name, self._digest = study, name, study.digest
        self._key = check_key(study, name, key)
        self._plan = study.plan()
        entropy = rng.system_entropy()
        private = open_table(table, TableSettings(schema=study.table_schema, encoding=encoding), notice)
        core = study.table_schema.core
        # In the study's order, whatever the table's is.
        codes = coded(private.data, lambda data: encode(data, core), codes_of(core), folder)
        stay, units = private.bounded_rows(entropy)
        checkpoint, self._log = files_of(study, name, folder)
        facts = {"study": self._digest, "site": name, "noise": entropy.source, **private.facts()}
        self._rounds = Rounds(checkpoint, facts, resume=resume)
        self._ledger = self._plan.ledger(entropy.source)
        self._rounds.charge_again(self._ledger)
        noising: dict[str, Noising] = {"none": WholeNoise(), "server": Unnoised()}
        self._vault = vault_of(
            codes, core.names, stay, Releases(self._ledger, entropy, self._rounds), units,
            noising.get(study.trust) or NoiseShare(study.honest),
        )  # fmt: skip
        self._critics = SiteCritics(study, self._plan, self._vault, self._rounds)
        self._latest: tuple[str, Derived] | None = None  # derived last, and from what
        path = table if isinstance(table, Path) else Path(table.where)
        self._budget, self._number = Budget.of(path), f"{self._rounds.seed:014x}"
        self._process, self._opened, self._lock = new_nonce(), False, threading.Lock()
        self._counted = self._known_starts(notice)

    def _known_starts(self, notice: Notice) -> int:
        """Return how many answers of this start the budget file counts, and report earlier starts.

        Raises UsageError if it counts more than the checkpoint holds: the rest would be drawn twice for one charge.
        """
        fits = self._budget.spent().of_study(self._digest) if self._budget.path.exists() else ()
        counted = max((fit.answers for fit in fits if fit.number == self._number), default=0)
        if counted > len(self._rounds.answers) and not self._rounds.finished:
            raise UsageError(
                f"{self._rounds.path} is an old copy: {self._budget.path} counts more answers than it holds. Go on "
                "with the latest checkpoint, or start anew with `force`, which charges the whole plan again."
            )
        if earlier := sum(fit.number != self._number for fit in fits):
            text = (
                f"This site starts the study {self.study.name!r} again: {earlier} earlier start{'s' * (earlier > 1)}. "
                f"What was charged then stays in {self._budget.path}. The first answer charges the whole plan again. "
                "A run of the server that knows an earlier start ends with an error."
            )
            notice(text)
            self._note(text)
        return counted

    @property
    def ledger(self) -> Ledger:
        """What this site was charged."""
        return self._ledger

    @property
    def finished(self) -> bool:
        """Whether the study has ended here."""
        return self._rounds.finished

    def answer(self, message: bytes) -> bytes:
        """The answer to a message, or a refusal with its reason. It never raises."""
        with self._lock:
            try:
                return self._answered(message)
            except (Refused, QueryError, BudgetError) as error:
                why = logged = str(error)
            except MedsynthError as error:  # of the site's own files, whose names are not for the server
                why, logged = COULD_NOT, str(error)
            except Exception:  # a fault over the request, or of the machine: its words and its kind stay here
                why = logged = COULD_NOT
            self._note(f"refused: {logged}")
            return packed({"format": FORMAT, "status": "refused", "why": why})

    def _answered(self, message: bytes) -> bytes:
        """Raises MedsynthError for what is refused."""
        head, body = request(message)
        if head["format"] != FORMAT or head["study"] != self._digest:
            raise Refused("The message is of another study, or of another version of medsynth.")
        if self._rounds.finished and head["kind"] != "finish":
            raise Refused("The study has ended at this site.")
        if not isinstance(head["run"], str) or self._rounds.run not in (None, head["run"]):
            raise Refused("The message is of another run: this site has begun to answer one, and answers no other.")
        if head["kind"] == "measure":
            return self._measured(head, body, digest(message))
        return self._joined() if head["kind"] == "join" else self._finished()

    def _joined(self) -> bytes:
        nonce = self._rounds.join()
        self._note("joined")
        return self._reply(source=self._ledger.random_source, nonce=nonce)

    def _reply(self, body: bytes = b"", **more: str) -> bytes:
        return packed({"format": FORMAT, "status": "answered", "site": self.name, **more}, body)

    def _measured(self, head: dict[str, Any], body: bytes, key: str) -> bytes:
        """The answer of a measurement, from the checkpoint where it was given before."""
        number, label, among = head["number"], head["label"], head["among"]
        self._check_sites(among)
        stored = self._rounds.answers.get(number)
        if stored is None:
            asked = self._checked(head, body)
            kept = asked.kept if isinstance(asked, Step) else ()
            query = asked.query if isinstance(asked, Step) else asked
            self._rounds.asked = Asked(number, key, query.sensitivity(self._vault.max_rows), kept)
            self._rounds.bind(head["run"], among)  # on file, with the number that the budget file knows this fit by
            self._open()
            self._draw(label, asked)
            stored = self._rounds.answers[number]
        elif stored.digest != key:
            raise Refused(f"Measurement {number} was answered before, to another request.")
        self._count()
        self._note(f"answered {number}: {label}")
        if self.study.trust == "none":
            return self._reply(body_of(stored.arrays))
        words: list[Any] = from_words(stored.arrays)
        if self._key is not None:
            words = masked(words, self._key, self.study, self.name, among, key)
        return self._reply(body_of(words))

    def _check_sites(self, among: Mapping[str, str]) -> None:
        """Raises Refused unless these are enough sites of the study, each with the nonce that it has in this run."""
        if not (len(among) >= self.study.minimum and set(among) <= set(self.study.sites) and self.name in among):
            raise Refused("The sites that are named are not enough of the study's, or this is not one of them.")
        if among[self.name] != self._rounds.nonce:
            raise Refused(
                "The request does not carry this site's current nonce: the site has started again since it joined. "
                "Start it with `resume` and the checkpoint that it had. If that is gone, start all sites and the fit "
                "with `force`: each site charges the whole plan again."
            )
        if any(self._rounds.nonces.get(name, nonce) != nonce for name, nonce in among.items()):
            raise Refused(
                "A site has another nonce than before: it has started again in mid-run. Begin anew with `force`."
            )

    def _open(self) -> None:
        """Put the whole plan on file, unless it is there already, and that this process alone answers from now on."""
        if not self._opened:
            study, method = self._digest, self.study.method
            self._budget.reserve(self._plan, method=method, noise=True, number=self._number, study=study)
            self._budget.opened(self._number, self._process, len(self._rounds.answers))
            self._opened = True

    def _draw(self, label: str, asked: RowQuery[Any] | Step) -> None:
        """Charge a measurement, draw it and put it on file. No warning that a row might cause is printed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(asked, Step):
                self._critics.release(label, asked)
            else:
                self._vault.release(label, asked)

    def _count(self) -> None:
        """Count the answers on file, before the latest leaves. Raises MedsynthError if a copy of this site sent it."""
        if len(self._rounds.answers) > self._counted:
            self._open()
            self._budget.answered(self._number, self._process, len(self._rounds.answers))
            self._counted = len(self._rounds.answers)

    def _checked(self, head: dict[str, Any], body: bytes) -> RowQuery[Any] | Step:
        """What the study's fit measures next. Raises MedsynthError where the request means something else."""
        number, label = head["number"], head["label"]
        if number <= max(self._rounds.answers, default=-1):
            raise Refused("Measurements are numbered, and this number is past.")
        if number >= sum(times for _, times in self._plan.events.values()):
            raise Refused("The plan holds fewer measurements than this number.")
        if self._ledger.times_measured(label) >= self._ledger.allowance.get(label, (None, 0))[1]:
            raise Refused("The plan holds no measurement of this label, or no further one.")
        arrays = arrays_of(body)
        releases = grouped(arrays, head["releases"])
        own, numbers = self._derived(head["seed"], releases), arrays[sum(head["releases"]) :]
        asked: RowQuery[Any] | Step
        if label == GRADIENTS:
            asked = self._critics.read(own, numbers, head["seed"], releases)
        else:
            asked = with_numbers(own, label, numbers)
        query = asked.query if isinstance(asked, Step) else asked
        if digest_of(query) != head["query"]:
            raise Refused(
                "The server means another query than this site derives from the study and the releases: their versions "
                "of Python packages or their machines differ."
            )
        if self.study.trust != "server" and not query.adds_up:
            raise Refused("The query is not a sum over rows.")
        return asked

    def _derived(self, seed: int, releases: Sequence[Sequence[Any]]) -> Derived:
        """What the study's fit measures after these releases: derived once for all steps of a network."""
        key = digest_of([seed, releases])
        if self._latest is None or self._latest[0] != key:
            self._latest = key, derived(self.study, self._plan, seed, releases)
        return self._latest[1]

    def _finished(self) -> bytes:
        """End the study here: nothing is answered any more, and the budget file holds what was charged."""
        if not self._rounds.finished:
            if self._rounds.answers:
                self._open()
                if self._ledger.complete:
                    self._budget.settle(self._number, f"federated study {self.study.name}")
                else:
                    self._budget.end(self._number, self._ledger.composition())
            self._rounds.finish()
            self._note("the study has ended")
        return self._reply()

    def _note(self, text: str) -> None:
        """One line in the log."""
        line = " ".join(text.split())
        with self._log.open("a") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}\n")

    def __repr__(self) -> str:
        return f"Site({self.name!r} of study {self.study.name!r})"


def files_of(study: Study, name: str, folder: Path) -> tuple[Path, Path]:
    """The checkpoint and the log of a site."""
    stem = f"{study.name}-{name}"
    return folder / f"{stem}.medsynth-checkpoint", folder / f"{stem}.medsynth-log"


def check_key(study: Study, name: str, key: SecretKey | None) -> SecretKey | None:
    """The key that a site masks its sums with, None where it needs none. Raises UsageError for another than agreed."""
    if name not in study.sites:
        raise UsageError(f"The study {study.name!r} has no site {name!r}.{did_you_mean(name, study.sites)}")
    if study.trust != "secure-sum":
        return None
    if key is None or key.public != study.sites[name]:
        raise UsageError("A secure sum needs the site's own secret key, of which the study names the public one.")
    return key
