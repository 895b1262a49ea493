"""A federation in one process: sites with tables of their own, and a server that reaches them by function calls."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from in_process import InProcess

from medsynth.artifact import Model
from medsynth.federated.derivation import derived, with_numbers
from medsynth.federated.masks import SecretKey, write_key
from medsynth.federated.server import federated_fit
from medsynth.federated.site import Site
from medsynth.federated.study import FORMAT, Study, study_of
from medsynth.federated.transport import arrays_of, grouped, packed, unpacked
from medsynth.privacy.queries.query import RowQuery

SCHEMA: dict[str, Any] = {
    "name": "t",
    "target": "y",
    "columns": {
        "age": {"kind": "count", "bounds": [0, 120]},
        "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1},
        "sick": {"kind": "binary", "levels": ["no", "yes"]},
        "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
    },
}
SITES = ("east", "north", "west")


def table(rows: int, seed: int, classes: str = "abc") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y = rng.choice(list(classes), rows)
    age = rng.integers(0, 60, rows) + 50 * (y == "a")
    return pd.DataFrame(
        {"age": age, "dose": rng.integers(0, 1000, rows) / 10, "sick": np.where(age > 60, "yes", "no"), "y": y}
    )


def query_of(study: Study, message: bytes) -> RowQuery[Any]:
    """What a request for a measurement asks for."""
    head, body = unpacked(message)
    arrays = arrays_of(body)
    own = derived(study, study.plan(), head["seed"], grouped(arrays, head["releases"]))
    return with_numbers(own, head["label"], arrays[sum(head["releases"]) :])


class Federation:
    """Three sites below a folder, the study that they agreed to, and whatever a test does to either."""

    def __init__(self, folder: Path, tables: dict[str, pd.DataFrame], **study: Any) -> None:
        self.folder, self.tables = folder, tables
        self.keys: dict[str, SecretKey] = {}
        for name, frame in tables.items():
            (folder / name).mkdir()
            frame.to_csv(folder / name / "t.csv", index=False)
            self.keys[name] = write_key(folder / name / "key")
        sites = {name: self.keys[name].public for name in tables}
        self.content: dict[str, Any] = {"name": "trial", "schema": SCHEMA, "epsilon": 3.7, "rows": 300, "sites": sites}
        self.content |= study if "method" in study else {"method": "independent", "settings": {"steps": 20}, **study}
        self.study: Study = study_of(self.content)
        self.sites: dict[str, Site] = {}
        self.transport: Any = InProcess({})

    def start(self, *names: str, resume: bool = False, study: Study | None = None) -> "Federation":
        """Start these sites, or all, as their own processes would."""
        for name in names or tuple(self.tables):
            at = self.folder / name
            site = Site(study or self.study, name, at / "t.csv", at, key=self.keys[name], resume=resume)
            self.sites[name] = site
            self.transport.sites[name] = site.answer
        return self

    def nonces(self) -> dict[str, str]:
        """The nonce of each site's start, by joining those that have started and not ended."""
        head = {"format": FORMAT, "study": self.study.digest, "run": "1", "kind": "join"}
        joined = {name: unpacked(site.answer(packed(head)))[0] for name, site in self.sites.items()}
        return {name: joined.get(name, {}).get("nonce", "0" * 32) for name in self.study.sites}

    def fit(self, **options: Any) -> Model:
        """A fit to its end, the sites told."""
        model, end = federated_fit(self.study, self.transport, self.folder / "checkpoint", **options)
        end()
        return model

    def log(self, name: str) -> list[str]:
        return (self.folder / name / f"trial-{name}.medsynth-log").read_text().splitlines()
