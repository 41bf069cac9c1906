"""A cluster over the network: a server that speaks TLS, nodes that join it, and a client elsewhere."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import TGPU, Installation, after, send, strays
from tgpu.client import TgpuError


class Cluster:
    """One server and some nodes, each in a home of its own, as if on machines of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"https://localhost:{self.port}"
        self.server = self.home("server", TGPU_LISTEN=f"0.0.0.0:{self.port}", TGPU_TLS="auto")
        self.processes: list[subprocess.Popen[bytes]] = []

    def home(self, name: str, **more: str) -> Installation:
        (self.folder / name).mkdir(exist_ok=True)
        made = Installation(self.folder / name / "home")
        made.environ = {**made.environ, **more}
        return made

    def run(self, at: Installation, *words: str) -> "subprocess.Popen[bytes]":
        with (at.files.parent / "output").open("ab") as output:
            process = subprocess.Popen(
                [TGPU, *words], env=at.environ, cwd=at.files, stdout=output, stderr=output
            )
        self.processes.append(process)
        return process

    def start_server(self) -> None:
        self.run(self.server, "server")
        self.server.wait_until(lambda: self.answers("nodes"), "the server answers")

    def answers(self, *words: str) -> bool:
        return self.server.tgpu(*words, check=False).returncode == 0

    def ready(self) -> set[str]:
        try:
            with self.server.client() as client:
                nodes = client.nodes()
        except TgpuError:
            return set()
        return {node["node_id"] for node in nodes if node["status"] == "ready" and node["silent_s"] is None}

    def wait_ready(self, *names: str) -> None:
        self.server.wait_until(lambda: self.ready() == set(names), f"{names} are ready", 40)

    def remove(self) -> None:
        self.server.tgpu("cancel", "all", check=False)
        for process in self.processes:
            process.kill()
            process.wait()
        for pid in strays(self.folder):
            send(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def a_cluster() -> Iterator[Cluster]:
    made = Cluster(Path(tempfile.mkdtemp(prefix="tgpu-net-")))
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def alone() -> Iterator[Cluster]:
    with a_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server, and two nodes that have joined it."""
    with a_cluster() as made:
        made.start_server()
        token = made.server.tgpu("nodes", "join-token", "--uses", "2", "--pool", "rack7").stdout.strip()
        flags = ("--simulate-gpus", "2", "--cpus", "4", "--memory", "8G")
        for name in ("n1", "n2"):
            node = made.home(name, TGPU_JOIN_TOKEN=token)
            made.run(node, "agent", "--server", made.url, "--name", name, *flags)
        made.wait_ready("n1", "n2")
        yield made


def test_nodes_work_and_come_back_to_a_server_that_was_killed(cluster: Cluster) -> None:
    client = cluster.home("client", TGPU_SERVER=f"https://localhost:1,{cluster.url}")
    refused = client.tgpu("list", check=False)
    assert refused.returncode == 3
    assert "is not trusted" in refused.stderr
    client.home.mkdir()
    (client.home / "ca.pem").write_text(cluster.server.tgpu("server-ca").stdout)
    client.environ["TGPU_TOKEN"] = cluster.server.tgpu("token", "create").stdout.strip()
    gate = cluster.folder / "gate"
    jobs = [
        client.submit("--gpus", "2", "--pool", "rack7", *after(gate, "echo on $TGPU_JOB_ID"))
        for _ in range(2)
    ]
    for job_id in jobs:
        cluster.server.wait_status(job_id, "running")
    assert {client.json("show", str(job_id))["assigned_node_id"] for job_id in jobs} == {"n1", "n2"}

    cluster.server.kill("server")
    cluster.start_server()
    cluster.wait_ready("n1", "n2")
    gate.touch()
    for job_id in jobs:
        cluster.server.wait_status(job_id, "completed")
        assert client.json("show", str(job_id))["attempt_count"] == 1
        assert client.tgpu("logs", str(job_id)).stdout == f"on {job_id}\n"


SPEAKS = """
if [ "$TGPU_ATTEMPT" = 1 ]; then scontrol requeue $TGPU_JOB_ID; exec sleep 60; fi
echo "$TGPU_TOKEN" > key
tgpu whoami | head -1
tgpu submit --quiet --pool rack7 --name next -- true
python -c 'import tgpu; print(tgpu.Client().job('$TGPU_JOB_ID')["attempt_count"])'
tgpu token create 2>&1 || true
"""


def test_a_job_speaks_for_itself_on_a_node_without_any_token(cluster: Cluster) -> None:
    slurm = cluster.folder / "slurm"
    cluster.server.tgpu("slurm", "install", "--to", str(slurm))
    path = f"PATH={slurm}:{Path(TGPU).parent}:/usr/bin:/bin"
    job_id = cluster.server.submit("--pool", "rack7", "--env", path, "--", "sh", "-ec", SPEAKS)
    shown = cluster.server.wait_status(job_id, "completed", "failed")
    said = cluster.server.tgpu("logs", str(job_id)).stdout.splitlines()
    assert (shown["status"], shown["attempt_count"]) == ("completed", 2), said
    who, next_id, attempts, refused = said
    assert who.endswith(f"by the key of job {job_id}")
    assert (int(next_id), attempts) == (job_id + 1, "2")
    assert f"the key of job {job_id} is good only for" in refused
    following = cluster.server.wait_status(int(next_id), "completed")
    assert (following["name"], following["user_id"]) == ("next", shown["user_id"])

    key = (cluster.server.files / "key").read_text().strip()
    elsewhere = cluster.home("elsewhere", TGPU_SERVER=cluster.url, TGPU_TOKEN=key)
    elsewhere.environ["TGPU_CA"] = cluster.server.tgpu("server-ca").stdout
    over = elsewhere.tgpu("list", check=False)
    assert (over.returncode, f"the key of {job_id}.0.2 is worthless" in over.stderr) == (5, True), over.stderr
    kept = [at for at in cluster.folder.rglob("*") if at.is_file() and key.encode() in at.read_bytes()]
    assert kept == [cluster.server.files / "key"], "nobody else has kept it"


def test_a_used_token_and_an_open_door_are_refused_in_one_line(alone: Cluster) -> None:
    open_door = alone.home("open", TGPU_LISTEN="0.0.0.0:0")
    refused = open_door.tgpu("server", check=False)
    assert refused.returncode == 1
    assert 'needs TLS: set tls = "auto"' in refused.stderr
    alone.start_server()
    token = alone.server.tgpu("nodes", "join-token").stdout.strip()
    assert alone.answers("nodes", "join-tokens", "revoke", "1")
    node = alone.home("n1")
    refused = node.tgpu("agent", "--server", alone.url, "--join", token, check=False)
    assert (refused.returncode, "say --join @FILE" in refused.stderr) == (2, True)
    (node.files / "token").touch(0o600)
    (node.files / "token").write_text(token)
    refused = node.tgpu("agent", "--server", alone.url, "--join", f"@{node.files}/token", check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("tgpu: this join token is not known here, or was revoked")
    assert len(refused.stderr.splitlines()) == 1
    refused = node.tgpu("agent", "--server", alone.url, check=False)
    assert (refused.returncode, "--join @FILE" in refused.stderr) == (1, True)
    assert list((node.home / "agent").iterdir()) == []
    (server,) = alone.processes
    server.terminate()
    server.wait(60)
    output = (alone.server.files.parent / "output").read_text()
    assert ("leads from now on" in output, "Traceback" in output) == (True, False), output
