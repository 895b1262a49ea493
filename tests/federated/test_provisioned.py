"""Nightly: a provisioned FLARE deployment, kits with certificates, processes of this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import free_port
from three_sites import SITES, Federation, table

import medsynth

PROJECT = """\
api_version: 3
name: trial
participants:
  - {{name: localhost, type: server, org: hospitals, fed_learn_port: {port}}}
  - {{name: east, type: client, org: hospitals}}
  - {{name: north, type: client, org: hospitals}}
  - {{name: west, type: client, org: hospitals}}
  - {{name: lead@hospitals.org, type: admin, org: hospitals, role: project_admin}}
builders:
  - {{path: nvflare.lighter.impl.workspace.WorkspaceBuilder, args: {{template_file: [master_template.yml]}}}}
  - {{path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {{config_folder: config}}}}
  - {{path: nvflare.lighter.impl.cert.CertBuilder}}
  - {{path: nvflare.lighter.impl.signature.SignatureBuilder}}
"""
BIN = Path(sys.executable).parent


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes, each with a group of its own, that are ended with the test."""
    pytest.importorskip("nvflare", reason="NVIDIA FLARE is not installed: pip install -e '.[federated]'")
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.nightly
@pytest.mark.parametrize("trust", ["secure-sum", "none", "server"])
def test_a_provisioned_deployment(tmp_path: Path, processes: list[subprocess.Popen[bytes]], trust: str) -> None:
    """As docs/how-to/federation.md says, by the same commands, with the default method."""
    method = {"method": "mixture", "settings": {"steps": 20}}
    made = Federation(tmp_path, {name: table(100, k) for k, name in enumerate(SITES)}, trust=trust, **method)
    (tmp_path / "study.yaml").write_text(json.dumps(made.content))
    (tmp_path / "project.yml").write_text(PROJECT.format(port=free_port()))
    (tmp_path / "s").mkdir()
    environment = {**os.environ, "MEDSYNTH_SOCKETS": str(tmp_path / "s"), "PATH": f"{BIN}:{os.environ['PATH']}"}

    def run(*words: str) -> None:
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(folder: Path, *words: str) -> None:
        with (tmp_path / f"log-{len(processes)}").open("w") as log:
            processes.append(
                subprocess.Popen(
                    words, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
            )

    run("nvflare", "provision", "-p", "project.yml", "-w", "kits")
    kits = tmp_path / "kits" / "trial" / "prod_00"
    for name in ("localhost", *SITES):
        run("medsynth", "federate", "allow", str(kits / name))
    for name in SITES:
        words = ["--name", name, "--accept", made.study.digest, "--sockets", str(tmp_path / "s")]
        words += ["--key", "key"] if trust == "secure-sum" else []
        start(tmp_path / name, "medsynth", "federate", "site", "../study.yaml", "t.csv", *words)
    for name in ("localhost", *SITES):
        start(tmp_path, "bash", str(kits / name / "startup" / "sub_start.sh"))
    until = time.monotonic() + 120
    log = kits / "localhost" / "log.txt"
    while not (log.exists() and log.read_text().count("joined. Sent token") == 3) and time.monotonic() < until:
        time.sleep(1)
    kit = str(kits / "lead@hospitals.org")
    run("medsynth", "federate", "fit", "study.yaml", "--kit", kit, "--user", "lead@hospitals.org", "--sockets", "s")
    assert medsynth.load(tmp_path / "trial.medsynth").claims
    for process in processes[:3]:
        assert process.wait(60) == 0
