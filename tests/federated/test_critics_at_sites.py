"""GS-WGAN over sites: critics at the sites, sums of their gradients at the server, steps as the study has them."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_adversaries import Adversary
from test_federated_wire import Recorded, recorded
from test_sites_that_differ import Killed, fit, ledgers_are_the_plan
from three_sites import SITES, Federation

from medsynth import rng
from medsynth.budget import Budget
from medsynth.federated.critics import indicators, places
from medsynth.federated.rounds import Rounds
from medsynth.federated.transport import arrays_of, body_of, unpacked
from medsynth.methods.gs_wgan import GRADIENTS
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.shards import Shards, UpstreamSum, unit_of

pytestmark = pytest.mark.usefixtures("quick")
Make = Callable[..., Federation]
METHOD = {"method": "gs-wgan", "preset": "all-critics"}
TRUSTS = ("none", "server", "secure-sum")


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", TRUSTS)
def test_a_fit_ends_and_its_rows_obey_the_schema(federation: Make, trust: str) -> None:
    made = federation(trust=trust, **METHOD).start()
    model = made.fit()
    ledgers_are_the_plan(made, model)
    assert model.claims and model.epsilon is not None and 0.9 * 3.7 < model.epsilon <= 3.7
    assert model.config["shards"] == 3  # of four by the rule: one at each site
    drawn = model.sample(200)
    assert list(drawn.columns) == ["age", "dose", "sick", "y"] and set(drawn["y"]) <= set("abc")
    assert drawn["age"].between(0, 120).all() and drawn["dose"].between(0, 100).all()
    (entry,) = [entry for entry in made.sites["north"].ledger.entries if entry.label == GRADIENTS]
    assert isinstance(entry.event, Gaussian) and entry.count == 3 and entry.sensitivity == pytest.approx(2 * 24**0.5)
    notes = " ".join(model.ledger.notes)
    assert ("Nothing is claimed against whoever runs the server" in notes) == (trust == "server")
    assert ("it is the same" in notes) == (trust != "server") and "1 shards at each" in notes
    assert "No claim relies on sampling" in notes


@pytest.mark.nightly_for("server", "none")
@pytest.mark.parametrize("trust", TRUSTS)
def test_without_noise_the_server_has_the_sum_over_all_shards(
    federation: Make, trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = federation(trust=trust, **METHOD)
    monkeypatch.setattr(rng, "system_entropy", rng.NoNoise)
    made.start()
    exact: list[Any] = []
    seen: list[Any] = []
    release, result = Shards.release, UpstreamSum.result

    def watching(self: Any, label: str, query: Any) -> Any:
        exact.append(self._Shards__sum(query)[0] * unit_of(query.bound))
        return release(self, label, query)

    def found(self: Any, arrays: Any) -> Any:
        seen.append(arrays[0])
        return result(self, arrays)

    monkeypatch.setattr(Shards, "release", watching)
    monkeypatch.setattr(UpstreamSum, "result", found)
    made.fit()
    assert len(seen) == 3 and len(exact) == 9
    for k, total in enumerate(seen):
        assert np.allclose(total, sum(exact[3 * k : 3 * k + 3]), rtol=0, atol=1e-12) and np.abs(total).max() > 0


def stepped(made: Federation) -> tuple[Adversary, list[tuple[dict[str, Any], bytes]]]:
    """Whoever can send the site north any bytes, once it has answered what comes before the steps, and the steps."""
    kept = recorded(made)
    asked = [unpacked(message) for site, message, _ in kept.messages if site == "north"]
    (made.folder / "north" / "trial-north.medsynth-checkpoint").unlink()
    made.start("north")
    server = Adversary(made)
    before = [(head, body) for head, body in asked if head.get("label") not in (None, GRADIENTS)]
    for head, body in before:
        assert server.ask(body=body, **_of(head))[0]["status"] == "answered"
    return server, [(head, body) for head, body in asked if head.get("label") == GRADIENTS]


def test_steps_of_another_form_order_or_number_are_refused(federation: Make) -> None:
    server, steps = stepped(federation(**METHOD).start())
    (first, body), (second, later), (third, last) = steps
    *releases, pools, fakes = arrays_of(body)

    def wrong(*arrays: Any, **changed: Any) -> str:
        return server.refused(body=body_of(arrays), **{**_of(first), **changed})

    assert "do not have the shape" in server.refused(body=later, **_of(second))  # the first step holds the warm start
    for other in (
        (pools[:1], fakes), (pools, fakes[:-1]), (pools, fakes[:, :-1]), (pools, -1 - fakes), (pools + 1000, fakes),
        (pools[:, :-1], fakes), (pools.astype(float), fakes), (pools, fakes.astype(float)), (pools, fakes[None]),
        (pools, np.repeat(fakes, 2, 0)), (pools[:0], fakes), (pools, fakes[:0]),
    ):  # fmt: skip
        assert "do not have the shape" in wrong(*releases, *other)
    assert "two arrays" in wrong(*releases, pools, fakes, fakes)
    assert "another measurement next" in wrong(pools, fakes, releases=[])
    assert "no arrays" in server.refused(body=b"0", **_of(first))
    assert "means another query" in wrong(*releases, pools, fakes, query="0" * 64)
    answer = server.ask(body=body, **_of(first))
    assert answer[0]["status"] == "answered" and server.ask(body=body, **_of(first)) == answer  # and drawn once
    assert server.site.ledger.times_measured(GRADIENTS) == 1
    assert "for another request" in wrong(*releases, pools, fakes[::-1])
    assert "do not have the shape" in wrong(*releases, pools, fakes, number=first["number"] + 1)
    for head, content in ((second, later), (third, last)):
        assert server.ask(body=content, **_of(head))[0]["status"] == "answered"
    assert "fewer measurements" in server.refused(body=last, **{**_of(third), "number": third["number"] + 1})


def test_a_restarted_site_reads_steps_by_the_map_that_it_kept(federation: Make) -> None:
    """Whatever releases come with a later step: here such as would put every row of a column into one bin."""
    server, steps = stepped(federation(**METHOD).start())
    (first, body), (second, later), _ = steps
    assert server.ask(body=body, **_of(first))[0]["status"] == "answered"
    server.site = server.made.start("north", resume=True).sites["north"]
    *releases, pools, fakes = arrays_of(later)
    for array in releases:
        array[:] = 1e6 * (np.arange(len(array)) == 0)
    head, _ = server.ask(body=body_of([*releases, pools, fakes]), **_of(second))
    assert head["status"] == "answered", head


def _of(head: dict[str, Any]) -> dict[str, Any]:
    return {key: head[key] for key in ("number", "label", "run", "seed", "releases", "query")}


@pytest.mark.nightly_for("none")
@pytest.mark.parametrize("trust", ["none", "secure-sum"])
def test_neighbours_differ_in_one_clipped_gradient_a_step(
    federation: Make, trust: str, fixed_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise and draws fixed: one row at one site is gone, the last, so that others keep their places."""
    made = federation(trust=trust, settings={"shards": 9}, **METHOD)
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))  # of the runs' numbers and nonces: keys are made
    first = recorded(made.start())
    for name in SITES:
        (made.folder / name / f"trial-{name}.medsynth-checkpoint").unlink()
        (made.folder / name / "t.medsynth-ledger").unlink()
    made.tables["north"] = made.tables["north"].iloc[:-1]
    made.tables["north"].to_csv(made.folder / "north" / "t.csv", index=False)
    made.start()
    second = Recorded(made)
    for site, message, _ in first.messages:
        second.messages.append((site, message, made.sites[site].answer(message)))
    moved = []
    for (site, message, one), (_, _, two) in zip(first.messages, second.messages, strict=True):
        head, body = unpacked(message)
        if site != "north":
            assert one == two
        elif head.get("label") == GRADIENTS:
            (a,), (b,) = (arrays_of(unpacked(answer)[1]) for answer in (one, two))
            gap = (a - b).view(np.int64) * unit_of(1.0) if trust == "secure-sum" else a - b
            moved.append(np.linalg.norm(gap))
    assert len(moved) == 3 and 0 < max(moved) <= 2 * 24**0.5 * (1 + 1e-9)


