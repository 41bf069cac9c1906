"""Where a client looks for its server."""

import os
from pathlib import Path

import pytest

from tgpu.client import locate
from tgpu.client.errors import UnreachableError


def test_a_named_server_is_the_only_one_tried() -> None:
    found = locate.candidates({"TGPU_SERVER": "unix:///x/y.sock", "TGPU_HOME": "/h"})
    assert [str(address) for address in found] == ["/x/y.sock"]


def test_a_named_home_is_the_only_one_tried() -> None:
    assert [str(address) for address in locate.candidates({"TGPU_HOME": "/h"})] == ["/h/run/tgpu.sock"]


def test_on_a_node_the_servers_that_it_joined_are_asked(tmp_path: Path) -> None:
    identity = tmp_path / "agent" / "identity.json"
    identity.parent.mkdir()
    identity.write_text('{"servers": ["https://a:1", "https://b:2"]}')
    found = locate.candidates({"TGPU_HOME": str(tmp_path)})
    assert [str(address) for address in found] == ["https://a:1", "https://b:2"]


def test_otherwise_the_own_socket_comes_before_the_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = locate.candidates({"HOME": "/home/ann"})
    assert [str(address) for address in found] == [
        "/home/ann/.local/share/tgpu/run/tgpu.sock",
        "/run/tgpu/tgpu.sock",
    ]


@pytest.mark.parametrize(
    ("url", "scheme", "authority"),
    [
        ("http://127.0.0.1:7480", "http", "127.0.0.1:7480"),
        ("http://[::1]:7480/", "http", "[::1]:7480"),
        ("https://gpu.example", "https", "gpu.example:443"),
        ("unix:///run/x.sock", "unix", "localhost"),
    ],
)
def test_addresses_are_read_as_written(url: str, scheme: str, authority: str) -> None:
    address = locate.parse(url)
    assert (address.scheme, address.authority) == (scheme, authority)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:7480", "http://", "http://h:port", "unix://rel"])
def test_an_address_that_cannot_be_meant_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UnreachableError, match="it must look like"):
        locate.parse(url)


def test_a_token_file_is_used_over_tcp_only_if_nobody_else_can_read_it(tmp_path: Path) -> None:
    environ, tcp = {"TGPU_HOME": str(tmp_path)}, locate.parse("http://127.0.0.1:1")
    assert locate.token(environ, tcp) is None
    file = tmp_path / "token"
    file.write_text("secret\n")
    file.chmod(0o644)
    with pytest.raises(UnreachableError, match="chmod 600"):
        locate.token(environ, tcp)
    file.chmod(0o600)
    assert locate.token(environ, tcp) == "secret"
    assert locate.token(environ, locate.parse("unix:///x")) is None
    assert locate.token({**environ, "TGPU_TOKEN": "other"}, tcp) == "other"
