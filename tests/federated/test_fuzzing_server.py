"""A fuzzing server sees no difference between neighbours but in numbers that are charged; refusals are the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing_server import NAME, OTHERS, Judge, Server, World, distance, tables, with_traps
from three_sites import SCHEMA

from medsynth import rng as randomness
from medsynth.budget import Budget
from medsynth.federated.masks import write_key
from medsynth.federated.study import FORMAT, study_of
from medsynth.federated.transport import packed, unpacked
from medsynth.privacy.queries.gradients import GradientSum
from medsynth.privacy.queries.tables import Marginals

TRUSTS = ("none", "secure-sum", "server")
SMALL = {"method": "mixture", "settings": {"steps": 10}}
MANY = {"method": "dp-cgan", "preset": "random-features", "settings": {"lots": 400, "features": 16}}


class Held:
    """Entropy of a start: each call gives the same bytes in both worlds, whatever was drawn before."""

    source = "TEST ONLY: seeded, no privacy"

    def __init__(self, start: int) -> None:
        self.start, self.calls = start, 0

    def bytes(self, count: int) -> bytes:
        self.calls += 1
        return np.random.Generator(np.random.Philox([self.start, self.calls])).bytes(count)


class Worlds:
    """Two worlds, of which one lacks a row, and a server that asks both."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, trust: str, method: Any) -> None:
        keys = {name: write_key(folder / name) for name in (NAME, *OTHERS)}
        sites = {name: key.public for name, key in keys.items()}
        content = {"name": "fuzz", "schema": SCHEMA, "epsilon": 3.7, "rows": 300, "sites": sites, "trust": trust}
        self.study = study_of({**content, "minimum": 2, **method})
        self.now: World
        self.worlds = []
        for k, frame in enumerate(tables()):
            (folder / str(k)).mkdir()
            frame.to_csv(folder / str(k) / "t.csv", index=False)
            self.worlds.append(World(self.study, folder / str(k), keys[NAME]))
        monkeypatch.setattr("os.urandom", lambda count: self.now.bytes(count))
        monkeypatch.setattr("os.fsync", lambda file: None)  # nothing is killed here
        monkeypatch.setattr(randomness, "system_entropy", lambda: Held(self.now.starts))
        for query in (Marginals, GradientSum):
            monkeypatch.setattr(query, "exact", with_traps(query.exact))
        self.server, self.judge = Server(self.study, seed), Judge()
        self.copy = ""
        self.at, self.folders, self.answered, self.refused, self.furthest = "0", 0, 0, 0, 0.0
        self.all(lambda world: world.start("0", resume=False))

    def all(self, act: Any) -> Any:
        """Do the same in both worlds. Returns what the first makes of it, which must be what the second does."""
        found = []
        for world in self.worlds:
            self.now = world
            found.append(act(world))
        assert found[0] == found[1]
        return found[0]

    def restart(self) -> None:
        """Start the site again: with its checkpoint, by force, elsewhere, or with a copy of its checkpoint."""
        how = self.server.one("resume", "force", "elsewhere", "copy", "go on with the copy")
        self.folders += 1
        if how == "copy":
            self.copy = f"copy {self.folders}"
            self.all(lambda world: world.copied(self.at, self.copy))
            return
        if how == "elsewhere":
            self.at = f"folder {self.folders}"
        at = self.copy if how == "go on with the copy" and self.copy else self.at
        failed = self.all(lambda world: world.start(at, resume=how in ("resume", "go on with the copy")))
        self.at = self.at if failed else at
        if not failed and how != "resume":
            self.server.anew()

    def ask(self, message: bytes, which: int = 0) -> None:
        """Send both worlds a request, and compare all that each shows then."""
        replies = []
        for world in self.worlds:
            self.now = world
            site = world.live[min(which, len(world.live) - 1)]
            replies.append(site.answer(message))
        (head, one), (other_head, other) = map(unpacked, replies)
        assert head == other_head and len(one) == len(other)
        self.all(lambda world: world.shown())
        if self.judge.check(message, head, replies[0]):
            self.answered += 1
            far = distance(self.study, self.server.plan, self.server.query(message), message, one, other)
            assert far <= 1 + 1e-9
            self.furthest = max(self.furthest, far)
        else:
            self.refused += head["status"] == "refused"
            assert replies[0] == replies[1]
        self.server.seen(message, head)

    def run(self, requests: int) -> None:
        """As many requests, with restarts among them; now and then the study ends, and begins anew."""
        for number in range(requests):
            what = self.server.rng.random()
            if number % 40 == 39:
                self.restart()
                if what < 0.7:  # else it goes on with the nonce of an earlier start
                    self.ask(packed({"format": FORMAT, "study": self.server.digest, "kind": "join", "run": "1"}))
            if what > 0.997:
                end = {"format": FORMAT, "study": self.server.digest, "run": "1", "kind": "finish"}
                self.ask(packed(end))
                self.all(lambda world: world.start(self.at, resume=False))
                self.server.anew()
            self.ask(self.server.request(), int(self.server.rng.random() < 0.1))


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, requests: int, seed: int, trust: str, method: Any) -> Worlds:
    """A fuzzed site: what it shows is the same for neighbours, and its budget file has each start that answered."""
    made = Worlds(folder, monkeypatch, seed, trust, method)
    made.run(requests)
    for world in made.worlds:
        fits = Budget.of(world.table).spent().of_study(made.study.digest)
        starts = {nonce for nonce, _ in made.judge.replies}
        assert len({fit.number for fit in fits}) == len(fits) >= len(starts) > 1
        planned = tuple(made.study.plan().events.values())
        assert all(fit.events == planned for fit in fits if not fit.ended)
    return made


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", TRUSTS)
def test_a_fuzzing_server_sees_charged_numbers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made = run(tmp_path, monkeypatch, 150, 4, trust, {"method": "independent"})
    assert made.answered > 3 and made.refused > 30 and made.furthest > 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.nightly
@pytest.mark.parametrize(("trust", "method"), [("none", SMALL), ("none", MANY), ("secure-sum", SMALL),
                                               ("secure-sum", MANY), ("server", SMALL)])  # fmt: skip
def test_a_fuzzing_server_sees_charged_numbers_alone_in_thousands_of_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str, method: Any
) -> None:
    made = run(tmp_path, monkeypatch, 1500, 2, trust, method)
    assert made.answered > 60 and made.furthest > 0.5
