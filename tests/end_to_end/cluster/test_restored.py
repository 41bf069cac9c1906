"""A database that is put back from the same dump again and again, under nodes that have seen it all."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.cluster.whole_cluster import Cluster
from tests.postgres_server import PostgresServer


@pytest.fixture
def small(postgres_url: str) -> Iterator[Cluster]:
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    one = Cluster(base, postgres_url, servers=1, agents=1)
    settings = one.servers[0].home / "tgpu.toml"
    settings.write_text(f'store = "{postgres_url}"\n')
    settings.chmod(0o600)
    try:
        one.up()
        yield one
    finally:
        one.remove()


def stop(cluster: Cluster) -> None:
    (server,) = cluster.servers
    assert server.process is not None
    server.signal(signal.SIGTERM)
    server.process.wait(30)
    server.process = None
    assert "Traceback" not in server.output


def start(cluster: Cluster) -> None:
    (server,) = cluster.servers
    server.start()
    cluster.wait_until(lambda: cluster.answers(server), "the server answers", 60)


def copied(postgres: PostgresServer, name: str, template: str) -> None:
    postgres.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")


@pytest.mark.timeout(300)
def test_a_dump_can_be_put_back_again_and_again(
    small: Cluster, postgres: PostgresServer, postgres_url: str
) -> None:
    database = postgres_url.rpartition("/")[2]
    blocker = small.submit("--gpus", "2", "--no-requeue", "--", "sleep", "300")
    small.wait_status(blocker, "running")
    waits = small.submit("--gpus", "2", "--", "true")
    stop(small)
    copied(postgres, "dump", database)
    start(small)
    small.tgpu("cancel", str(blocker))
    small.wait_status(waits, "completed")
    attempts, ids = [1], [small.submit("--", "true")]

    def put_back() -> None:
        stop(small)
        postgres.drop(database)
        copied(postgres, database, "dump")

    for _ in range(2):
        put_back()
        said = small.tgpu("restore", "--database").stdout
        assert said.startswith("The database is ready")
        start(small)
        job = small.wait_status(waits, "completed", within_s=60)
        attempts += [attempt["number"] for attempt in job["attempts"]]
        ids.append(small.submit("--", "true"))
        assert f"The next job is {ids[-1]}: " in said
        small.wait_status(ids[-1], "completed")
    assert len(attempts) == len(set(attempts)) == 3
    assert ids == sorted(set(ids))

    # Nobody says that it was put back: the node obeys nobody, and the server finds out.
    put_back()
    start(small)

    def alerts() -> dict[str, str]:
        with small.client() as client:
            return {alert["name"]: alert["text"] for alert in client.stats()["alerts"]}

    small.wait_until(lambda: "store-behind" in alerts(), "the server says what is wrong", 60)
    assert "node-1. The database was put back from a copy" in alerts()["store-behind"]
    assert "`tgpu restore --database`" in small.tgpu("doctor", check=False).stdout
    stop(small)
    small.tgpu("restore", "--database")
    start(small)
    job = small.wait_status(waits, "completed", within_s=60)
    assert job["attempts"][-1]["number"] not in attempts
    assert "store-behind" not in alerts()
    stop(small)
    postgres.drop("dump")
