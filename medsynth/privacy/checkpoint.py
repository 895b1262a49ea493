"""The checkpoint of a fit: its noisy answers, kept before they are used, so that a killed fit never draws one twice.

An answer is on disk, whole, before anything is done with it. What a crash leaves half-written was seen by nobody and is
cut off. The file is private: it tells of an unfinished fit. Whoever has saved the model removes it.
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

from ..errors import MedsynthError, UsageError

Floats = NDArray[np.float64]
HEAD = struct.Struct("<Q32s")  # length and checksum of a record
LARGEST = 1 << 32  # bytes of a record


class Checkpoint:
    """Answers of one fit at `path`, in order. `facts` say which fit it is: plan, schema, settings, table.

    With `resume` the answers on file are recalled first. Raises UsageError where they are another fit's.
    """

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        self.path, self._facts = path, json.dumps(facts)
        self._kept: list[tuple[str, list[Floats], str]] = []
        # Of public streams, where the fit was given none: a resume repeats it.
        self.seed = int.from_bytes(os.urandom(7))
        whole = self._read() if resume and path.exists() else 0
        try:
            if whole:
                os.truncate(path, whole)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise MedsynthError(f"{path}, where a fit keeps answers, cannot be written ({error.strerror}).") from None

    @property
    def answers(self) -> int:
        """How many answers on file are still to be recalled."""
        return len(self._kept)

    def recall(self, label: str) -> tuple[list[Floats], str] | None:
        """The next answer on file, numbers and text, or None where all were recalled.

        Raises MedsynthError if it is another's.
        """
        if not self._kept:
            return None
        found, arrays, text = self._kept.pop(0)
        if found != label:
            raise MedsynthError(f"{self.path} does not fit this version's plan. Start anew without --resume.")
        return arrays, text

    def keep(self, label: str, arrays: list[Floats], text: str = "") -> None:
        """Put an answer on disk, whole, before it is used. The file begins with the first one."""
        if not self.path.exists():
            self._write({"facts": self._facts, "seed": str(self.seed)}, [])
        self._write({"label": label, "text": text}, arrays)

    def _write(self, metadata: dict[str, str], arrays: list[Floats]) -> None:
        from safetensors.numpy import save

        body = save({str(k): np.array(a, np.float64, order="C") for k, a in enumerate(arrays)}, metadata)
        try:
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(HEAD.pack(len(body), hashlib.sha256(body).digest()) + body)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise MedsynthError(f"{self.path}: {error.strerror}. Free some space, then fit with --resume.") from None

    def _read(self) -> int:
        """Take up the whole records. Returns the length of the file that they fill."""
        from safetensors.numpy import load

        content, place = self.path.read_bytes(), 0
        while place + HEAD.size <= len(content):
            length, digest = HEAD.unpack_from(content, place)
            body = content[place + HEAD.size : place + HEAD.size + min(length, LARGEST)]
            if len(body) < length or hashlib.sha256(body).digest() != digest:
                break  # what a crash left half-written, and nobody saw
            (size,) = struct.unpack_from("<Q", body)
            told = json.loads(body[8 : 8 + size])["__metadata__"]
            if place:
                tensors = load(body)
                self._kept.append((told["label"], [tensors[str(k)] for k in range(len(tensors))], told["text"]))
            elif told["facts"] != self._facts:
                raise UsageError(
                    f"{self.path} is of another fit: table, schema or settings differ. Run the command that it was "
                    "begun with, or start anew without --resume."
                )
            else:
                self.seed = int(told["seed"])
            place += HEAD.size + length
        return place
