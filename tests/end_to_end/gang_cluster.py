"""One server and two nodes, each in a home of its own, as if on machines of their own."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.whole_tgpu import TGPU, Installation, send, strays
from tgpu.client import TgpuError

NODES = ("n1", "n2")
PATIENT = {"TGPU_GANG_START_S": "60", "TGPU_NODE_SILENT_S": "60"}
"""An agent that is killed is back in time, also on a loaded machine: its node is never lost."""


class GangCluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.server = self.home("server", TGPU_LISTEN=f"127.0.0.1:{port}", **PATIENT)
        self.server.environ["TGPU_SHARED_PATHS"] = str(folder)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.nodes = {name: self.home(name) for name in NODES}

    def home(self, name: str, **more: str) -> Installation:
        (self.folder / name).mkdir(exist_ok=True)
        made = Installation(self.folder / name / "home")
        made.environ = {**made.environ, **more}
        return made

    def start(self, cpus: int = 4) -> None:
        self._run("server", self.server, "server")
        self.server.wait_until(lambda: self._answers("nodes"), "the server answers")
        self.token = self.server.tgpu("nodes", "join-token", "--uses", "9").stdout.strip()
        for name in NODES:
            self.start_agent(name, cpus)
        self.wait_ready(*NODES)

    def start_agent(self, name: str, cpus: int = 4) -> None:
        flags = ("--name", name, "--cpus", str(cpus), "--memory", "8G", "--simulate-gpus", "4")
        self.nodes[name].environ["TGPU_JOIN_TOKEN"] = self.token
        self._run(name, self.nodes[name], "agent", "--server", self.url, *flags)

    def kill_agent(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def wait_ready(self, *names: str) -> None:
        self.server.wait_until(lambda: self._ready() == set(names), f"{names} are ready")

    def output(self, job_id: int, task: int) -> str:
        return self.server.tgpu("logs", f"{job_id}.{task}").stdout

    def remove(self) -> None:
        self.server.tgpu("cancel", "all", check=False)
        for process in self.processes.values():
            process.kill()
            process.wait()
        for pid in strays(self.folder):
            send(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, at: Installation, *words: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            self.processes[name] = subprocess.Popen(
                [TGPU, *words], env=at.environ, cwd=at.files, stdout=log, stderr=log
            )

    def _answers(self, *words: str) -> bool:
        return self.server.tgpu(*words, check=False).returncode == 0

    def _ready(self) -> set[str]:
        try:
            with self.server.client() as client:
                nodes = client.nodes()
        except TgpuError:
            return set()
        return {node["node_id"] for node in nodes if node["status"] == "ready" and node["silent_s"] is None}


@contextmanager
def a_gang_cluster() -> Iterator[GangCluster]:
    folder = Path(tempfile.mkdtemp(prefix="tgpu-gang-", dir="/tmp"))
    folder.chmod(0o755)
    made = GangCluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.remove()
