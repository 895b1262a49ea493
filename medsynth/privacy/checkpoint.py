"""The checkpoint of a fit: its releases, stored before they are used, so that a killed fit never draws one twice.

A record is on disk, whole, before anything is done with it. A record that a crash left half-written was used by nobody
and is cut off. The file is private: it holds the releases of an unfinished fit, and the secret placement of rows in
shards. It is to be removed once the model is saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from ..errors import MedsynthError, UsageError

Floats = NDArray[np.float64]
FORMAT = 3  # of the file
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
RECORD_HEAD = struct.Struct("<Q32s")  # length and checksum of a record
MAX_RECORD_BYTES = 1 << 32


class Checkpoint:
    """The records of one fit at `path`, in order. `facts` identify the fit: plan, schema, settings, table.

    With `resume` the records on file are replayed first. Raises UsageError where they are another fit's.
    """

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        self.path, self._facts = path, json.dumps({"format": FORMAT, **facts})
        self._records: list[tuple[str, list[Floats], list[str]]] = []
        # Of public streams, where the fit was given none: a resumed fit repeats it.
        self.seed = int.from_bytes(os.urandom(7))
        whole = self._read() if resume and path.exists() else 0
        try:
            if whole:
                os.truncate(path, whole)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise MedsynthError(f"The checkpoint {path} cannot be written ({error.strerror}).") from None

    @property
    def remaining(self) -> int:
        """How many records on file are still to be replayed."""
        return len(self._records)

    def replay(self, label: str) -> tuple[list[Floats], list[str]] | None:
        """The next record on file, its numbers and names, or None where all were replayed.

        Raises MedsynthError if it has another label.
        """
        if not self._records:
            return None
        found, arrays, names = self._records.pop(0)
        if found != label:
            raise MedsynthError(f"{self.path} does not fit this version's plan. Start anew without `resume`.")
        return arrays, names

    def rest(self) -> list[tuple[str, list[Floats], list[str]]]:
        """All records that are still to be replayed, at once: label, numbers and names. None is left."""
        found, self._records = self._records, []
        return found

    def store(self, label: str, arrays: list[Floats], names: list[str]) -> None:
        """Put a record on disk, whole, before it is used. The file begins with the first one."""
        if not self.path.exists():
            self._write({"facts": self._facts, "seed": str(self.seed)}, [])
        self._write({"label": label, "names": json.dumps(names)}, arrays)

    def _write(self, metadata: dict[str, str], arrays: list[Floats]) -> None:
        from safetensors.numpy import save

        body = save({str(k): np.array(a, np.float64, order="C") for k, a in enumerate(arrays)}, metadata)
        try:
            with os.fdopen(os.open(self.path, APPEND, 0o600), "ab") as file:
                file.write(RECORD_HEAD.pack(len(body), hashlib.sha256(body).digest()) + body)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise MedsynthError(
                f"{self.path}: {error.strerror}. Free some space, then fit again with `resume`."
            ) from None

    def _read(self) -> int:
        """Read the whole records. Returns the length of the file that they fill."""
        try:
            content, place = self.path.read_bytes(), 0
        except OSError as error:
            raise MedsynthError(f"The checkpoint {self.path} cannot be read ({error.strerror}).") from None
        while place + RECORD_HEAD.size <= len(content):
            length, digest = RECORD_HEAD.unpack_from(content, place)
            body = content[place + RECORD_HEAD.size : place + RECORD_HEAD.size + min(length, MAX_RECORD_BYTES)]
            intact = hashlib.sha256(body).digest() == digest
            if len(body) < length <= MAX_RECORD_BYTES or (place and not intact):
                break  # half-written at a crash, and used by nobody
            try:
                if not intact:
                    raise ValueError("the first record is none")
                self._take(body, first=not place)
            except (LookupError, RecursionError, TypeError, ValueError, struct.error, SafetensorError):
                raise MedsynthError(
                    f"{self.path} is no checkpoint of this version, or was altered. Start anew with `force` and "
                    "without `resume`."
                ) from None
            place += RECORD_HEAD.size + length
        return place

    def _take(self, body: bytes, *, first: bool) -> None:
        """Take over one record that is whole: the first one's seed, where it is of this fit, or a release."""
        from safetensors.numpy import load

        (size,) = struct.unpack_from("<Q", body)
        metadata = json.loads(body[8 : 8 + size])["__metadata__"]
        if first and metadata["facts"] != self._facts:
            raise UsageError(
                f"{self.path} is of another fit: table, schema, settings or version differ. Fit as it was begun, "
                "or start anew without `resume`."
            )
        if first:
            self.seed = int(metadata["seed"])
            return
        tensors, names = load(body), json.loads(metadata["names"])
        arrays = [tensors[str(k)] for k in range(len(tensors))]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("names are words")
        self._records.append((str(metadata["label"]), arrays, names))
