"""A node with a real engine and a real DockerRunner on it, told what to do in few words."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_engine import HOSTED, IMAGE, PrivateEngine
from tests.runner.driven import Driven
from tgpu.domain.container import Container, Pull
from tgpu.domain.job import Exit
from tgpu.runner.docker import runner, striking
from tgpu.runner.docker.body import House
from tgpu.runner.docker.runner import DockerRunner
from tgpu.runner.port import LaunchSpec

HUNGRY_CHILDREN = "(echo 1000 > /proc/self/oom_score_adj; yes | tr -d '\\n' | tail -n 1)"
"""Part of a shell script: processes that take memory without end. The kernel may kill a second process while
the memory of the first is still being freed; by their score it chooses one of these, never the shell."""
_CONTAINER = ("image", "digest", "pull", "mounts", "shm_mib", "read_only", "network", "ignores_entrypoint")


@pytest.fixture(scope="session")
def engine() -> Iterator[PrivateEngine]:
    made = PrivateEngine()
    try:
        made.start()
        made.bring()
        yield made
    finally:
        made.close()


class ContainerNode(Driven):
    def __init__(self, home: Path, engine: PrivateEngine) -> None:
        super().__init__(home, f"t{os.getpid()}-{home.name.replace('_', '-')}"[:60].rstrip("-"))
        self.engine = engine
        self.allow: tuple[str, ...] = (str(home),)
        self.keep_s = 120.0
        self.records = home / "records"
        self.credentials = home / "config.json"

    def made(self) -> DockerRunner:
        return DockerRunner(
            self.records,
            self.home / "logs",
            self.cluster,
            find=lambda: self.engine.url,
            house=House(mount_allow=self.allow, networks=HOSTED, gpu_injection="auto"),
            credentials=self.credentials,
            keep_s=self.keep_s,
        )

    def usual(self) -> dict[str, object]:
        return {"env": {}, "user": "root"}

    def spec(self, *argv: str, **changes: object) -> LaunchSpec:
        container = {name: changes.pop(name) for name in _CONTAINER if name in changes}
        if "container_cwd" in changes:
            container["cwd"] = changes.pop("container_cwd")
        made = Container(**{"image": IMAGE, "pull": Pull.MISSING, **container})  # type: ignore[arg-type]
        return super().spec(*argv, **{"container": made, **changes})

    def run(self, script: str, **changes: object) -> tuple[Exit, str]:
        attempt = self.shell(script, **changes)
        return self.end_of(attempt), self.output(attempt).decode(errors="replace")

    def name_of(self, attempt: str) -> str:
        return f"tgpu-{self.cluster}-{attempt}"

    def inspect(self, attempt: str) -> dict:
        return self.engine.container(self.name_of(attempt))

    def containers(self) -> list[str]:
        return [name for name in self.engine.names() if name.startswith(f"tgpu-{self.cluster}-")]


@pytest.fixture
def closed_node(
    tmp_path: Path, engine: PrivateEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ContainerNode]:
    """Its engine never stops, so that no time is spent on finding out whether it is about to."""
    monkeypatch.setattr(striking, "STRUCK_DOWN_S", 0.05)
    monkeypatch.setattr(runner, "TEND_EVERY_S", 0.2)
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
