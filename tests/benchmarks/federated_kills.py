"""Kill -9 of the server and of sites at random moments of a fit over sites, and resume: real processes and sockets.

Three sites and a server are processes of this machine, as the commands start them. Each kill hits the server or one
site in turn, when the server's checkpoint has reached a random size; what was killed starts again with `resume`. At
the end, every site's ledger must be within its plan and contain each measurement once, the budget files must contain
what was released, and the model must equal, to the last byte, that of a fit that got the same answers without kills.
Prints a line per kill, and the sums.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.common import options
from tests.benchmarks.kills import forked

SITES = ("east", "north", "west")
PRELOADED = ("medsynth.federated.site", "medsynth.federated.server", "medsynth.methods.gs_wgan",
             "medsynth.methods.random_features", "opacus.accountants")  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "mixture": {},
    "gs-wgan": {"preset": "all-critics", "settings": {"steps": 60, "batch": 6, "shards": 9}},
    "dp-cgan": {"preset": "random-features", "settings": {"lots": 80, "features": 32}},
}
SCHEMA = {
    "name": "t",
    "target": "y",
    "columns": {
        "age": {"kind": "count", "bounds": [0, 120]},
        "sick": {"kind": "binary", "levels": ["no", "yes"]},
        "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
    },
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A study and its sites below a folder."""

    folder: Path
    method: str
    trust: str

    def study(self) -> Any:
        """Return the study that all agreed to."""
        from medsynth.federated import study as studies
        from medsynth.federated.masks import SecretKey

        keys = {name: SecretKey.read(self.folder / name / "key").public for name in SITES}
        content = {"name": "trial", "schema": SCHEMA, "epsilon": 3.7, "rows": 300, "method": self.method}
        return studies.study_of({**content, "trust": self.trust, "sites": keys, **METHODS[self.method]})


def prepared(trial: Trial) -> None:
    """Write tables and keys."""
    from medsynth.federated.masks import write_key

    rng = np.random.default_rng(0)
    for name in SITES:
        (trial.folder / name).mkdir()
        write_key(trial.folder / name / "key")
        y = rng.choice(list("abc"), 100)
        age = rng.integers(0, 60, 100) + 50 * (y == "a")
        frame = pd.DataFrame({"age": age, "sick": np.where(age > 60, "yes", "no"), "y": y})
        frame.to_csv(trial.folder / name / "t.csv", index=False)


def site(trial: Trial, name: str) -> None:
    """Run a site in a process of its own until the study ends."""
    from medsynth.federated.masks import SecretKey
    from medsynth.federated.site import Site
    from medsynth.federated.transport import serve, socket_of

    at = trial.folder / name
    own = Site(trial.study(), name, at / "t.csv", at, key=SecretKey.read(at / "key"), resume=True)
    serve(socket_of(trial.folder, name), own.answer, lambda: own.finished)


def server(trial: Trial, output: str) -> None:
    """Run the fit in a process of its own. All files are copied before the study ends."""
    from medsynth.federated.server import federated_fit
    from medsynth.federated.transport import Sockets

    with open(trial.folder / "server.log", "a") as file, contextlib.redirect_stderr(file):
        checkpoint = trial.folder / "checkpoint"
        model, end = federated_fit(trial.study(), Sockets(trial.folder), checkpoint, resume=True)
        model.save(trial.folder / f"{output}.medsynth", force=True)
        for name in SITES:
            kept = trial.folder / name / f"trial-{name}.medsynth-checkpoint"
            shutil.copy(kept, trial.folder / f"{output}-{name}")
        shutil.copy(checkpoint, trial.folder / f"{output}-checkpoint")
        end()


