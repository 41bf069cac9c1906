"""What all supervisors of one agent share, and the orders that they are given."""

import marshal
import os
import sys
from _socket import AF_UNIX, SO_SNDTIMEO, SOCK_DGRAM, SOL_SOCKET  # `socket` loads three times as much
from _socket import socket as raw_socket

from tgpu.runner import records, task
from tgpu.runner.cgroups.bounds import Bounds
from tgpu.runner.cgroups.enclosure import Enclosure, Scores
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.cgroups.legacy import Legacy
from tgpu.runner.cgroups.unified import Unified
from tgpu.runner.output import Stream

PLACE, JOURNAL, LAUNCH = b"P", b"J", b"L"
_HEAD = 5  # length and kind, in front of each message
_TELL_TIMEOUT_S = 1  # a hung agent may not hold up a supervisor; it will find the record


class Order:
    """One attempt to run."""

    __slots__ = (
        "argv", "attempt", "bounds", "checkpoint_dir", "cwd", "env", "files", "grace_s", "log_cap_bytes",
        "once", "pty", "secret_env", "shared_tmp", "stop_signal", "time_limit_s", "user", "warn",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917  as they come over the pipe
        self,
        attempt: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        user: str,
        time_limit_s: int | None,
        grace_s: int,
        log_cap_bytes: int,
        once: int,
        secret_env: dict[str, str],
        pty: int,
        bounds: "Packed",
        stop_signal: int,
        warn: "WarnAt",
        checkpoint_dir: str,
        files: "Files",
        shared_tmp: int = 0,
    ) -> None:
        self.attempt = attempt
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.user = user
        self.time_limit_s = time_limit_s
        self.grace_s = grace_s
        self.log_cap_bytes = log_cap_bytes
        self.once = bool(once)
        self.secret_env = secret_env
        self.pty = bool(pty)
        self.bounds = Bounds(*bounds)
        self.stop_signal = stop_signal
        self.warn = warn
        self.checkpoint_dir = checkpoint_dir
        self.files = files
        self.shared_tmp = bool(shared_tmp)

    @classmethod
    def of(cls, message: bytes) -> "Order":
        return cls(*marshal.loads(message[_HEAD:]))  # noqa: S302  only the agent writes these


class Place:
    """The working directory is the folder of the records, so names are short."""

    def __init__(  # noqa: PLR0917  as they come over the pipe
        self,
        folder: str,
        logs: str,
        cluster_id: str,
        cgroup_version: int,
        cgroup_bases: dict[str, str],
        cgroup_homes: dict[str, str],
        private_tmp: int,
        log_reserve_bytes: int = 0,
        failed_tmp: str = "",
    ) -> None:
        os.chdir(folder)
        Stream.reserve_bytes = log_reserve_bytes
        self.folder = os.open(".", os.O_PATH)
        self.logs = logs
        self.cluster_id = cluster_id
        self.cgroups = Cgroups(cgroup_version, cgroup_bases, cgroup_homes) if cgroup_bases else None
        if self.cgroups is not None:
            self.cgroups.open_ways_home()
        self.private_tmp = bool(private_tmp)
        self.failed_tmp = failed_tmp
        """Where private /tmp directories of failed tasks are kept; empty: nowhere."""
        self.own = task.own_account()
        self.scores = Scores()
        self.journal = -1
        self.generation = -1
        self._socket = raw_socket(AF_UNIX, SOCK_DGRAM)
        timeval = _TELL_TIMEOUT_S.to_bytes(8, sys.byteorder) + bytes(8)
        self._socket.setsockopt(SOL_SOCKET, SO_SNDTIMEO, timeval)

    @classmethod
    def of(cls, message: bytes) -> "Place":
        return cls(*marshal.loads(message[_HEAD:]))  # noqa: S302  only the agent writes these

    def enclosure(self) -> Enclosure:
        """For the tasks of one supervisor."""
        if self.cgroups is None:
            return Enclosure(self.scores)
        kind = Legacy if self.cgroups.version == 1 else Unified
        return kind(self.cgroups, self.scores)

    def account(self, user: str) -> task.Account:
        """Raises Refusal if there is no such user here."""
        return self.own if self.own is not None and self.own.name == user else task.Account(user)

    def use_journal(self, message: bytes) -> None:
        if self.journal >= 0:
            os.close(self.journal)
        (self.generation,) = marshal.loads(message[_HEAD:])  # noqa: S302  only the agent writes these
        self.journal = os.open(f"exits.{self.generation}", os.O_WRONLY | os.O_APPEND)

    def tell(self, message: bytes) -> bool:
        """If nobody listens, which is False, the next agent reads the records; one that is too busy to listen
        reads them by and by."""
        try:
            self._socket.sendto(message, records.SOCKET)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def tidy_if_last(self) -> None:
        """Removes the tasks' groups, unless anybody is left who may start one."""
        if self.cgroups is not None:
            self.cgroups.close_if_last(records.LOCK)


Packed = tuple[int, int, int, int, list[str] | None, str, int | None, int, int, int]
"""A task's limits, in the order of `Bounds`."""
WarnAt = tuple[int, int, int] | None
"""A signal, how many seconds before the time limit, and whether it is for the main process alone."""
Files = tuple[str, str, int] | None
"""Where stdout and stderr are written besides, and whether at the end of what is there."""
Content = str | int | None | list[str] | dict[str, str] | Packed | WarnAt | Files


def frame(kind: bytes, *content: Content) -> bytes:
    """One message from the agent. Both ends are the same interpreter, so `marshal` is exact."""
    body = marshal.dumps(content)
    return len(body).to_bytes(4, "big") + kind + body


def take_frame(buffer: bytearray) -> tuple[bytes, bytes] | None:
    """Takes one whole message off the front: its kind, and all of it as it came."""
    if len(buffer) < _HEAD:
        return None
    end = _HEAD + int.from_bytes(buffer[:4], "big")
    if len(buffer) < end:
        return None
    message = bytes(buffer[:end])
    del buffer[:end]
    return message[4:_HEAD], message
