"""Real agents with one identity on real streams: the copy ends with the reason, the node stays."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.wiring.cluster_server import cluster
from tests.wiring.test_dialing import agent_of, until_at
from tgpu.agent.shell import Agent, AgentRefusedError
from tgpu.config.settings import Settings
from tgpu.control.alerts import NODES_COPIED
from tgpu.wiring.session_file import session_record


def test_copy_of_a_node_is_refused_while_the_node_is_connected(tmp_path: Path) -> None:
    homes = {name: Settings(home=tmp_path / name) for name in ("node", "copy")}
    homes["node"].agent_dir.mkdir(parents=True)
    with cluster(tmp_path, tls="off") as server:
        key = server.key_of("n1")

        def agent(name: str) -> Agent:
            return agent_of(
                server.dial("n1", key),
                key,
                server.store.cluster_id,
                instance=name,
                sessions=session_record(homes[name], "n1", key),
            )

        async def story() -> None:
            node = agent("node")
            working = asyncio.create_task(node.run())
            await until_at(server)
            async with asyncio.timeout(30):
                while not node.is_connected:  # noqa: ASYNC110  an agent tells nobody
                    await asyncio.sleep(0.01)
            session = server.hub.session_of("n1")
            await asyncio.to_thread(shutil.copytree, homes["node"].home, homes["copy"].home)
            with pytest.raises(AgentRefusedError, match="another agent is connected as node n1"):
                async with asyncio.timeout(60):
                    await agent("copy").run()
            assert server.hub.session_of("n1") == session
            assert not working.done()
            working.cancel()

        asyncio.run(story())
        told = server.hub.alerts(server.loop.time())[NODES_COPIED]
    assert told is not None
