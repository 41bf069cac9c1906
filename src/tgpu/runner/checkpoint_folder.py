# ruff: noqa: PTH102, PTH106, PTH116  pathlib is too heavy for a supervisor
"""A task's folder for checkpoints: it outlives the task's attempts, and belongs to the task's user alone.

It is made as `ROOT/CLUSTER/USER/JOB.TASK` by whoever starts the task, as root where that serves others.
Nothing on the way there is followed that another user could have put in its place. The folder of a user is
root's, and only that user may pass it: others cannot learn whose tasks have which numbers. When work was last
saved is the time of one file in it, which a program touches: whatever else is in there is the task's own
business.
"""

import errno
import os
import stat
import time

from tgpu.runner import records

DIR, FILE = "TGPU_CHECKPOINT_DIR", "TGPU_CHECKPOINT_FILE"
"""What a task finds in its environment: its folder, and the file to touch."""
SIGN = ".saved"
FINAL = frozenset({"cancelled", "could-not-start", "time-limit", "disk-limit"})
"""Causes after which no other attempt is about to use it."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full disk and of a used-up quota."""
_PASSABLE, _OWN = 0o711, 0o700
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ACL, _ACL_VERSION = "system.posix_acl_access", 2
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
"""Of the kernel's access lists, with rights as in a mode."""
_NS_PER_MS = 1_000_000
_CLOCK_AHEAD_NS = 24 * 3600 * 10**9
"""So far the clock of a file server may be ahead of this machine's."""
_tops: dict[str, int] = {}
"""Each cluster's folder, once it was opened by this process: whoever starts many tasks does so once."""

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from tgpu.runner.task import Account


def variables(folder: str) -> dict[str, str]:
    return {DIR: folder, FILE: f"{folder}/{SIGN}"} if folder else {}


def prepare(folder: str, account: "Account", env: dict[str, str], *, is_hidden: bool = False) -> None:
    """Raises OSError if there is no space for it: the task would lose work that it could save elsewhere. A
    task that cannot have it for another reason does without, and finds no such variables; this stands in a
    log. `is_hidden`: the task's private /tmp covers it."""
    if not folder:
        return
    try:
        if is_hidden:
            raise FileNotFoundError(errno.ENOENT, "the job has a /tmp and a /dev/shm of its own")
        make_hidden(folder, account.uid, account.gid)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        records.note(f"tgpu: no checkpoint folder {folder}: {error.strerror}")
        env.pop(DIR, None)
        env.pop(FILE, None)


def make(folder: str, uid: int, gid: int) -> None:
    """Or finds it again, from an attempt before. Raises OSError."""
    above, name = os.path.split(folder)
    if above in _tops:
        try:
            _give(name, _tops[above], uid, gid)
        except FileNotFoundError:  # somebody removed all of it
            os.close(_tops.pop(above))
        else:
            return
    top = _tops[above] = _opened(above)
    _give(name, top, uid, gid)


def make_hidden(folder: str, uid: int, gid: int) -> None:
    """In its user's folder. One that an older version has put beside that is moved there. Raises OSError."""
    above, name = os.path.split(folder)
    cluster, user = os.path.split(above)
    outer = _opened(cluster)
    try:
        _is_made(user, outer)
        top = os.open(user, _OPEN | os.O_NOFOLLOW, dir_fd=outer)
        try:
            if os.fstat(top).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it is another user's", above)
            if uid != os.geteuid():
                _let_in(top, uid, gid)
            _move_in(name, outer, top, uid)
            _give(name, top, uid, gid)
        finally:
            os.close(top)
    finally:
        os.close(outer)


def _let_in(top: int, uid: int, gid: int) -> None:
    """That user may pass; where file systems have no access lists, so may the user's group. An account that
    was made again under its name may have another number than when the folder was made."""
    entries = ((_USER_OBJ, 7, -1), (_USER, 1, uid), (_GROUP_OBJ, 0, -1), (_MASK, 1, -1), (_OTHER, 0, -1))
    rules = b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + (who % 2**32).to_bytes(4, "little")
        for tag, rights, who in entries
    )
    rules = _ACL_VERSION.to_bytes(4, "little") + rules
    try:
        if os.getxattr(top, _ACL) == rules:
            return
    except OSError:  # there is none yet
        pass
    try:
        os.setxattr(top, _ACL, rules)
    except OSError:
        os.fchown(top, -1, gid)
        os.fchmod(top, 0o710)


def _move_in(name: str, outer: int, top: int, uid: int) -> None:
    try:
        found = os.stat(name, dir_fd=outer, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and found.st_uid == uid:
        os.rename(name, name, src_dir_fd=outer, dst_dir_fd=top)


def _opened(above: str) -> int:
    """The cluster's folder, made if it is not there: only we can put anything into it."""
    root, cluster = os.path.split(above)
    try:
        os.mkdir(root)
        os.chmod(root, _PASSABLE)  # noqa: PTH101  see above
    except FileExistsError:
        pass
    outer = os.open(root, _OPEN)
    try:
        is_new = _is_made(cluster, outer)
        top = os.open(cluster, _OPEN | os.O_NOFOLLOW, dir_fd=outer)
    finally:
        os.close(outer)
    try:
        if os.fstat(top).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is somebody else's", above)
        if is_new:
            os.fchmod(top, _PASSABLE)
    except OSError:
        os.close(top)
        raise
    return top


def _give(name: str, top: int, uid: int, gid: int) -> None:
    """One that is there was made by us, but what it is by now is for its owner to say."""
    owner = os.geteuid()
    if not _is_made(name, top):
        found = os.stat(name, dir_fd=top, follow_symlinks=False)
        owner = found.st_uid
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is no folder", name)
        if owner not in (uid, os.geteuid()):
            raise PermissionError(errno.EPERM, "it is somebody else's", name)
        os.utime(name, dir_fd=top, follow_symlinks=False)  # nobody takes it for old from here on
    if owner != uid:
        os.chown(name, uid, gid, dir_fd=top, follow_symlinks=False)


def _is_made(name: str, above: int) -> bool:
    """False: it was there."""
    try:
        os.mkdir(name, _OWN, dir_fd=above)
    except FileExistsError:
        return False
    return True


def saved_ms(folder: str) -> int | None:
    """When work was last saved, if ever. May wait for a network drive. Users can give their file any time:
    one before 1970 or in the future counts as none."""
    if not folder:
        return None
    try:
        at_ns = os.stat(f"{folder}/{SIGN}", follow_symlinks=False).st_mtime_ns
    except OSError:
        return None
    return at_ns // _NS_PER_MS if 0 <= at_ns <= time.time_ns() + _CLOCK_AHEAD_NS else None


def remove_if_empty(folder: str) -> None:
    """Most tasks save nothing."""
    if not folder:
        return
    try:
        os.rmdir(folder)
    except OSError:  # there is something in it
        return
