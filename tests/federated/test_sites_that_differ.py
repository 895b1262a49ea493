"""Sites of other classes, levels and sizes; sites that drop out, return, are killed, or hold a broken table."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from three_sites import SITES, Federation, table

from medsynth.budget import Budget
from medsynth.errors import BudgetError, MedsynthError, SchemaError, UsageError
from medsynth.federated.rounds import Asked, Rounds
from medsynth.federated.transport import SUFFIX, Sockets, serve, socket_of, unpacked
from medsynth.privacy.checkpoint import Checkpoint

Make = Callable[..., Federation]
TRUSTS = ("none", "server", "secure-sum")


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.mark.statistical
@pytest.mark.parametrize("trust", TRUSTS)
def test_classes_levels_and_sizes_may_differ(federation: Make, trust: str) -> None:
    """A class at one site alone, a level that another lacks, sizes 1 : 10. Noise is far below 40 rows: under 1e-9."""
    frames = {"east": table(40, 1, "c"), "north": table(80, 2, "a"), "west": table(400, 3, "a")}
    frames["north"]["sick"] = "no"
    made = federation(frames, trust=trust, rows=520, epsilon=10.0)
    model = made.start().fit()
    shares = model.sample(4000)["y"].value_counts(normalize=True)
    assert 0.02 < shares["c"] < 0.2 and shares["a"] > 0.7


class Unreliable:
    """A transport that loses messages, answers, and whole processes, as `fault` says of each call of a site."""

    def __init__(self, made: Federation, fault: Callable[[int, str], str | None]) -> None:
        self.made, self.fault, self.calls = made, fault, 0

    def call(self, sites: Sequence[str], message: bytes, came: Callable[[str], None]) -> Mapping[str, bytes]:
        self.calls += 1
        found = {}
        for name in sites:
            fault = self.fault(self.calls, name)
            if fault == "server killed before":
                raise Killed
            if fault == "lost":
                continue
            if fault == "site killed before":
                self.made.start(name, resume=True)
            answer = self.made.sites[name].answer(message)
            if fault == "server killed after":
                raise Killed
            if fault == "site killed after":  # its answer is lost with it
                self.made.start(name, resume=True)
                continue
            found[name] = answer
        return found


def fit(
    made: Federation, fault: Callable[[int, str], str | None], *, resume: bool = False, notices: list[str] | None = None
) -> Any:
    from medsynth.federated.server import federated_fit

    notice = (notices if notices is not None else []).append
    model, end = federated_fit(
        made.study, Unreliable(made, fault), made.folder / "checkpoint", resume=resume, notice=notice
    )
    end()
    return model


def ledgers_are_the_plan(made: Federation, model: Any) -> None:
    assert model.ledger.complete
    for name in SITES:
        (found,) = Budget.of(made.folder / name / "t.csv").spent().fits
        assert found.model is not None and made.sites[name].finished  # settled, which only a whole ledger is


def _at_the_second_call(site: str, fault: str, call: int, name: str) -> str | None:
    return fault if call == 2 and name == site else None


@pytest.mark.nightly_for("server killed before-server", "server killed before-secure-sum")
@pytest.mark.nightly_for("server killed after-none", "server killed after-server")
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("when", ["server killed before", "server killed after"])
def test_a_server_that_is_killed_goes_on_where_it_was(
    federation: Make, trust: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ten moments, one after another. No site draws a measurement twice."""
    made = federation(trust=trust).start()
    stored: list[tuple[str, str]] = []
    store = Rounds.store

    def storing(self: Any, label: str, arrays: Any, names: Any) -> None:
        stored.append((self.path.name, label))
        store(self, label, arrays, names)

    monkeypatch.setattr(Rounds, "store", storing)
    model, moment = None, 0
    while model is None:
        moment += 1
        site = SITES[moment % 3] if moment <= 10 else ""
        try:
            model = fit(made, partial(_at_the_second_call, site, when), resume=moment > 1)
        except Killed:
            continue
    assert moment == 11
    ledgers_are_the_plan(made, model)
    planned = sum(times for _, times in made.study.plan().events.values())
    assert len(stored) == 3 * planned and len(set(stored)) == len(stored)


