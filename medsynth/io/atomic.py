"""Write whole files or none, overwrite nothing without `force`, and never widen who may read a file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from ..errors import MedsynthError, OutputExists

LOCK = "lock"  # ending of a file that names the process of a run
LONGEST_NAME = 255  # bytes of a file's name, on all usual file systems
OWNER, USUAL = 0o600, 0o644  # permissions of a private file and of others, which the umask narrows


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise OutputExists if `path` exists and `force` is not set, MedsynthError if no file can be written there.

    Folders, devices, pipes, links, and names that no file can have are refused with `force`, too.
    """
    name = os.fsencode(path.name)
    if not name or name in (b".", b"..") or b"\0" in name:
        raise MedsynthError(f"{str(path)!r} is not a file name. Set `output` to the file to write.")
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
        raise MedsynthError(f"{path} is {what}. Set `output` to a file of its own.")
    if not force:
        raise OutputExists(f"{path} exists already. Set `force` to replace it, or choose another `output`.")


def check_outputs(*outputs: Path, inputs: tuple[Path, ...] = (), force: bool) -> None:
    """Raise the errors of `refuse_existing`, and MedsynthError if a folder is not writable or two paths are equal.

    A command checks its outputs before its work, so that the work is not lost.
    """
    places = {path: path.parent.resolve() / path.name for path in outputs}
    for k, path in enumerate(outputs):
        is_read = any(_same(path, other) for other in inputs)
        refuse_existing(path, force=force or is_read)
        if is_read:
            raise MedsynthError(f"This command reads {path} and would overwrite it. Choose another `output`.")
        if places[path] in [places[other] for other in outputs[:k]]:
            raise MedsynthError(f"This command would write {path} twice. Choose another `output`.")
        if not path.parent.is_dir():
            raise MedsynthError(f"{path} cannot be written: there is no folder {path.parent}. Create it first.")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise MedsynthError(f"{path} cannot be written: its folder is read-only. Choose another `output`.")


def check_folder(folder: Path, need: str = "a folder is needed") -> None:
    """Raise MedsynthError unless this is a folder, or can be made. `need`: why it must be one."""
    if folder.exists() and not folder.is_dir():
        raise MedsynthError(f"{folder} is a file, but {need}. Choose another `output`.")
    if not folder.absolute().parent.is_dir():
        raise MedsynthError(f"{folder} cannot be created: there is no folder {folder.parent}. Create it first.")


@contextlib.contextmanager
def whole_folder(folder: Path, names: Collection[str] | None = None) -> Iterator[None]:
    """Make a folder if it does not exist. After an error a new one is removed: it appears whole or not at all.

    `names`: the files that are written. Raises MedsynthError if it cannot be made, or if it contains other files, which
    whoever receives the folder would receive, too.
    """
    check_folder(folder)
    if names is not None and folder.is_dir() and (others := {path.name for path in folder.iterdir()} - set(names)):
        raise MedsynthError(
            f"{folder} contains {len(others)} other files. Who receives the folder receives them. Choose a new folder "
            "as `output`."
        )
    new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return one.parent.resolve() / one.name == other.parent.resolve() / other.name


