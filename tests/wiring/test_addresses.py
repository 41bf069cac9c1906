"""Beyond loopback only with TLS, and a taken port is no accident."""

import os
import socket
from pathlib import Path

import pytest

from tgpu.config.settings import Settings, SettingsError
from tgpu.wiring.addresses import advertised_url, check_advertise, check_listen, tcp_listener, url_of


def test_port_zero_is_any_free_one() -> None:
    with tcp_listener("127.0.0.1:0") or pytest.fail("no socket") as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_off_is_no_address_at_all() -> None:
    assert tcp_listener("off") is None


@pytest.mark.parametrize("listen", ["0.0.0.0:7480", "192.0.2.1:80", "example.org:80", ":80", "[::]:80"])
def test_beyond_loopback_needs_tls_and_says_how(listen: str) -> None:
    with pytest.raises(
        SettingsError, match=r'needs TLS: set tls = "auto" \(TGPU_TLS=auto\), or listen on a loop'
    ):
        tcp_listener(listen)
    check_listen(listen, encrypted=True)


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ""])
def test_nonsense_is_refused_with_an_example(listen: str) -> None:
    with pytest.raises(SettingsError, match=r"HOST:PORT, such as 127\.0\.0\.1:7480"):
        tcp_listener(listen)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_port_alone_is_no_address(encrypted: bool) -> None:
    with pytest.raises(
        SettingsError, match=r"HOST:PORT: write 127\.0\.0\.1:7482, or with TLS 0\.0\.0\.0:7482"
    ):
        tcp_listener("7482", encrypted=encrypted)


def test_a_taken_port_is_refused_unless_it_was_left_to_us() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        held = rf"process {os.getpid()} \(.*, user .*\) has that port. Stop that process, or choose another"
        with pytest.raises(SettingsError, match=held):
            tcp_listener(f"127.0.0.1:{port}")
    first, second = tcp_listener("auto"), tcp_listener("auto")
    assert first is not None
    assert second is not None
    with first, second:
        assert first.getsockname()[1] != second.getsockname()[1]


def test_server_fails_rather_than_move_from_the_port_where_it_listened_before() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SettingsError, match=rf"127\.0\.0\.1:{port}, where this server listened before: proc"
        ):
            tcp_listener("auto", last=f"http://127.0.0.1:{port}")
    with tcp_listener("auto", last=f"http://127.0.0.1:{port}") or pytest.fail("no socket") as listener:
        assert listener.getsockname()[1] == port


def test_others_are_told_what_the_settings_say_else_the_host_s_name(tmp_path: Path) -> None:
    with tcp_listener("0.0.0.0:0", encrypted=True) or pytest.fail("no socket") as listener:
        port = listener.getsockname()[1]
        assert url_of(listener, encrypted=True) == f"https://127.0.0.1:{port}"
        for advertise, url in (
            ("", f"https://{socket.gethostname()}:{port}"),
            ("https://gpu1.example.org", f"https://gpu1.example.org:{port}"),
            ("https://gpu1.example.org:443/", "https://gpu1.example.org:443"),
            ("https://[2001:db8::1]:7480", "https://[2001:db8::1]:7480"),
        ):
            settings = Settings(home=tmp_path, tls="auto", advertise=advertise)
            assert advertised_url(settings, listener) == url


@pytest.mark.parametrize(
    "url", ["gpu1:7480", "http://gpu1:7480", "https://", "https://gpu1/x", "https://gpu1:x"]
)
def test_what_cannot_be_told_to_others_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(
        SettingsError, match=r"advertise must be a URL such as https://gpu1\.example\.org:7480"
    ):
        check_advertise(Settings(home=tmp_path, tls="auto", advertise=url))
