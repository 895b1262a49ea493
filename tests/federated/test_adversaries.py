"""A server, or another site, that does what it should not is refused: a line in the site's log, and no charge."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from three_sites import Federation

from medsynth.budget import Budget
from medsynth.errors import MedsynthError, UsageError
from medsynth.federated.admission import first_query
from medsynth.federated.masks import masked
from medsynth.federated.messages import arrays_of, packed, unpacked
from medsynth.federated.site import Site
from medsynth.federated.study import FORMAT, study_of
from medsynth.privacy.networks import Mlp
from medsynth.privacy.pair_clipping import Groups, LocalTraining
from medsynth.privacy.queries.cells import ALL_CODES, EveryCode
from medsynth.privacy.queries.gradients import PairGradientSum
from medsynth.privacy.queries.kinds import kind
from medsynth.privacy.queries.rows import Codes
from medsynth.privacy.queries.tables import Distances, Marginals
from medsynth.privacy.queries.wire import Columns, write

Make = Callable[..., Federation]


class Adversary:
    """Whoever can send a site any bytes. `asked` is what a server of the study asks first."""

    def __init__(self, made: Federation, site: str = "north") -> None:
        self.made, self.site, self.name = made, made.sites[site], site
        self.columns = Columns.of(made.study.table_schema.core)
        self.label, self.body = first_query(made.study, made.study.plan())
        self.nonces = made.nonces()

    def head(self, **changed: Any) -> dict[str, Any]:
        head = {"format": FORMAT, "study": self.made.study.digest, "run": "1", "kind": "measure", "number": 0}
        return {**head, "label": self.label, "among": self.nonces, **changed}

    def named(self, *sites: str) -> dict[str, str]:
        """These sites with their nonces."""
        return {name: self.nonces.get(name, "0" * 32) for name in sites}

    def ask(self, body: bytes | None = None, **changed: Any) -> tuple[dict[str, Any], bytes]:
        return unpacked(self.site.answer(packed(self.head(**changed), self.body if body is None else body)))

    def refused(self, body: bytes | None = None, **changed: Any) -> str:
        """Why such a request is refused. Nothing is charged, and the log has a line more."""
        before, lines = self.site.ledger.entries, self._lines()
        head, content = self.ask(body, **changed)
        assert head["status"] == "refused" and content == b"" and self.site.ledger.entries == before
        new = self.made.log(self.name)[lines:]
        assert len(new) == 1 and "refused" in new[0]
        return str(head["why"])

    def _lines(self) -> int:
        try:
            return len(self.made.log(self.name))
        except FileNotFoundError:
            return 0


def tables(name: str, cells: int) -> Any:
    return {"x": [(name, EveryCode(cells))]}


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
    assert "to another request" in server.refused(write(Marginals(tables("age", 121)), server.columns))
    assert "no further one" in server.refused(number=1)
    assert "no further one" in server.refused(number=1, label="two-way marginals")
    later = next(label for label in server.made.study.plan().events if label != server.label)
    good = write(Marginals(tables("y", 3)), server.columns)
    planned = sum(times for _, times in server.made.study.plan().events.values())
    assert "fewer" in server.refused(good, number=planned, label=later)
    assert "past" in server.refused(good, number=-1, label=later)
    assert server.ask(good, number=planned - 1, label=later)[0]["status"] == "answered"
    assert "past" in server.refused(good, number=1, label=later)


def test_other_queries_and_other_cells_are_refused(federation: Make) -> None:
    server = Adversary(federation().start())
    cells = write(Marginals(tables("age", 121)), server.columns)
    assert "follows from the study" in server.refused(cells)
    assert "follows from the study" in server.refused(cells, number=1)  # not by another number either
    gap = write(Distances(tables("y", 3), {"x": np.zeros(3)}), server.columns)
    assert "another kind" in server.refused(gap)
    assert "another kind" in server.refused(gap, label="class-by-bin marginals", number=1)
    assert "no query" in server.refused(b"\x00" * 64)
    assert "no query" in server.refused(
        write(Marginals(tables("y", 2)), server.columns), number=1, label=_other(server)
    )
    assert "no query" in server.refused(
        write(Marginals({"x": [("nobody", ALL_CODES)]}), server.columns), number=1, label=_other(server)
    )


@kind("test: two first columns")
def two_first(codes: Codes) -> torch.Tensor:
    return torch.from_numpy(codes[:, :2].astype(np.float32))


@kind("test: loss of a real row")
def of_real(critic: Any, real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor) -> Any:
    return critic(real)


@pytest.mark.nightly
def test_local_training_is_what_the_study_says(federation: Make, quick: None) -> None:
    """More steps would cost no privacy: what is clipped is their sum. They would cost the site its time."""
    made = federation(trust="none", method="dp-gan", preset="federated-averaging")
    server = Adversary(made.start())
    server.ask()
    groups = Groups(torch.zeros(3, dtype=torch.int64), (1.0,))

    def asked(local: LocalTraining) -> bytes:
        return write(PairGradientSum(Mlp([2, 1]), of_real, two_first, torch.zeros(3, 2), groups, local), server.columns)

    label = "critic gradient sum"
    assert "other local training" in server.refused(asked(LocalTraining(64, 0.05)), number=1, label=label)
    agreed = made.study.config().local
    assert agreed.steps > 1
    assert server.ask(asked(agreed), number=1, label=label)[0]["status"] == "answered"


def _other(server: Adversary) -> str:
    return next(label for label in server.made.study.plan().events if label != server.label)


def test_no_message_can_lower_the_noise(federation: Make) -> None:
    """The noise is no part of a message: one that names any is refused. What comes has the site's own plan's noise."""
    server = Adversary(federation().start())
    for more in ({"multiplier": 0.01}, {"epsilon": 100.0}, {"honest": 50}, {"trust": "server"}):
        assert "more than" in server.refused(**more)
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
    assert "no known kind" in server.refused(kind="rows")
    assert "no message" in str(unpacked(server.site.answer(b"hello"))[0]["why"])
    for wrong in ({"number": "0"}, {"number": True}, {"label": None}, {"among": "north"}, {"among": {"north": "0"}}):
        server.refused(**wrong)


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
    assert "to another request" in server.refused(among=server.named("east", "north"))
    fresh = Adversary(server.made, "east")
    for among in (["east"], [], ["north", "west"], ["east", "nobody"]):
        assert "not enough" in fresh.refused(among=fresh.named(*among))


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
    with pytest.raises(MedsynthError, match="north refused: The message is of another study"):
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


@pytest.mark.parametrize("trust", ["none", "secure-sum", "server"])
def test_a_site_that_starts_again_answers_nothing_that_was_asked_before(federation: Make, trust: str) -> None:
    """By force, from another folder; the plan is charged anew, in full, and its steward hears of it."""
    made = federation(trust=trust).start()
    before = Adversary(made)
    assert before.ask()[0]["status"] == "answered"
    told = [text for text in restarted(made) if "again" in text]
    assert len(told) == 1 and "1 earlier start" in told[0] and "stays" in told[0]
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
    assert "again: 1 earlier start" in log


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
    label, body = _other(server), write(Marginals(tables("y", 3)), server.columns)
    later: dict[str, Any] = {"number": 1, "label": label}
    for changed in ("east", "north"):
        why = server.refused(body, among={**server.nonces, changed: "5" * 32}, **later)
        assert ("current nonce" if changed == "north" else "mid-run") in why
    assert "not enough" in server.refused(body, among=server.named("east", "west"), **later)
    made.start("north", resume=True)  # which has its nonce, and those of the run, on file
    again = Adversary(made)
    assert again.nonces == server.nonces
    assert "mid-run" in again.refused(body, among={**again.nonces, "east": "5" * 32}, **later)
    assert again.ask(body, **later)[0]["status"] == "answered"  # west is named for the first time


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
    with pytest.raises(MedsynthError, match="started again") as caught:
        made.fit()
    assert "`resume`" in str(caught.value) and "`force`" in str(caught.value)
    with pytest.raises(MedsynthError, match="The site north has started again since this run began"):
        made.fit(resume=True)
    made.start().fit()
    fits = Budget.of(made.folder / "north" / "t.csv").spent().of_study(made.study.digest)
    assert [fit.model is not None for fit in fits] == [False, True]


def test_a_copy_of_a_checkpoint_answers_nothing_twice(federation: Make) -> None:
    """A copy has the nonce: fresh noise under used pads. Whichever process begins to answer last goes on alone."""
    made = federation(trust="secure-sum").start()
    server = Adversary(made)
    at, label = made.folder / "north", _other(server)
    own = at / "trial-north.medsynth-checkpoint"
    server.ask()
    copies = [made.folder / name for name in ("early", "late")]
    body, later = write(Marginals(tables("y", 3)), server.columns), {"number": 1, "label": label}
    for copy in copies:
        copy.mkdir()
        shutil.copy(own, copy)
    first = copied(made, copies[0])  # alive beside the site
    assert first.ask() == server.ask()  # what was sent before is the same
    assert server.ask(body, **later)[0]["status"] == "answered"
    assert "could not answer" in first.ask(body, **later)[0].get("why", "")  # it would have drawn the same measurement
    with pytest.raises(UsageError, match="old copy"):
        copied(made, copies[1])
    made.start("north", resume=True)
    latest = Adversary(made)
    assert latest.ask(body, **later) == server.ask(body, **later)
    left = [name for name in made.study.plan().events if name not in (label, server.label)]
    third: dict[str, Any] = {"number": 2, "label": left[0]}
    assert latest.ask(body, **third)[0]["status"] == "answered"
    assert "could not answer" in server.ask(body, **third)[0].get("why", "")  # the one that was not told to end


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
