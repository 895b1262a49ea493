"""Rows and models that were withdrawn: a file next to them, and the warning of `inspect`."""

import hashlib
import json
from pathlib import Path

import pytest
from commands import good, run

from medsynth.errors import ArtifactError
from medsynth.sidecars.withdrawal import withdrawn

ROWS, MODEL = "small.synthetic.csv", "small.medsynth"


@pytest.mark.parametrize("name", [ROWS, MODEL])
def test_inspect_warns_of_what_was_withdrawn(small: Path, name: str) -> None:
    assert "WARNING" not in good("inspect", name).stdout
    assert json.loads(good("inspect", name, "--json").stdout)["withdrawn"] is None
    before = Path(name).read_bytes()
    good("withdraw", name, "--reason", "Wrong rows.")
    assert good("inspect", name).stdout.startswith(f"WARNING: {name} was withdrawn on ")
    found = json.loads(good("inspect", name, "--json").stdout)["withdrawn"]
    assert found["sha256"] == hashlib.sha256(before).hexdigest() and found["reason"] == "Wrong rows."
    assert run("withdraw", name, "--reason", "Again.").exit_code == 1  # OutputExists
    good("withdraw", name, "--reason", "Old.", "--replaced-by", "new.csv", "--force")
    assert "was replaced on" in (text := good("inspect", name).stdout) and "Use new.csv." in text
    assert Path(name).read_bytes() == before


def test_bad_withdrawals(small: Path) -> None:
    assert run("withdraw", "none.csv", "--reason", "x").exit_code == 1
    assert run("withdraw", ROWS, "--reason", " ").exit_code == 2
    assert run("withdraw", ROWS, "--reason", "two\nlines").exit_code == 2
    Path(f"{ROWS}.withdrawn.json").write_text("{}")
    with pytest.raises(ArtifactError, match="damaged"):
        withdrawn(Path(ROWS))
    assert run("inspect", ROWS).exit_code == 1
    assert run("inspect", "review.yaml").exit_code == 1
