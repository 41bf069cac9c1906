import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.api.conftest import OTHER, ServerUnderTest
from tests.api.stories import assign, end, start, submit
from tgpu.api.routes import events as route
from tgpu.domain.lifecycle import Cause, Happening


class Follower:
    """Collects a stream's events on a thread of its own."""

    def __init__(self, client: httpx.Client, path: str, headers: dict[str, str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.comments: list[str] = []
        self._client, self._path, self._headers = client, path, headers or {}
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self) -> None:
        try:
            with self._client.stream("GET", self._path, headers=self._headers) as answer:
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith("text/event-stream")
                self._read(answer.iter_lines())
        except (httpx.TransportError, httpx.StreamError, RuntimeError):
            pass  # the test has closed its client

    def _read(self, lines: Iterator[str]) -> None:
        fields: dict[str, str] = {}
        for line in lines:
            self.ready.set()
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                told = json.loads(fields["data"])
                assert (int(fields["id"]), fields["event"]) == (told["seq"], told["kind"])
                self.events.append(told)
                fields = {}

    def wait_for(self, number: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 60
        while len(self.events) < number and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        assert len(self.events) == number, self.events
        return self.events


@contextmanager
def following(client: httpx.Client, path: str, headers: dict[str, str] | None = None) -> Iterator[Follower]:
    follower = Follower(client, path, headers)
    follower.thread.start()
    assert follower.ready.wait(60)
    yield follower


def test_events_are_pushed_as_they_happen(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    with following(client, "/events") as live, server.unix() as asker:
        asker.post("/jobs", json={"command": "x"})
        assign(server, 2)
        start(server, 2)
        end(server, 2, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
        kinds = [event["kind"] for event in live.wait_for(4)]
        assert kinds[0] == "submitted"
        assert {event["job_id"] for event in live.events} == {2}
        assert [event["seq"] for event in live.events] == sorted(event["seq"] for event in live.events)


def test_a_reader_goes_on_where_it_left_off_without_gaps_or_doubles(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    for _ in range(3):
        submit(server)
    with server.unix() as first, following(first, "/events?after=0") as reader:
        seen = reader.wait_for(3)
        last = seen[-1]["seq"]
    for _ in range(1200):
        submit(server)
    with following(client, "/events?after=0", {"Last-Event-ID": str(last)}) as reader:
        again = reader.wait_for(1200)
    assert [event["seq"] for event in again] == list(range(last + 1, last + 1201))


def test_events_are_filtered_by_job_and_by_owner(
    server: ServerUnderTest, client: httpx.Client, other: httpx.Client
) -> None:
    submit(server)
    submit(server, user=OTHER)
    with following(client, "/events?after=0&job_id=2") as of_job, server.unix() as asker:
        assert [event["job_id"] for event in of_job.wait_for(1)] == [2]
        with following(asker, "/events?after=0&mine=true") as mine:
            submit(server, user=OTHER)
            submit(server)
            assert [event["job_id"] for event in mine.wait_for(2)] == [1, 4]
    with following(other, "/events?after=0") as theirs:
        shown = theirs.wait_for(4)
        assert [event["data"] is None for event in shown] == [True, False, False, True]


def test_silence_is_filled_with_heartbeats(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_HEARTBEAT_S", 0.05)
    with following(client, "/events") as live:
        time.sleep(0.3)
        assert live.comments.count(": heartbeat") >= 3


@pytest.mark.parametrize("headers", [{"Last-Event-ID": "x"}, {"Last-Event-ID": "-1"}])
def test_a_wrong_place_to_begin_is_refused(quiet_client: httpx.Client, headers: dict[str, str]) -> None:
    assert quiet_client.get("/events", headers=headers).status_code == 400
    assert quiet_client.get("/events?after=x").status_code == 400


def test_a_reader_that_leaves_is_forgotten(server: ServerUnderTest) -> None:
    with server.unix() as client, client.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        next(lines)
        assert len(server.feed._flags) == 1
    deadline = time.monotonic() + 60
    while server.feed._flags and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.feed._flags
    assert not server.feed._per_user


def test_too_many_readers_are_told_so(
    server: ServerUnderTest, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tgpu.api.feed._MOST_PER_USER", 1)
    with server.unix() as first, following(first, "/events"):
        answer = client.get("/events")
        assert answer.status_code == 429
        assert answer.json()["type"] == "urn:tgpu:problem:too-many-streams"


def test_recent_events_are_listed_from_the_newest_on(server: ServerUnderTest, client: httpx.Client) -> None:
    for _ in range(3):
        submit(server)
    found = client.get("/events/recent", params={"limit": 2}).json()["events"]
    assert [event["job_id"] for event in found] == [3, 2]
    assert client.get("/events/recent").json()["events"][-1]["job_id"] == 1
    assert client.get("/events/recent?limit=0").status_code == 400
