from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake_tgpu import FakeTgpu


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTgpu]:
    """A server in a home of its own, which a client finds as it would find a real one."""
    for name in ("TGPU_SERVER", "TGPU_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TGPU_HOME", str(tmp_path))
    fake = FakeTgpu(tmp_path / "run" / "tgpu.sock")
    fake.start()
    yield fake
    fake.stop()
