"""A whole cluster on loopback, driven as its admin would: real servers, real agents, a real PostgreSQL."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import randrange
from typing import Any

from tests.end_to_end.cluster.proxy import Proxy
from tests.end_to_end.whole_tgpu import Installation, send, strays
from tgpu.client import Client, TgpuError

TGPU = str(Path(sys.executable).with_name("tgpu"))
HEARTBEAT_S = 1.0
SILENT_S = 5.0
QUICK = {"TGPU_HEARTBEAT_S": str(HEARTBEAT_S), "TGPU_NODE_SILENT_S": str(SILENT_S)}


class Part:
    """One process of the cluster in a home of its own."""

    def __init__(self, base: Path, name: str, words: list[str], settings: dict[str, str]) -> None:
        self.name, self.home = name, base / name
        self.home.mkdir()
        self._words = words
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TGPU_")}
        self.environ = {**clean, "TGPU_HOME": str(self.home), **settings}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.home / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [TGPU, *self._words],
                env=self.environ,
                cwd=self.home.parent / "files",
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """As a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @property
    def output(self) -> str:
        return (self.home / "output").read_text(encoding="utf-8", errors="replace")


class Cluster:
    """Servers behind a proxy each, agents that know all proxies, one database."""

    def __init__(
        self, base: Path, store_url: str, *, servers: int = 3, agents: int = 3, timers: dict[str, str] = QUICK
    ) -> None:
        """`timers`: settings of heartbeats and losses; empty: those that users get."""
        self.base, self.files = base, base / "files"
        self.files.mkdir()
        ports = free_ports(servers)
        self.proxies = [Proxy(port) for port in ports]
        self._timers = timers
        self.servers = [
            Part(
                base,
                f"server-{number}",
                ["server", "--listen", f"127.0.0.1:{port}"],
                {**self._timers, "TGPU_STORE": store_url, "TGPU_ADVERTISE": proxy.url},
            )
            for number, (port, proxy) in enumerate(zip(ports, self.proxies, strict=True), 1)
        ]
        self.agents: list[Part] = []
        self._agent_count = agents

    def up(self, *, cpus: int = 4, gpus: int = 2) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            self.wait_until(lambda server=server: self.answers(server), f"{server.name} answers", 60)
        for number in range(1, self._agent_count + 1):
            self.join(f"node-{number}", cpus=cpus, gpus=gpus)
        self.wait_until(lambda: self.ready() == self._agent_count, "all nodes are ready", 60)

    def mend(self) -> None:
        """As it was at first: everybody is there and takes tasks, and nothing runs or waits."""
        for part in (*self.servers, *self.agents):
            if part.process is None:
                part.start()
        for server in self.servers:
            self.wait_until(lambda server=server: self.answers(server), f"{server.name} answers", 60)
        with self.client() as client:
            live = [job["job_id"] for job in client.jobs(status="pending,scheduled,running,preempted")]
            if live:
                client.cancel_many(live, now=True)
                client.wait(live, timeout=60)
            drained = [node["node_id"] for node in client.nodes() if node["drain"]]
            if drained:
                client.undrain_nodes(drained)
        for at in range(len(self.servers)):
            self.wait_until(lambda at=at: self.ready(at) == self._agent_count, "all nodes are ready", 60)
        for path in self.files.iterdir():
            path.unlink()

    def join(self, name: str, *, cpus: int = 4, gpus: int = 2, **settings: str) -> Part:
        token = self.tgpu("nodes", "join-token").stdout.split()[-1]
        urls = ",".join(proxy.url for proxy in self.proxies)
        words = ["agent", "--server", urls, "--name", name, "--cpus", str(cpus)]
        environ = {**self._timers, "TGPU_JOIN_TOKEN": token, **settings}
        agent = Part(self.base, name, [*words, "--simulate-gpus", str(gpus)], environ)
        self.agents.append(agent)
        agent.start()
        return agent

    # What an admin types

    def tgpu(self, *words: str, at: int = 0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Through the socket of server `at`."""
        done = subprocess.run(
            [TGPU, *words],
            env={**os.environ, "TGPU_HOME": str(self.servers[at].home)},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=self.files,
        )
        if check and done.returncode:
            raise AssertionError(f"tgpu {' '.join(words)} → {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def json(self, *words: str, at: int = 0) -> Any:
        return json.loads(self.tgpu(words[0], "--json", *words[1:], at=at).stdout)

    def client(self, at: int = 0) -> Client:
        return Client(f"unix://{self.servers[at].home}/run/tgpu.sock")

    def raw(self, request: bytes, at: int = 0) -> str:
        """The head of the answer to an HTTP request through the socket of server `at`."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.servers[at].home / "run" / "tgpu.sock"))
            connection.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer and (more := connection.recv(65536)):
                answer += more
        return answer.partition(b"\r\n\r\n")[0].decode()

    def submit(self, *words: str, at: int = 0) -> int:
        return int(self.json("submit", *words, at=at)["job_id"])

    def show(self, job_id: int, at: int = 0) -> Any:
        """What `tgpu show --json` prints, asked without a process of its own: who waits asks often."""
        with self.client(at) as client:
            return client.job(job_id)

    def wait_status(self, job_id: int, *wanted: str, within_s: float = 60, at: int = 0) -> Any:
        self.wait_until(
            lambda: self.show(job_id, at)["status"] in wanted, f"job {job_id} is {wanted}", within_s
        )
        return self.show(job_id, at)

    # What is where

    def answers(self, server: Part) -> bool:
        try:
            with self.client(self.servers.index(server)) as client:
                next(client.jobs(limit=1), None)
        except TgpuError:
            return False
        return True

    def ready(self, at: int = 0) -> int:
        try:
            with self.client(at) as client:
                nodes = client.nodes()
        except TgpuError:
            return 0
        return sum(node["status"] == "ready" for node in nodes)

    def leader(self) -> int:
        """The number of the server that won the newest epoch."""
        won = [
            (int(epoch), number)
            for number, server in enumerate(self.servers)
            for epoch in re.findall(r'"epoch": (\d+), "event": "leads from now on"', server.output)
        ]
        assert won, "nobody has led yet"
        return max(won)[1]

    def others(self) -> list[int]:
        return [number for number in range(len(self.servers)) if number != self.leader()]

    def kill_node(self, agent: Part) -> None:
        """The whole machine is gone: the agent, every supervisor and every task on it."""
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody sees another die, and records it
            for pid in strays(agent.home):
                send(pid, number)
        assert agent.process is not None
        agent.process.wait()
        agent.process = None

    def live_attempts(self, job_id: int) -> set[int]:
        """By what really runs here, in the directory that this cluster's jobs are submitted from."""
        found = set()
        for entry in Path("/proc").iterdir():
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
                here = (entry / "cwd").readlink() == self.files
            except OSError:
                continue
            if here and f"TGPU_JOB_ID={job_id}".encode() in environ:
                found |= {int(word.split(b"=")[1]) for word in environ if word.startswith(b"TGPU_ATTEMPT=")}
        return found

    def agent(self, node_id: str) -> Part:
        return next(agent for agent in self.agents if agent.name == node_id)

    wait_until = staticmethod(Installation.wait_until)

    def remove(self) -> None:
        for part in (*self.servers, *self.agents):  # shown if the test failed
            print(f"--- {part.name}", *part.output.splitlines()[-8:], sep="\n")
        for part in (*self.agents, *self.servers):
            if part.process is not None:
                part.process.kill()
                part.process.wait()
        for proxy in self.proxies:
            proxy.close()
        for _ in range(20):
            left = strays(self.base)
            for pid in left:
                send(pid, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.05)
        shutil.rmtree(self.base, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Of those that the kernel gives to nobody by itself: a server that starts again finds its own free."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    ports: list[int] = []
    while len(ports) < count:
        port = randrange(10_000, first_given)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports
