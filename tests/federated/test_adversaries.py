"""A server, or another site, that does what it should not is refused: a line in the site's log, and no charge."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from three_sites import Federation

from medsynth.budget import Budget
from medsynth.errors import MedsynthError, UsageError
from medsynth.federated.derivation import derived, digest_of
from medsynth.federated.masks import masked
from medsynth.federated.site import Site
from medsynth.federated.study import FORMAT, study_of
from medsynth.federated.transport import arrays_of, body_of, packed, unpacked
from medsynth.privacy.queries.rows import CodedRows
from medsynth.privacy.queries.tables import Marginals

Make = Callable[..., Federation]


SEED = 5


def script(made: Federation, count: int) -> list[tuple[str, str, list[Any]]]:
    """What a fit whose releases are all ten asks first: label and digest of each query, and the releases before it."""
    names = made.study.table_schema.core.names
    none = CodedRows(np.zeros((0, len(names)), np.int32), names, np.zeros((0, 2), np.uint64))
    found, releases = list[tuple[str, str, list[Any]]](), list[list[Any]]()
    for _ in range(count):
        own = derived(made.study, made.study.plan(), SEED, releases)
        assert isinstance(own.query, Marginals)
        found.append((own.label, digest_of(own.query), list(releases)))
        releases.append([np.full(array.shape, 10.0) for array in own.query.finished(own.query.exact(none))])
    return found


class Adversary:
    """Whoever can send a site any bytes. Request k is what a server of the study asks after k measurements."""

    def __init__(self, made: Federation, site: str = "north") -> None:
        self.made, self.site, self.name = made, made.sites[site], site
        self.script = script(made, 3) if made.study.method == "independent" else script(made, 1)
        self.label, self.nonces = self.script[0][0], made.nonces()

    @property
    def body(self) -> bytes:
        """The body of the first request."""
        return body_of([])

    def head(self, k: int = 0, **changed: Any) -> dict[str, Any]:
        head = {"format": FORMAT, "study": self.made.study.digest, "run": "1", "kind": "measure", "number": k}
        label, query, releases = self.script[k]
        said = {"label": label, "query": query, "seed": SEED, "releases": [len(own) for own in releases]}
        return {**head, **said, "among": self.nonces, **changed}

    def named(self, *sites: str) -> dict[str, str]:
        """These sites with their nonces."""
        return {name: self.nonces.get(name, "0" * 32) for name in sites}

    def ask(self, k: int = 0, body: bytes | None = None, **changed: Any) -> tuple[dict[str, Any], bytes]:
        arrays = [array for own in self.script[k][2] for array in own]
        return unpacked(self.site.answer(packed(self.head(k, **changed), body_of(arrays) if body is None else body)))

    def refused(self, k: int = 0, body: bytes | None = None, **changed: Any) -> str:
        """Why such a request is refused. Nothing is charged, and the log has a line more."""
        before, lines = self.site.ledger.entries, self._lines()
        head, content = self.ask(k, body, **changed)
        assert head["status"] == "refused" and content == b"" and self.site.ledger.entries == before
        new = self.made.log(self.name)[lines:]
        assert len(new) == 1 and "refused" in new[0]
        return str(head["why"])

    def _lines(self) -> int:
        try:
            return len(self.made.log(self.name))
        except FileNotFoundError:
            return 0


def test_the_same_request_gets_the_same_bytes_and_is_charged_once(federation: Make) -> None:
    server = Adversary(federation().start())
    first = server.site.answer(packed(server.head(), server.body))
    assert unpacked(first)[0]["status"] == "answered"
    assert server.site.answer(packed(server.head(), server.body)) == first
    assert server.site.ledger.times_measured(server.label) == 1


def test_a_second_answer_of_one_measurement_is_refused(federation: Make) -> None:
    """Under the same number another query, and under the next number the same label again."""
    server = Adversary(federation().start())
    server.ask()
    assert "for another request" in server.refused(seed=SEED + 1)
    assert "no further one" in server.refused(number=1)
    assert "no further one" in server.refused(number=1, label="two-way marginals")
    planned = sum(times for _, times in server.made.study.plan().events.values())
    assert "fewer" in server.refused(1, number=planned)
    assert "not a valid request" in server.refused(1, number=-1)
    assert server.ask(1, number=planned - 1)[0]["status"] == "answered"
    assert "must increase" in server.refused(2, number=1)


def test_a_query_is_the_one_that_the_site_derives(federation: Make) -> None:
    """From the study, the seed and the releases. A request holds numbers alone, of the shapes that these have."""
    server = Adversary(federation().start())
    others = [label for label, *_ in server.script[1:]]
    assert len(others) == 2 and all("another measurement next" in server.refused(label=label) for label in others)
    assert "another query" in server.refused(query="0" * 64)
    assert "not a valid request" in server.refused(query="0" * 63)
    assert "not a valid request" in server.refused(releases=3) and "not a valid request" in server.refused(seed=-1)
    server.ask()
    good = [array for own in server.script[1][2] for array in own]
    for arrays, says in (
        ([array[:-1] for array in good], "shapes"), ([*good, np.ones(3)], "shapes"), (good[:-1], "fewer arrays"),
        ([array * np.nan for array in good], "not finite"), ([array * 2.0**70 for array in good], "too large"),
        ([array[None] for array in good], "shapes"),
    ):  # fmt: skip
        assert says in server.refused(1, body_of(arrays))
    assert "no arrays" in server.refused(1, b"\x00" * 64)
    assert "another measurement next" in server.refused(1, releases=[])
    assert server.ask(1)[0]["status"] == "answered"
    good = [array for own in server.script[2][2] for array in own]
    uneven = [array * np.arange(array.size).reshape(array.shape) for array in good]
    assert "another query" in server.refused(2, body_of(uneven))  # other releases, other cells
    assert server.ask(2)[0]["status"] == "answered"


def test_no_message_can_lower_the_noise(federation: Make) -> None:
    """The noise is no part of a message: one that names any is refused. What comes has the site's own plan's noise."""
    server = Adversary(federation().start())
    for more in ({"multiplier": 0.01}, {"epsilon": 100.0}, {"honest": 50}, {"trust": "server"}):
        assert "its keys are not" in server.refused(**more)
    server.ask()
    (entry,) = server.site.ledger.entries
    assert entry.event == server.made.study.plan().events[server.label][0]


def test_another_study_run_or_version_is_refused(federation: Make) -> None:
    made = federation().start()
    server = Adversary(made)
    louder = study_of({**made.content, "epsilon": 30.0})
    assert louder.digest != made.study.digest
    assert "another study" in server.refused(study=louder.digest)
    assert "another study" in server.refused(format=1)
    server.ask()
    assert "another run" in server.refused(run="2", number=1)
    assert "is unknown" in server.refused(kind="rows")
    assert "not a message" in str(unpacked(server.site.answer(b"hello"))[0]["why"])
    for wrong in ({"number": "0"}, {"number": True}, {"label": None}, {"among": "north"}, {"among": {"north": "0"}}):
        server.refused(**wrong)


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", ["none", "secure-sum", "server"])
def test_nothing_is_answered_after_the_study_has_ended(federation: Make, trust: str) -> None:
    """Whoever ends it, and after a restart too; what was charged is on file, and no sum is left in the checkpoint."""
    made = federation(trust=trust).start()
    server = Adversary(made)
    server.ask()
    end = {"format": FORMAT, "study": made.study.digest, "run": "1", "kind": "finish"}
    for _ in range(2):
        assert unpacked(server.site.answer(packed(end)))[0]["status"] == "answered"
    assert "has ended" in server.refused() and "has ended" in server.refused(number=1)
    (fit,) = Budget.of(made.folder / "north" / "t.csv").spent().fits
    assert fit.ended and len(fit.events) == 1
    made.start("north", resume=True)
    again = Adversary(made)
    assert again.site.finished and "has ended" in again.refused()


def test_a_secure_sum_is_of_one_set_of_sites(federation: Make) -> None:
    """Two sums over sets that differ in one site would give that site's share away."""
    server = Adversary(federation(trust="secure-sum", minimum=2).start())
    server.ask(among=server.named("east", "north", "west"))
    assert "for another request" in server.refused(among=server.named("east", "north"))
    fresh = Adversary(server.made, "east")
    for among in (["east"], [], ["north", "west"], ["east", "nobody"]):
        assert "too few sites" in fresh.refused(among=fresh.named(*among))


