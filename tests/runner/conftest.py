"""A machine with a real ProcessRunner on it, told what to do in few words."""

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tgpu.domain.job import Exit
from tgpu.runner.port import AttemptEnded, AttemptStarted, LaunchSpec, RunnerEvent
from tgpu.runner.process import ProcessRunner

PATH = "/usr/local/bin:/usr/bin:/bin"
ME = "root" if os.getuid() == 0 else os.environ.get("USER", "")


class Machine:
    """Runs the loop only while a test waits for something; so what happens in between is deterministic."""

    def __init__(self, home: Path, *, cgroups: bool = False, **isolation: object) -> None:
        self.home = home
        self.isolation = isolation
        self.cluster = home.name
        self.cgroups = cgroups
        self.loop = asyncio.new_event_loop()
        self.events: list[RunnerEvent] = []
        self.runner: ProcessRunner | None = None
        self._number = 0

    def open(self) -> list[RunnerEvent]:
        self.runner = ProcessRunner(
            self.home / "records",
            self.home / "logs",
            self.cluster,
            cgroups=self.cgroups,
            **self.isolation,
        )
        found = self.loop.run_until_complete(self.runner.open(self.events.append))
        self.events += found
        return found

    def close(self) -> None:
        if self.runner is not None:
            self.loop.run_until_complete(self.runner.close())
            self.runner = None

    def spec(self, *argv: str, **changes: object) -> LaunchSpec:
        self._number += 1
        fields: dict[str, object] = {
            "attempt": f"{self._number}.0.1",
            "argv": argv,
            "env": {"PATH": PATH},
            "cwd": "/",
            "user": ME,
            "time_limit_s": None,
            "grace_s": 5,
            "log_cap_bytes": 1 << 20,
        }
        return LaunchSpec(**{**fields, **changes})  # type: ignore[arg-type]

    def launch(self, *argv: str, **changes: object) -> str:
        spec = self.spec(*argv, **changes)
        self.runner.launch(spec)
        return spec.attempt

    def run(self, *argv: str, **changes: object) -> Exit:
        return self.end_of(self.launch(*argv, **changes))

    def shell(self, script: str, **changes: object) -> str:
        return self.launch("sh", "-c", script, **changes)

    def until(self, happened: Callable[[], object], within_s: float = 20) -> None:
        """Keeps the runner going until it is so."""

        async def wait() -> None:
            deadline = time.monotonic() + within_s
            while not happened():
                assert time.monotonic() < deadline, f"did not happen in {within_s} s; events: {self.events}"
                await asyncio.sleep(0.005)

        self.loop.run_until_complete(wait())

    def start_of(self, attempt: str) -> AttemptStarted:
        self.until(lambda: self._find(AttemptStarted, attempt))
        return self._find(AttemptStarted, attempt)[0]

    def end_of(self, attempt: str, within_s: float = 20) -> Exit:
        self.until(lambda: self._find(AttemptEnded, attempt), within_s)
        (event,) = self._find(AttemptEnded, attempt)
        return event.exit

    def output(self, attempt: str, stream: str = "stdout", offset: int = 0, most: int = 1 << 26) -> bytes:
        part = self.runner.read_log(attempt, stream, offset, most)
        assert part is not None
        return part.data

    def file(self, name: str, within_s: float = 10) -> str:
        """What a job wrote into a file of the home, once it is there."""
        path = self.home / name
        self.until(lambda: path.exists() and path.read_text().endswith("\n"), within_s)
        return path.read_text().strip()

    def _find(self, kind: type, attempt: str) -> list:
        return [event for event in self.events if isinstance(event, kind) and event.attempt == attempt]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def processes_of(machine: Machine, attempt: str) -> list[int]:
    """Everybody who carries the attempt's mark."""
    mark = f"TGPU_ATTEMPT_KEY={machine.cluster}:{attempt}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environ = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in environ:
                found.append(int(folder.name))
    return found


@pytest.fixture
def empty_machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.close()
    machine.loop.close()


@pytest.fixture
def machine(empty_machine: Machine) -> Machine:
    empty_machine.open()
    return empty_machine


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Machine]:
    """With real cgroups; nothing of them may be left at the end."""
    machine = Machine(tmp_path, cgroups=True)
    machine.cluster = f"test-{uuid.uuid4().hex}"
    machine.open()
    bases = list(machine.runner._cgroups.bases.values())
    yield machine
    machine.close()
    machine.loop.close()
    assert not [base for base in bases if Path(base).exists()]
