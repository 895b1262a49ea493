"""Files appear whole or not at all, nothing is overwritten unasked, and nobody may read more than before."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from ..errors import MedsynthError, OutputExists

LONGEST_NAME = 255  # bytes of a file's name, on all usual file systems
OWNER, USUAL = 0o600, 0o644  # permissions of a private file and of any other, from which the umask takes away


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raises OutputExists if there is something at `path` and `force` is not set, MedsynthError for no place of a file.

    Refused whatever is set: folders, devices, pipes, links, and names that no file can have.
    """
    name = os.fsencode(path.name)
    if not name or name in (b".", b"..") or b"\0" in name:
        raise MedsynthError(f"{str(path)!r} is no name of a file. Name the file to write as `output`.")
    if len(name) > LONGEST_NAME:
        raise MedsynthError(f"The name of an output is longer than {LONGEST_NAME} bytes. Choose a shorter `output`.")
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise MedsynthError(f"{path} cannot be written ({error.strerror}). Choose another `output`.") from None
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link to another file"}
        what = kinds.get(stat.S_IFMT(found.st_mode), "a device or a pipe")
        raise MedsynthError(f"{path} is {what}. Name a file of its own as `output`.")
    if not force:
        raise OutputExists(f"{path} exists already. `force` replaces it; another `output` leaves it.")


def check_outputs(*outputs: Path, inputs: tuple[Path, ...] = (), force: bool) -> None:
    """Raises what `refuse_existing` does, or MedsynthError where a folder takes no file or two of the paths are one.

    What is checked here need not fail after the work is done.
    """
    places = {path: path.parent.resolve() / path.name for path in outputs}
    for k, path in enumerate(outputs):
        is_read = any(_same(path, other) for other in inputs)
        refuse_existing(path, force=force or is_read)
        if is_read:
            raise MedsynthError(f"{path} is read by this command, and would be written over. Choose another `output`.")
        if places[path] in [places[other] for other in outputs[:k]]:
            raise MedsynthError(f"{path} would be written twice by this command. Choose another `output`.")
        if not path.parent.is_dir():
            raise MedsynthError(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise MedsynthError(f"{path} cannot be written: its folder takes no files. Choose another `output`.")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there
        return one.parent.resolve() / one.name == other.parent.resolve() / other.name


def atomic_write(
    path: Path, write: Callable[[BinaryIO], object], *, force: bool = False, private: bool = False
) -> None:
    """Let `write` fill a file beside `path`, then move it there in one step; what was there stays on failure.

    `private` makes it readable by its owner alone; a file that is replaced keeps its permissions where these are
    narrower. Parts of files that a killed run left of the same output are removed. Raises OutputExists, or
    MedsynthError where the folder or the disk does not take the file, or where another run is writing it.
    """
    refuse_existing(path, force=force)
    try:
        with sole_writer(path, "part", _permissions(path, private)) as (handle, temporary):
            with os.fdopen(os.dup(handle), "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError as error:
        raise MedsynthError(
            f"{path} could not be written ({error.strerror}). Free some space or choose another `output`; "
            "what was there before is unchanged."
        ) from None


def _permissions(path: Path, private: bool) -> int:
    """Those of a file to write at `path`: never wider than those of one that is there. The umask takes away more."""
    return (OWNER if private else USUAL) & (stat.S_IMODE(path.stat().st_mode) if path.exists() else USUAL)


@contextlib.contextmanager
def sole_writer(path: Path, ending: str = "lock", permissions: int = OWNER) -> Iterator[tuple[int, Path]]:
    """A new, locked, hidden file beside `path` and its name: no other run gets it. At the end it is gone, unless moved.

    One that a killed run left is removed first. Raises MedsynthError where another run has it.
    """
    digest = sha256(os.fsencode(path.name)).hexdigest()[:16]
    beside = path.with_name(f".medsynth-{digest}.{ending}")
    while (handle := _locked(beside, permissions)) is None:
        _remove_left_over(beside, path)
    try:
        yield handle, beside
    finally:
        if _names(beside, handle):
            os.unlink(beside)
        os.close(handle)


def _locked(beside: Path, permissions: int) -> int | None:
    """A handle of a new file, locked before anybody else has it; None where there is a file of that name."""
    try:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)
    except FileExistsError:
        return None
    if _lock(handle) and _names(beside, handle):
        return handle
    os.close(handle)
    return None


def _remove_left_over(beside: Path, path: Path) -> None:
    """Remove what a killed run left. Raises MedsynthError where the run is alive."""
    try:
        handle = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not _lock(handle):
            raise MedsynthError(
                f"{path} is being written by another run. Wait until that has ended, or choose another `output`."
            )
        if _names(beside, handle):
            os.unlink(beside)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether the file is now locked by this run, or lies where nothing can be locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _names(name: Path, handle: int) -> bool:
    """Whether the open file still has that name."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(handle))
    except FileNotFoundError:
        return False
