"""The WebSocket into a running job: who is let in, what passes through, and what is refused."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.uri import parse_uri

from tests.api.conftest import OTHER, ServerUnderTest
from tests.api.stories import assign, end, start, submit
from tgpu.api import websocket
from tgpu.client import Client, TgpuError
from tgpu.client.terminal import Output, Over, Terminal
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.protocol.shells import CloseShell, OpenShell, ResizeShell, ShellOutput, ShellOver, Taken

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can pose as others")


@pytest.fixture
def job(server: ServerUnderTest) -> int:
    job_id = submit(server)
    assign(server, job_id)
    start(server, job_id)
    return job_id


@contextmanager
def inside(
    server: ServerUnderTest, job_id: int, *command: str, token: str | None = None, **more: object
) -> Iterator[Terminal]:
    where = f"http://127.0.0.1:{server.port}" if token else f"unix://{server.socket_path}"
    with (
        Client(where, token=token) as client,
        Terminal(client.session, job_id, command or ("sh",), **more) as terminal,
    ):  # type: ignore[arg-type]
        yield terminal


def refused(server: ServerUnderTest, job_id: int, *command: str, **more: object) -> TgpuError:
    with pytest.raises(TgpuError) as caught, inside(server, job_id, *command, **more):
        pass
    return caught.value


def all_of(terminal: Terminal) -> tuple[bytes, Over]:
    printed = b""
    while True:
        for said in terminal.hear():
            if isinstance(said, Over):
                return printed, said
            assert isinstance(said, Output)
            printed += said.data


def test_what_is_typed_and_printed_goes_through_until_it_is_over(server: ServerUnderTest, job: int) -> None:
    with inside(server, job, "cat", "-u", tty=True, size=(30, 90), term="xterm") as terminal:
        terminal.type(b"a" * 100_000)
        terminal.resize(40, 100)
        terminal.end_input()
        printed, over = all_of(terminal)
    assert printed == b"A" * 100_000
    assert (over.exit_code, over.detail, over.lost) == (3, "", False)
    assert server.shells.orders == [
        OpenShell(
            shell=0,
            attempt=f"{job}.0.1",
            command=("cat", "-u"),
            tty=True,
            rows=30,
            cols=90,
            term="xterm",
            user="root",
        )
    ]
    assert ResizeShell(shell=1, rows=40, cols=100) in server.shells.heard
    taken = sum(said.count for said in server.shells.heard if isinstance(said, Taken))
    assert taken == 100_000
    longest = max(len(said.data) for said in server.shells.heard if hasattr(said, "data"))
    assert longest == 32 * 1024, "heartbeats need not wait for more"
    with server.unix() as client:
        line = client.get("/audit?action=job.enter").json()["entries"][0]
    assert (line["target"], line["after"]["command"], line["user_id"]) == (f"job/{job}", "cat -u", "root")


def test_who_goes_away_closes_it(server: ServerUnderTest, job: int) -> None:
    with inside(server, job):
        pass
    deadline = time.monotonic() + 60
    while CloseShell(shell=1) not in server.shells.heard:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_way_that_broke_is_told_apart_from_an_end(server: ServerUnderTest, job: int) -> None:
    with inside(server, job) as terminal:
        over = ShellOver(shell=1, detail="the connection to its node broke", lost=True)
        server.loop.call_soon_threadsafe(server.shells.say, over)
        assert all_of(terminal)[1].lost


def test_only_what_runs_can_be_entered(server: ServerUnderTest, job: int) -> None:
    waiting = submit(server)
    assert (error := refused(server, waiting)).status == 409
    assert f"`tgpu why {waiting}`" in str(error)
    assert (error := refused(server, job, task=1)).status == 404
    assert str(error) == f"job {job} has no task 1; its last is 0"
    assert refused(server, job, attempt=2).status == 404
    assert refused(server, 999).status == 404
    end(server, job, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    assert (error := refused(server, job)).status == 409
    assert "is over" in str(error)
    assert server.shells.orders == []


def test_a_task_of_an_array_is_entered_by_its_index(server: ServerUnderTest, client: httpx.Client) -> None:
    said = {"command": ["sleep", "9"], "cwd": "/tmp", "array": "5-8"}
    array = int(client.post("/jobs", json=said).json()["job_id"])
    assign(server, array)
    start(server, array)
    for task in (5, None):  # without an index, its first
        with inside(server, array, task=task):
            assert server.shells.orders[-1].attempt == f"{array}.0.1"
    assert str(refused(server, array, task=0)) == f"job {array} has no task 0; it has 5-8"
    assert f"task {array}.7 does not run now" in str(refused(server, array, task=7))
    assert f"task {array}.5 has no attempt 2" in str(refused(server, array, task=5, attempt=2))


def test_a_job_without_a_terminal_cannot_be_attached_to(server: ServerUnderTest, job: int) -> None:
    with pytest.raises(TgpuError) as caught, Client(f"unix://{server.socket_path}") as client:
        Terminal(client.session, job)
    assert (caught.value.status, "its stdin is /dev/null" in str(caught.value)) == (409, True)


def test_what_the_node_says_no_to_is_refused_with_its_words(server: ServerUnderTest, job: int) -> None:
    server.shells.refusal = "32 shells are open on its node"
    assert (error := refused(server, job)).status == 409
    assert str(error) == "32 shells are open on its node"
    server.shells.refusal, server.shells.away = "", "n1, where it runs, is not connected"
    assert (error := refused(server, job)).status == 503
    assert "is not connected" in str(error)


@needs_root
def test_others_are_kept_out_and_tokens_need_the_action(server: ServerUnderTest, job: int) -> None:
    with server.unix() as client:
        good = server.token(client, actions=["enter"], role="admin")
        narrow = server.token(client, actions=["read", "logs"])
        stranger = server.token(client, user_id=OTHER)
    with inside(server, job, token=good) as terminal:
        terminal.end_input()
        assert all_of(terminal)[1].exit_code == 3
    assert "good for enter" in str(refused(server, job, token=narrow))
    error = refused(server, job, token=stranger)
    assert (error.status, "belongs to root" in str(error)) == (403, True)
    assert refused(server, job, token="tgpu_none").status == 401


def test_a_revoked_token_s_session_ends(server: ServerUnderTest, job: int) -> None:
    with server.unix() as client:
        made = client.post("/tokens", json={"role": "admin"}).json()
        with inside(server, job, token=made["token"]) as terminal:
            client.delete(f"/tokens/{made['token_id']}")
            over = all_of(terminal)[1]
    assert over.detail.startswith("you may not be here any more")


@pytest.mark.parametrize(
    ("command", "field"), [([""], "command"), (["a\0"], "command"), (["x" * 140_000], "command")]
)
def test_a_command_that_cannot_be_run_is_refused(
    server: ServerUnderTest, job: int, command: list[str], field: str
) -> None:
    error = refused(server, job, *command)
    assert (error.status, error.problem["field"]) == (422, field)


# As no well-behaved client would do it


class Raw:
    def __init__(self, server: ServerUnderTest, path: str, **headers: str) -> None:
        self._wire = socket.socket(socket.AF_UNIX)
        self._wire.settimeout(10)
        self._wire.connect(str(server.socket_path))
        self.protocol = ClientProtocol(parse_uri(f"ws://localhost{path}"))
        request = self.protocol.connect()
        request.headers.update(headers)
        self.protocol.send_request(request)
        self.flush()

    def flush(self) -> None:
        for data in self.protocol.data_to_send():
            if data:
                self._wire.sendall(data)

    def events(self) -> list[object]:
        """The next there are; none at the end."""
        while not (found := self.protocol.events_received()):
            data = self._wire.recv(65536)
            if not data:
                break
            self.protocol.receive_data(data)
            with suppress(BrokenPipeError):  # a server that refuses hangs up without waiting for a reply
                self.flush()
        return list(found)

    def told(self) -> dict[str, object]:
        """The next message that is text."""
        while True:
            events = self.events()
            assert events, "it was closed"
            for event in events:
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    told: dict[str, object] = json.loads(bytes(event.data))
                    return told

    def say(self, what: object) -> None:
        self.protocol.send_text(json.dumps(what).encode())
        self.flush()

    def send(self, data: bytes) -> None:
        self._wire.sendall(data)

    def close(self) -> None:
        self._wire.close()


@pytest.fixture
def raw(server: ServerUnderTest, job: int) -> Iterator[Raw]:
    one = Raw(server, f"/v1/jobs/{job}/terminal")
    assert one.events()[0].status_code == 101  # type: ignore[attr-defined]
    yield one
    one.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/jobs", {}, 404),
        ("/jobs/1/terminal?tusk=1", {}, 400),
        ("/jobs/1/terminal", {"Origin": "http://evil"}, 403),
    ],
)
def test_a_websocket_to_elsewhere_or_from_elsewhere_is_refused(
    server: ServerUnderTest, job: int, path: str, headers: dict[str, str], status: int
) -> None:
    assert job == 1
    answer = Raw(server, path, **headers)
    (event,) = answer.events()
    assert event.status_code == status  # type: ignore[attr-defined]
    assert json.loads(event.body)["detail"]  # type: ignore[attr-defined]
    answer.close()


def test_who_asks_without_an_upgrade_is_told_what_it_is(server: ServerUnderTest, job: int) -> None:
    with server.unix() as client:
        answer = client.get(f"/jobs/{job}/terminal")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


@pytest.mark.parametrize(
    "first", [{"command": "sh"}, {"command": ["sh"], "rows": 0}, {"x": 1}, [], {"term": "\n"}]
)
def test_a_first_word_that_is_none_is_refused(raw: Raw, first: object) -> None:
    raw.say(first)
    problem = raw.told()["refused"]
    assert problem["status"] in (400, 422), problem  # type: ignore[index]


def test_who_sends_more_than_the_window_is_put_out(server: ServerUnderTest, raw: Raw) -> None:
    server.shells.asleep = True
    raw.say({"command": ["cat"]})
    assert "opened" in raw.told()
    for _ in range(9):
        raw.protocol.send_binary(b"x" * 32 * 1024)
    raw.flush()
    problem = raw.told()["refused"]
    assert "were not taken yet" in problem["detail"]  # type: ignore[index]
    typed = sum(len(getattr(said, "data", b"")) for said in server.shells.heard)
    assert typed <= 256 * 1024


def test_nobody_is_given_credit_for_what_was_never_printed(server: ServerUnderTest, raw: Raw) -> None:
    raw.say({"command": ["cat"]})
    assert "opened" in raw.told()
    server.loop.call_soon_threadsafe(server.shells.say, ShellOutput(shell=1, data=b"abc"))
    raw.events()
    raw.say({"taken": 1_000_000})
    raw.say({"end": True})
    assert raw.told()["over"] == {"exit_code": 3, "detail": "", "lost": False}
    assert [said for said in server.shells.heard if isinstance(said, Taken)] == [Taken(shell=1, count=3)]


def test_message_of_endless_empty_fragments_is_refused(raw: Raw) -> None:
    fragments = [Frame(Opcode.TEXT, b"{", fin=False), *[Frame(Opcode.CONT, b"", fin=False)] * 2000]
    with suppress(BrokenPipeError):
        raw.send(b"".join(frame.serialize(mask=True) for frame in fragments))
    (close,) = raw.events()
    assert isinstance(close, Frame)
    assert Close.parse(bytes(close.data)).code == 1009


def test_pings_of_a_client_that_reads_no_answer_are_limited(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MOST_UNSENT", 64 * 1024)
    pings = Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 100
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        raw.send(pings * 400)
