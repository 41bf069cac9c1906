"""The record by which a node is told from a copy of its home."""

import asyncio
from pathlib import Path

from tgpu.agent.session_record import MOST_UNCONFIRMED, SessionRecord
from tgpu.config.settings import Settings
from tgpu.wiring.session_file import session_record


def test_session_is_recorded_before_it_is_said_and_confirmed_afterwards() -> None:
    saved: list[tuple[int, ...]] = []

    async def save(kept: tuple[int, ...]) -> bool:
        saved.append(kept)
        return True

    async def story() -> None:
        record = SessionRecord(save=save)
        assert await record.offer(7) == (0,)
        assert saved[-1] == (0, 7)
        assert await record.offer(8) == (0, 7)
        await record.confirm(7)
        assert saved[-1] == (7, 8)
        await record.confirm(8)
        assert await record.offer(9) == (8,)
        for late in (7, None):
            await record.confirm(late)
        assert saved[-1] == (8, 9)

    asyncio.run(story())


def test_session_that_cannot_be_recorded_is_not_counted() -> None:
    async def fail(_kept: tuple[int, ...]) -> bool:
        return False

    async def story() -> None:
        record = SessionRecord((5,), fail)
        assert await record.offer(7) is None
        assert await record.offer(8) is None

    asyncio.run(story())


def test_record_does_not_grow_without_end() -> None:
    async def story() -> None:
        record = SessionRecord((5,))
        for number in range(10, 20 + MOST_UNCONFIRMED):
            await record.offer(number)
        known = await record.offer(0)
        assert known is not None
        assert (known[0], len(known)) == (5, 1 + MOST_UNCONFIRMED)

    asyncio.run(story())


def test_record_outlives_the_agent_but_not_a_new_key(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    settings.agent_dir.mkdir()

    async def story() -> None:
        assert await session_record(settings, "n1", "key").offer(7) == (0,)
        assert await session_record(settings, "n1", "key").offer(8) == (0, 7)
        assert await session_record(settings, "n1", "new key").offer(9) == (0,)
        (settings.agent_dir / "sessions.json").write_text("{")
        assert await session_record(settings, "n1", "key").offer(10) == (0,)

    asyncio.run(story())
    assert (settings.agent_dir / "sessions.json").stat().st_mode & 0o777 == 0o600
