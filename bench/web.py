"""The dashboard: its size, the map of a large cluster in Chromium, and what viewers cost the server.

`first_load` and `all_pages`: gzipped files that a browser loads for the overview, and all files. `drawn`: a
signed-in browser opens the overview of a cluster of simulated agents (10,000 with 8 GPUs each, a fifth held
by jobs of 20 tenants); from the navigation until the map is drawn. `redrawn`: one drawing of the map, median.
`viewers`: CPU of the server with 50 streams of the overview, less its CPU without, while the utilization of
every GPU changes every 5 s. With --quick the cluster has 200 nodes.
"""

import asyncio
import multiprocessing
import statistics
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from playwright.sync_api import Page

from browser import signed_in
from cluster_installation import Cluster, a_database
from fleet import Agents
from installation import wait_until
from report import Case, arguments, at_least, at_most, emit
from simulated_agents import GPUS
from tgpu.client import Client

DASHBOARD = Path(__file__).parents[1] / "src/tgpu/dashboard"
FIRST_LOAD_KB, ALL_PAGES_KB, DRAWN_S, VIEWERS, CORES = 100.0, 250.0, 1.0, 50, 0.2
_FIRST_DRAWN = """() => {
  const [first] = performance.getEntriesByName('gpu-map').filter((entry) => entry.detail.devices > 0);
  return first.startTime + first.duration;
}"""
_LOADED = """() => ['navigation', 'resource']
  .flatMap((type) => performance.getEntriesByType(type))
  .filter((entry) => new URL(entry.name).pathname.startsWith('/ui/'))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""
USERS = 20
"""Tenants, each with an array of its own."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    watch_s: float
    loads: int


FULL, QUICK = Size(10_000, 30, 5), Size(200, 4, 2)


def all_pages_kb() -> float:
    """Gzipped where the server has it so."""
    files = [path for path in DASHBOARD.rglob("*") if path.is_file() and path.suffix != ".gz"]
    zipped = [path.with_name(f"{path.name}.gz") for path in files]
    return (
        sum((gz if gz.exists() else path).stat().st_size for path, gz in zip(files, zipped, strict=True))
        / 1000
    )


def fill(client: Client, agents: Agents, nodes: int) -> None:
    """A fifth of all nodes are held, by tasks of 8 GPUs each: more would take minutes to place."""
    tasks = nodes // 5
    before = agents.tally().launched
    for number in range(USERS):
        tenant = f"team{number}"
        client.create_tenant(tenant_id=tenant)
        share = tasks // USERS + (number < tasks % USERS)
        job = {
            "cpu_request": 4,
            "gpu_request": GPUS,
            "cwd": "/",
            "tenant_id": tenant,
            "array": f"0-{share - 1}",
        }
        client.submit(["run"], **job)
    wait_until(
        lambda: agents.tally().launched >= before + tasks, "a fifth of the GPUs are held", 300, every_s=0.5
    )


def overview(page: Page, base: str, size: Size) -> list[Case]:
    drawn_s, loaded_kb, draws_ms = [], 0.0, []
    for _ in range(size.loads):
        page.goto(f"{base}/ui/")
        page.wait_for_function("() => performance.getEntriesByName('gpu-map').length >= 3")
        drawn_s.append(page.evaluate(_FIRST_DRAWN) / 1000)
        draws_ms += page.evaluate("performance.getEntriesByName('gpu-map').map(entry => entry.duration)")
        loaded_kb = page.evaluate(_LOADED) / 1000
    name = f"{size.nodes}_nodes"
    return [
        at_most("web_first_load_gzip", loaded_kb, "kB", FIRST_LOAD_KB),
        at_most("web_all_pages_gzip", all_pages_kb(), "kB", ALL_PAGES_KB),
        at_most(f"web_overview_drawn_{name}", statistics.median(drawn_s), "s", DRAWN_S),
        at_most(f"web_overview_redrawn_{name}", statistics.median(draws_ms) / 1000, "s", DRAWN_S / 4),
    ]


async def _view(port: int, token: str, counts: list[int]) -> None:
    """Reads a stream and counts its overview events; it decodes none, as that is the browser's work."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 2**20)
    head = ("GET /events?overview=true HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {token}")
    writer.write("\r\n".join([*head, "", ""]).encode())
    while piece := await reader.read(2**20):
        counts[0] += piece.count(b"event: overview")
        counts[1] += len(piece)


def _viewers(pipe: Connection, port: int, token: str) -> None:
    async def run() -> None:
        counts = [0, 0]
        streams = [asyncio.create_task(_view(port, token, counts)) for _ in range(VIEWERS)]
        while True:
            await asyncio.to_thread(pipe.recv)
            assert not any(stream.done() for stream in streams), "a stream has ended"
            pipe.send(tuple(counts))

    asyncio.run(run())


def viewers(cluster: Cluster, token: str, size: Size) -> list[Case]:
    server = cluster.leader

    def cores() -> float:
        began, used = time.monotonic(), server.cpu_s()
        time.sleep(size.watch_s)
        return (server.cpu_s() - used) / (time.monotonic() - began)

    without = cores()
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_viewers, args=(theirs, server.port, token), daemon=True)
    process.start()
    try:

        def counted() -> tuple[int, int]:
            pipe.send(None)
            frames, sent = pipe.recv()
            return frames, sent

        wait_until(lambda: counted()[0] >= 3 * VIEWERS, "all viewers follow", 60, every_s=0.5)
        (frames, sent), began = counted(), time.monotonic()
        with_viewers = cores()
        (more_frames, more_sent), took = counted(), time.monotonic() - began
    finally:
        process.kill()
        process.join()
    name = f"{VIEWERS}_viewers_{size.nodes}_nodes"
    return [
        at_most(f"web_{name}_cpu", with_viewers - without, "cores", CORES, without),
        at_least(f"web_{name}_updates", (more_frames - frames) / VIEWERS / took, "per s", 0.8),
        at_most(f"web_{name}_traffic", (more_sent - sent) / VIEWERS / took / 1000, "kB/s", 1000),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    assert (DASHBOARD / "index.html").exists(), "build the dashboard first: make web"
    size = QUICK if args.quick else FULL
    with a_database(size.nodes) as database, database.cluster() as cluster, Agents(cluster.urls) as agents:
        agents.join(cluster.nodes, size.nodes / 1000)
        with cluster.leader.client() as client:
            fill(client, agents, size.nodes)
            token = str(client.create_token()["token"])
            with signed_in(client) as (page, base):
                cases = overview(page, base, size)
            cases += viewers(cluster, token, size)
    emit(cases, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
