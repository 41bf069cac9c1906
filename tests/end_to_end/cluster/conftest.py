"""A whole cluster per test, on one PostgreSQL per run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.cluster.whole_cluster import Cluster
from tests.postgres_server import postgres, postgres_url

__all__ = ["postgres", "postgres_url"]


@pytest.fixture
def cluster(postgres_url: str) -> Iterator[Cluster]:
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    one = Cluster(base, postgres_url)
    try:
        one.up()
        yield one
    finally:
        one.remove()
