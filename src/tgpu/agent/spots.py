"""Where the tasks of a gang meet: this node's address, a port kept free for each until it starts, and a file
that names the hosts of its gang.
"""

import contextlib
import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from tgpu.protocol.gangs import Host, Spot


class Spots(Protocol):
    def take(self, attempt: str) -> Spot:
        """A place that is its own until `free`."""
        ...

    def free(self, attempt: str) -> None:
        """It starts now, or never."""
        ...

    def hostfile(self, attempt: str, hosts: Sequence[Host]) -> str:
        """The path of a file that its program can read; empty: there is none."""
        ...

    def forget(self, attempt: str) -> None:
        """It is over: nothing of it is left."""
        ...

    def sweep(self, running: Iterable[str]) -> None:
        """Nothing is left of any but these."""
        ...


class FixedSpots:
    """For agents that run nothing: all have one address and one port."""

    def __init__(self, address: str = "localhost", port: int = 29500) -> None:
        self._spot = Spot(address=address, port=port)

    def take(self, attempt: str) -> Spot:  # noqa: ARG002  named by the port
        return self._spot

    def free(self, attempt: str) -> None: ...

    def hostfile(self, attempt: str, hosts: Sequence[Host]) -> str:  # noqa: ARG002  named by the port
        return ""

    def forget(self, attempt: str) -> None: ...

    def sweep(self, running: Iterable[str]) -> None: ...


class NodeSpots:
    def __init__(self, address: Callable[[], str], folder: Path) -> None:
        """`folder`: whoever runs tasks here must be able to read in it."""
        self._address = address
        self._folder = folder
        self._kept: dict[str, socket.socket] = {}

    def take(self, attempt: str) -> Spot:
        kept = self._kept.get(attempt)
        if kept is None:
            kept = self._kept[attempt] = _any_port()
        return Spot(address=self._address(), port=kept.getsockname()[1])

    def free(self, attempt: str) -> None:
        kept = self._kept.pop(attempt, None)
        if kept is not None:
            kept.close()

    def hostfile(self, attempt: str, hosts: Sequence[Host]) -> str:
        """As `mpirun --hostfile` reads it. Without room on the disk the task does without."""
        path = self._folder / attempt
        try:
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            lines = (f"{host.address} slots={host.slots}\n" for host in hosts)
            path.write_text("".join(lines), encoding="ascii")
            path.chmod(0o644)
        except OSError:
            return ""
        return str(path)

    def forget(self, attempt: str) -> None:
        self.free(attempt)
        with contextlib.suppress(OSError):
            (self._folder / attempt).unlink(missing_ok=True)

    def sweep(self, running: Iterable[str]) -> None:
        names = set(running)
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)


def _any_port() -> socket.socket:
    """One that nobody has, on any address. It is not listened on: who calls too early is refused, and calls
    again."""
    kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    kept.bind(("", 0))
    return kept
