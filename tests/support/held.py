"""Releases that are held: fits on neighbouring tables draw every release, and continue with those of the first table.

Whatever such fits still release differently is read from the rows outside a charged measurement: it is a leak.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import medsynth
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.mixture.method import Independent
from medsynth.privacy import noise, partition_selection, shards
from medsynth.privacy.accounting.events import Event
from medsynth.privacy.queries import query
from medsynth.privacy.release import Release, Releases
from medsynth.schema import schema as schemas
from medsynth.schema.columns.grid import grid

EPSILON = 1000.0  # A budget at which few rows have kinds and levels.


class FixedReleases:
    """Every measurement is drawn; its outcome is that of the first fit. Charges are as ever.

    `moved`: by how many of its sensitivities each later release was drawn elsewhere than the first fit's. The noise is
    the same where entropy is seeded, so that this is how far the neighbour's row moves the exact answer.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: list[tuple[str, Release]] = []
        self.recording, self.at, self.moved = True, 0, dict[str, float]()
        true = Releases.release

        def release(releases: Releases, label: str, sensitivity: float, draw: Callable[[Any], Release]) -> Release:
            return true(releases, label, sensitivity, lambda event: self._fixed(label, sensitivity, draw(event)))

        monkeypatch.setattr(Releases, "release", release)

    def _fixed(self, label: str, sensitivity: float, drawn: Release) -> Release:
        if self.recording:
            self.known.append((label, drawn))
            return drawn
        found, kept = self.known[self.at]
        self.at += 1
        assert found == label
        if [a.shape for a in drawn.arrays] == [a.shape for a in kept.arrays] and drawn.names == kept.names:
            apart = [np.subtract(a, b, dtype=np.float64) for a, b in zip(drawn.arrays, kept.arrays, strict=True)]
            self.moved[label] = math.hypot(*(float(np.linalg.norm(a)) for a in apart)) / sensitivity
        return Release([array.copy() for array in kept.arrays], list(kept.names))

    def again(self) -> None:
        """From here on outcomes are those on record."""
        self.recording, self.at = False, 0


@dataclass(frozen=True)
class Answer:
    """What one release is about to noise: exact arrays of whole numbers, each with the deviation of its noise."""

    label: str
    event: Event
    arrays: list[tuple[NDArray[np.int64], float]] = field(default_factory=list)

    def distance(self, other: Answer) -> float:
        """The L2 distance of two exact answers, in multiples of the sensitivity that is charged."""
        assert (self.label, self.event) == (other.label, other.event) and len(self.arrays) == len(other.arrays)
        total = 0.0
        for (one, std), (two, same) in zip(self.arrays, other.arrays, strict=True):
            assert std == same and one.shape == two.shape
            total += float((((one - two) / std) ** 2).sum())
        return math.sqrt(total) * self.event.multiplier


class ExactAnswers:
    """The exact answers of all releases of a fit, in order, and its shards, with the shard of each row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[Answer] = []
        self._charged = False  # simulated tables, of which nothing is charged, are noised too
        self.shards: list[tuple[shards.Shards, NDArray[np.int64]]] = []
        true, built = Releases.release, shards.Shards

        def release(releases: Releases, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
            def watched(event: Event) -> Release:
                self.answers.append(Answer(label, event))
                self._charged = True
                try:
                    return draw(event)
                finally:
                    self._charged = False

            return true(releases, label, sensitivity, watched)

        def noised(values: NDArray[np.int64], std: float, entropy: Any) -> NDArray[np.float64]:
            if self._charged:
                self.answers[-1].arrays.append((values.copy(), std))
            return noise.noised(values, std, entropy)

        def split(rows: torch.Tensor, place: NDArray[np.int64], *more: Any) -> shards.Shards:
            self.shards.append((built(rows, place, *more), place))
            return self.shards[-1][0]

        monkeypatch.setattr(Releases, "release", release)
        monkeypatch.setattr("medsynth.privacy.shards.Shards", split)
        for module in (query, shards, partition_selection):
            monkeypatch.setattr(module, "noised", noised)

    def next(self) -> None:
        """Forget the last fit."""
        self.answers, self.shards = [], []


def critics_of(held: shards.Shards) -> list[torch.Tensor]:
    """All that the critics of shards are: weights, and the moments of their optimiser; critic by critic."""
    critics: Any = held._Shards__critics  # type: ignore[attr-defined]
    state, weights = critics._adam.state, critics.parameters
    moments = [state[p].get(name, torch.zeros_like(p)) for p in weights for name in ("exp_avg", "exp_avg_sq")]
    return [p.detach().clone() for p in [*weights, *moments]]


def measure_alone(patch: pytest.MonkeyPatch) -> None:
    """All measurements of the method, each of a histogram a column, without the training that follows from them.

    That training reads no row elsewhere is what test_neighbours.py tests, method by method.
    """

    def fit(self: Any, config: Any, schema: Any, vault: Any, plan: Any, *more: Any) -> dict[str, Any]:
        own = [label for label in plan.events if not label.startswith(("schema: ", "rows per patient"))]
        maps = {name: grid(column, 16) for name, column in schema.columns.items()}
        return {
            f"{label}.{name}": counts.astype(np.float32)
            for label in own
            for name, counts in vault.measure_histograms(label, maps).items()
        }

    def generate(self: Any, tensors: Any, config: Any, schema: Any, rows: int, count: int, seed: Any) -> Any:
        return np.zeros((count, len(schema.names)), np.int32)  # what the fit expects of its columns needs some rows

    patch.setattr(Independent, "fit", fit)
    patch.setattr(Independent, "generate", generate)
    patch.setattr(schemas, "bundled", functools.cache(schemas.bundled))


def released(source: Any, schema: Any, folder: Path, **unit: Any) -> dict[str, Any]:
    """All that a fit gives away. Rows that are sampled follow from the model file, by a public seed."""
    for file in folder.glob("*.medsynth*"):
        file.unlink()
    notices: list[str] = []
    model = medsynth.fit(
        source, epsilon=EPSILON, anyway=True, schema=schema, target="sick", method="independent", seed=1,
        notice=notices.append, **unit,
    )  # fmt: skip

    def without_folder(texts: list[str]) -> list[str]:
        return [text.replace(str(folder), "") for text in texts]

    found: dict[str, Any] = {
        "model": model.save(folder / "m.medsynth").read_bytes(),
        "notices": without_folder(notices),
    }
    if isinstance(source, Path):
        lines = [json.loads(line) for line in source.with_suffix(".medsynth-ledger").read_text().splitlines()]
        found["budget"] = [{k: v for k, v in line.items() if k not in ("fit", "started", "attempt")} for line in lines]
        plan, notes, _ = plan_fit(
            source, FitSettings(epsilon=EPSILON, anyway=True, schema=schema, target="sick", method="independent")
        )
        found["plan"] = plan.to_json(), plan.rows, without_folder(notes)
    return found
