# ruff: noqa: PTH102, PTH106, PTH116  pathlib is too heavy for a supervisor
"""A task's folder for checkpoints: it outlives the task's attempts, and belongs to the task's user alone.

It is made as `ROOT/CLUSTER/JOB.TASK` by whoever starts the task, as root where that serves others. Nothing
on the way there is followed that somebody else could have put in its place. When work was last saved is the
time of one file in it, which a program touches: whatever else is in there is the task's own business.
"""

import errno
import os

DIR, FILE = "TGPU_CHECKPOINT_DIR", "TGPU_CHECKPOINT_FILE"
"""What a task finds in its environment: its folder, and the file to touch."""
SIGN = ".saved"
_PASSABLE, _OWN = 0o711, 0o700
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NS_PER_MS = 1_000_000

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from tgpu.runner.task import Account


def variables(folder: str) -> dict[str, str]:
    return {DIR: folder, FILE: f"{folder}/{SIGN}"} if folder else {}


def prepare(folder: str, account: "Account", env: dict[str, str]) -> None:
    """A task that cannot have it does without, and finds no such variables; this stands in a log."""
    if not folder:
        return
    try:
        make(folder, account.uid, account.gid)
    except OSError as error:
        os.write(2, f"tgpu: no checkpoint folder {folder}: {error.strerror}\n".encode())
        env.pop(DIR, None)
        env.pop(FILE, None)


def make(folder: str, uid: int, gid: int) -> None:
    """Or finds it again, from an attempt before. Raises OSError."""
    above, name = os.path.split(folder)
    root, cluster = os.path.split(above)
    try:
        os.mkdir(root)
        os.chmod(root, _PASSABLE)  # noqa: PTH101  see above
    except FileExistsError:
        pass
    top = os.open(root, _OPEN)
    try:
        between = _made(cluster, top, _PASSABLE, os.geteuid(), os.getegid())
        try:
            made = _made(name, between, _OWN, uid, gid)
            os.utime(made)  # nobody takes it for old from here on
            os.close(made)
        finally:
            os.close(between)
    finally:
        os.close(top)


def _made(name: str, above: int, mode: int, uid: int, gid: int) -> int:
    """Its descriptor. It is there and given to its owner, or it is nobody's whom we would not trust."""
    is_new = True
    try:
        os.mkdir(name, mode, dir_fd=above)
    except FileExistsError:
        is_new = False
    found = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=above)
    try:
        owner = os.fstat(found).st_uid
        if owner not in (uid, os.geteuid()):
            raise PermissionError(errno.EPERM, "it is somebody else's", name)
        if owner != uid:
            os.fchown(found, uid, gid)
        if is_new:
            os.fchmod(found, mode)
    except OSError:
        os.close(found)
        raise
    return found


def saved_ms(folder: str) -> int | None:
    """When work was last saved, if ever. May wait for a network drive."""
    if not folder:
        return None
    try:
        return os.stat(f"{folder}/{SIGN}", follow_symlinks=False).st_mtime_ns // _NS_PER_MS
    except OSError:
        return None


def remove_if_empty(folder: str) -> None:
    """Most tasks save nothing."""
    if not folder:
        return
    try:
        os.rmdir(folder)
    except OSError:  # there is something in it
        return
