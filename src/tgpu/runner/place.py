"""What all supervisors of one agent share, and the order that each is given."""

import marshal
import os
import sys

from _socket import AF_UNIX, SO_SNDTIMEO, SOCK_DGRAM, SOL_SOCKET  # `socket` loads three times as much
from _socket import socket as raw_socket
from tgpu.runner import records, task
from tgpu.runner.cgroup import Cgroups

_TELL_TIMEOUT_S = 1  # a hung agent may not hold up a supervisor; it will find the record


class Order:
    """One attempt to run, as it comes over the agent's pipe."""

    __slots__ = (
        "argv",
        "attempt",
        "cwd",
        "env",
        "grace_s",
        "log_cap_bytes",
        "time_limit_s",
        "user",
    )

    def __init__(
        self,
        attempt: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        user: str,
        time_limit_s: int | None,
        grace_s: int,
        log_cap_bytes: int,
    ) -> None:
        self.attempt = attempt
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.user = user
        self.time_limit_s = time_limit_s
        self.grace_s = grace_s
        self.log_cap_bytes = log_cap_bytes


class Place:
    """The spawner's working directory is the folder of the records, so the names below are short."""

    def __init__(self, lock: int, folder: str, logs: str, cluster_id: str, cgroup_base: str) -> None:
        os.chdir(folder)
        self.lock = lock
        self.logs = logs
        self.cluster_id = cluster_id
        self.cgroups = Cgroups(cgroup_base) if cgroup_base else None
        self.own = task.own_account()
        self.journal = -1
        self.generation = -1
        self._socket = raw_socket(AF_UNIX, SOCK_DGRAM)
        timeval = _TELL_TIMEOUT_S.to_bytes(8, sys.byteorder) + bytes(8)
        self._socket.setsockopt(SOL_SOCKET, SO_SNDTIMEO, timeval)

    def use_journal(self, generation: int) -> None:
        if self.journal >= 0:
            os.close(self.journal)
        self.generation = generation
        self.journal = os.open(f"exits.{generation}", os.O_WRONLY | os.O_APPEND)

    def tell(self, message: bytes) -> None:
        """If nobody listens, the next agent reads the records."""
        try:
            self._socket.sendto(message, records.SOCKET)
        except OSError:
            return


def frame(message: tuple[object, ...]) -> bytes:
    """One message on the agent's pipe. Both ends are the same interpreter, so `marshal` is exact."""
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "big") + body


def frames(buffer: bytearray) -> list[tuple[object, ...]]:
    """Takes the whole messages off the front of the buffer."""
    taken = []
    while len(buffer) >= 4:  # noqa: PLR2004  the length in front of each
        end = 4 + int.from_bytes(buffer[:4], "big")
        if len(buffer) < end:
            break
        taken.append(marshal.loads(bytes(buffer[4:end])))  # noqa: S302  from the agent that started us
        del buffer[:end]
    return taken
