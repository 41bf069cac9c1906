"""A node with a real engine and a real DockerRunner on it, told what to do in few words."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docker_engine import HOSTED, IMAGE, PrivateEngine
from tgpu.domain.container import Container, Pull
from tgpu.domain.job import Exit
from tgpu.runner.docker.body import House
from tgpu.runner.docker.runner import DockerRunner
from tgpu.runner.port import AttemptEnded, AttemptNoted, AttemptStarted, LaunchSpec, RunnerEvent


@pytest.fixture(scope="session")
def engine() -> Iterator[PrivateEngine]:
    made = PrivateEngine()
    try:
        made.start()
        made.bring()
        yield made
    finally:
        made.close()


class ContainerNode:
    """Runs the loop only while a test waits for something."""

    def __init__(self, home: Path, engine: PrivateEngine) -> None:
        self.home = home
        self.engine = engine
        self.cluster = f"t{os.getpid()}-{home.name.replace('_', '-')}"[:60].rstrip("-")
        self.loop = asyncio.new_event_loop()
        self.events: list[RunnerEvent] = []
        self.runner: DockerRunner | None = None
        self.allow: tuple[str, ...] = (str(home),)
        self.keep_s = 120.0
        self.credentials = home / "config.json"
        self._number = 0

    def open(self) -> list[RunnerEvent]:
        self.runner = DockerRunner(
            self.home / "records",
            self.home / "logs",
            self.cluster,
            find=lambda: self.engine.url,
            house=House(mount_allow=self.allow, networks=HOSTED, gpu_injection="auto"),
            credentials=self.credentials,
            keep_s=self.keep_s,
        )
        found = self.loop.run_until_complete(self.runner.open(self.events.append))
        self.events += found
        return found

    def close(self) -> None:
        if self.runner is not None:
            self.loop.run_until_complete(self.runner.close())
            self.runner = None

    def launch(self, *argv: str, **changes: object) -> str:
        self._number += 1
        attempt = f"{self._number}.0.1"
        container = {
            name: changes.pop(name)
            for name in ("image", "digest", "pull", "mounts", "shm_mib", "read_only", "network")
            if name in changes
        }
        fields: dict[str, object] = {
            "attempt": attempt,
            "argv": argv,
            "env": {},
            "cwd": "/",
            "user": "root",
            "time_limit_s": None,
            "grace_s": 5,
            "log_cap_bytes": 1 << 20,
            "container": Container(**{"image": IMAGE, "pull": Pull.MISSING, **container}),  # type: ignore[arg-type]
        }
        fields |= changes
        self.runner.launch(LaunchSpec(**fields))  # type: ignore[arg-type]
        return str(fields["attempt"])

    def shell(self, script: str, **changes: object) -> str:
        return self.launch("sh", "-c", script, **changes)

    def run(self, script: str, **changes: object) -> tuple[Exit, str]:
        attempt = self.shell(script, **changes)
        return self.end_of(attempt), self.output(attempt).decode(errors="replace")

    def until(self, happened: Callable[[], object], within_s: float = 30) -> None:
        async def wait() -> None:
            deadline = time.monotonic() + within_s
            while not happened():
                assert time.monotonic() < deadline, f"did not happen in {within_s} s; events: {self.events}"
                await asyncio.sleep(0.01)

        self.loop.run_until_complete(wait())

    def start_of(self, attempt: str) -> AttemptStarted:
        self.until(lambda: self._find(AttemptStarted, attempt))
        return self._find(AttemptStarted, attempt)[0]

    def end_of(self, attempt: str, within_s: float = 30) -> Exit:
        self.until(lambda: self._find(AttemptEnded, attempt), within_s)
        (event,) = self._find(AttemptEnded, attempt)
        return event.exit

    def notes_of(self, attempt: str) -> list[str]:
        return [event.note for event in self._find(AttemptNoted, attempt)]

    def until_printed(self, attempt: str, text: bytes) -> None:
        self.until(lambda: text in self.output(attempt))

    def output(self, attempt: str, stream: str = "stdout", offset: int = 0, most: int = 1 << 28) -> bytes:
        part = self.runner.read_log(attempt, stream, offset, most)
        assert part is not None
        return part.data

    def name_of(self, attempt: str) -> str:
        return f"tgpu-{self.cluster}-{attempt}"

    def inspect(self, attempt: str) -> dict:
        return self.engine.container(self.name_of(attempt))

    def containers(self) -> list[str]:
        return [name for name in self.engine.names() if name.startswith(f"tgpu-{self.cluster}-")]

    def _find(self, kind: type, attempt: str) -> list:
        return [event for event in self.events if isinstance(event, kind) and event.attempt == attempt]


@pytest.fixture
def closed_node(tmp_path: Path, engine: PrivateEngine) -> Iterator[ContainerNode]:
    node = ContainerNode(tmp_path, engine)
    yield node
    node.close()
    for name in node.containers():
        engine.ask("DELETE", f"/containers/{name}?force=1")
    node.loop.close()


@pytest.fixture
def node(closed_node: ContainerNode) -> ContainerNode:
    closed_node.open()
    return closed_node
