"""WebSockets of browsers: a one-time ticket and the cookie of its session open a terminal."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.api.conftest import ServerUnderTest, serving
from tests.api.stories import assign, start, submit
from tests.api.test_web_session import NAME, PLAIN, Browser, signed_in

TERMINAL = "tgpu.terminal"


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving(None, {"browser": PLAIN}) as running:
        yield running


@pytest.fixture
def job(server: ServerUnderTest) -> int:
    job_id = submit(server)
    assign(server, job_id)
    start(server, job_id)
    return job_id


def ticket_of(browser: Browser) -> str:
    answer = browser.request("POST", "/session/tickets")
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ticket"])


def dial(server: ServerUnderTest, job_id: int, *protocols: str, **headers: str) -> ClientConnection:
    origin: Any = headers.pop("origin", f"http://{NAME}:{server.port}")
    return connect(
        f"ws://{NAME}:{server.port}/jobs/{job_id}/terminal",
        sock=socket.create_connection(("127.0.0.1", server.port)),
        subprotocols=[Subprotocol(each) for each in protocols] or None,
        origin=origin,
        additional_headers=headers,
        proxy=None,
    )


def refusal(server: ServerUnderTest, job_id: int, *protocols: str, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as caught:
        dial(server, job_id, *protocols, **headers)
    return caught.value.response.status_code


def test_ticket_opens_a_terminal_once(server: ServerUnderTest, job: int) -> None:
    browser = signed_in(server)
    offered = (TERMINAL, f"tgpu.ticket.{ticket_of(browser)}")
    with dial(server, job, *offered, Cookie=browser.cookie) as terminal:
        assert terminal.subprotocol == TERMINAL
        terminal.send(json.dumps({"command": ["cat"]}))
        assert "opened" in json.loads(terminal.recv(60))
        terminal.send(b"hello")
        answers = [terminal.recv(60), terminal.recv(60)]
        assert b"\x01HELLO" in answers
    assert refusal(server, job, *offered, Cookie=browser.cookie) == 401


def test_ticket_is_worthless_without_the_cookie_of_its_session(server: ServerUnderTest, job: int) -> None:
    browser, other = signed_in(server), signed_in(server)
    for headers in ({}, {"Cookie": other.cookie}):
        assert refusal(server, job, TERMINAL, f"tgpu.ticket.{ticket_of(browser)}", **headers) == 401
    assert refusal(server, job, TERMINAL, Cookie=browser.cookie) == 401
    assert refusal(server, job, TERMINAL, "tgpu.ticket.made-up", Cookie=browser.cookie) == 401


def test_page_of_another_origin_opens_no_terminal(server: ServerUnderTest, job: int) -> None:
    browser = signed_in(server)
    offered = (TERMINAL, f"tgpu.ticket.{ticket_of(browser)}")
    assert refusal(server, job, *offered, Cookie=browser.cookie, origin="http://evil.example") == 403


def test_terminal_closes_when_its_session_ends(server: ServerUnderTest, job: int) -> None:
    browser = signed_in(server)
    offered = (TERMINAL, f"tgpu.ticket.{ticket_of(browser)}")
    with dial(server, job, *offered, Cookie=browser.cookie) as terminal:
        terminal.send(json.dumps({"command": ["cat"]}))
        assert "opened" in json.loads(terminal.recv(60))
        assert browser.request("DELETE", "/session").status_code == 204
        said = list(terminal)
        assert terminal.close_code == 1000, said


def test_client_without_subprotocol_is_served_as_before(server: ServerUnderTest, job: int) -> None:
    with server.unix() as client:
        token = server.token(client)
    with dial(server, job, Authorization=f"Bearer {token}") as terminal:
        assert terminal.subprotocol is None


def test_only_sessions_get_tickets(server: ServerUnderTest) -> None:
    with server.unix() as client:
        assert client.post("/session/tickets").status_code == 409
