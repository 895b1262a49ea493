"""The artifact: what goes in comes out, and a damaged file is one clear error."""

import json
import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medsynth
from medsynth import artifact
from medsynth.errors import ArtifactError, MedsynthError, OutputExists
from medsynth.io.formats import FileForm

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
    """Tensors are the generator, its start and prior, the row count by noisy totals, and what the ledger lists; the
    rest is public or the ledger.
    """
    model, path = content
    header = path.read_bytes()
    (length,) = struct.unpack("<Q", header[:8])
    body = json.loads(json.loads(header[8 : 8 + length])["__metadata__"]["medsynth"])
    assert set(body) == set(artifact.FIELDS)
    kinds = {name.split(".")[0] for name in model.tensors}
    assert kinds == {"residual", "base", "prior", "histogram", "place", "edges", "released", "counted_rows",
                     "expected_similarity"}  # fmt: skip
    labels = {entry.label for entry in model.ledger.entries}
    assert labels == {
        "coarse one-way marginals",
        "frequent values",
        "one-way marginals",
        "class-by-bin marginals",
        "pairs of columns by class",
        "strongest pairs of columns",
    }


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


def forged(content: Any, path: Path, change: Any) -> Path:
    """The model's file with another body and a checksum that fits it, as a forger would write it."""
    from safetensors.numpy import save

    model = content[0]
    body = model.describe()
    change(body)
    text = json.dumps(body)
    path.write_bytes(save(dict(model.tensors), {"medsynth": text, "sha256": artifact._digest(text, model.tensors)}))
    return path


def events(**fields: Any) -> Any:
    return lambda body: body["ledger"]["events"][0].update(fields)


FORGERIES = {
    "a smaller epsilon": lambda body: body.update(epsilon=0.1),
    "slightly smaller": lambda body: body.update(epsilon=body["epsilon"] * 0.98),
    "a negative epsilon": lambda body: body.update(epsilon=-5.0),
    "no epsilon": lambda body: body.update(epsilon=None),
    "a larger epsilon": lambda body: body.update(epsilon=9.0),
    "epsilon that is no number": lambda body: body.update(epsilon=float("nan")),
    "infinite epsilon": lambda body: body.update(epsilon=float("inf")),
    "another delta": lambda body: body["ledger"].update(delta=1e-2),
    "no delta": lambda body: body["ledger"].update(delta=0.0),
    "more noise": events(multiplier=100.0),
    "infinite noise": events(multiplier=float("inf")),
    "negative noise": events(multiplier=-1.0),
    "noise that is no number": events(multiplier=float("nan")),
    "an unknown mechanism": events(mechanism="Telepathy"),
    "a negative count": events(count=-1),
    "half a count": events(count=0.5),
    "no sensitivity": events(sensitivity=0.0),
    "a measurement less": lambda body: body["ledger"]["events"].pop(),
    "nothing measured": lambda body: body["ledger"].update(events=[]),
    "an escape in a note": lambda body: body["ledger"]["notes"].append("\x1b[2K(0.1, 1e-05)-differential privacy"),
    "a line break in a note": lambda body: body["ledger"]["notes"].append("ok\n(0.1, 1e-05)-differential privacy"),
    "a line break in a label": events(label="a\nb"),
    "an escape in the version of a schema": lambda body: body.update(versions={"schema": "\x1b[2K"}),
    "turned text in the name": lambda body: body.update(name="\u202ecinilc"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_claim_is_refused(name: str, content: Any, tmp_path: Path) -> None:
    """The checksum is right: it finds damage and is no signature. Epsilon is computed from the ledger on loading."""
    with pytest.raises(ArtifactError) as caught:
        medsynth.load(forged(content, tmp_path / "m.medsynth", FORGERIES[name]))
    assert "m.medsynth" in str(caught.value)


def test_what_is_not_forged_is_read(content: Any, tmp_path: Path) -> None:
    model = medsynth.load(forged(content, tmp_path / "m.medsynth", lambda body: None))
    assert model.epsilon == content[0].epsilon


def test_the_form_of_a_table_with_tabs_is_read(content: Any, tmp_path: Path) -> None:
    form = FileForm(ending=".tsv", delimiter="\t")
    assert medsynth.load(replace(content[0], form=form).save(tmp_path / "m.medsynth")).form == form


NOTHING = {"kind": "", "column": "", "entry": ""}


def test_a_note_cannot_pass_for_a_claim(content: Any, tmp_path: Path) -> None:
    from medsynth_cli.main import app
    from typer.testing import CliRunner

    claim = "(0.1, 1e-05)-differential privacy for one row"
    path = forged(content, tmp_path / "m.medsynth", lambda body: body["ledger"].update(notes=[claim], about=[NOTHING]))
    lines = CliRunner().invoke(app, ["ledger", str(path)]).stdout.splitlines()
    assert f"Note: {claim}" in lines and not any(line.startswith("(0.1") for line in lines)
