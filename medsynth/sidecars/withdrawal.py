"""A file next to synthetic rows, or next to a model, that says that they were withdrawn or replaced, and why."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import ArtifactError, TableError, UsageError
from ..io.atomic import atomic_write

SUFFIX = ".withdrawn.json"


class Withdrawal(BaseModel):
    """What was withdrawn, when and why. `replaced_by`: the name or address of what replaces it, if anything does.

    `sha256`: of the file that was withdrawn; None for a folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["medsynth withdrawal"] = "medsynth withdrawal"
    file: str
    sha256: str | None
    status: Literal["withdrawn", "replaced"]
    reason: str
    replaced_by: str | None = None
    date: str

    @property
    def sentence(self) -> str:
        """Return the warning for people."""
        instead = f" Use {self.replaced_by}." if self.replaced_by else " Do not use or share it."
        return f"WARNING: {self.file} was {self.status} on {self.date}: {self.reason.rstrip('.')}.{instead}"


def beside(path: Path) -> Path:
    """Return the withdrawal file of rows or of a model: patients.medsynth has patients.medsynth.withdrawn.json."""
    return path.with_name(path.name + SUFFIX)


def withdraw(path: Path, reason: str, replaced_by: str | None = None, *, force: bool = False) -> Path:
    """Write the withdrawal file of rows, of a folder of them or of a model. Nothing else changes.

    Raises TableError if there is no such file, UsageError without a reason, and OutputExists unless `force`.
    """
    if not path.exists():
        raise TableError(f"There is no {path}. Name the rows or the model to withdraw.")
    if not reason.strip() or not f"{reason}{replaced_by or ''}".isprintable():
        raise UsageError("`reason` must be one printable line: why the rows or the model are withdrawn.")
    digest = None if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    found = Withdrawal(
        file=path.name, sha256=digest, status="replaced" if replaced_by else "withdrawn", reason=reason.strip(),
        replaced_by=replaced_by, date=date.today().isoformat(),
    )  # fmt: skip
    content = (json.dumps(found.model_dump(), indent=1, ensure_ascii=False) + "\n").encode()
    atomic_write(beside(path), content, force=force)
    return beside(path)


def withdrawn(path: Path) -> Withdrawal | None:
    """Return the withdrawal of rows or of a model, or None without a file. Raise ArtifactError for a damaged file."""
    try:
        return Withdrawal.model_validate_json(beside(path).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise ArtifactError(
            f"{beside(path)} is damaged, and it may say that {path.name} was withdrawn. Ask whoever gave you the file."
        ) from None
