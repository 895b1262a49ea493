"""Trusts that are withdrawn: refused by one sentence that says why and what to do, before a table is opened."""

import json
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.app import app
from three_sites import SCHEMA, table
from typer.testing import CliRunner

from medsynth.errors import UsageError
from medsynth.federated.server import federated_fit
from medsynth.federated.site import Site
from medsynth.federated.study import WITHDRAWN, Study, read_study, study_of
from medsynth.federated.transport import InProcess

CONTENT: dict[str, Any] = {"name": "trial", "schema": SCHEMA, "epsilon": 3.7, "rows": 300, "method": "independent"}
SITES = {"east": "0" * 64, "north": "1" * 64}
GIVEN: list[dict[str, Any]] = [{"trust": trust, "sites": SITES} for trust in WITHDRAWN] + [{"sites": list(SITES)}]
CURE = "(?s)withdrawn in this release.*more.*than is charged.*`trust: server`.*wait for the release"


def test_both_trusts_are_withdrawn() -> None:
    assert set(WITHDRAWN) == {"none", "secure-sum"}
    assert study_of({**CONTENT, "sites": SITES, "trust": "server"}).plan().events


def test_no_study_has_a_withdrawn_trust(tmp_path: Path) -> None:
    """Nor one that names none: the default is withdrawn, and no weaker trust takes its place in silence."""
    for given in GIVEN:
        path = tmp_path / "study.yaml"
        path.write_text(json.dumps({**CONTENT, **given}))
        with pytest.raises(UsageError, match=CURE):
            study_of({**CONTENT, **given})
        with pytest.raises(UsageError, match=CURE):
            read_study(path)


def test_a_copy_of_a_study_with_another_trust_gets_no_plan(tmp_path: Path) -> None:
    """Such a copy is not checked when it is made. So no site and no server may start with it."""
    table(30, 1).to_csv(tmp_path / "t.csv", index=False)
    good = study_of({**CONTENT, "sites": SITES, "trust": "server"})
    for trust in WITHDRAWN:
        copy: Study = good.model_copy(update={"trust": trust})
        with pytest.raises(UsageError, match="withdrawn"):
            copy.plan()
        with pytest.raises(UsageError, match="withdrawn|secret key"):
            Site(copy, "north", tmp_path / "t.csv", tmp_path)
        with pytest.raises(UsageError, match="withdrawn"):
            federated_fit(copy, InProcess({}), tmp_path / "checkpoint")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_commands_refuse_it_before_they_open_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in GIVEN:
        Path("study.yaml").write_text(json.dumps({**CONTENT, **given}))
        for words in (["plan"], ["fit"], ["site", "no.csv", "--name", "north", "--accept", "0" * 64]):
            words = [words[0], "study.yaml", *words[1:]]
            found = CliRunner().invoke(app, ["federate", *words])
            text = " ".join(found.output.split())
            assert found.exit_code == 2 and "withdrawn in this release" in text and "trust: server" in text
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]
    shown = " ".join(CliRunner().invoke(app, ["federate", "--help"]).output.split())
    assert "none and secure-sum are withdrawn" in shown
