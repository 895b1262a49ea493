"""Run the server of a federated fit: send queries to all sites, sum their answers, fit a model. It sees no row."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import rng
from ..arrays import Floats
from ..artifact import Model
from ..errors import BudgetError, MedsynthError, QueryError
from ..fitting.planning import PlannedFit, choose_method
from ..fitting.settings import FitOptions, Notice
from ..fitting.training import plan_on, rows_of_patients, seal, train
from ..privacy.accounting.events import Event
from ..privacy.checkpoint import Checkpoint, sole_user
from ..privacy.queries.measurements import Result, ShardedMeasurements, may_answer
from ..privacy.queries.noising import NoiseShare, Unnoised
from ..privacy.queries.query import PrivateQuery, RowQuery, added
from ..privacy.queries.rows import Features
from ..privacy.release import Release, Releases
from ..privacy.shards import CriticConfig
from .critics import RemoteShards
from .derivation import digest_of, numbers_of
from .study import FORMAT, Study
from .transport import NONCE, Came, Transport, arrays_of, body_of, packed, unpacked

TRIES, PAUSE = 3, 2.0  # attempts to reach sites, and seconds between them
PATIENCE = 20.0  # seconds between notices that name sites without an answer
Told = Callable[[str], None]


class Sites:
    """The sites of a study in one run of the server. `nonces`: of the current start of each site that has joined."""

    def __init__(self, study: Study, transport: Transport, run: str, notice: Notice) -> None:
        self.study, self._transport, self._run, self._notice = study, transport, run, notice
        self.nonces: dict[str, str] = {}
        self.pause = PAUSE  # read when the run begins

    def join(self, *, late: bool = False) -> dict[str, dict[str, Any]]:
        """Return the sites that join, by name, with their facts. `late`: ask once, only sites that have not joined."""
        sites = [name for name in self.study.sites if not (late and name in self.nonces)]
        asked = self._ask("join", sites, 0 if late else self.study.minimum, tries=1 if late else TRIES) if sites else {}
        found = {name: head for name, (head, _) in asked.items()}
        self.know({name: str(head.get("nonce")) for name, head in found.items()})
        return found

    def know(self, nonces: Mapping[str, str]) -> None:
        """Remember the nonces of sites. Raise MedsynthError if one has changed: that site was restarted."""
        for name, nonce in nonces.items():
            if not NONCE.fullmatch(nonce):
                raise MedsynthError(f"The site {name} sent an answer of another version of medsynth.")
            if self.nonces.setdefault(name, nonce) != nonce:
                raise MedsynthError(
                    f"The site {name} was restarted since this run began: it would draw its answers again. Start it "
                    "with `resume` and its checkpoint, then fit again with `resume`. If that checkpoint is lost, start "
                    "all sites with `force` and fit with `force`: each charges the whole plan again."
                )

    def measure(
        self, number: int, label: str, said: dict[str, Any], body: bytes, among: Mapping[str, str]
    ) -> list[list[np.ndarray[Any, Any]]]:
        """Return the answers of the named sites to a measurement. A secure sum needs all of them.

        `among`: the sites with their nonces. `said`: other fields of the request: seed, releases, digest of the query.
        """
        more: dict[str, Any] = {"number": number, "label": label, "among": dict(among), **said}
        least = len(among) if self.study.trust == "secure-sum" else self.study.minimum
        answers = self._ask("measure", list(among), least, body, **more)
        return [arrays_of(content) for _, content in answers.values()]

    def finish(self) -> None:
        """Tell all sites that the study has ended. Name the sites that cannot be reached."""
        found = self._ask("finish", list(self.study.sites), 0)
        if missing := [name for name in self.study.sites if name not in found]:
            self._notice(
                f"No answer at the end of the study from {', '.join(missing)}. Stop each of these sites by hand."
            )

    def _ask(
        self, kind: str, sites: Sequence[str], least: int, body: bytes = b"", *, tries: int = TRIES, **more: Any
    ) -> dict[str, tuple[dict[str, Any], bytes]]:
        """Return the answers of at least `least` sites. Ask the others again, with the same bytes.

        Raises MedsynthError if too few sites answer, or if one refuses.
        """
        head = {"format": FORMAT, "study": self.study.digest, "run": self._run, "kind": kind, **more}
        message = packed(head, body)
        found = dict[str, tuple[dict[str, Any], bytes]]()
        for attempt in range(tries):
            if attempt:
                time.sleep(self.pause)
            waiting = [name for name in sites if name not in found]
            with self._patience(waiting) as came:
                answers = self._transport.call(waiting, message, came)
            found |= {name: self._read(name, answer) for name, answer in answers.items()}
            if len(found) == len(sites):
                break
        if len(found) < least:
            missing = ", ".join(name for name in sites if name not in found)
            begun = (
                f"All {least} sites with which this secure sum began must answer it, because their masks cancel only "
                f"together. The study's minimum, {self.study.minimum}, applies to the next measurement"
            )
            rule = begun if least > self.study.minimum else f"At least {least} sites must answer"
            raise MedsynthError(
                f"No answer from {missing}. {rule}. The measurements so far are saved: fit again with `resume` when "
                "these sites are back."
            )
        return {name: found[name] for name in sites if name in found}

    @contextmanager
    def _patience(self, waiting: Sequence[str]) -> Iterator[Came]:
        """While sites answer, print who has not answered yet. Yield a function that removes a site from this list."""
        late = dict.fromkeys(waiting)
        done = threading.Event()

        def tell() -> None:
            began = time.monotonic()
            while not done.wait(PATIENCE):
                self._notice(f"Still waiting for {', '.join(late)}: {time.monotonic() - began:.0f} s so far.")

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield late.pop
        finally:
            done.set()
            thread.join()

    def _read(self, name: str, answer: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the head and body of a site's answer. Raise MedsynthError if the site refused."""
        try:
            head, body = unpacked(answer)
        except QueryError:
            raise MedsynthError(f"The site {name} sent an answer of another version of medsynth.") from None
        if head.get("status") != "answered":
            raise MedsynthError(f"The site {name} refused: {head.get('why')}")
        return head, body


