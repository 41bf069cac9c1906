"""A whole tgpu per test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import Installation


@pytest.fixture
def installation() -> Iterator[Installation]:
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    one = Installation(base / "home")
    try:
        yield one
    finally:
        one.remove()


@pytest.fixture
def up(installation: Installation) -> Installation:
    installation.up()
    return installation
