"""The artifact: what goes in comes out, and a damaged file is one clear error."""

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medsynth
from medsynth import artifact
from medsynth.errors import ArtifactError, MedsynthError, OutputExists

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from medsynth_sample_data import simulate

    frame = simulate.cohort(60, 1)[["age_years", "is_pregnant", "diagnosis"]]
    schema = medsynth.Schema.from_dict(
        {
            "name": "t",
            "target": "diagnosis",
            "columns": {
                "age_years": {"kind": "count", "bounds": [0, 120]},
                "is_pregnant": {"kind": "binary", "levels": [0, 1]},
                "diagnosis": {"kind": "categorical", "levels": ["normal", "subclinical", "overt"]},
            },
        }
    )
    model = medsynth.fit(frame, epsilon=3.7, schema=schema, rows=60)
    path = tmp_path_factory.mktemp("model") / "t.medsynth"
    model.save(path)
    return model, path


def test_round_trip(content: Any) -> None:
    model, path = content
    back = medsynth.load(path)
    assert back.describe() == model.describe()
    assert all(np.array_equal(back.tensors[k], t) for k, t in model.tensors.items())
    assert medsynth.sample(back, 20, seed=1).equals(medsynth.sample(model, 20, seed=1))


def test_it_holds_only_what_may_leave(content: Any) -> None:
    """Tensors are the generator, its start and prior, and ledgered histograms; the rest is public or the ledger."""
    model, path = content
    header = path.read_bytes()
    (length,) = struct.unpack("<Q", header[:8])
    body = json.loads(json.loads(header[8 : 8 + length])["__metadata__"]["medsynth"])
    assert set(body) == set(artifact.FIELDS)
    kinds = {name.split(".")[0] for name in model.tensors}
    assert kinds == {"generator", "latent", "base", "prior", "histogram", "place"}
    labels = {entry.label for entry in model.ledger.entries}
    assert labels == {"one-way marginals", "class-by-bin marginals", "re-measured class marginals"}


def test_every_kind_of_damage_is_one_error(content: Any, tmp_path: Path) -> None:
    data, path = content[1].read_bytes(), tmp_path / "bad.medsynth"
    rng = random.Random(0)
    broken = [b"", b"PK\x03\x04" * 20, data[:100], data[:-1], data + b"x", b"\xff" * 500]
    for _ in range(300):
        at, new = rng.randrange(len(data)), rng.randrange(256)
        if data[at] != new:
            broken.append(data[:at] + bytes([new]) + data[at + 1 :])
    for case in broken:
        path.write_bytes(case)
        with pytest.raises(ArtifactError) as caught:
            medsynth.load(path)
        assert str(path) in str(caught.value)


def test_a_missing_model_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="Fit a model first"):
        medsynth.load(tmp_path / "none.medsynth")


def test_nothing_is_overwritten_unasked(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.medsynth"
    path.write_text("precious")
    with pytest.raises(OutputExists):
        content[0].save(path)
    assert path.read_text() == "precious" and [p.name for p in tmp_path.iterdir()] == ["m.medsynth"]
    content[0].save(path, force=True)
    assert medsynth.load(path).name == "t"


def test_a_full_disk_leaves_what_was_there(content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    path = tmp_path / "m.medsynth"
    path.write_text("precious")

    def full(handle: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MedsynthError, match="No space left"):
        content[0].save(path, force=True)
    assert path.read_text() == "precious" and len(list(tmp_path.iterdir())) == 1
