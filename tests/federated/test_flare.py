"""NVIDIA FLARE carries the messages: by its simulator, and by a deployment with certificates. Both are nightly."""

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.main import app
from three_sites import SCHEMA, SITES, Federation
from typer.testing import CliRunner

import medsynth
from medsynth.errors import MedsynthError
from medsynth.federated.transport import serve, socket_of

Make = Callable[..., Federation]


@pytest.fixture(autouse=True)
def flare() -> None:
    """Skip without FLARE. It imports for a second, which each worker would spend when it collects tests."""
    pytest.importorskip("nvflare", reason="NVIDIA FLARE is not installed: pip install -e '.[federated]'")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("method", ["independent", "gs-wgan"])
def test_a_fit_by_the_simulator(
    federation: Make, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    """Three sites behind FLARE clients, a secure sum, by the command line; the job that is sent holds no code."""
    preset = {"preset": "all-critics"} if method == "gs-wgan" else {}
    made = federation(trust="secure-sum", method=method, **preset).start()
    monkeypatch.chdir(tmp_path)
    study = {**made.content, "schema": SCHEMA}
    Path("study.yaml").write_text(json.dumps(study))  # JSON is YAML
    threads = [
        threading.Thread(target=serve, args=(socket_of(tmp_path, name), made.sites[name].answer, done(made, name)))
        for name in SITES
    ]
    for thread in threads:
        thread.start()
    found = CliRunner().invoke(app, ["federate", "fit", "study.yaml", "--simulator", "--json"])
    assert found.exit_code == 0, found.output + Path("simulator.log").read_text()[-3000:]
    for thread in threads:
        thread.join()
    facts = json.loads(found.stdout)
    assert facts["claims"] and facts["epsilon"] <= 3.7
    model = medsynth.load(tmp_path / "trial.medsynth")
    assert any("secure-sum" in note for note in model.ledger.notes) and len(model.sample(20)) == 20
    assert not (tmp_path / "trial.medsynth-checkpoint").exists()


def done(made: Federation, name: str) -> Callable[[], bool]:
    return lambda: made.sites[name].finished


@pytest.mark.parametrize(("ended", "reason"), [(True, "ended the job before"), (False, "started no job within 0 s")])
def test_a_fit_that_flare_does_not_reach_says_what_to_check(
    ended: bool, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medsynth.federated.flare import relayed

    monkeypatch.setattr("medsynth.federated.flare.START_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(MedsynthError, match=f"{reason}.* MEDSYNTH_SOCKETS={tmp_path}, that 3 sites"),
        relayed("trial", Path(), lambda job: contextlib.nullcontext(lambda: ended), 3),
    ):
        pass


def test_a_kit_that_flare_does_not_take_is_named(tmp_path: Path) -> None:
    from medsynth.federated.flare import submitted

    submit = submitted(tmp_path, "lead")
    with (
        pytest.raises(MedsynthError, match=f"{tmp_path} .*administrator's kit, that its server runs"),
        submit(tmp_path),
    ):
        pass


def test_a_job_holds_two_relays_and_no_code(tmp_path: Path) -> None:
    from medsynth.federated.flare import write_job
    from medsynth.federated.kit import CLASSES

    job = write_job(tmp_path, "trial", 3)
    files = [path for path in job.rglob("*") if path.is_file()]
    assert files and all(path.suffix == ".json" for path in files)
    named: set[str] = set()

    def look(plain: Any) -> None:
        if isinstance(plain, dict):
            named.update(str(value) for key, value in plain.items() if key == "path")
        for value in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
            look(value)

    for path in files:
        look(json.loads(path.read_text()))
    assert named == set(CLASSES)
