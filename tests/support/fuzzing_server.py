"""A server that sends a site whatever it likes: bytes, crafted releases, old requests, wrong numbers, nonces and sites.

It asks two worlds at once, which differ in one row at one site, and holds all entropy. `Transcript` keeps what each
world shows after each request: the reply's exact part, the log, notices, charges and the budget file.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from three_sites import SCHEMA

from medsynth.arrays import Codes
from medsynth.errors import MedsynthError
from medsynth.federated.derivation import Derived, ShardsAsked, derived, digest_of, numbers_of, with_numbers
from medsynth.federated.masks import SecretKey
from medsynth.federated.site import Site, files_of
from medsynth.federated.study import FORMAT, Study
from medsynth.federated.transport import arrays_of, body_of, digest, grouped, packed, unpacked
from medsynth.privacy.accounting.calibration import Plan
from medsynth.privacy.noise import noise_grid
from medsynth.privacy.queries.query import RowQuery
from medsynth.privacy.queries.rows import CodedRows

NAME = "north"
OTHERS = ("east", "west")
SPECIAL = {"age": 117, "dose": 0.3, "sick": "no", "y": "b"}  # one patient; no public row has these codes together
COLUMNS = tuple(SCHEMA["columns"])


def is_special(codes: Codes) -> bool:
    """Whether the patient is among some rows: by the codes of age and dose."""
    return bool(((codes[:, 0] == 117) & (codes[:, 1] == 3)).any())


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table and its neighbour, which lacks the last row."""
    rng = np.random.default_rng(3)
    rows = 60
    age, dose = rng.integers(0, 90, rows), rng.integers(0, 1000, rows) / 10
    frame = pd.DataFrame({"age": age, "dose": dose, "sick": rng.choice(["no", "yes"], rows)})
    frame["y"] = rng.choice(list("abc"), rows)
    return pd.concat([frame, pd.DataFrame([SPECIAL])], ignore_index=True), frame


def with_traps(exact: Callable[..., Any]) -> Callable[..., Any]:
    """`exact` of a query, which fails for about every other query if the patient is among the rows."""

    def trapped(self: Any, rows: Any) -> Any:
        if is_special(rows.codes) and int(digest_of(self)[0], 16) % 2:
            raise KeyError(f"private {rows.codes[-1].tolist()}")
        return exact(self, rows)

    return trapped


@dataclass
class World:
    """One of two worlds: a site with its table, all bytes of entropy that it draws, and what it has shown."""

    study: Study
    folder: Path
    key: SecretKey
    drawn: int = 0
    starts: int = 0
    notices: list[str] = field(default_factory=list)
    places: dict[Path, int] = field(default_factory=dict)  # how far each file was read
    logs: set[Path] = field(default_factory=set)
    live: list[Site] = field(default_factory=list)  # the latest, and one that was not told to end

    @property
    def table(self) -> Path:
        return self.folder / "t.csv"

    def bytes(self, count: int) -> bytes:
        """What the system draws: the same in both worlds."""
        self.drawn += 1
        return np.random.default_rng([7, self.drawn]).bytes(count)

    def start(self, at: str, *, resume: bool) -> str:
        """Start the site in a folder of that name. Returns the error where it does not start."""
        self.starts += 1
        (self.folder / at).mkdir(exist_ok=True)
        self.logs.add(files_of(self.study, NAME, self.folder / at)[1])
        try:
            made = Site(
                self.study, NAME, self.table, self.folder / at, key=self.key, resume=resume, notice=self.notices.append
            )
        except MedsynthError as error:
            return str(error).replace(str(self.folder), "")
        self.live = [made, *self.live[:1]]
        return ""

    def copied(self, at: str, to: str) -> None:
        """Copy a checkpoint."""
        (self.folder / to).mkdir(exist_ok=True)
        own, copy = (files_of(self.study, NAME, self.folder / folder)[0] for folder in (at, to))
        if own.exists():
            shutil.copy(own, copy)

    def shown(self) -> str:
        """All that it has shown since it was looked at last, but replies: logs, notices, charges, the budget file."""
        logs = {path.parent.name: [line.split(" ", 1)[1] for line in self.new(path)] for path in sorted(self.logs)}
        lines = [json.loads(line) for line in self.new(self.table.with_suffix(".medsynth-ledger"))]
        lines = [{key: value for key, value in line.items() if key != "started"} for line in lines]
        charges = [[(e.label, e.count, e.sensitivity) for e in site.ledger.entries] for site in self.live]
        notices, self.notices = self.notices, []
        return json.dumps([logs, notices, charges, lines]).replace(str(self.folder), "")

    def new(self, path: Path) -> list[str]:
        """The lines of a file that were not read before."""
        if not path.exists():
            return []
        with path.open() as file:
            file.seek(self.places.get(path, 0))
            found = file.read().splitlines()
            self.places[path] = file.tell()
        return found


