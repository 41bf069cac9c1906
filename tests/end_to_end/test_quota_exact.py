"""Nobody is ever given more than a limit allows, and everything adds up, whatever happens at once."""

import asyncio
from pathlib import Path

import pytest

from tests.end_to_end.quota import watch
from tests.end_to_end.quota.places import one_server, three_servers
from tests.end_to_end.quota.proof import prove
from tgpu.store.sqlite import SqliteStore

SECONDS = 5


@pytest.mark.timeout(180)
def test_sixty_four_submitters_at_three_servers_on_postgresql() -> None:
    print(prove(three_servers, 64, seed=1, seconds=SECONDS))


@pytest.mark.timeout(180)
def test_sixteen_submitters_at_one_server_on_sqlite() -> None:
    print(prove(one_server, 16, seed=2, seconds=SECONDS))


def test_who_watches_would_have_seen_it(tmp_path: Path) -> None:
    path = tmp_path / "tgpu.db"

    async def found() -> None:
        await (await SqliteStore.open(path)).close()

    asyncio.run(found())
    with watch.sqlite(path) as database:
        database.query("UPDATE tenants SET gpu_milli_limit = 1000")
        assert (database.moment().wrong(), database.beyond()) == ([], [])
        database.query("UPDATE tenants SET gpu_milli_used = 1001, running = 1")
        assert database.moment().wrong() == [
            "default: gpu_milli is 1001 and 0, and what lives 0 and 0",
            "default: gpu_milli is 1001 and 0 of 1000",
            "default: running and waiting are (1, 0) instead of (0, 0)",
        ]
        database.query("UPDATE tenants SET gpu_milli_used = 0, running = 0")
        assert (database.moment().wrong(), database.beyond()) == ([], ["default"])
