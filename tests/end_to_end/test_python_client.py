"""The clients for Python against a whole tgpu."""

import asyncio
from typing import Any

import tgpu
from tests.end_to_end.whole_tgpu import Installation


def test_the_output_of_an_array_s_task_is_followed_by_its_index(shared: Installation) -> None:
    with tgpu.Client(f"unix://{shared.home}/run/tgpu.sock") as client:
        job = client.submit(["sh", "-c", "sleep 1; echo $TGPU_ARRAY_INDEX"], array="5-9")
        assert b"".join(client.logs(job["job_id"], task=7, follow=True)) == b"7\n"
        assert b"".join(client.logs(job["job_id"], task=9, follow=True)) == b"9\n"
        [ended] = client.wait(job["job_id"])
        assert ended["status"] == "completed"


def test_jobs_are_submitted_followed_and_cancelled_at_once(shared: Installation) -> None:
    async def story() -> Any:
        async with tgpu.AsyncClient(f"unix://{shared.home}/run/tgpu.sock") as client:
            quick, slow = await asyncio.gather(
                client.submit(["sh", "-c", "echo one; sleep 0.5; echo two"]),
                client.submit(["sleep", "300"]),
            )
            following = [piece async for piece in client.logs(quick["job_id"], follow=True)]
            waiting = asyncio.ensure_future(client.wait([quick["job_id"], slow["job_id"]]))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await client.cancel(slow["job_id"], now=True)
            ended = await asyncio.wait_for(waiting, 60)
            health, nodes = await asyncio.gather(client.health(), client.nodes())
            node = await client.node(nodes[0]["node_id"])
            return b"".join(following), [job["status"] for job in ended], health["status"], node["status"]

    assert asyncio.run(story()) == (b"one\ntwo\n", ["completed", "cancelled"], "ok", "ready")


def test_figures_and_the_description_of_the_api_can_be_read(shared: Installation) -> None:
    with tgpu.Client(f"unix://{shared.home}/run/tgpu.sock") as client:
        assert "# HELP" in client.metrics()
        assert client.openapi()["openapi"].startswith("3.1")
        assert any(event["kind"] == "submitted" for event in _first(client, 5))


def _first(client: tgpu.Client, count: int) -> list[dict[str, Any]]:
    client.submit("true")
    events = client.events(after=0, mine=True)
    return [next(events) for _ in range(min(count, 2))]
