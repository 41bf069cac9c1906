"""The same calls on asyncio: all of them, at once, and cancelled in the middle."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client.fake_tgpu import FakeTgpu, Refusal, a_job, an_attempt
from tgpu.aio import AsyncClient
from tgpu.client import Client, TgpuError, UnreachableError, WaitTimeoutError

DONE = {"status": "completed", "exit_code": 0, "attempts": [an_attempt(status="ended", exit_code=0)]}


def run(story: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def told() -> Any:
        async with AsyncClient() as client:
            return await story(client)

    return asyncio.run(told())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110  whatever it is
            await asyncio.sleep(0.005)


def public(kind: type) -> dict[str, Any]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name: call for name, call in members if not name.startswith("_")}


def test_it_has_every_call_of_the_plain_one_under_its_name() -> None:
    plain, made = public(Client), public(AsyncClient)
    assert plain.keys() == made.keys()
    for name in plain.keys() - {"close"}:
        assert made[name].__wrapped__ is plain[name], name
        iterates = "Iterator" in str(inspect.signature(plain[name]).return_annotation)
        assert inspect.isasyncgenfunction(made[name]) is iterates, name
        assert inspect.iscoroutinefunction(made[name]) is not iterates, name


def test_answers_pages_and_refusals_come_as_they_do_to_the_plain_one(server: FakeTgpu) -> None:
    server.jobs = {n: a_job(n) for n in range(1, 1201)}
    server.fixed["/stats"] = Refusal(403, "ask an administrator", "forbidden")

    async def story(client: AsyncClient) -> None:
        assert [job["job_id"] async for job in client.jobs(order="oldest")] == list(range(1, 1201))
        assert (await client.job(7))["job_id"] == 7
        with pytest.raises(TgpuError, match="ask an administrator"):
            await client.stats()

    run(story)


def test_many_waits_run_at_once_beside_other_calls_without_a_thread(
    server: FakeTgpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.jobs = {n: a_job(n, status="running") for n in range(1, 31)}
    here, started, start = threading.current_thread(), [], threading.Thread.start

    def recorded(thread: threading.Thread) -> None:
        if threading.current_thread() is here:  # the fake server starts its own from another one
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", recorded)

    async def story(client: AsyncClient) -> list[list[dict[str, Any]]]:
        waiting = asyncio.gather(*(client.wait(n, timeout=60) for n in server.jobs))
        await until(lambda: len(server.asked("GET", "/events")) == 30)
        assert (await client.job(1))["status"] == "running"
        for n in server.jobs:
            server.change(n, "succeeded", **DONE)
        return await waiting

    ended = run(story)
    assert [job["status"] for [job] in ended] == ["completed"] * 30
    assert started == []


def test_a_wait_that_is_cancelled_or_over_leaves_a_client_that_goes_on(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running")}

    async def story(client: AsyncClient) -> None:
        waiting = asyncio.ensure_future(client.wait(1))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.wait(1), 0.2)
        with pytest.raises(WaitTimeoutError):
            await client.wait(1, timeout=0.2)
        assert (await client.job(1))["status"] == "running"

    run(story)


def test_events_come_one_by_one_until_nobody_listens(server: FakeTgpu) -> None:
    server.jobs = {1: a_job(1, status="running")}

    async def story(client: AsyncClient) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(0.2, lambda: server.change(1, "succeeded", **DONE))
        async for event in client.events():
            return event
        raise AssertionError

    assert run(story)["job_id"] == 1


def test_without_a_server_it_says_what_to_do(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TGPU_HOME", str(tmp_path))
    monkeypatch.delenv("TGPU_SERVER", raising=False)
    with pytest.raises(UnreachableError, match="start it with `tgpu up`"):
        run(lambda client: client.whoami())
