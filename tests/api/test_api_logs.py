import json
import threading
import time

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tests.api.stories import assign, end, start, submit
from tgpu.domain.lifecycle import Cause, Happening

LINES = b"".join(b"line %d\n" % n for n in range(1, 101))


@pytest.fixture
def ran(server: ServerUnderTest) -> ServerUnderTest:
    """A job that has run once and said a hundred lines."""
    submit(server)
    assign(server, 1)
    start(server, 1)
    server.logs.data["1.0.1", "stdout"] = LINES
    server.logs.data["1.0.1", "stderr"] = b"oops\xff\n"
    server.logs.ended.add("1.0.1")
    end(server, 1, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    return server


def test_output_is_given_as_it_was_written(ran: ServerUnderTest, client: httpx.Client) -> None:
    answer = client.get("/jobs/1/logs")
    assert (answer.content, answer.headers["x-tgpu-offset"]) == (LINES, "0")
    assert answer.headers["content-type"].startswith("text/plain")
    assert client.get("/jobs/1/logs?stream=stderr").content == b"oops\xff\n"
    assert client.get("/jobs/1/logs?follow=true").content == LINES
    assert client.get("/jobs/1/logs?attempt=1").content == LINES
    assert client.get("/jobs/1/logs?attempt=2").status_code == 404
    ran.logs.data["1.0.1", "stdout"] = big = b"x" * 1_000_000
    assert client.get("/jobs/1/logs").content == big


def test_output_is_given_from_an_offset_or_from_its_end(ran: ServerUnderTest, client: httpx.Client) -> None:
    answer = client.get("/jobs/1/logs?offset=7")
    assert (answer.content, answer.headers["x-tgpu-offset"]) == (LINES[7:], "7")
    answer = client.get("/jobs/1/logs?tail=2")
    assert answer.content == b"line 99\nline 100\n"
    assert answer.headers["x-tgpu-offset"] == str(len(LINES) - len(answer.content))
    assert client.get("/jobs/1/logs?tail=1000").content == LINES
    assert client.get("/jobs/1/logs?tail=0").content == b""
    ran.logs.data["1.0.1", "stdout"] = LINES * 5000 + b"no newline"
    assert client.get("/jobs/1/logs?tail=2").content == b"line 100\nno newline"
    assert client.get("/jobs/1/logs?tail=90001").content.count(b"\n") == 90_000


def test_a_beginning_that_is_gone_shows_in_the_offset(ran: ServerUnderTest, client: httpx.Client) -> None:
    ran.logs.dropped["1.0.1", "stdout"] = 14
    answer = client.get("/jobs/1/logs?offset=3")
    assert (answer.headers["x-tgpu-offset"], answer.content) == ("14", LINES[14:])
    assert client.get("/jobs/1/logs?tail=1000").headers["x-tgpu-offset"] == "14"


@pytest.mark.parametrize("query", ["stream=both", "offset=-1", "tail=x", "tail=1&offset=1", "attempt=0"])
def test_a_wrong_question_is_refused(ran: ServerUnderTest, client: httpx.Client, query: str) -> None:
    assert ran is not None
    assert client.get(f"/jobs/1/logs?{query}").status_code == 400


def test_a_job_that_has_not_run_has_no_output_yet(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    answer = client.get("/jobs/1/logs")
    assert (answer.status_code, answer.content, answer.headers["x-tgpu-offset"]) == (200, b"", "0")


def test_a_node_that_cannot_be_reached_is_told(ran: ServerUnderTest, client: httpx.Client) -> None:
    ran.logs.broken = "node ws1 cannot be reached"
    answer = client.get("/jobs/1/logs")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "node ws1 cannot be reached"


def test_a_follower_sees_it_grow_through_a_new_attempt_until_the_job_ends(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    submit(server)
    seen: list[bytes] = []

    def follow() -> None:
        with client.stream("GET", "/jobs/1/logs?follow=true") as answer:
            seen.extend(answer.iter_raw())

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.1)
    for number, happening, cause in (
        (1, Happening.REQUEUED, Cause.NODE_LOST),
        (2, Happening.SUCCEEDED, Cause.EXITED),
    ):
        assign(server, 1, number)
        start(server, 1, number)
        key = (f"1.0.{number}", "stdout")
        for part in (b"a", b"b"):
            server.logs.data[key] = server.logs.data.get(key, b"") + part + b"%d " % number
            time.sleep(0.05)
        server.logs.broken = "the agent restarts"
        time.sleep(0.05)
        server.logs.broken = ""
        server.logs.ended.add(f"1.0.{number}")
        end(server, 1, happening, cause, number=number)
    follower.join(60)
    assert not follower.is_alive()
    assert b"".join(seen) == b"a1 b1 a2 b2 "


@pytest.mark.usefixtures("ran")
def test_one_part_is_read_from_an_offset_or_from_the_end(client: httpx.Client) -> None:
    answer = client.get("/jobs/1/logs?offset=5&length=7")
    assert (answer.content, answer.headers["x-tgpu-offset"]) == (LINES[5:12], "5")
    assert (answer.headers["x-tgpu-attempt"], answer.headers["x-tgpu-complete"]) == ("1", "false")
    answer = client.get("/jobs/1/logs?last=9")
    assert (answer.content, answer.headers["x-tgpu-offset"]) == (LINES[-9:], str(len(LINES) - 9))
    assert answer.headers["x-tgpu-complete"] == "true"
    assert answer.headers["content-type"].startswith("text/plain")
    assert client.get(f"/jobs/1/logs?offset={len(LINES)}&wait=5").content == b""


def test_one_part_is_waited_for_until_there_is_output(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    assert client.get("/jobs/1/logs?wait=5").headers["x-tgpu-offset"] == "0"
    assign(server, 1)
    start(server, 1)
    said = threading.Timer(0.3, lambda: server.logs.data.update({("1.0.1", "stdout"): b"late"}))
    said.start()
    assert client.get("/jobs/1/logs?offset=0&wait=20").content == b"late"


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    "query",
    ["length=0", "last=9999999", "wait=60", "last=1&offset=1", "length=5&tail=1", "wait=1&follow=true"],
)
def test_wrong_question_for_one_part_is_refused(client: httpx.Client, query: str) -> None:
    assert client.get(f"/jobs/1/logs?{query}").status_code == 400


T1, T2 = 1_800_000_000_000_123, 1_800_000_001_500_000
TEXT1, TEXT2 = "2027-01-15T08:00:00.000123Z", "2027-01-15T08:00:01.500000Z"


def test_part_in_json_has_chunks_with_times(ran: ServerUnderTest, client: httpx.Client) -> None:
    ran.logs.data["1.0.1", "stdout"] = b"one\ntwo\nbytes \xff\n"
    ran.logs.times["1.0.1", "stdout"] = ((0, T1), (4, None), (8, T2))
    answer = client.get("/jobs/1/logs?format=json&length=100")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "attempt": 1,
        "stream": "stdout",
        "offset": 0,
        "next_offset": 16,
        "complete": True,
        "timestamps": True,
        "chunks": [
            {"offset": 0, "time": TEXT1, "text": "one\n"},
            {"offset": 4, "time": None, "text": "two\n"},
            {"offset": 8, "time": TEXT2, "base64": "Ynl0ZXMg/wo="},
        ],
    }


def test_part_in_json_without_times_says_so(ran: ServerUnderTest, client: httpx.Client) -> None:
    part = client.get("/jobs/1/logs?format=json&last=4").json()
    assert (part["timestamps"], part["complete"]) == (False, True)
    assert part["chunks"] == [{"offset": len(LINES) - 4, "time": None, "text": "100\n"}]
    ran.logs.data["1.0.1", "stdout"] = b""
    assert client.get("/jobs/1/logs?format=json&length=9").json()["chunks"] == []


def test_part_in_json_of_a_job_without_attempt_is_empty(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    submit(server)
    part = client.get("/jobs/1/logs?format=json&length=9").json()
    assert (part["attempt"], part["complete"], part["chunks"]) == (None, False, [])


def test_whole_output_in_json_is_bounded_parts_on_lines(ran: ServerUnderTest, client: httpx.Client) -> None:
    """A tail is one piece of memory on the server, however long."""
    data = b"".join(b"%07d\n" % number for number in range(100_000))
    ran.logs.data["1.0.1", "stdout"] = data
    ran.logs.times["1.0.1", "stdout"] = tuple((at, T1 + at) for at in range(0, len(data), 5000))
    for query in ("", "&tail=99990", "&follow=true"):
        answer = client.get(f"/jobs/1/logs?format=json{query}")
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        parts = [json.loads(line) for line in answer.content.splitlines()]
        assert all(part["next_offset"] - part["offset"] <= 256 * 1024 for part in parts)
        begin = int(answer.headers["x-tgpu-offset"])
        assert [part["offset"] for part in parts[1:]] == [part["next_offset"] for part in parts[:-1]]
        chunks = [chunk for part in parts for chunk in part["chunks"]]
        assert "".join(chunk["text"] for chunk in chunks).encode() == data[begin:]
        starts = {chunk["offset"]: chunk["time"] for chunk in chunks}
        assert starts[5000] == f"2027-01-15T08:00:00.{123 + 5000:06d}Z"
        assert parts[-1]["complete"]


def test_tail_in_json_keeps_the_time_that_holds_where_it_begins(
    ran: ServerUnderTest, client: httpx.Client
) -> None:
    ran.logs.times["1.0.1", "stdout"] = ((0, T1), (len(LINES) - 9, T2))
    part = client.get("/jobs/1/logs?format=json&tail=2").json()
    assert [chunk["time"] for chunk in part["chunks"]] == [TEXT1, TEXT2]
    assert part["chunks"][1]["text"] == "line 100\n"


def test_unknown_format_is_refused(ran: ServerUnderTest, client: httpx.Client) -> None:
    assert ran is not None
    assert client.get("/jobs/1/logs?format=xml").status_code == 400