@pytest.mark.parametrize("differ", ["sets", "runs", "not at all"])
def test_requests_that_differ_between_sites_do_not_open(federation: Make, differ: str) -> None:
    """A server that asks each site otherwise gets numbers without meaning: pads cancel for one request alone."""
    made = federation(trust="secure-sum", minimum=2).start()
    every = made.nonces()
    pair = {name: every[name] for name in ("east", "north")}
    other: dict[str, dict[str, Any]] = {
        "sets": {"among": every},
        "runs": {"among": pair, "run": "2"},
        "not at all": {"among": pair},
    }
    asked: dict[str, dict[str, Any]] = {"east": {"among": pair}, "north": other[differ]}
    answers = [arrays_of(Adversary(made, name).ask(**changed)[1]) for name, changed in asked.items()]
    steps = [(one + more).view(np.int64) for one, more in zip(*answers, strict=True)]
    assert (max(np.abs(part).max() for part in steps) > 1 << 55) == (differ != "not at all")


def test_a_site_of_another_key_or_name_does_not_start(federation: Make) -> None:
    made = federation(trust="secure-sum")
    at = made.folder / "north"
    for name, key in (("north", None), ("north", made.keys["east"]), ("nord", made.keys["north"])):
        with pytest.raises(UsageError):
            Site(made.study, name, at / "t.csv", at, key=key)


