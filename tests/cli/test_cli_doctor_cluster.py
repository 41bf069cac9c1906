"""`tgpu doctor` in a cluster: its store and its servers, from a server and from a node."""

import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from fake_tgpu import FakeTgpu

from tests.cli.cli_process import Tgpu
from tests.postgres_server import postgres, postgres_url
from tgpu.config.settings import Settings
from tgpu.wiring import agent_status, cluster_ca, joined_node, pidfile
from tgpu.wiring.agent_status import AgentStatus, Standing
from tgpu.wiring.joined_node import JoinedNode

__all__ = ["postgres", "postgres_url"]

READY = {"nodes": [{"node_id": "n1", "status": "ready", "gpu_total": 4}]}
STORE = {"program": "PostgreSQL 17", "revision": "0005", "known_revision": "0005", "clock_ahead_s": 0.1}


def a_server(name: str, **changes: object) -> dict[str, Any]:
    return {
        "server_id": name, "url": f"http://{name}:1", "version": "1", "settings": "d", "leads": False,
    } | changes  # fmt: skip


def found(tgpu: Tgpu, name: str, **environ: str) -> list[tuple[str, str]]:
    report = json.loads(tgpu("doctor", "--json", **environ).stdout)
    return [(one["level"], one["text"]) for one in report if one["name"] == name]


def advice(tgpu: Tgpu, name: str) -> str:
    report = json.loads(tgpu("doctor", "--json").stdout)
    return next(str(one["advice"]) for one in report if one["name"] == name and one["level"] != "ok")


def test_a_sound_cluster_is_told_in_two_lines(server: FakeTgpu, tgpu: Tgpu) -> None:
    servers = [a_server("a", leads=True), a_server("b")]
    server.fixed |= {"/nodes": READY, "/stats": {}, "/cluster": {"store": STORE, "servers": servers}}
    assert found(tgpu, "store") == [("ok", "PostgreSQL 17, tables of revision 0005")]
    assert found(tgpu, "servers") == [("ok", "http://a:1, http://b:1; http://a:1 leads")]


def test_what_is_wrong_with_servers_and_store_is_told_with_what_to_do(server: FakeTgpu, tgpu: Tgpu) -> None:
    servers = [a_server("a", settings="x"), a_server("b", version="2")]
    store = STORE | {"clock_ahead_s": -9.5}
    server.fixed |= {"/nodes": READY, "/stats": {}, "/cluster": {"store": store, "servers": servers}}
    assert found(tgpu, "store") == [
        ("warn", "PostgreSQL 17, tables of revision 0005; its clock differs by -9.5 s")
    ]
    assert found(tgpu, "servers") == [
        ("FAIL", "nobody leads among http://a:1, http://b:1"),
        ("warn", "servers have different settings, and any of them may lead"),
        ("warn", "versions differ: 1, 2"),
    ]
    assert "chrony" in advice(tgpu, "store")
    assert "look at the servers' logs" in advice(tgpu, "servers")
    newer = {"store": STORE | {"revision": "0009"}, "servers": []}
    server.fixed["/cluster"] = newer
    assert found(tgpu, "store")[0][0] == "warn"
    assert "update this server" in advice(tgpu, "store")