def _kill_north(made: Federation, call: int, name: str) -> str | None:
    return "site killed after" if name == "north" and call % 2 else None


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", TRUSTS)
def test_a_site_that_is_killed_trains_its_critics_again_by_the_steps_on_file(
    federation: Make, trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows keep their shards, critics see each pool once, and nothing is measured twice."""
    made = federation(trust=trust, **METHOD).start()
    trained: list[Any] = []
    train, stored = Shards.train, list[tuple[str, str]]()
    store = Rounds.store

    def counting(self: Any, fakes: Any) -> None:
        trained.append(self)
        train(self, fakes)

    def storing(self: Any, label: str, arrays: Any, names: Any) -> None:
        stored.append((self.path.name, label))
        store(self, label, arrays, names)

    monkeypatch.setattr(Shards, "train", counting)
    monkeypatch.setattr(Rounds, "store", storing)
    model = fit(made, lambda call, name: _kill_north(made, call, name))
    ledgers_are_the_plan(made, model)
    assert [label for name, label in stored if "north" in name].count("secret: shards") == 1
    assert [label for name, label in stored if "north" in name].count(GRADIENTS) == 3
    steady: list[Any] = [made.sites[name]._critics._shards for name in ("east", "west")]
    norths = [shards for shards in trained if all(shards is not other for other in steady)]
    times = [sum(one is shards for one in norths) for shards in norths]
    assert 2 + 3 == max(times) < len(times)  # the warm start of two and three steps, by one of several


@pytest.mark.nightly_for("server killed before")
@pytest.mark.parametrize("when", ["server killed before", "server killed after"])
def test_a_server_that_is_killed_goes_on_with_the_step_it_was_at(federation: Make, when: str) -> None:
    made = federation(**METHOD).start()
    model, moment = None, 0
    while model is None:
        moment += 1
        at, site = 2, SITES[moment % 3]
        try:
            model = fit(made, _at(at if moment < 12 else 0, site, when), resume=moment > 1)
        except Killed:
            continue
    ledgers_are_the_plan(made, model)
    (found,) = Budget.of(made.folder / "north" / "t.csv").spent().fits
    assert found.model is not None


def _at(moment: int, site: str, fault: str) -> Callable[[int, str], str | None]:
    return lambda call, name: fault if call == moment and name == site else None


def test_rows_are_sent_as_the_places_of_their_ones() -> None:
    rows = torch.zeros(2, 3, 5)
    rows[..., 1], rows[0, :, 4], rows[1, :, 3] = 1.0, 0.9999999, 1.0
    assert places(rows).shape == (2, 3, 2) and torch.equal(indicators(places(rows), 5), rows.round())
