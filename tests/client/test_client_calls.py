"""The SDK against a server: pages, refusals, waiting and following."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.client.fake_tgpu import FakeTgpu, Refusal, a_job, an_attempt
from tgpu.client import Client, TgpuError, WaitTimeoutError, waiting
from tgpu.client.output import Output

DONE = {"status": "completed", "exit_code": 0, "attempts": [an_attempt(status="ended", exit_code=0)]}


def later(seconds: float, action: Callable[[], None]) -> None:
    threading.Timer(seconds, action).start()


def test_while_no_server_leads_it_is_asked_again(server: FakeTgpu) -> None:
    client = Client()
    server.fixed["/nodes/drain"] = Refusal(503, "no server leads yet", "no-leader")
    server.fixed["/nodes"] = Refusal(503, "no server leads yet", "no-leader")

    def elect() -> None:
        server.fixed["/nodes/drain"] = {"nodes": ["n1"]}
        server.fixed["/nodes"] = {"nodes": []}

    later(0.5, elect)
    assert client.drain_nodes(["n1"]) == ["n1"]
    assert client.nodes() == []
    assert len(server.asked("POST", "/nodes/drain")) > 1
    server.fixed["/tokens"] = Refusal(503, "no server leads yet", "no-leader")
    with pytest.raises(TgpuError, match="no server leads yet"):
        client.create_token()
    assert len(server.asked("POST", "/tokens")) == 1


def test_submitting_sends_a_key_so_that_a_repeated_request_is_harmless(server: FakeTgpu) -> None:
    with Client() as client:
        first = client.submit(["sleep", "1"], gpu_request=2)
        client.submit("sleep 1")
    assert (first["job_id"], first["gpu_request"]) == (1, 2)
    keys = {request["headers"]["Idempotency-Key"] for request in server.asked("POST", "/jobs")}
    assert len(keys) == 2


def test_a_submission_that_was_not_answered_is_sent_again_under_the_same_key(server: FakeTgpu) -> None:
    server.deaf_to = 1
    assert Client().submit("sleep 1")["job_id"] == 1
    keys = [request["headers"]["Idempotency-Key"] for request in server.asked("POST", "/jobs")]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_many_jobs_go_in_one_request(server: FakeTgpu) -> None:
    assert Client().submit_many([{"command": "a"}, {"command": "b"}]) == [1, 2]
    assert server.submitted() == [{"jobs": [{"command": "a"}, {"command": "b"}]}]


def test_jobs_come_page_after_page_up_to_the_limit(server: FakeTgpu) -> None:
    server.jobs = {n: a_job(n) for n in range(1, 1201)}
    client = Client()
    assert [job["job_id"] for job in client.jobs(order="oldest")] == list(range(1, 1201))
    assert [job["job_id"] for job in client.jobs(limit=2)] == [1200, 1199]
    client.close()


def test_a_refusal_carries_the_server_s_words(server: FakeTgpu) -> None:
    server.fixed["/stats"] = Refusal(403, "ask an administrator", "forbidden")
    with pytest.raises(TgpuError) as caught:
        Client().stats()
    error = caught.value
    assert (error.status, error.title, str(error)) == (403, "Refused", "ask an administrator")
    assert error.problem["type"] == "urn:tgpu:problem:forbidden"


def test_waiting_ends_with_the_event_and_asks_seldom(
    server: FakeTgpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_FIRST_QUIET_S", 1000.0)  # a poll comes too late for this test
    monkeypatch.setitem(waiting.nudges.__kwdefaults__, "longest_quiet_s", 1000.0)
    server.jobs = {1: a_job(1, status="running")}
    later(0.3, lambda: server.change(1, "succeeded", **DONE))
    with Client() as client:
        assert client.wait(1)[0]["status"] == "completed"
    assert len(server.asked("GET", "/jobs/1")) <= 4


def test_waiting_for_one_task_asks_nothing_when_others_end(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running")}
    task = {"task_id": "1.9", "task_index": 4, "status": "running"}
    server.fixed["/jobs/1/tasks"] = {"tasks": [task], "next_cursor": None}

    def others_end_and_then_it() -> None:
        for position in range(5, 25):
            server.change(1, "succeeded", task_index=position)
            time.sleep(0.02)
        server.fixed["/jobs/1/tasks"] = {"tasks": [task | DONE], "next_cursor": None}
        server.change(1, "succeeded", task_index=4)

    later(0.2, others_end_and_then_it)
    with Client() as client:
        assert client.wait("1.9", timeout=20)[0]["status"] == "completed"
    assert len(server.asked("GET", "/jobs/1/tasks")) <= 4


def test_a_job_that_ended_before_needs_no_feed(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, **DONE)}
    Client().wait(1)
    assert server.asked("GET", "/events") == []


def test_waiting_for_many_returns_them_in_the_order_asked(server: FakeTgpu) -> None:
    server.jobs = {n: a_job(n, status="running") for n in (1, 2, 3)}
    for n in (2, 3, 1):
        later(0.1 * n, lambda n=n: server.change(n, "succeeded", **DONE))
    assert [job["job_id"] for job in Client().wait([3, 1, 2])] == [3, 1, 2]


def test_an_end_whose_event_is_lost_is_found_all_the_same(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running")}
    later(0.2, lambda: server.jobs.update({1: a_job(1, **DONE)}))
    assert Client().wait(1, timeout=10)[0]["status"] == "completed"


def test_waiting_goes_on_while_the_server_restarts(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running")}
    away: list[str] = []

    def crash_and_end_meanwhile() -> None:
        server.stop()
        server.jobs[1] |= DONE
        later(0.8, server.start)

    later(0.2, crash_and_end_meanwhile)
    assert Client().wait(1, timeout=20, on_away=away.append)[0]["status"] == "completed"
    assert away


def test_waiting_gives_up_when_told_to(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1), 2: a_job(2, **DONE)}
    with pytest.raises(WaitTimeoutError) as caught:
        Client().wait([1, 2], timeout=0.3)
    assert caught.value.job_ids == [1]


def test_waiting_for_a_job_that_does_not_exist_is_an_error_at_once(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1)}
    with pytest.raises(TgpuError, match="there is no job 9"):
        Client().wait([1, 9])


def test_following_prints_everything_once_although_the_server_restarts(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running", attempts=[an_attempt()])}
    server.logs[1, "stdout"] = b"one\n"
    seen: list[bytes] = []

    def crash_and_go_on() -> None:
        server.stop()
        server.logs[1, "stdout"] += b"two\n"
        server.start()
        later(0.3, finish)

    def finish() -> None:
        server.logs[1, "stdout"] += b"three\n"
        server.change(1, "succeeded", **DONE)

    later(0.3, crash_and_go_on)
    seen.extend(Client().logs(1, follow=True))
    assert b"".join(seen) == b"one\ntwo\nthree\n"


def test_following_a_job_that_waits_begins_when_it_starts(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1)}
    server.logs[1, "stdout"] = b"here\n"
    later(0.2, lambda: server.change(1, "started", status="running", attempts=[an_attempt()]))
    later(0.4, lambda: server.change(1, "succeeded", **DONE))
    assert b"".join(Client().logs(1, follow=True)) == b"here\n"


def test_the_output_of_an_array_is_asked_for_by_index(server: FakeTgpu) -> None:
    shown = [{"task_index": at, "array_index": at + 5, "status": "running"} for at in range(2)]
    server.jobs = {1: a_job(1, array="5-6", tasks=2, task_list=shown), 2: a_job(2, tasks=2)}
    server.task_logs[1, 6] = b"six\n"
    server.logs[2, "stdout"] = b"the first's\n"
    client = Client()
    assert b"".join(client.logs("1.6")) == b"".join(client.logs(1, task=6)) == b"six\n"
    assert b"".join(client.logs(2)) == b"the first's\n"
    with pytest.raises(TgpuError, match=r"^job 1 has several .*: say which, such as task=5 or '1\.5'$"):
        client.logs(1)
    with pytest.raises(ValueError, match=r"^'1\.x' names no task: a job is 42, .* '42\.7'$"):
        client.logs("1.x")
    with pytest.raises(ValueError, match=r"^'1\.6' names task 6, and task=5 another: keep one of them$"):
        client.logs("1.6", task=5)


def test_following_a_job_that_never_starts_ends_with_it(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1)}
    later(0.2, lambda: server.change(1, "cancelled", status="cancelled"))
    assert list(Client().logs(1, follow=True)) == []


def test_events_go_on_after_a_restart(server: FakeTgpu) -> None:
    events = Client().events(after=0)
    later(0.2, lambda: server.change(1, "submitted"))
    assert next(events)["kind"] == "submitted"
    server.stop()
    server.start()
    later(1.5, lambda: server.change(1, "started"))
    assert next(events)["kind"] == "started"


def test_a_page_is_asked_for_only_when_the_one_before_was_dealt_with(server: FakeTgpu) -> None:
    server.jobs = {n: a_job(n) for n in range(1, 26)}
    with Client() as client:
        pages = client.job_pages(size=10, user="me")
        assert [job["job_id"] for job in next(pages)] == list(range(25, 15, -1))
        assert len(server.asked("GET", "/jobs")) == 1
        assert [len(page) for page in pages] == [10, 5]


def test_each_part_of_a_large_submission_is_told_when_it_is_durable(server: FakeTgpu) -> None:
    told: list[int] = []
    with Client() as client:
        ids = client.submit_many([{"command": "a"}] * 10_001, on_recorded=lambda some: told.append(len(some)))
    assert (len(ids), told, len(server.submitted())) == (10_001, [10_000, 1], 2)


def test_a_follower_hears_once_which_bytes_were_dropped_while_it_was_away(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running", attempts=[an_attempt()])}
    server.logs = {(1, "stdout"): b"one\n"}
    lost: list[tuple[int, int]] = []

    def restart() -> None:
        server.stop()
        server.logs[1, "stdout"] += b"gone\nlast\n"
        server.kept_from = len(b"one\ngone\n")
        server.change(1, "succeeded", **DONE)
        server.start()

    later(0.4, restart)
    with Client() as client:
        output = Output(client, 1, "stdout", on_lost=lambda first, end: lost.append((first, end)))
        assert b"".join(output.follow()) == b"one\nlast\n"
    assert lost == [(4, 9)]


def test_a_number_that_json_does_not_have_is_told_before_anything_is_sent(server: FakeTgpu) -> None:
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        Client().submit(["true"], cpu_request=float("nan"))
    assert server.submitted() == []


def test_chunks_of_output_have_their_times(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="completed", attempts=[an_attempt(status="ended")])}
    server.logs = {(1, "stdout"): b"one\n\xfftwo\n"}
    server.log_times = {(1, "stdout"): [(4, "2026-01-31T12:00:01.000000Z")]}
    expected = [(None, b"one\n"), ("2026-01-31T12:00:01.000000Z", b"\xfftwo\n")]
    assert list(Client().log_chunks(1)) == expected
    assert list(Client().log_chunks(1, follow=True)) == expected
    server.knows_formats = False
    assert list(Client().log_chunks(1)) == [(None, b"one\n\xfftwo\n")]