def test_without_a_server_the_database_itself_is_asked(tgpu: Tgpu, postgres_url: str) -> None:
    ((level, text),) = found(tgpu, "store", TGPU_STORE=postgres_url)
    assert level == "ok"
    assert text.startswith("PostgreSQL 18")
    ((level, text),) = found(tgpu, "store", TGPU_STORE="postgresql://u@127.0.0.1:1/x")
    assert (level, "cannot be reached" in text) == ("FAIL", True)


Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A server of a cluster, as far as a doctor can tell: TLS by an authority, and a clock."""
    running: list[http.server.HTTPServer] = []

    def start(authority: bytes, *, behind_s: int = 0, issued_days_ago: int = 0, health: bytes = b"") -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response_only(200)
                said = datetime.now(UTC) - timedelta(seconds=behind_s)
                self.send_header("Date", format_datetime(said, usegmt=True))
                self.send_header("Content-Length", str(len(health)))
                self.end_headers()
                self.wfile.write(health)

            def log_message(self, *_: object) -> None:
                return

        chain = tmp_path / f"chain{len(running)}.pem"
        issued = datetime.now(UTC) - timedelta(days=issued_days_ago)
        chain.write_bytes(cluster_ca.issue(cluster_ca.load(authority), ["127.0.0.1"], issued))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
        running.append(httpd)
        threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
        return f"https://127.0.0.1:{httpd.server_port}"

    yield start
    for httpd in running:
        httpd.shutdown()
        httpd.server_close()


@pytest.fixture
def authority() -> bytes:
    return cluster_ca.found("c", datetime.now(UTC) - timedelta(days=400))


def join(tmp_path: Path, authority: bytes, *servers: str) -> Path:
    path = tmp_path / "home" / "agent" / "identity.json"
    path.parent.mkdir(parents=True)
    node = JoinedNode(
        cluster_id="c0ffee", node_id="n7", key="k", ca_pem=cluster_ca.load(authority).pem, servers=servers,
        pool=None, token_digest="d",
    )  # fmt: skip
    joined_node.save(path, node)
    return path


def test_a_node_tells_who_it_is_whom_it_reaches_and_what_it_offers(
    tgpu: Tgpu, serve: Serve, authority: bytes, tmp_path: Path
) -> None:
    good, late, old = serve(authority), serve(authority, behind_s=60), serve(authority, issued_days_ago=350)
    strange = serve(cluster_ca.found("other", datetime.now(UTC)))
    gone = "https://127.0.0.1:1"
    join(tmp_path, authority, good, late, old, strange, gone)
    assert found(tgpu, "node") == [("ok", "n7 of cluster c0ffee")]
    reached = found(tgpu, "reach")
    assert [level for level, _ in reached] == ["ok", "warn", "warn", "warn", "warn"]
    texts = [text for _, text in reached]
    assert texts[0].startswith(f"{good} answers; its certificate is good for 36")
    assert texts[1] in {f"{late} answers; its clock differs by -{n} s" for n in (59, 60, 61)}
    assert texts[2] in {f"{old} answers; its certificate is good for {n} days" for n in (14, 15)}
    assert texts[3].startswith(f"{strange} cannot be believed: ")
    assert texts[4].startswith(f"{gone}: ")
    ((level, text),) = found(
        tgpu, "inventory", TGPU_SIMULATE_GPUS="4", TGPU_NODE_CPUS="2", TGPU_NODE_MEMORY="8G"
    )
    assert (level, text) == ("ok", "4 simulated GPUs, 2 CPUs, 8G")


@contextmanager
def an_agent(home: Path, **status: Any) -> Iterator[None]:
    """Its mark of life, and what it says of itself."""
    settings = Settings(home=home)
    settings.run_dir.mkdir(exist_ok=True)
    said = {"node_id": "n7", "server": "https://a:1", "standing": Standing.CONNECTED} | status
    agent_status.write(settings, AgentStatus(**said))
    lock = pidfile.claim(settings.run_dir / "agent.pid", "agent")
    yield
    pidfile.release(lock)


def test_a_sound_node_has_nothing_that_fails(
    tgpu: Tgpu, serve: Serve, authority: bytes, tmp_path: Path
) -> None:
    join(tmp_path, authority, serve(authority))
    offers = {"gpus": 8, "simulated": True, "cpu_milli": 32000, "memory_mib": 1 << 16}
    with an_agent(tmp_path / "home", heard_at=time.time() - 2, **offers):
        done = tgpu("doctor")
    assert "FAIL" not in done.stdout
    assert "warn  gpus" not in done.stdout
    assert "tgpu up" not in done.stdout
    assert "ok    agent     connected to https://a:1, last heard 2s ago\n" in done.stdout
    assert "ok    inventory 8 simulated GPUs, 32 CPUs, 64G\n" in done.stdout
    assert done.returncode == 0


def test_a_node_whose_agent_is_not_taken_in_says_why(
    tgpu: Tgpu, serve: Serve, authority: bytes, tmp_path: Path
) -> None:
    join(tmp_path, authority, serve(authority))
    ((level, text),) = found(tgpu, "agent")
    assert (level, text) == ("FAIL", "it does not run")
    assert advice(tgpu, "agent") == "start it: `tgpu agent`"
    with an_agent(tmp_path / "home", standing=Standing.CALLING):
        ((level, text),) = found(tgpu, "agent")
    assert (level, "calls https://a:1, but nobody takes it in" in text) == ("FAIL", True)
    with an_agent(tmp_path / "home", standing=Standing.REFUSED, why="node n7 was removed"):
        pass
    ((level, text),) = found(tgpu, "agent")
    assert (level, text) == ("FAIL", "refused by https://a:1: node n7 was removed")


def test_a_node_names_the_database_if_that_is_why_nobody_takes_it_in(
    tgpu: Tgpu, serve: Serve, authority: bytes, tmp_path: Path
) -> None:
    url = serve(authority, health=b'{"status": "ok", "store": "away"}')
    join(tmp_path, authority, url)
    assert found(tgpu, "reach") == [("warn", f"{url} answers, and waits for its store")]
    assert advice(tgpu, "reach").startswith("its database is away: mend that")


def test_a_server_whose_database_is_away_is_not_told_to_start(tgpu: Tgpu, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True)
    (home / "server-id").write_text("s\n")
    assert "`tgpu server`" in advice(tgpu, "server")
    assert found(tgpu, "gpus") == [], "a server needs none"
    lock = pidfile.claim(home / "run" / "server.pid", "server")
    ((level, text),) = found(tgpu, "server", TGPU_STORE="postgresql://u@127.0.0.1:1/x")
    assert (level, "waits for its store" in text) == ("warn", True)
    ((level, _),) = found(tgpu, "store", TGPU_STORE="postgresql://u@127.0.0.1:1/x")
    assert level == "FAIL"
    report = json.loads(tgpu("doctor", "--json", TGPU_STORE="postgresql://u@127.0.0.1:1/x").stdout)
    assert not [one for one in report if "starts once" in str(one["advice"]) or "is back" in one["text"]]
    pidfile.release(lock)


def test_nodes_that_are_offline_are_named(server: FakeTgpu, tgpu: Tgpu) -> None:
    nodes = [{"node_id": f"n{n}", "status": "offline", "gpu_total": 4, "silent_s": 60} for n in (2, 3)]
    server.fixed |= {"/nodes": {"nodes": [*READY["nodes"], *nodes]}, "/stats": {}}
    assert found(tgpu, "nodes") == [("warn", "offline: n2, n3")]


def test_a_node_that_reaches_nobody_or_lost_its_identity_is_in_trouble(
    tgpu: Tgpu, authority: bytes, tmp_path: Path
) -> None:
    path = join(tmp_path, authority, "https://127.0.0.1:1")
    assert [level for level, _ in found(tgpu, "reach")] == ["FAIL"]
    path.chmod(0o644)
    ((level, text),) = found(tgpu, "node")
    assert (level, "chmod 600" in text) == ("FAIL", True)
    path.unlink()
    assert found(tgpu, "node") == []
