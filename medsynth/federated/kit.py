"""Restrict a FLARE startup kit to medsynth's relays: it runs no other class, and no code that comes with a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..io.atomic import atomic_write

CLASSES = (  # medsynth's relays, and two FLARE classes that call them
    "medsynth.federated.flare.RelayServer",
    "medsynth.federated.flare.RelaySite",
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
)
SHARED = "/tmp/nvflare/"  # FLARE's folder of jobs and snapshots; servers that share it run each other's jobs
RESOURCES, PERMISSIONS = "resources.json", "authorization.json"
CLOSED = {"byoc": "none", "shell_commands": "none"}  # for everybody, including administrators of the project
OPEN = dict.fromkeys(("submit_job", "clone_job", "manage_job", "download_job", "view", "operate"), "any")


def restrict(kit: Path, *, force: bool = False) -> list[Path]:
    """Write the local policy of a server's or a site's startup kit, and return its files. Logs are not streamed.

    A server keeps its jobs in its own kit, at the absolute path that the kit has now.

    Raises UsageError if the folder is not such a kit, OutputExists unless `force`.
    """
    local = kit / "local"
    resources, permissions = (_default(local, name) for name in (RESOURCES, PERMISSIONS))
    resources = _kept_in(kit.resolve(), resources)
    resources |= {"class_allow_list": list(CLASSES), "allow_log_streaming": False}  # logs stay on their machine
    roles = permissions["permissions"]
    permissions["permissions"] = {
        role: {**(OPEN if rights == "any" else rights), **CLOSED} for role, rights in roles.items()
    }
    written = []
    for name, content in ((RESOURCES, resources), (PERMISSIONS, permissions)):
        atomic_write(local / name, json.dumps(content, indent=2).encode(), force=force)
        written.append(local / name)
    return written


def _kept_in(kit: Path, value: Any) -> Any:
    """Return a part of a configuration with the folders below SHARED moved into the kit."""
    if isinstance(value, dict):
        return {key: _kept_in(kit, part) for key, part in value.items()}
    if isinstance(value, list):
        return [_kept_in(kit, part) for part in value]
    return str(kit / value.removeprefix(SHARED)) if isinstance(value, str) and value.startswith(SHARED) else value


def _default(local: Path, name: str) -> dict[str, Any]:
    """Return a default file of a kit. Raise UsageError if there is none."""
    try:
        content = json.loads((local / f"{name}.default").read_text())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or (name == PERMISSIONS and not isinstance(content.get("permissions"), dict)):
        raise UsageError(f"{local.parent} is not the startup kit of a server or a site: it has no {name}.default.")
    return content
