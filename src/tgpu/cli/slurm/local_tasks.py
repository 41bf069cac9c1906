"""Tasks of a step on this machine: processes, what they print, and their ends."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from ctypes import CDLL
from threading import Thread

from tgpu.runner import tree

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    Told = Callable[[int, str, bytes], None]
    """Of a task by its rank: which stream, and what it printed there."""

_PIECE = 1 << 16
_NOT_FOUND, _CANNOT = 127, 126
_PDEATHSIG = 1
_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Before this process took more for itself."""
_prctl = CDLL(None).prctl
_LAST_WORDS_S = 1.0
"""How long is waited for what tasks printed last, all of them together: somebody may have inherited their
stdout, and go on."""


class LocalTasks:
    """`told`: hears what they print; None: they print where this process does."""

    def __init__(self, told: Told | None = None) -> None:
        self._told = told
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._readers: dict[int, list[Thread]] = {}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        self.failed: dict[int, tuple[int, str]] = {}
        """Those that could not be started: the exit code of that, and why."""

    def start(
        self, rank: int, argv: Sequence[str], env: Mapping[str, str], cwd: str, files: dict[str, int]
    ) -> None:
        """`files`: descriptors by stream, of those that go elsewhere."""
        piped = subprocess.PIPE if self._told is not None else None
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=files.get("stdin", subprocess.DEVNULL),
                stdout=files.get("stdout", piped),
                stderr=files.get("stderr", piped),
                preexec_fn=self._as_it_was,  # noqa: PLW1509  no thread of this process holds a lock then
            )
        except FileNotFoundError:
            self.failed[rank] = (_NOT_FOUND, f"{argv[0]}: No such file or directory")
        except OSError as error:
            self.failed[rank] = (_CANNOT, f"{argv[0]}: {error.strerror}")
        else:
            self._running[rank] = process

    def read(self) -> None:
        """Once all have been started: what they print is read by a thread for each stream."""
        for rank, process in self._running.items():
            streams = (("stdout", process.stdout), ("stderr", process.stderr))
            self._readers[rank] = [
                Thread(target=self._copy, args=(rank, name, stream), daemon=True)
                for name, stream in streams
                if stream is not None
            ]
            for thread in self._readers[rank]:
                thread.start()

    def _as_it_was(self) -> None:
        """But for one thing: if this process is killed, so are its tasks. Whoever gets their GPUs next, since
        nobody holds them any more, would find them busy."""
        _prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, _FILES)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def keep_mask(self, mask: set[signal.Signals]) -> None:
        """Which signals are blocked for the tasks, whatever this process blocks for itself."""
        self._mask = mask  # type: ignore[assignment]

    def _copy(self, rank: int, name: str, stream: IO[bytes]) -> None:
        assert self._told is not None
        while piece := os.read(stream.fileno(), _PIECE):
            self._told(rank, name, piece)

    @property
    def live(self) -> bool:
        return bool(self._running)

    def ended(self) -> list[tuple[int, int]]:
        """Those that have ended since: their ranks, and exit codes as a shell has them."""
        found = []
        until = time.monotonic() + _LAST_WORDS_S
        for rank, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            for thread in self._readers.get(rank, ()):
                thread.join(timeout=max(0.0, until - time.monotonic()))
            del self._running[rank]
            found.append((rank, code if code >= 0 else 128 - code))
        return found

    def kill(self) -> None:
        """With all that they have started, and that has not left them."""
        self.send(signal.SIGSTOP)  # who is stopped starts nothing more
        for process in list(self._running.values()):  # who ends meanwhile is taken out
            tree.kill(process.pid)
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        for process in list(self._running.values()):
            process.send_signal(number)