@pytest.mark.nightly_for("site killed before-none", "site killed after-server", "lost-secure-sum")
@pytest.mark.nightly_for("site killed before-server", "site killed after-secure-sum", "lost-none")
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("when", ["site killed before", "site killed after", "lost"])
def test_a_site_that_is_killed_or_lost_is_asked_again(federation: Make, trust: str, when: str) -> None:
    """At every second call, for each site in turn: its answers come from its checkpoint, the same to the last byte."""
    made = federation(trust=trust).start()
    model = fit(made, lambda call, name: when if call % 2 and name == SITES[call // 2 % 3] else None)
    ledgers_are_the_plan(made, model)


def test_a_site_killed_before_its_answer_is_on_file_draws_it_anew(
    federation: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has seen the first: it is charged once."""
    made = federation().start()
    store, writes = Checkpoint.store, list[str]()

    def storing(self: Any, label: str, arrays: Any, names: Any) -> None:
        writes.append(label)
        if isinstance(self, Rounds) and len(writes) == 6:
            made.start("north", resume=True)
            raise ConnectionError
        store(self, label, arrays, names)

    monkeypatch.setattr(Checkpoint, "store", storing)
    with pytest.raises(MedsynthError, match="refused: This site could not answer"):
        fit(made, lambda call, name: None)
    made.start(resume=True)
    ledgers_are_the_plan(made, fit(made, lambda call, name: None, resume=True))


def test_a_fit_goes_on_without_a_site_where_the_study_says_so(federation: Make) -> None:
    """It is gone for some measurements, and returns: what it was not asked it was not charged."""
    made = federation(minimum=2).start()
    model = fit(made, lambda call, name: "lost" if name == "west" and 3 < call <= 9 else None)
    assert model.ledger.complete
    charged = {name: sum(entry.count for entry in made.sites[name].ledger.entries) for name in SITES}
    assert charged["east"] == charged["north"] > charged["west"] > 0
    (found,) = Budget.of(made.folder / "west" / "t.csv").spent().fits
    assert found.ended and sum(times for _, times in found.events) == charged["west"]


def test_too_few_answers_end_the_fit_and_it_can_be_resumed(federation: Make) -> None:
    made = federation().start()
    with pytest.raises(MedsynthError, match="No answer from west. At least 3 sites"):
        fit(made, lambda call, name: "lost" if name == "west" and call > 2 else None)
    ledgers_are_the_plan(made, fit(made, lambda call, name: None, resume=True))


def test_a_secure_sum_of_those_that_are_there(federation: Make) -> None:
    """Who is there is asked before each sum. One that leaves within a sum leaves it closed until it is back."""
    made = federation(trust="secure-sum", minimum=2).start()
    notices = list[str]()
    model = fit(made, lambda call, name: "lost" if name == "west" and call > 3 else None, notices=notices)
    assert model.ledger.complete and not made.sites["west"].ledger.complete
    assert notices[-1] == "No answer at the end of the study from west. Stop each of these sites by hand."


def test_one_that_leaves_within_a_secure_sum_leaves_it_closed(federation: Make) -> None:
    made = federation(trust="secure-sum", minimum=2).start()

    def fault(call: int, name: str) -> str | None:
        return "lost" if name == "west" and call >= 3 else None  # there at the second joining, gone for the sum

    with pytest.raises(MedsynthError, match="No answer from west. All 3 sites .*minimum, 2, applies to the next"):
        fit(made, fault)
    with pytest.raises(MedsynthError, match="No answer from west"):  # no smaller set opens it either
        fit(made, lambda call, name: "lost" if name == "west" else None, resume=True)

    ledgers_are_the_plan(made, fit(made, lambda call, name: None, resume=True))


@pytest.mark.parametrize("all_at_once", [True, False], ids=["sockets", "in process"])
def test_a_slow_site_is_named_while_it_is_waited_for(
    federation: Make, all_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that have answered are not named; the fit goes on once the slow one has."""
    monkeypatch.setattr("medsynth.federated.server.PATIENCE", 0.2)
    made = federation().start()
    noticed: list[str] = []
    waited, answer = threading.Event(), made.sites["north"].answer

    def slowly(message: bytes) -> bytes:
        if unpacked(message)[0]["kind"] == "measure" and not waited.is_set():
            assert waited.wait(60)
        return answer(message)

    def notice(text: str) -> None:
        noticed.append(text)
        if text.startswith("Still waiting for north"):
            waited.set()

    made.transport.sites["north"] = slowly
    if not all_at_once:
        made.fit(notice=notice)
        assert any("north, west" in text for text in noticed if text.startswith("Still"))  # asked one after another
        return
    threads = [
        threading.Thread(target=serve, args=(socket_of(made.folder, name), made.transport.sites[name], ended))
        for name, ended in [(name, partial(getattr, made.sites[name], "finished")) for name in SITES]
    ]
    for thread in threads:
        thread.start()
    made.transport = Sockets(made.folder)
    while len(list(made.folder.glob(f"*{SUFFIX}"))) < len(SITES):
        assert all(thread.is_alive() for thread in threads)
    made.fit(notice=notice)
    for thread in threads:
        thread.join()
    assert any(text.startswith("Still waiting for north: ") for text in noticed)


def test_a_broken_table_is_refused_before_anything_is_reserved(federation: Make) -> None:
    frames = {name: table(50, seed) for seed, name in enumerate(SITES)}
    frames["north"].loc[4, "y"] = "z7431"
    made = federation(frames)
    with pytest.raises(SchemaError, match="row 5") as caught:
        made.start("north")
    assert "7431" not in str(caught.value)
    assert sorted(path.name for path in (made.folder / "north").iterdir()) == ["key", "t.csv"]
    frames["north"].drop(columns="dose").to_csv(made.folder / "north" / "t.csv", index=False)
    with pytest.raises(SchemaError, match="no column 'dose'"):
        made.start("north")


def test_a_checkpoint_of_another_table_study_or_version_is_refused(federation: Make) -> None:
    made = federation().start()
    made.fit()
    at = made.folder / "north"
    table(100, 9).to_csv(at / "t.csv", index=False)
    with pytest.raises(UsageError, match="another fit"):
        made.start("north", resume=True)


def test_a_checkpoint_that_holds_more_than_the_plan_is_refused(federation: Make) -> None:
    made = federation().start()
    rounds = made.sites["north"]._rounds
    for number in range(2):
        rounds.asked = Asked(number, "0" * 64, 1.0)
        rounds.store(next(iter(made.study.plan().events)), [], [])
    with pytest.raises(BudgetError):
        made.start("north", resume=True)
    rounds.asked = Asked(3, "0" * 64, 1.0)
    made.sites["east"]._rounds.asked = Asked(0, "0" * 64, 1.0)
    made.sites["east"]._rounds.store("no such measurement", [], [])
    with pytest.raises(MedsynthError, match="another version"):
        made.start("east", resume=True)
    Checkpoint.store(made.sites["west"]._rounds, "label", [], [])
    with pytest.raises(MedsynthError, match="altered"):
        made.start("west", resume=True)
