# ruff: noqa: PTH102, PTH106, PTH109  pathlib is too heavy for a supervisor
"""Private /tmp and /dev/shm of a task, where the agent is root.

The private /tmp is a folder on disk below the agent's records, the private /dev/shm a file system in memory,
no larger than the task's memory. The task sees everything else of the machine as all processes do. A task
whose working directory lies in one of the two keeps the machine's own: that directory would not be there.

Folder, file system and mount namespace are made for one task and used by no other: whatever descriptors a
task has passed on to other processes, none of them leads to anything of a later task.
"""

import os

from tgpu.runner import failed_tmp, namespaces, removing

FOLDER = "tmp"
SHARED = ("/tmp", "/dev/shm")  # noqa: S108  these are what it is about
LIKE_TMP = 0o1777
_BIND, _NOSUID, _NODEV = 4096, 2, 4


def is_for(*named: str) -> bool:
    """Whether none of these paths lies in the machine's own /tmp or /dev/shm."""
    places = [os.path.normpath(where) for where in named]
    return not any(where == path or where.startswith(f"{path}/") for path in SHARED for where in places)


def explained(refusal: str, *, own: bool) -> str:
    """Why a program cannot be started, and if it was in a place of which the task has its `own`, that too."""
    hidden = own and refusal.endswith("no such file") and not is_for(refusal)
    return f"{refusal} (the job has a /tmp and a /dev/shm of its own)" if hidden else refusal


class PrivateTmp:
    """Of one supervisor's tasks, one after the other. Each folder is below the current one, and bears the
    name of its attempt.

    A process that has entered or left stands at the root: the way back is the caller's to know.
    """

    def __init__(self) -> None:
        self._machines = namespaces.open_own()
        self._view = -1
        """The mount namespace of the current task."""
        self._attempt = ""

    def prepare(self, attempt: str, shm_mib: int) -> None:
        """Raises OSError."""
        self._attempt = attempt
        _make_folder(f"{FOLDER}/{attempt}")
        self._make_view(f"{os.getcwd()}/{FOLDER}/{attempt}", shm_mib)

    def enter(self) -> None:
        namespaces.join(self._view)

    def leave(self) -> None:
        namespaces.join(self._machines)

    def release(self) -> bool:
        """The task is over. False: it has left files, which may take a while to be removed by `clear`."""
        return not self._attempt or _is_removed(f"{FOLDER}/{self._attempt}")

    def keep(self, above: str, uid: int, gid: int) -> str:
        """Where below `above` that user finds the files. Raises OSError."""
        kept = failed_tmp.keep(f"{FOLDER}/{self._attempt}", above, self._attempt, uid, gid)
        self._attempt = ""
        return kept

    def clear(self) -> None:
        """Nothing is left of it. The kernel takes some milliseconds to give up a mount namespace."""
        if self._view >= 0:
            os.close(self._view)
            self._view = -1
        if self._attempt:
            removing.remove(f"{FOLDER}/{self._attempt}")
            self._attempt = ""

    def _make_view(self, folder: str, shm_mib: int) -> None:
        try:
            namespaces.unshare()
            namespaces.mount("tmpfs", SHARED[1], "tmpfs", _NOSUID | _NODEV, _size(shm_mib))
            namespaces.mount(folder, SHARED[0], None, _BIND)
            self._view = namespaces.open_own()
        finally:
            self.leave()


def why_not() -> str:
    """Empty if this process may give tasks a /tmp of their own: it is tried, in a child."""
    if os.getuid() != 0:
        return "the agent is not root"
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            PrivateTmp()._make_view("/var", 1)  # noqa: SLF001  without a folder to clear away
        except OSError as error:
            os.write(tell, f"{error.strerror} (unshare, mount)".encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    reason = os.read(answer, 1024).decode()
    os.close(answer)
    return reason


def _make_folder(path: str) -> None:
    """A folder that was there before is not used again, whatever is in it. Raises OSError."""
    for folder in (FOLDER, path):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if folder == path:
                removing.remove(path)
                os.mkdir(path, 0o700)
    os.chmod(path, LIKE_TMP)  # noqa: PTH101  see above


def _is_removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _size(shm_mib: int) -> str:
    """Without a limit, half of the machine's memory: the kernel's own choice."""
    return f"size={shm_mib}m,mode=1777" if shm_mib else "size=50%,mode=1777"
