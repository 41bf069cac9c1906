"""Web sessions on a shared machine: what another user's process receives gives it no access."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.end_to_end.unix_users import USERS, accounts, as_user
from tests.end_to_end.whole_tgpu import Installation
from tgpu.client import TgpuError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
THIEF = USERS[1]
LISTENER = """
import json, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    listener.bind((sys.argv[1], int(sys.argv[2])))
except OSError as error:
    print(json.dumps({"refused": error.strerror}), flush=True)
    sys.exit()
listener.listen()
print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
while True:
    connection, _ = listener.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head and (part := connection.recv(65536)):
        head += part
    lines = head.decode("latin-1").split("\\r\\n")[1:]
    print(json.dumps(dict(line.split(": ", 1) for line in lines if ": " in line)), flush=True)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    connection.close()
"""
"""A server of the thief: says where it listens, then the headers of each request."""


@pytest.fixture(scope="module", autouse=True)
def people() -> Iterator[None]:
    with accounts():
        yield


@contextmanager
def listening(address: str, port: int) -> Iterator["subprocess.Popen[str]"]:
    """A process of the thief that tries to listen there."""
    account = pwd.getpwnam(THIEF)
    process = subprocess.Popen(
        ["/usr/bin/env", "python3", "-ISc", LISTENER, address, str(port)],
        stdout=subprocess.PIPE,
        text=True,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        env={"PATH": f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"},
        cwd="/",
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def heard(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line
    found: dict[str, Any] = json.loads(line)
    return {name.lower(): value for name, value in found.items()}


class Browser:
    """Sends what a browser would: its cookies to every port of the host, the page key to its own origin."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)
        self.cookie = self.page_key = ""
        if parts.fragment:
            code = parts.fragment.removeprefix("code=")
            answer = httpx.post(
                f"http://127.0.0.1:{self.port}/session", json={"code": code}, headers=self._head(self.port)
            )
            assert answer.status_code == 201, answer.text
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.page_key = answer.json()["page_key"]

    def _head(self, port: int) -> dict[str, str]:
        return {"Host": f"{self.host}:{port}"}

    def fetch(self, path: str) -> httpx.Response:
        """By a script of the page, from its own origin."""
        headers = {"Cookie": self.cookie, "X-Tgpu-Page-Key": self.page_key}
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers={**self._head(self.port), **headers})

    def visit(self, port: int) -> None:
        """Another port of the same host name."""
        httpx.get(f"http://127.0.0.1:{port}/", headers={**self._head(port), "Cookie": self.cookie})


def replays(received: dict[str, Any], hosts: list[str]) -> Iterator[dict[str, str]]:
    """Every way to show what was received."""
    cookie, page_key = str(received.get("cookie", "")), str(received.get("x-tgpu-page-key", ""))
    halves = [cookie.partition("=")[2], page_key]
    shown: list[dict[str, str]] = [
        {"Cookie": cookie, "X-Tgpu-Page-Key": page_key},
        {"Cookie": cookie, "X-Tgpu-Page-Key": halves[0]},
        {"Cookie": cookie},
        {"Cookie": f"__Host-{cookie}", "X-Tgpu-Page-Key": page_key},
        *(
            {"Authorization": f"Bearer {text}"}
            for text in (*halves, "".join(halves), ".".join(halves))
            if text
        ),
    ]
    for host in hosts:
        for headers in shown:
            yield {**headers, "Host": host}


def assert_worthless(url: str, received: dict[str, Any], *more_hosts: str) -> None:
    """Neither as a session nor as a token, under any name of the server."""
    parts = urlsplit(url)
    hosts = [f"{name}:{parts.port}" for name in ("127.0.0.1", str(parts.hostname), *more_hosts)]
    statuses = set()
    with httpx.Client(base_url=f"http://127.0.0.1:{parts.port}") as client:
        for headers in replays(received, hosts):
            statuses.add(client.get("/whoami", headers=headers).status_code)
            statuses.add(client.post("/session/tickets", headers=headers).status_code)
            statuses.add(client.post("/session/links", headers=headers).status_code)
        for half in filter(None, (received.get("x-tgpu-page-key"), received.get("cookie"))):
            for asked in ({"code": half}, {"token": half}):
                statuses.add(client.post("/session", json=asked, headers={"Host": hosts[1]}).status_code)
    assert statuses <= {401, 421, 429}, statuses


