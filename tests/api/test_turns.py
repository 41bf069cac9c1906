"""Requests that read a lot take turns."""

import asyncio
from contextlib import AbstractAsyncContextManager

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tgpu.api.problems import ProblemError
from tgpu.api.routes import graph
from tgpu.api.turns import AT_ONCE, MOST_WAITING, PAGES_AT_ONCE, Turns


def test_each_user_has_one_turn_and_all_together_a_few() -> None:
    async def story() -> None:
        turns, inside, most = Turns(), list[str](), 0
        go_on = asyncio.Event()

        async def request(user: str) -> None:
            nonlocal most
            async with turns.turn(user):
                inside.append(user)
                most = max(most, len(inside))
                assert inside.count(user) == 1
                await go_on.wait()
                inside.remove(user)

        crowd = [asyncio.create_task(request("ann")) for _ in range(MOST_WAITING + 1)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="wait already"):
            await request("ann")
        crowd += [asyncio.create_task(request(user)) for user in ("bob", "cid", "dan")]
        while len(inside) < AT_ONCE:  # noqa: ASYNC110  it is the code under test that goes on
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*crowd)
        assert most == AT_ONCE
        await request("ann")

    asyncio.run(story())


def test_each_user_has_a_few_pages_under_way_and_waits_for_no_other_user() -> None:
    async def story() -> None:
        turns, inside, go_on = Turns(), list[str](), asyncio.Event()

        async def request(user: str) -> None:
            async with turns.page(user):
                inside.append(user)
                await go_on.wait()

        crowd = [asyncio.create_task(request("ann")) for _ in range(100)]
        await asyncio.sleep(0)
        assert inside == ["ann"] * PAGES_AT_ONCE
        crowd.append(asyncio.create_task(request("bob")))
        await asyncio.sleep(0)
        assert inside == [*["ann"] * PAGES_AT_ONCE, "bob"]
        go_on.set()
        await asyncio.gather(*crowd)
        assert len(inside) == 101

    asyncio.run(story())


def test_list_of_jobs_waits_for_earlier_ones_of_its_user(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    async def taken() -> list[AbstractAsyncContextManager[None]]:
        pages = [server.services.turns.page(me) for _ in range(PAGES_AT_ONCE)]
        for page in pages:
            await page.__aenter__()
        return pages

    pages = server.run(taken())
    with pytest.raises(httpx.ReadTimeout):
        client.get("/jobs", timeout=0.2)
    assert client.get("/whoami").status_code == 200
    for page in pages:
        server.run(page.__aexit__(None, None, None))
    assert client.get("/jobs").status_code == 200


def test_graph_ends_after_some_steps(
    server: ServerUnderTest, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_MOST_STEPS", 2)
    for number in range(1, 7):
        needs = {"after": [f"afterok:{number - 1}"]} if number > 1 else {}
        assert client.post("/jobs", json={"command": "x", "cwd": "/", **needs}).status_code == 201
    drawn = client.get("/graph", params={"ids": "1"}).json()
    assert ([job["job_id"] for job in drawn["jobs"]], drawn["cut"]) == ([1, 2, 3], True)
    drawn = client.get("/graph", params={"ids": "4"}).json()
    assert ([job["job_id"] for job in drawn["jobs"]], drawn["cut"]) == ([2, 3, 4, 5, 6], True)
    drawn = client.get("/graph", params={"ids": "3,5"}).json()
    assert ([job["job_id"] for job in drawn["jobs"]], drawn["cut"]) == ([1, 2, 3, 4, 5, 6], False)
    asked: list[int] = []
    real = server.store.needs_around

    async def counted(job_ids: list[int]) -> object:
        asked.append(len(job_ids))
        return await real(job_ids)

    monkeypatch.setattr(server.store, "needs_around", counted)
    client.get("/graph", params={"ids": "1"})
    assert len(asked) == 3