def size(trial: Trial) -> int:
    """Return the bytes of the server's checkpoint; zero if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return (trial.folder / "checkpoint").stat().st_size
    return 0


def records(path: Path) -> list[tuple[str, bytes]]:
    """Return label and bytes of each whole record of a checkpoint."""
    from medsynth.privacy.checkpoint import RECORD_HEAD

    found, place, content = [], 0, path.read_bytes()
    while place + RECORD_HEAD.size <= len(content):
        length, _ = RECORD_HEAD.unpack_from(content, place)
        body = content[place + RECORD_HEAD.size : place + RECORD_HEAD.size + length]
        head = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]
        found.append((head.get("label", "facts"), content[place : place + RECORD_HEAD.size + length]))
        place += RECORD_HEAD.size + length
    return found


def run(trial: Trial, output: str, kills: int, whole: int, moments: random.Random) -> int:
    """Run a fit to its end, with kills before its checkpoint has `whole` bytes. Return the number of kills."""
    processes = {name: forked(PRELOADED, site, trial, name) for name in SITES}
    processes["server"] = forked(PRELOADED, server, trial, output)
    due = sorted(whole * moments.random() for _ in range(kills))
    done = 0
    while processes["server"].exitcode != 0:
        if due and size(trial) >= due[0]:
            due.pop(0)
            name = "server" if done % 2 == 0 else moments.choice(SITES)
            processes[name].kill()
            processes[name].join()
            assert processes[name].exitcode == -signal.SIGKILL, f"{name} had ended"
            done += 1
            print(f"killed {name} at {100 * size(trial) / whole:.0f} % of the server's checkpoint", flush=True)
        for name, process in processes.items():
            if process.exitcode not in (None, 0):  # Killed, or ended because a site was away too long.
                processes[name] = (
                    forked(PRELOADED, site, trial, name) if name in SITES else forked(PRELOADED, server, trial, output)
                )
        time.sleep(0.002)
    for name in SITES:
        processes[name].join(60)
        assert processes[name].exitcode == 0, f"{name} did not end with the study"
    return done


def checked(trial: Trial, output: str) -> None:
    """Raise AssertionError unless each site answered its plan once, and its budget file agrees."""
    import medsynth
    from medsynth.budget import Budget

    plan, model = trial.study().plan(), medsynth.load(trial.folder / f"{output}.medsynth")
    assert model.claims and model.epsilon is not None and model.epsilon <= 3.7
    assert all(model.ledger.times_measured(label) == times for label, (_, times) in plan.events.items())
    for name in SITES:
        stored = Counter(label for label, _ in records(trial.folder / f"{output}-{name}"))
        assert {label: stored[label] for label in plan.events} == {k: times for k, (_, times) in plan.events.items()}
        (fit,) = Budget.of(trial.folder / name / "t.csv").spent().fits
        assert fit.model is not None and fit.epsilon is not None and fit.epsilon <= 3.7


def same_without_kills(trial: Trial, output: str) -> None:
    """Raise AssertionError unless a server that is never killed makes the same model from the same answers."""
    import medsynth

    began = records(trial.folder / f"{output}-checkpoint")[:2]  # Facts and the run's number, but no measurement.
    assert began[1][0].startswith("secret")
    (trial.folder / "checkpoint").write_bytes(b"".join(content for _, content in began))
    for name in SITES:
        shutil.copy(trial.folder / f"{output}-{name}", trial.folder / name / f"trial-{name}.medsynth-checkpoint")
        (trial.folder / name / "t.medsynth-ledger").unlink()
    before = {name: (trial.folder / f"{output}-{name}").stat().st_size for name in SITES}
    assert run(trial, "again", 0, 1, random.Random(0)) == 0
    one, two = (medsynth.load(trial.folder / f"{name}.medsynth") for name in (output, "again"))
    assert one.tensors.keys() == two.tensors.keys()
    assert all(one.tensors[name].tobytes() == two.tensors[name].tobytes() for name in one.tensors)
    assert all(
        (trial.folder / f"again-{name}").stat().st_size == before[name] for name in SITES
    )  # None was drawn again.


def trials(folder: Path, method: str, trust: str, kills: int, seed: int) -> int:
    """Run a fit without kills for its checkpoint's length, then one with kills. Return the number of kills."""
    first, second = (Trial(folder=folder / part, method=method, trust=trust) for part in ("a", "b"))
    for trial in (first, second):
        trial.folder.mkdir()
        prepared(trial)
    run(first, "whole", 0, 1, random.Random(0))
    whole = (first.folder / "whole-checkpoint").stat().st_size
    done = run(second, "killed", kills, whole, random.Random(seed))
    checked(second, "killed")
    same_without_kills(second, "killed")
    return done


def main(words: list[str]) -> None:
    """Kill as often as asked, and print the outcome."""
    parser = options("federated-kills", __doc__)
    parser.add_argument("--kills", type=int, default=20, help="half of the server, half of sites")
    parser.add_argument("--method", choices=list(METHODS), default="gs-wgan")
    parser.add_argument("--trust", choices=["none", "server", "secure-sum"], default="secure-sum")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as place:
        done = trials(Path(place), given.method, given.trust, given.kills, given.seed)
    print(f"{done} kills of {given.method}, trust {given.trust}: every site's ledger is its plan, each measurement was "
          "drawn once, and the model is that of a fit that was not killed and got the same answers.")  # fmt: skip
