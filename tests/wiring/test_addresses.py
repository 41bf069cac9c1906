"""Only loopback is listened on, and a taken port is no accident."""

import socket

import pytest

from tgpu.config.settings import SettingsError
from tgpu.wiring.addresses import tcp_listener, url_of


def test_port_zero_is_any_free_one() -> None:
    with tcp_listener("127.0.0.1:0") or pytest.fail("no socket") as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_off_is_no_address_at_all() -> None:
    assert tcp_listener("off") is None


@pytest.mark.parametrize("listen", ["0.0.0.0:7480", "192.0.2.1:80", "example.org:80", ":80", "[::]:80"])
def test_beyond_loopback_is_refused(listen: str) -> None:
    with pytest.raises(SettingsError, match="loopback"):
        tcp_listener(listen)


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ""])
def test_nonsense_is_refused_with_an_example(listen: str) -> None:
    with pytest.raises(SettingsError, match=r"HOST:PORT, such as 127\.0\.0\.1:7480"):
        tcp_listener(listen)


def test_a_taken_port_is_refused_unless_it_was_left_to_us() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match="choose another port"):
            tcp_listener(f"127.0.0.1:{port}")
    first, second = tcp_listener("auto"), tcp_listener("auto")
    assert first is not None
    assert second is not None
    with first, second:
        assert first.getsockname()[1] != second.getsockname()[1]
