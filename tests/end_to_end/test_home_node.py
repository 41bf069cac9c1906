"""The node of a home: it keeps its name, follows whoever leads, and stays what its tasks were placed on."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.whole_tgpu import TGPU, Installation, after
from tests.postgres_server import postgres, postgres_url
from tgpu.client import TgpuError
from tgpu.runner.remains import remains

__all__ = ["postgres", "postgres_url"]


@pytest.fixture
def second(installation: Installation, postgres_url: str) -> Iterator[Installation]:
    """Another server, as it would be on another machine; it has no agent."""
    base = installation.home.parent / "second"
    base.mkdir()
    one = Installation(base / "home")
    one.environ |= {"TGPU_STORE": postgres_url, "TGPU_TLS": "auto"}
    yield one
    one.remove()


def serve(one: Installation) -> None:
    """`tgpu server`, in the background."""
    log = (one.home.parent / "server.log").open("ab")
    subprocess.Popen([TGPU, "server"], env=one.environ, stdout=log, stderr=log, start_new_session=True)
    one.wait_until(lambda: nodes(one) is not None, "the server answers", 60)


def nodes(of: Installation) -> list[dict[str, Any]] | None:
    """None from a server that is not there, or has just begun to lead: it is asked again."""
    try:
        with of.client() as client:
            return client.nodes()
    except TgpuError:
        return None


def is_connected(to: Installation) -> bool:
    return [node["silent_s"] for node in nodes(to) or ()] == [None]


@pytest.mark.timeout(240)
def test_it_stays_with_its_jobs_when_its_own_server_dies_and_another_leads(
    up: Installation, second: Installation, postgres_url: str
) -> None:
    gate = up.files / "gate"
    job = up.submit("--gpus", "2", *after(gate, "echo through"))
    up.wait_status(job, "running")
    up.environ["TGPU_TLS"] = "auto"
    up.tgpu("promote", "--to", postgres_url, "--stop")
    up.wait_until(lambda: is_connected(up), "the node is back after the promotion")
    serve(second)
    word = up.home / "run" / "servers.json"
    up.wait_until(lambda: "https://" in word.read_text(), "the first server knows the second")
    up.kill("server")
    assert up.pid("agent") is not None
    second.wait_until(lambda: is_connected(second), "the node is at the other server", 30)
    assert second.status(job) == "running"
    gate.touch()
    done = second.wait_status(job, "completed", within_s=60)
    assert len(done["attempts"]) == 1, "it was never lost"
    assert second.tgpu("logs", str(job)).stdout == "through\n"
    assert second.tgpu("run", "--gpus", "1", "--cwd", "/", "--", "true").returncode == 0


def test_it_keeps_its_name_and_its_flags_while_something_runs_on(installation: Installation) -> None:
    installation.up("--name", "one")
    job = installation.sleeper("--gpus", "8")
    attempts = installation.wait_status(job, "running")["attempts"]
    said = installation.tgpu("down").stdout
    assert "1 task runs on" in said
    assert "simulate_gpus = 8" in said
    refused = installation.tgpu("up", "--detach", "--name", "two", check=False)
    assert refused.returncode == 1
    assert "this home's node is called one, and 1 of its tasks" in refused.stderr
    assert "simulate_gpus = 8" in installation.tgpu("up", "--detach").stdout
    (node,) = installation.json("nodes")
    assert (node["node_id"], node["gpu_total"]) == ("one", 8)
    assert installation.show(job)["attempts"] == attempts
    installation.tgpu("cancel", str(job))
    installation.wait_status(job, "cancelled")
    installation.wait_until(lambda: not unsettled(installation), "the agent may forget the job")
    assert "Nothing runs on" in installation.tgpu("down").stdout
    installation.tgpu("up", "--detach")
    assert [(n["node_id"], n["gpu_total"]) for n in installation.json("nodes")] == [("one", 0)]
    installation.tgpu("down")
    installation.tgpu("up", "--detach", "--name", "two")
    assert {n["node_id"] for n in installation.json("nodes")} == {"one", "two"}


def unsettled(installation: Installation) -> tuple[str, ...]:
    return remains(installation.home / "agent").unsettled