@dataclass
class Script:
    """The queries of a fit whose releases are crafted, and these releases. `asked[k]` follows from the first k."""

    seed: int
    releases: list[list[Any]] = field(default_factory=list)
    asked: list[Derived] = field(default_factory=list)


class Server:
    """What it sends: `rng` alone decides, and the exact part of replies."""

    def __init__(self, study: Study, seed: int) -> None:
        self.study, self.rng, self.plan, self.digest = study, np.random.default_rng(seed), study.plan(), study.digest
        self.nonces = {name: f"{k:032x}" for k, name in enumerate(OTHERS)}
        self.sent = list[bytes]()
        self.scripts = [self.script() for _ in range(6)]
        self.known = dict[str, Derived]()
        self.anew()

    def anew(self) -> None:
        """Ask from the first measurement on."""
        self.number, self.times = 0, Counter[str]()

    def one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def script(self) -> Script:
        """A fit whose releases have the right shapes, and whatever numbers."""
        made = Script(int(self.rng.integers(2**53)))
        names = self.study.table_schema.core.names
        none = CodedRows(np.zeros((0, len(names)), np.int32), names, np.zeros((0, 2), np.uint64))
        while len(made.asked) < len(self.plan.events):
            try:
                found = derived(self.study, self.plan, made.seed, made.releases)
            except Exception:  # whatever a method makes of such numbers: a site refuses it
                break
            assert not isinstance(found.query, ShardsAsked)
            made.asked.append(found)
            if numbers_of(found.query):
                break
            shapes = [array.shape for array in found.query.finished(found.query.exact(none))]
            made.releases.append([self.numbers(shape) for shape in shapes])
        return made

    def numbers(self, shape: tuple[int, ...]) -> Any:
        """What is said to have been released: counts, or none of any table."""
        found = self.rng.normal(size=shape) * self.one(1.0, 10.0, 1e3, 1e9, 0.0) + self.one(0.0, 10.0, -50.0)
        return np.round(found * 1024) / 1024

    def request(self) -> bytes:
        """The next request: three in five are what a server of the study might send."""
        what = self.rng.random()
        if what < 0.04:
            return self.rng.bytes(int(self.rng.integers(80)))
        if what < 0.12:
            head = {"format": FORMAT, "study": self.digest, "kind": "join"}
            return packed({**head, "run": self.one("1", "1", "2")})
        if what < 0.25 and self.sent:
            return self.sent[-int(self.rng.integers(1, 1 + min(30, len(self.sent))))]
        head, body = self.measured(as_made=what > 0.42)
        if what < 0.33:
            head[self.one(*head)] = self.one(None, 1, 0, -1, 2.5, True, "", "east", [], {}, [1], "9" * 40, 10**30)
        elif what < 0.36:
            head = {**head, self.one("multiplier", "honest", "trust"): self.one(0, 0.01, "server")}
        elif what < 0.42:
            head["number"] = int(self.rng.integers(-2, 12))
        message = packed(head, body)
        return self.damaged(message, 0) if self.rng.random() < 0.05 else message

    def measured(self, *, as_made: bool) -> tuple[dict[str, Any], bytes]:
        """The head and body of a measurement of the plan, by one of the scripts, with crafted numbers or `as_made`."""
        script = self.one(*self.scripts)
        left = [k for k, own in enumerate(script.asked) if self.times[own.label] < self.plan.events[own.label][1]]
        place = int(self.one(*left, self.rng.integers(len(script.asked))))
        own, releases = script.asked[place], script.releases[:place]
        assert not isinstance(own.query, ShardsAsked)
        numbers = [self.weights(array) for array in numbers_of(own.query)]
        query = digest_of(with_numbers(own, own.label, numbers))
        label, counts, seed = own.label, [len(each) for each in releases], script.seed
        arrays = [*(array for each in releases for array in each), *numbers]
        if not as_made:
            what = self.one("label", "fewer", "more", "array", "number", "digest", "seed", "count", "nothing")
            label = self.one(*self.plan.events) if what == "label" else label
            arrays = arrays[:-1] if what == "fewer" else [*arrays, np.ones(3)] if what == "more" else arrays
            if what == "array" and arrays:
                at = int(self.rng.integers(len(arrays)))
                shape = self.one(arrays[at].shape, (*arrays[at].shape, 1), (0,), (7,))
                arrays[at] = self.numbers(shape).astype(self.one(np.float64, np.float32, np.int64))
            if what == "number" and arrays:
                at = int(self.rng.integers(len(arrays)))
                with np.errstate(all="ignore"):
                    arrays[at] = arrays[at] * np.array(self.one(np.nan, np.inf, 1e30, -1.0), arrays[at].dtype)
            query = self.one("0" * 64, "f" * 64) if what == "digest" else query
            seed = seed + 1 if what == "seed" else seed
            counts = [*counts, 1] if what == "count" else counts
        head = {"format": FORMAT, "study": self.digest, "run": "1", "kind": "measure", "number": self.number}
        said = {"label": label, "among": self.among(), "seed": seed, "releases": counts, "query": query}
        return {**head, **said}, body_of(arrays)

    def weights(self, like: Any) -> Any:
        """Weights of a critic, of some size."""
        return (self.rng.normal(size=like.shape) * self.one(1.0, 1e-3, 1e6)).astype(like.dtype)

    def among(self) -> dict[str, str]:
        """All sites or fewer, now and then with a nonce of another one."""
        named = [NAME, *self.one(OTHERS, OTHERS, OTHERS, OTHERS[:1], OTHERS[1:], ())]
        found = {name: self.nonces.get(name, "0" * 32) for name in named}
        if self.rng.random() < 0.1:
            found[self.one(*found)] = self.one("f" * 32, "f" * 31, "")
        return found

    def query(self, message: bytes) -> RowQuery[Any]:
        """What a request that was answered asks for."""
        head, body = unpacked(message)
        arrays = arrays_of(body)
        releases = grouped(arrays, head["releases"])
        whole = [array.tobytes() for own in releases for array in own]
        key = digest(b"".join([repr((head["seed"], head["releases"])).encode(), *whole]))
        if key not in self.known:
            self.known[key] = derived(self.study, self.plan, head["seed"], releases)
        return with_numbers(self.known[key], head["label"], arrays[sum(head["releases"]) :])

    def damaged(self, content: bytes, first: int) -> bytes:
        """Some bytes after the `first` ones replaced."""
        found = bytearray(content)
        for _ in range(int(self.rng.integers(1, 4))):
            found[int(self.rng.integers(first, len(found)))] = int(self.rng.integers(256))
        return bytes(found)

    def seen(self, message: bytes, head: dict[str, Any]) -> None:
        """Take what a reply's head says."""
        self.sent.append(message)
        if head["status"] != "answered":
            return
        if "nonce" in head and self.rng.random() < 0.9:  # now and then it goes on with an old one
            self.nonces[NAME] = head["nonce"]
        asked, _ = unpacked(message)
        if asked["kind"] == "measure":
            self.times[asked["label"]] += asked["number"] >= self.number
            self.number = max(self.number, asked["number"] + 1)