def test_a_refusal_ends_the_fit_in_one_message(federation: Make) -> None:
    """A site that agreed to another study refuses, and the server says which."""
    made = federation()
    made.start("east", "west")
    made.start("north", study=study_of({**made.content, "rows": 301}))
    with pytest.raises(MedsynthError, match="north refused: The message belongs to another study"):
        made.fit()


def test_an_error_over_private_rows_is_no_other_reply(
    federation: Make, monkeypatch: pytest.MonkeyPatch, fixed_entropy: None
) -> None:
    """It is answered and charged like any other, as if the rows on which it fails were not there: here all of them.

    The seed of the noise is fixed.
    """
    made = federation(epsilon=9.0).start()
    server = Adversary(made)
    exact = Marginals.exact

    def fail(self: Any, rows: Any) -> Any:
        if 0 < len(rows.codes) <= 100 and rows.codes.any():  # public rows are more, or one of zeros
            raise ValueError(f"private {len(rows.codes)}")
        return exact(self, rows)

    monkeypatch.setattr(Marginals, "exact", fail)
    head, body = server.ask()
    assert head["status"] == "answered" and server.site.ledger.times_measured(server.label) == 1
    assert max(np.abs(array).max() for array in arrays_of(body)) < 20
    assert "private" not in "".join(made.log("north")) and "refused" not in "".join(made.log("north"))


def test_a_restart_does_not_give_the_plan_once_more(federation: Make) -> None:
    made = federation().start()
    server = Adversary(made)
    server.ask()
    made.start("north", resume=True)
    again = Adversary(made)
    assert again.site.ledger.times_measured(again.label) == 1
    assert "no further one" in again.refused(number=1)


def restarted(made: Federation, name: str = "north", at: str = "elsewhere") -> list[str]:
    """Start a site again without its checkpoint, from another folder. Returns its notices."""
    told: list[str] = []
    folder = made.folder / at
    folder.mkdir()
    table = made.folder / name / "t.csv"
    site = Site(made.study, name, table, folder, key=made.keys[name], notice=told.append)
    made.sites[name] = site
    made.transport.sites[name] = site.answer
    return told


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", ["none", "secure-sum", "server"])
def test_a_site_that_starts_again_answers_nothing_that_was_asked_before(federation: Make, trust: str) -> None:
    """By force, from another folder; the plan is charged anew, in full, and its steward hears of it."""
    made = federation(trust=trust).start()
    before = Adversary(made)
    assert before.ask()[0]["status"] == "answered"
    told = [text for text in restarted(made) if "again" in text]
    assert len(told) == 1 and "1 earlier start" in told[0] and "stay in" in told[0]
    before.site = made.sites["north"]
    old, _ = unpacked(before.site.answer(packed(before.head(), before.body)))
    assert old["status"] == "refused" and "current nonce" in old["why"]
    after = Adversary(made)
    assert after.nonces["north"] != before.nonces["north"] and len(after.nonces["north"]) == 32
    assert after.ask()[0]["status"] == "answered"
    fits = Budget.of(made.folder / "north" / "t.csv").spent().of_study(made.study.digest)
    planned = tuple(made.study.plan().events.values())
    assert [fit.events for fit in fits] == [planned, planned] and [fit.answers for fit in fits] == [1, 1]
    log = (made.folder / "elsewhere" / "trial-north.medsynth-log").read_text()
    assert "again after 1 earlier start" in log


def test_two_starts_of_a_site_have_no_pad_in_common(federation: Make) -> None:
    """All other sites' nonces are what the server says they are, the same for both. A difference of answers is noise.

    Both numbers are uniform of 2^64: of some sixty one is above 2^60 but with chance (1/8)^60.
    """
    made = federation(trust="secure-sum", minimum=2).start()
    words = []
    for again in (False, True):
        if again:
            restarted(made)
        server = Adversary(made)
        server.nonces |= {"east": "1" * 32, "west": "2" * 32}
        words.append(np.concatenate([array.ravel() for array in arrays_of(server.ask()[1])]))
    gaps = (words[0] - words[1]).view(np.int64)
    assert len(gaps) > 60 and np.abs(gaps.astype(np.float64)).max() > 2.0**60


