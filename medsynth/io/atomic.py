"""Files appear whole or not at all, and nothing is overwritten unasked."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..errors import MedsynthError, OutputExists


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raises OutputExists if there is something at `path` and `force` is not set."""
    if path.exists() and not force:
        raise OutputExists(f"{path} exists already. `force` replaces it; another `output` leaves it.")


def atomic_write(
    path: Path, write: Callable[[BinaryIO], object], *, force: bool = False, private: bool = False
) -> None:
    """Let `write` fill a file beside `path`, then move it there in one step; what was there stays on failure.

    `private` makes it readable by its owner alone. Raises OutputExists, or MedsynthError where the folder or the
    disk does not take the file.
    """
    refuse_existing(path, force=force)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o600 if private else 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise MedsynthError(
            f"{path} could not be written ({error.strerror}). Free some space or choose another `output`; "
            "what was there before is unchanged."
        ) from None
    finally:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
