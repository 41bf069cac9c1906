"""Settings as they are shown: with their source, and without what nobody should read."""

from pathlib import Path

import pytest

from tgpu.config.described import described
from tgpu.config.settings import load


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://gpu1:7480", "https://gpu1:7480"),
        ("https://ann:hunter2@gpu1:7480", "https://ann:***@gpu1:7480"),
        ("https://ann:hun/ter@2@gpu1:7480", "https://ann:***@gpu1:7480"),
        ("https://:hunter2@gpu1", "https://:***@gpu1"),
        ("https://gpu1?password=hunter2&x=1", "https://gpu1?password=***&x=1"),
    ],
)
def test_a_password_in_an_address_is_masked(tmp_path: Path, url: str, shown: str) -> None:
    environ = {"TGPU_HOME": str(tmp_path), "TGPU_ADVERTISE": url, "TGPU_NODE_SERVERS": url}
    rows = {row.name: row for row in described(load(environ), environ)}
    assert rows["advertise"].value == shown
    assert rows["node_servers"].value == [shown]


def test_each_setting_tells_its_source(tmp_path: Path) -> None:
    (tmp_path / "tgpu.toml").write_text("reserve = 3\n[pools.a]\nreserve = 0\n")
    environ = {"TGPU_HOME": str(tmp_path), "TGPU_POLICY": "fifo"}
    rows = {row.name: (row.value, row.source) for row in described(load(environ), environ)}
    assert rows["home"] == (str(tmp_path), "TGPU_HOME")
    assert rows["policy"] == ("fifo", "TGPU_POLICY")
    assert rows["reserve"] == (3, "the TOML file")
    assert rows["scorer"] == ("tightest", "default")
    assert rows["pools.a"] == ({"reserve": 0}, "the TOML file")
