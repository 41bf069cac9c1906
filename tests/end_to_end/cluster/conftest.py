"""A whole cluster per test, or one for all tests after which it can be mended; one PostgreSQL per run."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.cluster.whole_cluster import Cluster
from tests.postgres_server import PostgresServer, postgres, postgres_url

__all__ = ["postgres", "postgres_url"]


@contextmanager
def a_cluster(store_url: str) -> Iterator[Cluster]:
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    one = Cluster(base, store_url)
    try:
        one.up()
        yield one
    finally:
        one.remove()


@pytest.fixture
def own_cluster(postgres_url: str) -> Iterator[Cluster]:
    """For a test after which nobody else could use it, or that looks at all that ever was in it."""
    with a_cluster(postgres_url) as one:
        yield one


@pytest.fixture(scope="session")
def lasting(postgres: PostgresServer) -> Iterator[Cluster]:
    with a_cluster(postgres.url(postgres.new_database())) as one:
        yield one


@pytest.fixture
def cluster(lasting: Cluster) -> Iterator[Cluster]:
    """Parts of it may be killed, stopped and cut off: it is mended afterwards."""
    yield lasting
    lasting.mend()
