"""The agent beside a server: its server vouches for it, unless the name is somebody else's."""

import asyncio
import json
from pathlib import Path

from tgpu.config.settings import Settings
from tgpu.protocol import node_keys
from tgpu.store.memory import MemoryStore
from tgpu.wiring import home, other_servers
from tgpu.wiring.home_link import HomeRing
from tgpu.wiring.other_servers import OtherServers


def test_a_server_vouches_for_the_agent_of_its_home_once() -> None:
    async def story() -> None:
        store = MemoryStore()
        ring, mine, theirs = HomeRing(store, lambda: 5), node_keys.new_key(), node_keys.new_key()
        assert await ring.refusal("n1", mine) is None
        assert await ring.refusal("n1", mine) is None
        assert await store.node_key_digest("n1") == node_keys.digest_of(mine)
        why = await ring.refusal("n1", theirs)
        assert why is not None
        assert "another machine of this cluster is called n1" in why
        assert await store.node_key_digest("n1") == node_keys.digest_of(mine)

    asyncio.run(story())


def test_a_server_leaves_word_of_the_others_and_keeps_those_that_went(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(home=tmp_path)
        home.prepare(settings)
        assert other_servers.read(settings) == OtherServers()
        urls = ("https://a:1", "https://own:1")
        keeping = asyncio.create_task(
            other_servers.keep_written(settings, "https://own:1", lambda: urls, "an authority")
        )
        await until_read(settings, OtherServers(("https://a:1",), "an authority"))
        urls = ("https://own:1", "https://b:1")
        await until_read(settings, OtherServers(("https://b:1", "https://a:1"), "an authority"))
        keeping.cancel()
        path = settings.run_dir / "servers.json"
        assert path.stat().st_mode & 0o777 == 0o600
        path.write_text(json.dumps({"urls": 3}))
        assert other_servers.read(settings) == OtherServers(), "what cannot be read is nobody"

    asyncio.run(story())


async def until_read(settings: Settings, expected: OtherServers) -> None:
    async with asyncio.timeout(60):
        while other_servers.read(settings) != expected:  # noqa: ASYNC110  a file is all there is to look at
            await asyncio.sleep(0.05)
