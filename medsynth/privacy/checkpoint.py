"""The checkpoint of a fit: its releases, stored before use, so that a killed fit never draws one twice.

A record is completely on disk before anything uses it. A crash may leave a record half-written, but nothing has used
it, and it is cut off. The file is private: it contains the releases of an unfinished fit and the secret placement of
rows in shards. Remove it once the model is saved.

The file begins with facts: everything on which its records depend. A fit that differs in one of them is refused. Each
start and each resume has its own attempt id, by which the budget file recognises copies (`budget.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from ..arrays import Floats
from ..errors import MedsynthError, UsageError
from ..io.atomic import sole_writer

StoredArrays = Sequence[Floats] | Mapping[str, Floats]
FORMAT = 4  # Version of the file's form.
DERIVED = ("format", "plan", "noise")  # Facts that follow from others and from the version.
OPTIONS = {"split_number": "holdout"}  # Facts whose option has another name.
ATTEMPT = "secret: attempt"  # Label of a record with the id of a resume.
NAMED, PLACED = "of ", "at "  # Prefixes of array keys: before a name, or before a position.
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
RECORD_HEAD = struct.Struct("<Q32s")  # Length and checksum of a record.
MAX_RECORD_BYTES = 1 << 32


class Checkpoint:
    """The records of one fit at `path`, in order. `facts` are everything on which they depend, one per option.

    With `resume` the records on file are replayed first. Raises UsageError with the options that differ if the records
    are another fit's.
    """

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        self.path = path
        self._facts = json.dumps({"format": FORMAT, **facts})
        self._records: list[tuple[str, StoredArrays, list[str]]] = []
        self._resumes: list[str] = []  # Attempt ids of all resumes, in order.
        # For public streams if the fit has no seed. A resumed fit repeats it.
        self.seed = int.from_bytes(os.urandom(7))
        whole = self._read() if resume and path.exists() else 0
        self.resumed = whole > 0  # Whether a killed fit has left anything here.
        self.count = len(self._records)  # Records on file, replayed or not.
        try:
            if whole:
                os.truncate(path, whole)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise MedsynthError(f"The checkpoint {path} cannot be written ({error.strerror}).") from None

    @property
    def remaining(self) -> int:
        """Return the number of records on file that are not yet replayed."""
        return len(self._records)

    @property
    def labels(self) -> list[str]:
        """Return the labels of the records that are not yet replayed, in order."""
        return [label for label, _, _ in self._records]

    @property
    def attempts(self) -> tuple[str, ...]:
        """Return the ids of the start and of all resumes, in order. A copy shares the ids from before the copy."""
        return (f"{self.seed:014x}", *self._resumes)

    def begin(self) -> None:
        """Put the facts on disk, so that a fit that is killed at its first measurement resumes with its charge."""
        if not self.path.exists():
            self._write({"facts": self._facts, "seed": str(self.seed)}, [])

    def resume(self) -> tuple[str, ...]:
        """Give the resumed fit an attempt id, which is on disk on return. Return the ids of all attempts so far."""
        self._resumes.append(secrets.token_hex(7))
        self._write({"label": ATTEMPT, "names": json.dumps(self._resumes[-1:])}, [])
        return self.attempts

    def replay(self, label: str) -> tuple[StoredArrays, list[str]] | None:
        """Return the numbers and names of the next record on file, or None if all were replayed.

        Raises MedsynthError if it has another label.
        """
        if not self._records:
            return None
        found, arrays, names = self._records.pop(0)
        if found != label:
            raise MedsynthError(f"{self.path} does not fit this version's plan. Start anew without `resume`.")
        return arrays, names

    def rest(self) -> list[tuple[str, StoredArrays, list[str]]]:
        """Return and remove all records that are not yet replayed: label, numbers and names."""
        found = self._records
        self._records = []
        return found

    def store(self, label: str, arrays: StoredArrays, names: list[str]) -> None:
        """Put a complete record on disk before it is used. The first call starts the file.

        `arrays` with names are stored under these, others by position.
        """
        self.begin()
        self._write({"label": label, "names": json.dumps(names)}, arrays)
        self.count += 1

    def _write(self, metadata: dict[str, str], arrays: StoredArrays) -> None:
        from safetensors.numpy import save

        if isinstance(arrays, Mapping):
            keyed = {f"{NAMED}{name}": array for name, array in arrays.items()}
        else:
            keyed = {f"{PLACED}{place}": array for place, array in enumerate(arrays)}
        body = save({key: np.array(a, np.float64, order="C") for key, a in keyed.items()}, metadata)
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
        """Read the complete records. Returns the length of their part of the file."""
        try:
            content = self.path.read_bytes()
            place = 0
        except OSError as error:
            raise MedsynthError(f"The checkpoint {self.path} cannot be read ({error.strerror}).") from None
        while place + RECORD_HEAD.size <= len(content):
            length, digest = RECORD_HEAD.unpack_from(content, place)
            body = content[place + RECORD_HEAD.size : place + RECORD_HEAD.size + min(length, MAX_RECORD_BYTES)]
            intact = hashlib.sha256(body).digest() == digest
            if len(body) < length <= MAX_RECORD_BYTES or (place and not intact):
                break  # Half-written at a crash, and never used.
            try:
                if not intact:
                    raise ValueError("the first record is broken")
                self._take(body, first=not place)
            except (LookupError, RecursionError, TypeError, ValueError, struct.error, SafetensorError):
                raise MedsynthError(
                    f"{self.path} is not a checkpoint of this version, or was altered. Start anew with `force` and "
                    "without `resume`."
                ) from None
            place += RECORD_HEAD.size + length
        return place

    def _take(self, body: bytes, *, first: bool) -> None:
        """Add one complete record: the seed of the first one, if its facts are this fit's, or a release."""
        from safetensors.numpy import load

        (size,) = struct.unpack_from("<Q", body)
        metadata = json.loads(body[8 : 8 + size])["__metadata__"]
        if first:
            self._check(json.loads(metadata["facts"]))
            self.seed = int(metadata["seed"])
            return
        tensors = load(body)
        names = json.loads(metadata["names"])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("names must be words")
        if metadata["label"] == ATTEMPT:
            self._resumes += names
            return
        arrays: StoredArrays = {k.removeprefix(NAMED): own for k, own in tensors.items() if k.startswith(NAMED)}
        arrays = arrays or [tensors[f"{PLACED}{k}"] for k in range(len(tensors))]
        self._records.append((str(metadata["label"]), arrays, names))

    def _check(self, stored: dict[str, Any]) -> None:
        """Raise UsageError that names what differs, without values, unless the `stored` facts are this fit's."""
        own = json.loads(self._facts)
        differ = [
            name for name in {**own, **stored}
            if name not in own or name not in stored or json.dumps(own[name]) != json.dumps(stored[name])
        ]  # fmt: skip
        if not differ:
            return
        named = dict.fromkeys(f"`{OPTIONS.get(name, name)}`" for name in differ if name not in DERIVED)
        if not named or "format" in differ:
            named = {"the version of medsynth": None}
        raise UsageError(
            f"{self.path} is of another fit: {' and '.join(named)} {'differs' if len(named) == 1 else 'differ'}. "
            "Fit with the same options, or start anew with `force` and without `resume`."
        )


@contextmanager
def sole_user(path: Path) -> Iterator[None]:
    """Keep other fits from using the checkpoint at `path` meanwhile. Raises MedsynthError if another fit uses it."""
    with ExitStack() as lock:
        try:
            lock.enter_context(sole_writer(path))
        except OSError as error:
            raise MedsynthError(f"The checkpoint {path} cannot be written ({error.strerror}).") from None
        except MedsynthError:
            raise MedsynthError(
                f"Another fit that is still running uses the checkpoint {path}. Wait until it has ended, or use "
                "another `checkpoint`."
            ) from None
        yield