def test_process_that_takes_over_the_port_gains_no_credential(installation: Installation) -> None:
    installation.up()
    first = installation.json("web")["url"]
    browser = Browser(first)
    assert browser.fetch("/whoami").json()["role"] == "admin"
    installation.environ["TGPU_LISTEN"] = f"127.0.0.1:{browser.port}"
    installation.tgpu("down")
    with listening("127.0.0.1", browser.port) as thief:
        assert heard(thief)["port"] == browser.port
        browser.fetch("/whoami")
        received = heard(thief)
    assert (received["cookie"], received["x-tgpu-page-key"]) == (browser.cookie, browser.page_key)

    installation.up()
    second = installation.json("web")["url"]
    assert urlsplit(second).port == browser.port
    assert urlsplit(second).hostname != browser.host, "the browser sends its cookie to no later process"
    assert_worthless(second, received, browser.host)
    shown = {"Cookie": received["cookie"], "X-Tgpu-Page-Key": received["x-tgpu-page-key"]}
    on_socket = as_user(THIEF, lambda: _whoami(installation, shown))
    assert (on_socket["user_id"], on_socket["via"]) == (THIEF, "socket")
    live = [row["note"] for row in installation.json("token") if not row["revoked"]]
    assert live == [], "the session ended with its process; ended ones are removed soon"
    assert browser.cookie.partition("=")[2] not in installation.tgpu("audit", "--json").stdout
    logs = "".join(path.read_text() for path in (installation.home / "run").glob("*.log"))
    for secret in (urlsplit(first).fragment, browser.page_key, browser.cookie.partition("=")[2]):
        assert secret not in logs


def _whoami(installation: Installation, headers: dict[str, str]) -> Any:
    transport = httpx.HTTPTransport(uds=str(installation.home / "run" / "tgpu.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost", headers=headers) as client:
        return client.get("/whoami").json()


def test_another_port_of_the_host_name_receives_a_cookie_that_it_cannot_use(shared: Installation) -> None:
    url = shared.json("web")["url"]
    browser = Browser(url)
    with listening("127.0.0.1", 0) as thief:
        browser.visit(heard(thief)["port"])
        received = heard(thief)
    assert received["cookie"] == browser.cookie
    assert "x-tgpu-page-key" not in received
    assert_worthless(url, received)
    assert browser.fetch("/whoami").status_code == 200, "and the session goes on"


def test_no_other_process_answers_for_the_host_name_while_the_server_runs(shared: Installation) -> None:
    """Browsers try both loopback addresses, and ::1 first."""
    browser = Browser(shared.json("web")["url"])
    for address in ("127.0.0.1", "::1", "0.0.0.0", "::"):
        with listening(address, browser.port) as thief:
            assert "refused" in heard(thief), address
    answer = httpx.get(f"http://[::1]:{browser.port}/ui/", headers={"Host": f"{browser.host}:{browser.port}"})
    assert answer.status_code in {200, 503}


def test_no_browser_signs_in_if_another_process_has_the_other_loopback_address(
    installation: Installation,
) -> None:
    with listening("::1", 0) as thief:
        port = heard(thief)["port"]
        installation.environ["TGPU_LISTEN"] = f"127.0.0.1:{port}"
        installation.up()
        with installation.client() as client, pytest.raises(TgpuError) as caught:
            client.create_sign_in_link()
        assert "another process has port" in caught.value.detail
        said = installation.tgpu("web", "--print", check=False)
        assert said.returncode
        assert f"port {port}" in said.stderr
        redirected = httpx.get(f"http://127.0.0.1:{port}/ui/", headers={"Accept": "text/html"})
        assert "location" not in redirected.headers
