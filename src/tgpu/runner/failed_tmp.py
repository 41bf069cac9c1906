# ruff: noqa: PTH102, PTH104, PTH116, PTH119, PTH120  pathlib is too heavy for a supervisor
"""Private /tmp directories of failed attempts: kept for a while for the user whose they are.

One is kept as `ROOT/CLUSTER/ATTEMPT/tmp`. The way there belongs to root, and can be passed by all users but
changed and listed by none; `tmp` itself can be entered by its user alone. Root does not open anything in it
but to remove it, and follows no link then. Its age is that of the folder around it, whose time no user can
change.
"""

import os
import select
from errno import ENOSPC

from tgpu.runner import removing
from tgpu.runner.light import signal
from tgpu.runner.output import Stream

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from collections.abc import Callable

    from tgpu.runner.task import Account

NAME = "tmp"
_EXITED = "exited"
_FAILURES = frozenset({_EXITED, "signalled", "out-of-memory", "time-limit"})
LOOK_UP_S = 5.0
_PASSABLE, _OWN = 0o711, 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Kept:
    """One private /tmp that is kept, in the folder `path` around it."""

    __slots__ = ("at_s", "gid", "path", "uid")

    def __init__(self, path: str, at_s: float, uid: int, gid: int) -> None:
        self.path, self.at_s, self.uid, self.gid = path, at_s, uid, gid

    @property
    def attempt(self) -> str:
        return os.path.basename(self.path)

    @property
    def tmp(self) -> str:
        return f"{self.path}/{NAME}"


def is_failure(cause: str, code: int | None) -> bool:
    """Whether that end was the job's own doing: not that it was cancelled, preempted or could not start."""
    return cause in _FAILURES and (cause != _EXITED or code != 0)


def owner(look_up: "Callable[[], Account]") -> tuple[int, int]:
    """User and group of a job, looked up in a child: a directory service that does not answer must not keep a
    supervisor from recording an end. Raises OSError."""
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            account = look_up()
            os.write(tell, b"%d %d" % (account.uid, account.gid))
        finally:
            os._exit(0)
    os.close(tell)
    answered = select.poll()  # `select` fails in a process that has more than 1,023 open files
    answered.register(answer, select.POLLIN)
    words = os.read(answer, 64).split() if answered.poll(1000 * LOOK_UP_S) else []
    os.close(answer)
    os.kill(child, signal.SIGKILL)  # not waited for yet: its number is still its own
    os.waitpid(child, 0)
    if not words:
        raise OSError("the job's user could not be looked up")
    return int(words[0]), int(words[1])


def keep(folder: str, above: str, attempt: str, uid: int, gid: int) -> str:
    """Moves a private /tmp below `above`; returns its new path. `folder` must be in a place that only this
    process's user can change. Raises OSError, also if the disk is so full that it has to go."""
    space = os.statvfs(folder)
    if space.f_bavail * space.f_frsize <= Stream.reserve_bytes:
        raise OSError(ENOSPC, "the disk is full")
    around = f"{above}/{attempt}"
    _make_way(above)
    removing.remove(around)
    os.mkdir(around, _PASSABLE)
    private = os.open(folder, _FOLDER)
    try:
        os.fchmod(private, _OWN)
        os.fchown(private, uid, gid)
        os.rename(folder, f"{around}/{NAME}")
    finally:
        os.close(private)
    return f"{around}/{NAME}"


def discard(kept: str) -> None:
    """One that has no place on a full disk; `kept`: as `keep` returned it."""
    removing.remove(os.path.dirname(kept))


def _make_way(above: str) -> None:
    for folder in (os.path.dirname(above), above):
        try:
            os.mkdir(folder, _PASSABLE)
        except FileExistsError:
            continue


def kept(root: str) -> list[Kept]:
    """All that is kept, of all clusters. Raises OSError."""
    return [_found(path) for cluster in _folders(root) for path in _folders(cluster)]


def _found(path: str) -> Kept:
    around = os.stat(path, follow_symlinks=False)
    try:
        own = os.stat(f"{path}/{NAME}", follow_symlinks=False)
    except FileNotFoundError:  # it is just being moved here, or a crash came between
        own = around
    return Kept(path, around.st_mtime, own.st_uid, own.st_gid)


def _folders(above: str) -> list[str]:
    try:
        with os.scandir(above) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
