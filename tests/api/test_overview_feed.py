"""Overview feed and documents: what is shared between callers, and how much of it is kept."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.control.control_story import picture_with, task
from tgpu.api import overview_documents, overview_feed
from tgpu.api.overview_documents import OverviewDocuments
from tgpu.api.overview_feed import OverviewFeed
from tgpu.api.visibility import Visibility
from tgpu.control.overview import MOST_STALE_NAMES, Heard, OverviewColumns
from tgpu.control.series_book import SeriesBook
from tgpu.domain.overview import ClusterOverview
from tgpu.domain.views import Alert


class Cluster:
    """The live scheduler, as far as overviews ask it."""

    def __init__(self) -> None:
        self.picture = picture_with(placed=[task(1)])
        self.asked: list[bool] = []
        self._columns = OverviewColumns()

    async def overview(self, terms: bool = False) -> ClusterOverview:
        self.asked.append(terms)
        self.picture.now_ms += 1000
        heard, now_ms = Heard({}, {}, 0.0), self.picture.now_ms
        return self._columns.make(self.picture, SeriesBook(), heard, now_ms, terms=terms)

    async def alerts(self) -> list[Alert]:
        return []


def of_user(number: int) -> Visibility:
    return Visibility(everyone=False, user=f"user{number}")


def test_overview_with_terms_is_made_once_for_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        cluster, documents = Cluster(), OverviewDocuments()
        now = 0.0
        monkeypatch.setattr(overview_documents, "monotonic", lambda: now)

        async def document(number: int, *, terms: bool) -> bytes:
            live: Any = cluster
            return await documents.document(live, of_user(number), terms=terms)

        first = await document(0, terms=True)
        assert [await document(0, terms=True) for _ in range(5)] == [first] * 5
        assert b'"labels"' in first
        assert b'"labels"' not in await document(0, terms=False)
        assert cluster.asked == [True, False]
        now += overview_documents.KEPT_S
        assert await document(0, terms=True) != first
        for number in range(overview_documents.MOST):
            await document(number + 1, terms=True)
        asked = len(cluster.asked)
        await document(0, terms=True)
        assert len(cluster.asked) == asked + 1, "few documents are kept"

    asyncio.run(story())


def test_names_that_no_node_has_any_more_leave_the_overview() -> None:
    async def story() -> None:
        cluster, node = Cluster(), Cluster().picture.places["n1"].node
        for number in range(MOST_STALE_NAMES + 50):
            devices = tuple(replace(each, model=f"GPU {number}") for each in node.capacity.devices)
            capacity = replace(node.capacity, devices=devices)
            cluster.picture.set_node(replace(node, capacity=capacity, pool=f"pool {number}"))
            found = await cluster.overview()
            assert len(found.nodes.pools) + len(found.devices.models) <= MOST_STALE_NAMES + 8
            assert found.devices.models[-1] == f"GPU {number}"

    asyncio.run(story())


def test_few_views_are_kept_and_every_stream_is_served_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_feed, "EVERY_S", 0.0)
    monkeypatch.setattr(overview_feed, "MOST_VIEWS", 3)
    monkeypatch.setattr(overview_feed, "CHANGED_PLACES", 1)

    async def stream(feed: OverviewFeed, source: Any, number: int) -> bytes:
        woken = asyncio.Event()
        with feed.subscription(source, woken.set) as subscription:
            while not (frame := subscription.next(of_user(number))):
                assert len(feed._views) <= 3
                await woken.wait()
                woken.clear()
            served.append(number)
            while len(served) < 10:  # it stays open while the others wait for their turn
                await asyncio.sleep(0)
                subscription.next(of_user(number))
            return frame

    served: list[int] = []

    async def story() -> None:
        feed, source = OverviewFeed(), SimpleNamespace(live=Cluster(), now_ms=lambda: 0)
        async with asyncio.timeout(60):
            frames = await asyncio.gather(*(stream(feed, source, number) for number in range(10)))
        assert all(b'"whole":true' in frame for frame in frames)
        assert sorted(served) == list(range(10))

    asyncio.run(story())
