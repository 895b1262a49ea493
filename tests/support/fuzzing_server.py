"""A server that sends a site whatever it likes: bytes, crafted queries, old requests, wrong numbers, nonces and sites.

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
import torch
from three_sites import SCHEMA

from medsynth.errors import MedsynthError
from medsynth.federated.admission import first_query
from medsynth.federated.masks import SecretKey
from medsynth.federated.messages import arrays_of, digest, packed, unpacked
from medsynth.federated.site import Site, files_of
from medsynth.federated.study import FORMAT, Study
from medsynth.privacy.accounting.calibration import Plan
from medsynth.privacy.networks import Mlp
from medsynth.privacy.noise import noise_grid
from medsynth.privacy.queries.cells import Beside, EveryCode, Regrouped
from medsynth.privacy.queries.gradients import GradientSum, minus_output
from medsynth.privacy.queries.kinds import kind
from medsynth.privacy.queries.query import RowQuery
from medsynth.privacy.queries.rows import Codes
from medsynth.privacy.queries.tables import Marginals
from medsynth.privacy.queries.wire import Columns, read, write
from medsynth.transforms.grid import Grid

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


@kind("test: features that fail on one patient")
def failing(codes: Codes) -> torch.Tensor:
    """Two columns; an error, with words of a row, once the patient is among the rows."""
    if is_special(codes):
        raise ValueError(f"private {codes[-1].tolist()}")
    return torch.from_numpy(codes[:, :2].astype(np.float32))


@kind("test: features of each row")
def plain(codes: Codes) -> torch.Tensor:
    """Two columns."""
    return torch.from_numpy(codes[:, :2].astype(np.float32))


def with_traps(exact: Callable[..., Any]) -> Callable[..., Any]:
    """`Marginals.exact`, which fails for tables of one name if the patient is among the rows."""

    def trapped(self: Any, rows: Any) -> Any:
        if is_special(rows.codes) and "raises" in self.tables:
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


class Server:
    """What it sends: `rng` alone decides, and the exact part of replies."""

    def __init__(self, study: Study, seed: int) -> None:
        self.study, self.rng, self.plan = study, np.random.default_rng(seed), study.plan()
        self.columns, self.digest = Columns.of(study.table_schema.core), study.digest
        self.first = first_query(study, self.plan)
        self.nonces = {name: f"{k:032x}" for k, name in enumerate(OTHERS)}
        self.sent = list[bytes]()
        self.anew()

    def anew(self) -> None:
        """Ask from the first measurement on."""
        self.number, self.times = 0, Counter[str]()

    def one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def request(self) -> bytes:
        """The next request: three in ten are what a server of the study might send, but for the query."""
        what = self.rng.random()
        if what < 0.04:
            return self.rng.bytes(int(self.rng.integers(80)))
        if what < 0.12:
            head = {"format": FORMAT, "study": self.digest, "kind": "join"}
            return packed({**head, "run": self.one("1", "1", "2")})
        if what < 0.25 and self.sent:
            return self.sent[-int(self.rng.integers(1, 1 + min(30, len(self.sent))))]
        head, body = self.measured()
        if what < 0.33:
            head[self.one(*head)] = self.one(None, 1, 0, -1, 2.5, True, "", "east", [], {}, [1], "9" * 40, 10**30)
        elif what < 0.36:
            head = {**head, self.one("multiplier", "honest", "trust"): self.one(0, 0.01, "server")}
        elif what < 0.42:
            head["number"] = int(self.rng.integers(-2, 12))
        message = packed(head, body)
        return self.damaged(message, 0) if self.rng.random() < 0.05 else message

    def measured(self) -> tuple[dict[str, Any], bytes]:
        """The head and body of a measurement of the plan."""
        left = [label for label, (_, times) in self.plan.events.items() if self.times[label] < times]
        label = self.first[0] if self.number == 0 else self.one(*left, self.one(*self.plan.events))
        body = self.first[1] if label == self.first[0] else self.body(label)
        head = {"format": FORMAT, "study": self.digest, "run": "1", "kind": "measure", "number": self.number}
        return {**head, "label": label, "among": self.among()}, body

    def among(self) -> dict[str, str]:
        """All sites or fewer, now and then with a nonce of another one."""
        named = [NAME, *self.one(OTHERS, OTHERS, OTHERS, OTHERS[:1], OTHERS[1:], ())]
        found = {name: self.nonces.get(name, "0" * 32) for name in named}
        if self.rng.random() < 0.1:
            found[self.one(*found)] = self.one("f" * 32, "f" * 31, "")
        return found

    def body(self, label: str) -> bytes:
        """A query under a label, as it is written or damaged. One that cannot be made is random bytes."""
        try:
            made = self.gradients() if "gradient" in label else self.marginals()
            body = write(made, self.columns)
        except (MedsynthError, ValueError, LookupError):
            return self.rng.bytes(200)
        return self.damaged(body, 8) if self.rng.random() < 0.2 else body

    def damaged(self, content: bytes, first: int) -> bytes:
        """Some bytes after the `first` ones replaced."""
        found = bytearray(content)
        for _ in range(int(self.rng.integers(1, 4))):
            found[int(self.rng.integers(first, len(found)))] = int(self.rng.integers(256))
        return bytes(found)

    def gradients(self) -> GradientSum:
        """Of one of two maps, of which one fails on one patient."""
        network = Mlp([2, 1], bias=False)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(torch.from_numpy(self.rng.normal(size=parameter.shape)).to(parameter))
        return GradientSum(network, minus_output, self.one(plain, failing), 1.0, None)

    def marginals(self) -> Marginals:
        """Tables of maps of all kinds, of which some fail on one patient."""
        found = {}
        for k in range(int(self.rng.integers(1, 4))):
            name = self.one(f"table {k}", f"table {k}", "raises")
            found[name] = [self.axis() for _ in range(int(self.rng.integers(1, 3)))]
        weights = {name: float(self.rng.random() + 0.1) for name in found} if self.rng.random() < 0.3 else None
        return Marginals(found, weights)

    def axis(self) -> tuple[Any, Any]:
        """A map of one column's codes, or of two columns'."""
        name = self.one(*COLUMNS)
        size = self.columns.sizes[name]
        edges = np.unique(self.rng.integers(0, size + 1, 4)).astype(np.int64)
        edges = np.array([0, *edges[(edges > 0) & (edges < size)], size])
        grid = Grid(edges, 0)
        place = self.rng.integers(0, 2, grid.cells)
        most = max(self.columns.sizes["dose"], self.columns.sizes["age"])
        beside = np.zeros((most, most), np.int64)
        made = Beside(EveryCode(most), beside, np.zeros(most, np.int64), 1)
        found: tuple[Any, Any] = self.one(
            (name, EveryCode(size)), (name, grid), (name, Regrouped(grid, place, 2)), (("age", "dose"), made),
        )  # fmt: skip
        if self.rng.random() < 0.2:  # hostile: codes without a cell; a cell that there is not, where the patient is
            beside[3, 117], found = 7, self.one(found, (name, EveryCode(2)))
        return found

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


def distance(study: Study, plan: Plan, columns: Columns, message: bytes, one: bytes, other: bytes) -> float:
    """How far two replies' numbers lie apart, in sensitivities that were charged."""
    head, body = unpacked(message)
    query: RowQuery[Any] = read(body, columns)
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
