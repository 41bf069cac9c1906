"""Opening of an output file by the path that its user has named, component by component.

Each link on the way must belong to the user or to root: a link of anyone else would have the user overwrite a
file of their own. Links are followed by their text alone, so the links of /proc that lead to open files or to
other processes' roots lead nowhere. Files of the kernel's own file systems are no output files: what is
written there is checked against the writer, not against the user that opened them.
"""

import ctypes
import errno
import os
import stat
import sys

from tgpu.runner import task

_LINKS_MAX = 40
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW
_PERHAPS_LINK = (errno.ELOOP, errno.EACCES, errno.ENOTDIR)
"""What the kernel says of a link that it is not to follow; the second in a folder like /tmp."""
_KERNELS_OWN = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0x62656570: "configfs",
    0xCAFE4A11: "bpf",
    0xF97CFF8C: "selinuxfs",
    0xDE5E81E4: "efivarfs",
    0x42494E4D: "binfmt_misc",
    0x65735543: "fusectl",
    0x07655821: "resctrl",
    0x6165676C: "pstore",
}
_WORD = ctypes.sizeof(ctypes.c_long)
_libc = ctypes.CDLL(None, use_errno=True)


def opened(path: str) -> int:
    """A descriptor to append to the file, which is made if it is not there, as are the folders above it.
    Raises OSError."""
    if not path.startswith("/"):
        raise OSError(errno.EINVAL, "it is not an absolute path")
    folder, links = os.open("/", _FOLDER), _LINKS_MAX
    names = _names(path)
    try:
        while True:
            name = names.pop()
            try:
                entered = _entered(name, folder) if names else _file(name, folder)
            except OSError as error:
                if error.errno not in _PERHAPS_LINK or (target := _target(name, folder)) is None:
                    raise
                links -= 1
                if links < 0:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                names += _names(target)
                entered = os.open("/", _FOLDER) if target.startswith("/") else os.dup(folder)
            else:
                if not names:
                    return entered
            os.close(folder)
            folder = entered
    finally:
        os.close(folder)


def _refuse_kernels_own(descriptor: int) -> None:
    about = ctypes.create_string_buffer(256)
    if _libc.fstatfs(descriptor, about) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    kind = _KERNELS_OWN.get(int.from_bytes(about.raw[:_WORD], sys.byteorder) & 0xFFFFFFFF)
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is in a file system of the kernel ({kind})")


def _names(path: str) -> list[str]:
    """The components, last one first; a slash at the end asks for a folder, which the last one then names."""
    names = [name for name in path.split("/") if name and name != "."]
    if path.endswith(("/", "/.")) or not names:
        names.append(".")
    return names[::-1]


def _entered(name: str, above: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        _make(name, above)
        return os.open(name, _FOLDER, dir_fd=above)


def _make(name: str, above: int) -> None:
    try:
        os.mkdir(name, dir_fd=above)
    except FileExistsError:  # another task made it meanwhile
        return


def _file(name: str, above: int) -> int:
    """A file can be mounted, too: so the folder alone does not tell where it is."""
    _refuse_kernels_own(above)
    file = os.open(name, _FILE, 0o666, dir_fd=above)
    try:
        _refuse_kernels_own(file)
    except OSError:
        os.close(file)
        raise
    return file


def _target(name: str, above: int) -> str | None:
    """Where that link leads; None: it is none. Raises PermissionError if another user has made it."""
    try:
        link = os.open(name, _LINK, dir_fd=above)
    except OSError:
        return None
    try:
        about = os.fstat(link)
        if not stat.S_ISLNK(about.st_mode):
            return None
        if about.st_uid not in (os.geteuid(), task.ROOT):
            raise PermissionError(errno.EPERM, "another user has put a link there")
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)