def atomic_write(
    path: Path, content: bytes | Callable[[BinaryIO], object], *, force: bool = False, private: bool = False
) -> None:
    """Fill a file next to `path` with `content`, or let it fill the file, then move it to `path` in one step.

    A failure leaves the old file unchanged. Only the owner can read a `private` file; a replaced file keeps its
    permissions if they are narrower. Parts that a killed run left of the same output are removed. Raises OutputExists,
    or MedsynthError if the folder or the disk refuses the file, or if another run is writing it.
    """
    refuse_existing(path, force=force)
    try:
        permissions = (OWNER if private else USUAL) & (stat.S_IMODE(path.stat().st_mode) if path.exists() else USUAL)
        with sole_writer(path, "part", permissions) as (handle, temporary):
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(content) if isinstance(content, bytes) else content(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError as error:
        raise MedsynthError(
            f"{path} could not be written ({error.strerror}). Free some space or choose another `output`; "
            "the old file, if there was one, is unchanged."
        ) from None


def write_together(
    files: Mapping[str, Path], write: Callable[[dict[str, BinaryIO]], object], *, force: bool = False
) -> None:
    """Let `write` fill all files, by name. No file appears before all are complete. Raises as `atomic_write` does."""

    def opened(found: dict[str, BinaryIO]) -> None:
        if left := [name for name in files if name not in found]:
            atomic_write(files[left[0]], lambda file: opened({**found, left[0]: file}), force=force)
        else:
            write(found)

    opened({})


def write_page(path: Path, html: str, data: str, *, force: bool = False, private: bool = False) -> Path:
    """Write a page and its JSON twin next to it: both or neither. Return the twin's path. Raises OutputExists."""
    twin = path.with_suffix(".json")
    for output in (path, twin):
        refuse_existing(output, force=force)
    page = html.encode()  # before anything is written
    atomic_write(twin, data.encode(), force=force, private=private)
    atomic_write(path, page, force=force, private=private)
    return twin


@contextlib.contextmanager
def sole_writer(path: Path, ending: str = LOCK, permissions: int = OWNER) -> Iterator[tuple[int, Path]]:
    """Yield a new, locked, hidden file next to `path`, and its name. No other run gets it; it is removed unless moved.

    A lock names this process. A file that a killed run left is removed first. Raises MedsynthError if another run has
    the file.
    """
    beside = _beside(path, ending)
    while (handle := _locked(beside, permissions)) is None:
        _remove_left_over(beside, path)
    try:
        if ending == LOCK:
            os.write(handle, f"{os.getpid()} {_birth(os.getpid())}".encode())
        yield handle, beside
    finally:
        if _names(beside, handle):
            os.unlink(beside)
        os.close(handle)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".medsynth-{sha256(os.fsencode(path.name)).hexdigest()[:16]}.{ending}")


def writer_of(path: Path) -> int | None:
    """Return the process of this user that is the sole writer of `path` now, on this machine; None if there is none.

    The lock names a process and its birth. If the process was killed, another one may have its number, but not its
    birth.
    """
    try:
        handle = os.open(_beside(path, LOCK), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        number, _, birth = file.read(200).decode(errors="replace").partition(" ")
        own = os.fstat(handle).st_uid == os.geteuid()
    is_number = number.isdecimal() and number.isascii()
    return int(number) if own and is_number and birth and birth == _birth(int(number)) else None


def interrupt_writer(path: Path) -> bool:
    """Interrupt the sole writer of `path` as Ctrl-C does. Return False if there is none."""
    if (number := writer_of(path)) is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            os.kill(number, signal.SIGINT)
            return True
        handle = os.pidfd_open(number)  # the number may go to another process, but this handle may not
        try:
            if writer_of(path) == number:
                signal.pidfd_send_signal(handle, signal.SIGINT)
                return True
        finally:
            os.close(handle)
    return False


def _birth(number: int) -> str:
    """Return the machine and the moment at which a process was started; an empty text if there is no such process."""
    machine = os.uname().nodename
    with contextlib.suppress(OSError):
        started = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{machine} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {started}"
    with contextlib.suppress(OSError):
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(number)], capture_output=True, text=True, check=False)
        return f"{machine} {done.stdout.strip()}" if done.stdout.strip() else ""
    return ""


def _locked(beside: Path, permissions: int) -> int | None:
    """Return a handle of a new file, locked before any other run has it; None if the name is taken."""
    try:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)
    except FileExistsError:
        return None
    if _lock(handle) and _names(beside, handle):
        return handle
    os.close(handle)
    return None


def _remove_left_over(beside: Path, path: Path) -> None:
    """Remove the file of a killed run. Raise MedsynthError if that run is alive."""
    try:
        handle = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not _lock(handle):
            raise MedsynthError(f"Another run is writing {path}. Wait until it has ended, or choose another `output`.")
        if _names(beside, handle):
            os.unlink(beside)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Return whether this run locked the file, or the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _names(name: Path, handle: int) -> bool:
    """Return whether the open file still has that name."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(handle))
    except FileNotFoundError:
        return False