def distance(study: Study, plan: Plan, query: RowQuery[Any], message: bytes, one: bytes, other: bytes) -> float:
    """How far two replies' numbers lie apart, in sensitivities that were charged."""
    head, _ = unpacked(message)
    multiplier = plan.events[head["label"]][0].multiplier
    scales = query.scales(multiplier * query.sensitivity(None))
    total = 0.0
    for a, b, scale in zip(arrays_of(one), arrays_of(other), scales, strict=True):
        gap = a - b
        if study.trust != "none":
            shares = study.trust == "secure-sum"
            steps = noise_grid(scale.std / scale.unit / study.honest**0.5)[0] if shares else 1
            gap = gap.view(np.int64) / steps * scale.unit
        total += float((gap**2).sum()) / scale.std**2
    return float(total**0.5 * multiplier)


@dataclass
class Judge:
    """What no reply may break, whatever rows there are: checked on the exact part alone."""

    replies: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)
    nonces: list[str] = field(default_factory=list)  # of all starts that have joined, the latest last

    def check(self, message: bytes, head: dict[str, Any], reply: bytes) -> bool:
        """Whether a measurement was answered. Each start answers a number once, and the latest start alone answers."""
        if head["status"] != "answered":
            assert head["status"] == "refused" and set(head) == {"format", "status", "why"}
            return False
        asked, _ = unpacked(message)
        if asked["kind"] == "join" and head["nonce"] not in self.nonces:
            self.nonces.append(head["nonce"])
        if asked["kind"] != "measure":
            return False
        own = asked["among"][NAME]
        assert own in self.nonces
        key = own, asked["number"]
        assert self.replies.setdefault(key, (digest(message), reply)) == (digest(message), reply)
        return True
