"""Run a site of a federated fit, with its table, vault, ledger, checkpoint, budget file and log.

The server is an adversary and may ask for anything. A site answers each measurement of its own plan once, with its
plan's noise. The same request gets the same bytes again. The site refuses all else and logs it.

A site decides whether it answers only by public facts: the study, its plan, the request, and earlier requests. Then it
reads rows, and can only reply with noised numbers of a fixed form. A row on which a query fails adds nothing to them
(`privacy/queries/query.py`).
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
from ..io.formats import USUAL, SavedAs
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

COULD_NOT = "This site could not answer. See its log."


class Refused(MedsynthError):
    """A refusal with its reason. The reason never depends on a row."""


class Site:
    """One site's rows behind its own vault, for one agreed study.

    table: a file of a table, next to its budget file. folder: for checkpoint and log. key: the site's secret key,
    for a secure sum. `resume` continues with the answers of an interrupted site. A site that restarts without its
    checkpoint draws a new nonce, reserves the whole plan once more, and reports this to `notice`. Raises TableError or
    SchemaError if the table does not meet the study's schema, before anything is reserved. Raises UsageError if the
    study does not name the site, the key is not the study's, or the checkpoint is an old copy.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        table: Path | Table,
        folder: Path,
        *,
        key: SecretKey | None = None,
        saved: SavedAs = USUAL,
        resume: bool = False,
        notice: Notice = lambda text: None,
    ) -> None:
        self.study, self.name, self._digest = study, name, study.digest
        self._key = check_key(study, name, key)
        self._plan = study.plan()
        entropy = rng.system_entropy()
        private = open_table(table, TableSettings(schema=study.table_schema, **vars(saved)), notice)
        core = study.table_schema.core
        # The columns in the study's order, whatever the table's order is.
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
        self._latest: tuple[str, Derived] | None = None  # the last derived measurement, and the digest of its inputs
        path = table if isinstance(table, Path) else Path(table.where)
        self._budget = Budget.of(path)
        self._number = f"{self._rounds.seed:014x}"
        self._process = new_nonce()
        self._opened = False
        self._lock = threading.Lock()
        self._counted = self._known_starts(notice)

    def _known_starts(self, notice: Notice) -> int:
        """Return the number of answers of this start in the budget file, and report earlier starts.

        Raises UsageError if that is more than in the checkpoint: the rest would be drawn twice for one charge.
        """
        fits = self._budget.spent().of_study(self._digest) if self._budget.path.exists() else ()
        counted = max((fit.answers for fit in fits if fit.number == self._number), default=0)
        if counted > len(self._rounds.answers) and not self._rounds.finished:
            raise UsageError(
                f"{self._rounds.path} is an old copy: {self._budget.path} counts more answers. Continue with the "
                "latest checkpoint, or start again with `force`, which charges the whole plan once more."
            )
        if earlier := sum(fit.number != self._number for fit in fits):
            text = (
                f"This site starts the study {self.study.name!r} again after {earlier} earlier "
                f"start{'s' * (earlier > 1)}. Earlier charges stay in {self._budget.path}. The first answer charges "
                "the whole plan again. A run of the server that knows an earlier start ends with an error."
            )
            notice(text)
            self._note(text)
        return counted

    @property
    def ledger(self) -> Ledger:
        """The ledger of this site's charges."""
        return self._ledger

    @property
    def finished(self) -> bool:
        """Whether the study has ended at this site."""
        return self._rounds.finished

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message, or a refusal with its reason. Never raise."""
        with self._lock:
            try:
                return self._answered(message)
            except (Refused, QueryError, BudgetError) as error:
                why = logged = str(error)
            except MedsynthError as error:  # its message may name the site's files, which the server must not see
                why = COULD_NOT
                logged = str(error)
            except Exception:  # any other error: neither its message nor its type leaves the site
                why = logged = COULD_NOT
            self._note(f"refused: {logged}")
            return packed({"format": FORMAT, "status": "refused", "why": why})

    def _answered(self, message: bytes) -> bytes:
        """Return the answer to a message. Raise MedsynthError to refuse it."""
        head, body = request(message)
        if head["format"] != FORMAT or head["study"] != self._digest:
            raise Refused("The message belongs to another study, or comes from another version of medsynth.")
        if self._rounds.finished and head["kind"] != "finish":
            raise Refused("The study has ended at this site.")
        if not isinstance(head["run"], str) or self._rounds.run not in (None, head["run"]):
            raise Refused("The message belongs to another run. This site has answered one run, and answers no other.")
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
        """Return the answer to a measurement, from the checkpoint if it was answered before."""
        number, label, among = head["number"], head["label"], head["among"]
        self._check_sites(among)
        stored = self._rounds.answers.get(number)
        if stored is None:
            asked = self._checked(head, body)
            kept = asked.kept if isinstance(asked, Step) else ()
            query = asked.query if isinstance(asked, Step) else asked
            self._rounds.asked = Asked(number, key, query.sensitivity(self._vault.max_rows), kept)
            self._rounds.bind(head["run"], among)  # on file, with the number of this fit in the budget file
            self._open()
            self._draw(label, asked)
            stored = self._rounds.answers[number]
        elif stored.digest != key:
            raise Refused(f"Measurement {number + 1} was answered before, for another request.")
        self._count()
        self._note(f"answered {number + 1}: {label}")
        if self.study.trust == "none":
            return self._reply(body_of(stored.arrays))
        words: list[Any] = from_words(stored.arrays)
        if self._key is not None:
            words = masked(words, self._key, self.study, self.name, among, key)
        return self._reply(body_of(words))

    def _check_sites(self, among: Mapping[str, str]) -> None:
        """Raise Refused unless these are enough sites of the study, each with its nonce in this run."""
        if not (len(among) >= self.study.minimum and set(among) <= set(self.study.sites) and self.name in among):
            raise Refused("The request names too few sites of the study, or does not name this site.")
        if among[self.name] != self._rounds.nonce:
            raise Refused(
                "The request does not contain this site's current nonce: the site was restarted since it joined. "
                "Start it with `resume` and its checkpoint. If that is lost, start all sites and the fit with `force`: "
                "each site charges the whole plan again."
            )
        if any(self._rounds.nonces.get(name, nonce) != nonce for name, nonce in among.items()):
            raise Refused("The nonce of a site has changed: it was restarted during the run. Start again with `force`.")

    def _open(self) -> None:
        """Reserve the whole plan, unless it is on file, and record that only this process answers from now on."""
        if not self._opened:
            study, method = self._digest, self.study.method
            self._budget.reserve(self._plan, method=method, noise=True, number=self._number, study=study)
            self._budget.opened(self._number, self._process, len(self._rounds.answers))
            self._opened = True

    def _draw(self, label: str, asked: RowQuery[Any] | Step) -> None:
        """Charge a measurement, draw it and put it on file. Print no warning, because a row might cause it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(asked, Step):
                self._critics.release(label, asked)
            else:
                self._vault.release(label, asked)

    def _count(self) -> None:
        """Count the answers on file before the latest is sent. Raise MedsynthError if a copy of this site sent it."""
        if len(self._rounds.answers) > self._counted:
            self._open()
            self._budget.answered(self._number, self._process, len(self._rounds.answers))
            self._counted = len(self._rounds.answers)

    def _checked(self, head: dict[str, Any], body: bytes) -> RowQuery[Any] | Step:
        """Return the next measurement of the study's fit. Raise MedsynthError if the request means another one."""
        number, label = head["number"], head["label"]
        if number <= max(self._rounds.answers, default=-1):
            raise Refused("A later measurement was answered already. Numbers must increase.")
        if number >= sum(times for _, times in self._plan.events.values()):
            raise Refused("The plan contains fewer measurements than this number.")
        if self._ledger.times_measured(label) >= self._ledger.allowance.get(label, (None, 0))[1]:
            raise Refused("The plan contains no measurement with this label, or no further one.")
        arrays = arrays_of(body)
        releases = grouped(arrays, head["releases"])
        own = self._derived(head["seed"], releases)
        numbers = arrays[sum(head["releases"]) :]
        asked: RowQuery[Any] | Step
        if label == GRADIENTS:
            asked = self._critics.read(own, numbers, head["seed"], releases)
        else:
            asked = with_numbers(own, label, numbers)
        query = asked.query if isinstance(asked, Step) else asked
        if digest_of(query) != head["query"]:
            raise Refused(
                "The server means another query than this site derives from the study and the releases. Their Python "
                "packages or their machines differ."
            )
        if self.study.trust != "server" and not query.adds_up:
            raise Refused("The query is not a sum over rows.")
        return asked

    def _derived(self, seed: int, releases: Sequence[Sequence[Any]]) -> Derived:
        """Return what the study's fit measures after these releases. Derive it once for all steps of a network."""
        key = digest_of([seed, releases])
        if self._latest is None or self._latest[0] != key:
            self._latest = key, derived(self.study, self._plan, seed, releases)
        return self._latest[1]

    def _finished(self) -> bytes:
        """End the study at this site. It answers no more, and the budget file contains the charges."""
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
        """Append a line to the log."""
        line = " ".join(text.split())
        with self._log.open("a") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}\n")

    def __repr__(self) -> str:
        return f"Site({self.name!r} of study {self.study.name!r})"


def files_of(study: Study, name: str, folder: Path) -> tuple[Path, Path]:
    """Return the paths of a site's checkpoint and log."""
    stem = f"{study.name}-{name}"
    return folder / f"{stem}.medsynth-checkpoint", folder / f"{stem}.medsynth-log"


def check_key(study: Study, name: str, key: SecretKey | None) -> SecretKey | None:
    """Return the key for a site's masks, or None if it needs none. Raise UsageError if it is not the agreed key."""
    if name not in study.sites:
        raise UsageError(f"The study {study.name!r} has no site {name!r}.{did_you_mean(name, study.sites)}")
    if study.trust != "secure-sum":
        return None
    if key is None or key.public != study.sites[name]:
        raise UsageError("A secure sum needs the site's secret `key`, which belongs to its public key in the study.")
    return key
