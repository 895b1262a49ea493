"""A startup kit's local policy: medsynth's relays, and no code that a job brings."""

import json
from pathlib import Path

import pytest

from medsynth.errors import OutputExists, UsageError
from medsynth.federated.kit import CLASSES, restrict


def kit(folder: Path) -> Path:
    (folder / "local").mkdir()
    resources = {"format_version": 2, "class_allow_list": ["*"], "allow_log_streaming": True, "components": [1]}
    rights = {"project_admin": "any", "lead": {"submit_job": "any", "byoc": "any"}, "member": {"view": "any"}}
    (folder / "local" / "resources.json.default").write_text(json.dumps(resources))
    (folder / "local" / "authorization.json.default").write_text(json.dumps({"permissions": rights}))
    return folder


def test_a_kit_runs_no_foreign_code(tmp_path: Path) -> None:
    written = [json.loads(path.read_text()) for path in restrict(kit(tmp_path))]
    assert written[0]["class_allow_list"] == list(CLASSES) and written[0]["components"] == [1]
    assert written[0]["allow_log_streaming"] is False
    roles = written[1]["permissions"]
    assert all(rights.get("byoc") == rights.get("shell_commands") == "none" for rights in roles.values())
    assert roles["project_admin"]["submit_job"] == "any" and roles["member"]["view"] == "any"


def test_a_server_keeps_its_jobs_in_its_kit(tmp_path: Path) -> None:
    """FLARE's default is a folder that all servers of a machine share: one takes the jobs of another, and ends them."""
    (kit(tmp_path) / "local" / "resources.json.default").write_text(
        json.dumps({"components": [{"args": {"uri_root": "/tmp/nvflare/jobs-storage", "n": 1}}, "/tmp/other"]})
    )
    written = json.loads(restrict(tmp_path)[0].read_text())
    assert written["components"] == [{"args": {"uri_root": str(tmp_path / "jobs-storage"), "n": 1}}, "/tmp/other"]


def test_what_is_no_kit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the startup kit"):
        restrict(tmp_path)
    restrict(kit(tmp_path))
    with pytest.raises(OutputExists):
        restrict(tmp_path)
    restrict(tmp_path, force=True)
    (tmp_path / "local" / "authorization.json.default").write_text("[]")
    with pytest.raises(UsageError, match="authorization"):
        restrict(tmp_path, force=True)