def test_every_input_of_a_pad_counts(federation: Make) -> None:
    """Key, study, request, each site's nonce: if one differs, all numbers of the pad do."""
    made = federation(trust="secure-sum", minimum=2)
    other = study_of({**made.content, "rows": 301})
    nonces = {"east": "1" * 32, "north": "2" * 32, "west": "3" * 32}
    zeros, request = [np.zeros((3, 4), np.int64), np.zeros(5, np.int64)], "ab" * 32

    def pad(study: Any = made.study, key: str = "north", among: Any = nonces, request: str = request) -> Any:
        return np.concatenate([part.ravel() for part in masked(zeros, made.keys[key], study, key, among, request)])

    every = [pad(), pad(study=other), pad(request="cd" * 32), pad(key="east")]
    every += [pad(among={**nonces, name: "4" * 32}) for name in nonces]
    every += [pad(among={name: nonces[name] for name in ("north", other)}) for other in ("east", "west")]
    assert np.array_equal(pad(), pad(among=dict(reversed(nonces.items()))))
    assert not sum(pad(key=key) for key in nonces).any()  # and all pads of one request add up to nothing
    for k, one in enumerate(every):
        assert all((one != two).all() for two in every[:k])


def test_a_run_has_one_nonce_of_each_site(federation: Make) -> None:
    made = federation(trust="secure-sum", minimum=2).start()
    server = Adversary(made)
    server.ask(among=server.named("east", "north"))
    for changed in ("east", "north"):
        why = server.refused(1, among={**server.nonces, changed: "5" * 32})
        assert ("current nonce" if changed == "north" else "during the run") in why
    assert "too few sites" in server.refused(1, among=server.named("east", "west"))
    made.start("north", resume=True)  # which has its nonce, and those of the run, on file
    again = Adversary(made)
    assert again.nonces == server.nonces
    assert "during the run" in again.refused(1, among={**again.nonces, "east": "5" * 32})
    assert again.ask(1)[0]["status"] == "answered"  # west is named for the first time


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", ["none", "secure-sum", "server"])
def test_a_run_ends_where_a_site_has_started_again(federation: Make, trust: str) -> None:
    """One message says what to do. Begun anew, with all sites, it ends in a model; both runs are on file."""
    made = federation(trust=trust).start()
    calls: list[str] = []
    answer = made.sites["north"].answer

    def once(message: bytes) -> bytes:
        calls.append(unpacked(message)[0]["kind"])
        found = answer(message)
        if calls.count("measure") == 2:
            restarted(made)
        return found

    made.transport.sites["north"] = once
    with pytest.raises(MedsynthError, match="was restarted since") as caught:
        made.fit()
    assert "`resume`" in str(caught.value) and "`force`" in str(caught.value)
    with pytest.raises(MedsynthError, match="The site north was restarted since this run began"):
        made.fit(resume=True)
    made.start().fit()
    fits = Budget.of(made.folder / "north" / "t.csv").spent().of_study(made.study.digest)
    assert [fit.model is not None for fit in fits] == [False, True]


def test_a_copy_of_a_checkpoint_answers_nothing_twice(federation: Make) -> None:
    """A copy has the nonce: fresh noise under used pads. Whichever process begins to answer last goes on alone."""
    made = federation(trust="secure-sum").start()
    server = Adversary(made)
    at = made.folder / "north"
    own = at / "trial-north.medsynth-checkpoint"
    server.ask()
    copies = [made.folder / name for name in ("early", "late")]
    for copy in copies:
        copy.mkdir()
        shutil.copy(own, copy)
    first = copied(made, copies[0])  # alive beside the site
    assert first.ask() == server.ask()  # what was sent before is the same
    assert server.ask(1)[0]["status"] == "answered"
    assert "could not answer" in first.ask(1)[0].get("why", "")  # it would have drawn the same measurement
    with pytest.raises(UsageError, match="old copy"):
        copied(made, copies[1])
    made.start("north", resume=True)
    latest = Adversary(made)
    assert latest.ask(1) == server.ask(1)
    assert latest.ask(2)[0]["status"] == "answered"
    assert "could not answer" in server.ask(2)[0].get("why", "")  # the one that was not told to end


def copied(made: Federation, folder: Any) -> Adversary:
    """Whoever asks a site that goes on with a checkpoint in another folder."""
    table = made.folder / "north" / "t.csv"
    made.sites["north"] = Site(made.study, "north", table, folder, key=made.keys["north"], resume=True)
    return Adversary(made)


def test_a_refusal_names_no_file(federation: Make) -> None:
    """Paths stay in the log: a file's name may be a patient's."""
    made = federation().start()
    server = Adversary(made)
    (made.folder / "north" / "t.medsynth-ledger").write_text("broken\n")
    why = server.refused()
    assert str(made.folder) not in why and "ledger" not in why
    assert "damaged" in made.log("north")[-1]
