# ruff: noqa: PTH102, PTH104, PTH106, PTH109, PTH208  pathlib is too heavy for a supervisor
"""A /tmp and a /dev/shm of its own for a task, where the agent is root: nobody else's files, and none left.

Its /tmp is a folder on disk below the agent's records, its /dev/shm a fresh file system in memory, no larger
than its memory. Everything else of the machine it sees as all do. A task whose working directory lies in one
of the two keeps the machine's own: what it was sent to would not be there.

As with cgroups, the supervisor steps into the view that its task is to have, starts it, and steps out again.
To make and remove a view costs milliseconds; so it is kept for the next task, if the one before was over at
once and left no file in it and no mount.
"""

import ctypes
import os
import select

from tgpu.runner import removing

FOLDER = "tmp"
SHARED = ("/tmp", "/dev/shm")  # noqa: S108  these are what it is about
LIKE_TMP = 0o1777
_NEW_MOUNTS = 0x20000
_BIND, _NOSUID, _NODEV, _REMOUNT, _RECURSIVE, _PRIVATE = 4096, 2, 4, 32, 16384, 1 << 18
_OWN_VIEW = "/proc/self/ns/mnt"
_libc = ctypes.CDLL(None, use_errno=True)


def is_for(*named: str) -> bool:
    """Not for who stands in the machine's own, or wants its output there."""
    places = [os.path.normpath(where) for where in named]
    return not any(where == path or where.startswith(f"{path}/") for path in SHARED for where in places)


def explained(refusal: str, *, own: bool) -> str:
    """Why a program cannot be started, and if it was in a place of which the task has its `own`, that too."""
    hidden = own and refusal.endswith("no such file") and not is_for(refusal)
    return f"{refusal} (the job has a /tmp and a /dev/shm of its own)" if hidden else refusal


class PrivateTmp:
    """The view of one supervisor's tasks. Its folder is below the current one, and bears the attempt's name.

    Whoever has stepped in or out stands at the root: the way back is the caller's to know.
    """

    def __init__(self) -> None:
        self._machines = os.open(_OWN_VIEW, os.O_RDONLY | os.O_CLOEXEC)
        self._view = self._shm = self._mounts = -1
        self._attempt = ""
        self._shm_mib = 0

    def prepare(self, attempt: str, shm_mib: int) -> None:
        """Raises OSError: then there is none, and the task does without."""
        if self._view >= 0:
            self._rename(attempt)
        self._attempt = attempt
        if self._view < 0:
            _make_folder(f"{FOLDER}/{attempt}")
            self._make_view(f"{os.getcwd()}/{FOLDER}/{attempt}", shm_mib)
        elif shm_mib != self._shm_mib:
            self._resize(shm_mib)

    def enter(self) -> None:
        _check(_libc.setns(self._view, _NEW_MOUNTS))

    def leave(self) -> None:
        _check(_libc.setns(self._machines, _NEW_MOUNTS))

    def release(self, *, lasted: bool) -> bool:
        """The task is over. False: it has left files, which `clear` removes."""
        if not self._attempt or (self._view >= 0 and not lasted and self._is_clean()):
            return True
        self._drop()
        return _is_removed(f"{FOLDER}/{self._attempt}")

    def clear(self) -> None:
        removing.remove(f"{FOLDER}/{self._attempt}")

    def close(self) -> None:
        """No other task will come."""
        if self._view >= 0:
            self._drop()
            _is_removed(f"{FOLDER}/{self._attempt}")

    def _rename(self, attempt: str) -> None:
        try:
            os.rename(f"{FOLDER}/{self._attempt}", f"{FOLDER}/{attempt}")
        except OSError:  # somebody took it for forgotten
            self._drop()

    def _make_view(self, folder: str, shm_mib: int) -> None:
        _check(_libc.unshare(_NEW_MOUNTS))
        try:
            _mount(None, "/", None, _RECURSIVE | _PRIVATE)  # nothing of this may reach the others
            _mount("tmpfs", SHARED[1], "tmpfs", _NOSUID | _NODEV, _size(shm_mib))
            _mount(folder, SHARED[0], None, _BIND)
            self._shm = os.open(SHARED[1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._mounts = os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
            self._view = os.open(_OWN_VIEW, os.O_RDONLY | os.O_CLOEXEC)
            self._shm_mib = shm_mib
        except OSError:
            self._drop()
            raise
        finally:
            self.leave()

    def _resize(self, shm_mib: int) -> None:
        self.enter()
        try:
            _mount(None, SHARED[1], None, _REMOUNT | _NOSUID | _NODEV, _size(shm_mib))
            self._shm_mib = shm_mib
        finally:
            self.leave()
        self._mounts_changed()  # that was we

    def _is_clean(self) -> bool:
        """No file, and nothing mounted: root's own jobs could."""
        if self._mounts_changed() or os.listdir(self._shm):
            return False
        return not os.listdir(f"{FOLDER}/{self._attempt}")

    def _mounts_changed(self) -> bool:
        """Since it was asked last."""
        poller = select.poll()
        poller.register(self._mounts, select.POLLERR | select.POLLPRI)
        return bool(poller.poll(0))

    def _drop(self) -> None:
        for fd in (self._view, self._shm, self._mounts):
            if fd >= 0:
                os.close(fd)
        self._view = self._shm = self._mounts = -1


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
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        os.mkdir(FOLDER, 0o700)
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
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


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()))


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
