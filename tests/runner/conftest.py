"""A machine with a real ProcessRunner on it, told what to do in few words."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.driven import Driven
from tests.runner.version_2 import Tree, mounted
from tgpu.domain.job import Exit
from tgpu.runner.process import ProcessRunner

PATH = "/usr/local/bin:/usr/bin:/bin"
ME = "root" if os.getuid() == 0 else os.environ.get("USER", "")


class Machine(Driven):
    def __init__(self, home: Path, *, cgroups: bool = False, **isolation: object) -> None:
        super().__init__(home, home.name)
        self.isolation = isolation
        self.cgroups = cgroups

    def made(self) -> ProcessRunner:
        return ProcessRunner(
            self.home / "records",
            self.home / "logs",
            self.cluster,
            cgroups=self.cgroups,
            **self.isolation,
        )

    def usual(self) -> dict[str, object]:
        return {"env": {"PATH": PATH}, "user": ME}

    def run(self, *argv: str, **changes: object) -> Exit:
        return self.end_of(self.launch(*argv, **changes))

    def file(self, name: str, within_s: float = 60) -> str:
        """What a job wrote into a file of the home, once it is there."""
        path = self.home / name
        self.until(lambda: path.exists() and path.read_text().endswith("\n"), within_s)
        return path.read_text().strip()


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


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    yield from mounted(tmp_path)
