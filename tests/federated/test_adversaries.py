"""A server, or another site, that does what it should not is refused: a line in the site's log, and no charge."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from three_sites import Federation

from medsynth.budget import Budget
from medsynth.errors import MedsynthError, UsageError
from medsynth.federated.admission import first_query
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


def test_who_sees_no_exact_sum_is_given_no_distance(federation: Make, quick: None) -> None:
    """Pairs are selected by coarse tables there: a distance of one site's own rows is no part of the study."""
    made = federation(trust="none", method="warm-dp-cgan", settings={"critic_share": 0.0, "pairs": 3})
    server = Adversary(made.start())
    server.ask()
    gap = write(Distances(tables("y", 3), {"x": np.zeros(3)}), server.columns)
    assert "another kind" in server.refused(gap, label="two-way selection", number=1)
    table = write(Marginals(tables("y", 3)), server.columns)
    assert server.ask(table, number=1, label="two-way selection")[0]["status"] == "answered"


@kind("test: two first columns")
def two_first(codes: Codes) -> torch.Tensor:
    return torch.from_numpy(codes[:, :2].astype(np.float32))


@kind("test: loss of a real row")
def of_real(critic: Any, real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor) -> Any:
    return critic(real)


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


def test_an_error_over_private_rows_says_nothing_of_them(federation: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.privacy.queries import tables as module

    made = federation().start()
    server = Adversary(made)

    def fail(axes: Any, rows: Any) -> Any:
        raise ValueError(f"private {len(rows.codes)}")

    monkeypatch.setattr(module, "counts", fail)
    why = json.dumps(server.ask()[0])
    assert "refused" in why and "private" not in why and "100" not in why


def test_a_restart_does_not_give_the_plan_once_more(federation: Make) -> None:
    made = federation().start()
    server = Adversary(made)
    server.ask()
    made.start("north", resume=True)
    again = Adversary(made)
    assert again.site.ledger.times_measured(again.label) == 1
    assert "no further one" in again.refused(number=1)
