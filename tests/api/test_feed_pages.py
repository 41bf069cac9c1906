"""Pages of events that several streams read together."""

import asyncio

import pytest

from tgpu.api.feed import Feed, Page


def test_page_is_read_once_for_streams_at_the_same_place_and_not_kept() -> None:
    feed, reads = Feed(), list[int]()

    async def read() -> Page:
        reads.append(1)
        await asyncio.sleep(0)
        return 7, ()

    async def story() -> None:
        await asyncio.gather(*(feed.page(7, read) for _ in range(3)))
        await asyncio.sleep(0)

    asyncio.run(story())
    assert (len(reads), feed._reads) == (1, {})


def test_failed_read_is_repeated_by_the_next_stream() -> None:
    feed, failures = Feed(), [ConnectionError("away")]

    async def read() -> Page:
        if failures:
            raise failures.pop()
        return 7, ()

    async def story() -> Page:
        with pytest.raises(ConnectionError):
            await feed.page(7, read)
        await asyncio.sleep(0)
        return await feed.page(7, read)

    assert asyncio.run(story()) == (7, ())
