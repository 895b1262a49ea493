"""`medsynth federate`: a study from keys to a model by sockets alone, and what a person does wrong."""

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.main import app
from three_sites import SITES, Federation
from typer.testing import CliRunner

import medsynth
from medsynth.errors import MedsynthError
from medsynth.federated.study import FORMAT
from medsynth.federated.transport import SUFFIX, ask, listening, packed, serve, socket_of

Make = Callable[..., Federation]


def run(*words: str, code: int = 0) -> Any:
    found = CliRunner().invoke(app, ["federate", *words])
    assert found.exit_code == code, found.output
    return found


@pytest.fixture
def study(federation: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Federation:
    """A study with a schema beside it, in the current folder."""
    made = federation(trust="secure-sum")
    monkeypatch.chdir(tmp_path)
    Path("t.schema.yaml").write_text(made.study.table_schema.to_yaml())
    Path("study.yaml").write_text(json.dumps({**made.content, "schema": "t.schema.yaml"}))
    return made


def site(name: str, digest: str, *more: str) -> list[str]:
    return ["site", "study.yaml", f"{name}/t.csv", "--name", name, "--key", f"{name}/key", "--accept", digest, *more]


def test_from_a_study_to_a_model(study: Federation) -> None:
    plan = json.loads(run("plan", "study.yaml", "--json").stdout)
    assert plan["digest"] == study.study.digest and plan["trust"] == "secure-sum" and plan["honest"] == 2
    assert plan["digest"] in run("plan", "study.yaml").stdout
    study.start()
    threads = [threading.Thread(target=listen, args=(study, name)) for name in SITES]
    for thread in threads:
        thread.start()
    while len(list(Path().glob(f"*{SUFFIX}"))) < len(SITES):
        assert any(thread.is_alive() for thread in threads)
    found = json.loads(run("fit", "study.yaml", "--json").stdout)
    for thread in threads:
        thread.join()
    assert found["claims"] and medsynth.load("trial.medsynth").epsilon == found["epsilon"]
    run("fit", "study.yaml", code=1)  # the model stands


def listen(study: Federation, name: str) -> None:
    serve(socket_of(Path(), name), study.sites[name].answer, lambda: study.sites[name].finished)


def test_a_site_answers_until_the_study_ends(study: Federation) -> None:
    digest = study.study.digest

    def server() -> None:
        path, head = socket_of(Path(), "north"), {"format": FORMAT, "study": digest, "run": "1"}
        while True:
            with contextlib.suppress(OSError):
                ask(path, packed({**head, "kind": "join"}))
                ask(path, packed({**head, "kind": "finish"}))
                return

    thread = threading.Thread(target=server)
    thread.start()
    found = run(*site("north", digest, "--json"))
    thread.join()
    assert json.loads(found.stdout) == {"study": "trial", "digest": digest, "site": "north", "measurements": 0}
    assert "--resume" in run(*site("north", digest), code=1).output


def test_a_site_agrees_by_the_digest(study: Federation) -> None:
    words = site("north", "0" * 64)
    assert "not the study that you agreed to" in run(*words, code=2).output
    shown = run(*words[:-2], code=2).output
    assert "not agreed" in shown and study.study.digest in shown and "Trust: secure-sum" in shown
    words[4] = "nord"
    words[-1] = study.study.digest
    assert "no site 'nord'" in run(*words, code=2).output
    assert not list(Path().glob("*.medsynth-*"))


def test_a_key_is_written_once(study: Federation) -> None:
    made = json.loads(run("key", "own", "--json").stdout)
    assert len(made["public"]) == 64 and Path("own").stat().st_mode & 0o077 == 0
    run("key", "own", code=1)
    run("key", "nowhere/own", code=1)
    Path("own").write_text("none")
    words = site("north", study.study.digest)
    words[words.index("--key") + 1] = "own"
    assert "not contain a site's secret key" in run(*words, code=2).output


def test_a_kit_is_restricted_by_command(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    for name in ("resources", "authorization"):
        (tmp_path / "local" / f"{name}.json.default").write_text('{"permissions": {"lead": "any"}}')
    assert len(json.loads(run("allow", str(tmp_path), "--json").stdout)["written"]) == 2


WRONG: dict[str, dict[str, Any]] = {
    "a pattern": {"name": "a b"},
    "no epsilon": {"epsilon": 0},
    "methods": {"method": "pate-gan"},
    "secret samples": {"method": "gs-wgan"},
    "all sites": {"method": "gs-wgan", "preset": "all-critics", "minimum": 2},
    "no method": {"method": "none"},
    "setting": {"settings": {"lots": 3}},
    "minimum": {"minimum": 4},
    "honest must not be larger": {"honest": 3, "minimum": 2},
    "public key": {"sites": ["a", "b"]},
    "same public key": {"sites": {"a": "0" * 64, "b": "0" * 64}},
    "a site's name": {"sites": {"a b": "0" * 64, "b": "1" * 64}},
    "an unknown key": {"budget": 3},
    "too little noise": {"epsilon": 40},
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_study_is_one_message(study: Federation, case: str) -> None:
    Path("study.yaml").write_text(json.dumps({**study.content, **WRONG[case]}))
    found = run("plan", "study.yaml", code=2)
    assert "Traceback" not in found.output and len(found.output) < 600


def test_a_study_needs_a_whole_schema(study: Federation) -> None:
    plain = study.content["schema"]
    codes = {"kind": "categorical", "hierarchy": "icd10", "unknown": "?"}
    for schema in ({**plain, "target": None}, {**plain, "columns": {**plain["columns"], "icd": codes}}):
        Path("study.yaml").write_text(json.dumps({**study.content, "schema": schema}))
        run("plan", "study.yaml", code=4)
    Path("study.yaml").write_text("- a\n")
    run("plan", "study.yaml", code=2)
    run("plan", "nothing.yaml", code=2)


def test_no_site_listens(study: Federation) -> None:
    assert "No answer from east, north, west" in run("fit", "study.yaml", code=1).output


def test_a_socket_needs_a_place(tmp_path: Path) -> None:
    for path in (tmp_path / ("long" * 30), tmp_path / "nowhere" / "s"):
        with pytest.raises(MedsynthError), listening(path):
            pass


def test_a_relative_folder_has_the_limit_of_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FLARE reaches the fit by the absolute path. One that only the fit can open would fail without a reason."""
    (deep := tmp_path / ("long" * 20)).mkdir()
    monkeypatch.chdir(deep)
    with pytest.raises(MedsynthError, match="longer than"), listening(socket_of(Path(), "x")):
        pass


@pytest.mark.parametrize(("folder", "mode"), [(0o2770, 0o660), (0o770, 0o600), (0o2777, 0o600), (0o700, 0o600)])
def test_a_socket_is_its_owners_alone_unless_its_folder_is_of_a_group(folder: int, mode: int, tmp_path: Path) -> None:
    """The account of FLARE, which cannot read the table, reaches it by that group."""
    (place := tmp_path / "s").mkdir()
    place.chmod(folder)
    with listening(place / "x"):
        assert (place / "x").stat().st_mode & 0o777 == mode


CONTENT: dict[str, Any] = {
    "name": "t", "epsilon": 1, "rows": 10, "sites": ["a"],
    "schema": {"name": "t", "target": "y", "columns": {"y": {"kind": "binary", "levels": [0, 1]},
                                                       "a": {"kind": "count", "bounds": [0, 3]}}},
}  # fmt: skip
