"""Pages of events that several streams read together."""

import asyncio

import pytest

from tgpu.api.feed import Feed


async def test_page_is_read_once_for_streams_at_the_same_place_and_not_kept() -> None:
    feed, reads = Feed(), list[int]()

    async def read() -> list[str]:
        reads.append(1)
        await asyncio.sleep(0)
        return ["an event"]

    await asyncio.gather(*(feed.page(7, read) for _ in range(3)))  # type: ignore[arg-type]
    assert (len(reads), feed._reads) == (1, {})


async def test_failed_read_is_repeated_by_the_next_stream() -> None:
    feed, failures = Feed(), [ConnectionError("away")]

    async def read() -> list[str]:
        if failures:
            raise failures.pop()
        return []

    with pytest.raises(ConnectionError):
        await feed.page(7, read)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert await feed.page(7, read) == []  # type: ignore[arg-type]
