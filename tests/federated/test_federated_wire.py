"""What goes over the wire: no cell, no exact count, and no difference between neighbours beyond what is charged."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from three_sites import SCHEMA, SITES, Federation, query_of, table

from medsynth.federated.transport import arrays_of, unpacked
from medsynth.io.table import from_frame
from medsynth.privacy import noise
from medsynth.privacy.queries import noising, query
from medsynth.privacy.queries.noising import from_words
from medsynth.privacy.queries.rows import CodedRows
from medsynth.schema.codec import encode

Make = Callable[..., Federation]
CANARY = "7431-canary"


class Recorded:
    """A transport that keeps every message: (site, what it was sent, what it answered)."""

    def __init__(self, made: Federation) -> None:
        self.made, self.messages = made, list[tuple[str, bytes, bytes]]()

    def call(self, sites: Sequence[str], message: bytes, came: Callable[[str], None]) -> Mapping[str, bytes]:
        found = {name: self.made.sites[name].answer(message) for name in sites}
        self.messages += [(name, message, answer) for name, answer in found.items()]
        return found


def recorded(made: Federation, **options: Any) -> Recorded:
    from medsynth.federated.server import federated_fit

    kept = Recorded(made)
    _, end = federated_fit(made.study, kept, made.folder / "checkpoint", **options)
    end()
    return kept


def exact(made: Federation, site: str, message: bytes) -> list[Any]:
    """What the query of a request has as its exact answer over one site's rows."""
    core = made.study.table_schema.core
    codes = encode(from_frame(made.tables[site]), core)
    asked = query_of(made.study, message)
    return asked.finished(asked.exact(CodedRows(codes, core.names, np.zeros((len(codes), 0), np.uint64))))


@pytest.mark.statistical
@pytest.mark.parametrize("trust", ["none", "secure-sum"])
def test_no_message_holds_a_cell_or_an_exact_count(federation: Make, trust: str) -> None:
    """A count comes out exact with chance 2^-16 at most: more than one in twenty, of fifty or more, below 1e-8.

    A masked number is any of 2^64: half of them are far from zero, and five standard errors off one half, 6e-7. A
    count that was not masked is near zero.
    """
    frames = {name: table(100, seed) for seed, name in enumerate(SITES)}
    for frame in frames.values():
        frame.insert(0, "who", CANARY)
    columns = {"who": {"kind": "identifier"}, **SCHEMA["columns"]}
    made = federation(frames, trust=trust, schema={**SCHEMA, "columns": columns}).start()
    kept = recorded(made)
    assert not any(CANARY.encode() in part for _, *both in kept.messages for part in both)
    compared = 0
    far = []
    for site, message, answer in kept.messages:
        head, _ = unpacked(message)
        if head["kind"] != "measure":
            continue
        for true, sent in zip(exact(made, site, message), arrays_of(unpacked(answer)[1]), strict=True):
            plain = sent if trust == "none" else sent.view(np.int64) / 2.0**16
            assert true.shape == sent.shape and (plain == true).mean() < 0.05
            if trust == "secure-sum":
                far.append(abs(sent.view(np.int64).astype(float).ravel()) > 2.0**62)
            compared += true.size
    assert compared > 50
    if trust == "secure-sum":
        assert all(part.any() for part in far if part.size >= 20)
        assert abs(np.concatenate(far).mean() - 0.5) < 2.5 / compared**0.5
    log = "".join("\n".join(made.log(name)) for name in SITES)
    assert CANARY not in log and "100" not in log.replace("T", " ").replace(":", " ").split()


def neighbours(trust: str, federation: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[Recorded, Recorded]:
    """The messages of a fit, and what sites answer to the same messages where one row at one site is gone."""
    made = federation(trust=trust)
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))  # of the runs' numbers: keys are made
    first = recorded(made.start())
    for name in SITES:
        (made.folder / name / f"trial-{name}.medsynth-checkpoint").unlink()
        (made.folder / name / "t.medsynth-ledger").unlink()
    made.tables["north"] = made.tables["north"].drop(index=3)
    made.tables["north"].to_csv(made.folder / "north" / "t.csv", index=False)
    made.start()
    second = Recorded(made)
    for site, message, _ in first.messages:
        second.messages.append((site, message, made.sites[site].answer(message)))
    return first, second


@pytest.mark.nightly_for("server")
@pytest.mark.parametrize("trust", ["none", "server", "secure-sum"])
def test_neighbours_differ_by_what_is_charged(
    federation: Make, trust: str, fixed_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise fixed: other sites' bytes are the same, the site's own differ by at most the sensitivity charged."""
    first, second = neighbours(trust, federation, monkeypatch)
    study, moved = first.made.study, 0.0
    events = study.plan().events
    for (site, message, one), (_, _, other) in zip(first.messages, second.messages, strict=True):
        head, _ = unpacked(message)
        if site != "north" or head["kind"] != "measure":
            assert one == other
            continue
        asked = query_of(study, message)
        std = events[head["label"]][0].multiplier * asked.sensitivity(None)
        total = 0.0
        for a, b, scale in zip(
            *(arrays_of(unpacked(answer)[1]) for answer in (one, other)), asked.scales(std), strict=True
        ):
            steps = noise.noise_grid(scale.std / scale.unit / study.honest**0.5)[0] if trust == "secure-sum" else 1
            gap = (a - b).view(np.int64) / steps if trust == "secure-sum" else (a - b).astype(float)
            total += float(((gap * (scale.unit if trust != "none" else 1)) ** 2).sum()) / scale.std**2
        assert total**0.5 <= 1 / events[head["label"]][0].multiplier * (1 + 1e-9)
        moved = max(moved, total)
    assert moved > 0


@pytest.mark.parametrize("trust", ["none", "secure-sum"])
def test_blinded_measurements_leave_no_difference(
    federation: Make, trust: str, fixed_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If every exact answer is zero, neighbours' messages are the same to the last byte: nothing else tells."""
    blind = noise.noised
    share = noise.noise_share
    monkeypatch.setattr(query, "noised", lambda values, std, entropy: blind(np.zeros_like(values), std, entropy))
    monkeypatch.setattr(
        noising,
        "noise_share",
        lambda values, std, honest, entropy: share(np.zeros_like(values), std, honest, entropy),
    )
    first, second = neighbours(trust, federation, monkeypatch)
    assert first.messages == second.messages and len(first.messages) > 6


def test_words_hold_whole_numbers() -> None:
    numbers = [np.array([[0, 1, -1], [2**63 - 1, -(2**63), 2**40 + 3]]), np.zeros(0, np.int64)]
    assert all((a == b).all() for a, b in zip(from_words(noising.as_words(numbers)), numbers, strict=True))
