"""Files of the user's own that a task's output is written to as well.

They are opened by the task's own process once it has become its user, and only then: a file that the user may
not write is not opened for them (`output_path`). What was opened is handed to the supervisor, which keeps the
task's output anyway and has it written twice: the second time with the user's rights alone.
"""

import os
import stat
import sys
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, MSG_DONTWAIT, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET
from _socket import socketpair as raw_socketpair  # `socket` loads three times as much

from tgpu.runner import output_path, private_tmp, task
from tgpu.runner.writer import Writer

_INT = 4
_ID = 8
_NULL = os.makedev(1, 3)


class UserFiles:
    """Of one attempt: its output's, and its errors', which may be the same."""

    def __init__(self, output: str, error: str, append: int, *, own_tmp: bool = False) -> None:
        """`own_tmp`: what the task has in /tmp is gone with it, and so no place for them."""
        self._paths = (output, error)
        self._append = bool(append)
        self._own_tmp = own_tmp
        self._here, self._there = raw_socketpair(AF_UNIX, SOCK_SEQPACKET)
        self._files: list[int] = []
        self._writer = Writer()

    # In the task's process

    def open(self) -> None:
        """As the task's user, just before it becomes their program. Raises Refusal."""
        output, error = self._paths
        opened = [self._opened(path) for path in dict.fromkeys((output, error)) if path]
        packed = b"".join(file.to_bytes(_INT, sys.byteorder) for file in opened)
        user = b"".join(number.to_bytes(_ID, sys.byteorder) for number in (os.getuid(), os.getgid()))
        self._there.sendmsg([user], [(SOL_SOCKET, SCM_RIGHTS, packed)])

    def _opened(self, path: str) -> int:
        try:
            file = output_path.opened(path)
        except (OSError, ValueError) as error:
            raise task.Refusal(f"cannot write its output to {path}: {task.why(error, '/')}") from None
        about = os.fstat(file)
        if stat.S_ISREG(about.st_mode):
            self._check_lasting(path, file)
            if not self._append:
                os.ftruncate(file, 0)
        elif about.st_rdev != _NULL:
            raise task.Refusal(f"cannot write its output to {path}: it is not a file")
        return file

    def _check_lasting(self, path: str, file: int) -> None:
        """Names that begin with /tmp were seen before the task got its own; others may lead there, too."""
        place = os.readlink(f"/proc/self/fd/{file}")  # noqa: PTH115  pathlib is too heavy here
        if self._own_tmp and not private_tmp.is_for(place):
            raise task.Refusal(
                f"cannot write its output to {path}: that is {place}, and the job has a /tmp and a /dev/shm "
                f"of its own; name it so (--output {place}), and it has the machine's"
            )

    # In the supervisor

    def copy(self, data: bytes, *, is_error: bool) -> None:
        """The task must not suffer from its user's drive, full or away: what cannot be written is counted."""
        files, (output, error) = self._taken(), self._paths
        if files and (error if is_error else output):
            self._writer.write(files[-1] if is_error else files[0], data)

    def _taken(self) -> list[int]:
        """Of one that has not become a program yet there are none, though its terminal may show what somebody
        types."""
        if self._files:
            return self._files
        try:
            user, ancillary, _, _ = self._here.recvmsg(2 * _ID, 4096, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
        except OSError:
            return []
        uid, gid = (int.from_bytes(user[at : at + _ID], sys.byteorder) for at in (0, _ID))
        if uid != os.geteuid():
            self._writer.write_as(uid, gid)
        packed = b"".join(
            data for level, kind, data in ancillary if (level, kind) == (SOL_SOCKET, SCM_RIGHTS)
        )
        whole = range(0, len(packed) - len(packed) % _INT, _INT)
        self._files = [int.from_bytes(packed[at : at + _INT], sys.byteorder) for at in whole]
        return self._files

    def last_words(self) -> str:
        """What its user should know, once they are closed; empty: nothing."""
        path = self._paths[0] or self._paths[1]
        if self._writer.lost:
            return f"{self._writer.lost} bytes of output could not be written to {path}: {self._writer.why}"
        return f"output may be missing in {path}: {self._writer.why}" if self._writer.why else ""

    def close(self) -> None:
        self._writer.close(*self._taken())
        self._here.close()
        self._there.close()