class FederatedMeasurements(ShardedMeasurements):
    """Measurements of the rows of all sites together. Each is a release of the server's own fit.

    Sites derive each query from the public `seed` and the earlier releases, which are sent with each request.
    """

    def __init__(self, sites: Sites, releases: Releases, seed: int, told: Told) -> None:
        self._sites, self._releases, self._told, self._number = sites, releases, told, 0
        self._study = sites.study
        self._seed = seed
        self._released = list[list[Floats]]()

    @property
    def max_rows(self) -> int | None:
        """The largest number of rows per patient, if the patient is the unit of privacy."""
        return self._study.table_schema.max_rows

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Return the noised answer over all sites' rows. Charge it as the measurement `label` of the plan.

        Raises BudgetError if it is not in the plan, MedsynthError if too few sites answer.
        """
        if not may_answer(query):
            raise BudgetError("Sites answer only queries of known kinds.")
        numbers = numbers_of(query)
        found = self._asked(label, query, numbers)
        if not numbers:
            self._released.append(found)  # determines the next query
        return query.result(found)

    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> RemoteShards:
        """Return the shards of all sites, equally many at each. The sites' own study sets their number and critics."""
        return RemoteShards(lambda label, query, numbers: query.result(self._asked(label, query, numbers)), classes)

    def _asked(self, label: str, query: PrivateQuery[Any], numbers: list[Any]) -> list[Floats]:
        """Return the noised answer to a query, with these numbers in the request. Raise as `measure` does."""
        said = {"seed": self._seed, "releases": [len(own) for own in self._released], "query": digest_of(query)}
        body = body_of([*(array for own in self._released for array in own), *numbers])
        sensitivity = query.sensitivity(self.max_rows)
        number = self._number
        self._number += 1
        among = self._among(number)

        def draw(event: Event) -> Release:
            started = time.monotonic()
            answers = self._sites.measure(number, label, said, body, among)
            self._told(f"{number + 1}: {label}, {len(answers)} sites, {time.monotonic() - started:.1f} s")
            return Release(self._combined(query, answers, event.multiplier * sensitivity))

        return [*self._releases.release(label, sensitivity, draw).arrays]

    def _among(self, number: int) -> dict[str, str]:
        """Return the sites to ask, with their nonces. They are on file before the request, which must not change.

        A secure sum asks the sites that are present now; otherwise all sites that have joined are asked.
        """
        names = list(self._study.sites)

        def there() -> Floats:
            if self._study.trust == "secure-sum":
                joined = list(self._sites.join())
            else:
                self._sites.join(late=True)
                joined = list(self._sites.nonces)
            return np.array([[names.index(name), *_words(self._sites.nonces[name])] for name in joined], np.float64)

        found = self._releases.draw_once(f"sites of {number}", there)
        among = {names[int(k)]: "".join(f"{int(word):08x}" for word in words) for k, *words in found.tolist()}
        self._sites.know(among)
        return among

    def _combined(self, query: PrivateQuery[Any], answers: list[list[Any]], std: float) -> list[Floats]:
        """Combine all sites' answers into a release. Raise MedsynthError if their forms differ."""
        trust = self._study.trust
        like = answers[0]
        kind = {"none": np.float64, "server": np.int64, "secure-sum": np.uint64}[trust]
        for answer in answers:
            if [a.shape for a in answer] != [a.shape for a in like] or any(a.dtype != kind for a in answer):
                raise MedsynthError("The sites' answers differ in form. Use one version of medsynth at all sites.")
        if trust == "none":
            return [np.sum(parts, axis=0) for parts in zip(*answers, strict=True)]
        total = added(answers)
        if trust == "server":
            return Unnoised().noised(query, total, std, self._releases.entropy)
        return NoiseShare(self._study.honest).noised(query, [words.view(np.int64) for words in total], std)


