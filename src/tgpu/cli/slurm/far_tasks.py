"""Tasks of a step on another node of the job, by way of the desk and of that node's keeper."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from threading import Lock, Thread

from tgpu.cli.slurm import step_wire
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LOST = 1
_PATIENCE_S = 30.0
_PAUSE_S = 0.05
_STREAMS = {number: name for name, number in step_wire.STREAMS.items()}


class FarTasks:
    def __init__(self, node: int, asked: dict[str, Any], told: Callable[[int, str, bytes], None]) -> None:
        self._told = told
        self._left = {int(task["rank"]) for task in asked["tasks"]}
        self._ends: list[tuple[int, int]] = []
        self._lock = Lock()
        self._asked = asked
        try:
            self._sock = _connected()
            step_wire.write_line(self._sock, {"node": node})
        except OSError as error:
            raise SlurmError(f"the job's other nodes cannot be reached: {error.strerror}") from None

    def start(self) -> None:
        """What they print is heard by a thread from then on."""
        with contextlib.suppress(OSError):  # then nobody is heard, and all are lost
            step_wire.write_line(self._sock, self._asked)
        Thread(target=self._listen, daemon=True).start()

    @property
    def live(self) -> bool:
        with self._lock:
            return bool(self._left or self._ends)

    def ended(self) -> list[tuple[int, int]]:
        with self._lock:
            found, self._ends = self._ends, []
        return found

    def send(self, number: int) -> None:
        with contextlib.suppress(OSError):
            step_wire.write_line(self._sock, {"signal": number})

    def _listen(self) -> None:
        with contextlib.suppress(OSError), self._sock.makefile("rb") as stream:
            while (said := step_wire.read_frame(stream)) is not None:
                kind, rank, data, code = said
                if kind == step_wire.END:
                    self._end(rank, code)
                else:
                    self._told(rank, _STREAMS[kind], data)
        for rank in sorted(self._left):  # the node is gone
            self._end(rank, _LOST)

    def _end(self, rank: int, code: int) -> None:
        with self._lock:
            if rank in self._left:
                self._left.remove(rank)
                self._ends.append((rank, code))


def _connected() -> socket.socket:
    """The desk starts beside the script, and may not be there yet."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(step_wire.desk_name(os.environ))
        except ConnectionRefusedError:
            sock.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return sock