def _words(nonce: str) -> list[int]:
    """Return a nonce as numbers of 32 bits, for a checkpoint."""
    return [int(nonce[k : k + 8], 16) for k in range(0, len(nonce), 8)]


def federated_fit(
    study: Study,
    transport: Transport,
    checkpoint: Path,
    *,
    resume: bool = False,
    seed: int | None = None,
    notice: Notice = lambda text: None,
    told: Told = lambda line: None,
) -> tuple[Model, Callable[[], None]]:
    """Fit a generator to the rows of all sites. Return it with a function that ends the study, once it is saved.

    Every sum is in the `checkpoint` before it is used. With `resume`, the sums of an interrupted fit are used again.
    `told` gets one line per measurement. Raises MedsynthError if too few sites answer, or if one refuses.
    """
    settings = vars(study.fit_settings(study.all_settings)) | {"seed": seed}
    options = FitOptions(**settings, checkpoint=checkpoint, resume=resume, notice=notice)
    with sole_user(checkpoint):
        return _fitted(study, transport, options, checkpoint, told)


def _fitted(
    study: Study, transport: Transport, options: FitOptions, checkpoint: Path, told: Told
) -> tuple[Model, Callable[[], None]]:
    """Run the phases of a fit over all sites, while no other fit uses the checkpoint."""
    method = choose_method(options)
    notice = options.notice
    seed = options.seed
    plan = study.plan()
    entropy = rng.system_entropy()
    file = Checkpoint(checkpoint, {"study": study.digest, "seed": seed, "noise": entropy.source}, resume=options.resume)
    if file.remaining:
        notice(f"Resuming: {file.remaining} records of the interrupted fit are used again.")
    sites = Sites(study, transport, f"{file.seed:014x}", notice)
    began = Releases(plan.ledger(entropy.source), entropy, file)
    began.draw_once("run", lambda: np.empty(0))  # the run's number is on file before a site sees it
    ledger = plan.ledger(_source(study, sites.join(), entropy))
    for fact in study.facts(plan):
        ledger.note(fact)
        notice(fact)
    ledger.note(
        "Public by declaration: the study with its schema and number of rows, and that all tables meet the schema."
    )
    planned = PlannedFit(options=options, method=method, plan=plan, ledger=ledger, entropy=entropy)
    own = file.seed if seed is None else seed
    measurements = FederatedMeasurements(sites, Releases(ledger, entropy, file), own, told)
    rows, sizes = rows_of_patients(measurements, plan)
    tensors = train(planned, plan_on(planned, rows), measurements, study.table_schema.core, own)
    return seal(planned, rows, study.table_schema, {**tensors, **sizes}), sites.finish


def _source(study: Study, joined: dict[str, dict[str, Any]], entropy: rng.Entropy) -> str:
    """Return the source of the noise for the ledger: the server's or the sites'."""
    sources = {entropy.source} if study.trust == "server" else {str(head.get("source")) for head in joined.values()}
    return entropy.source if sources == {entropy.source} else f"sites differ: {', '.join(sorted(sources))}"
