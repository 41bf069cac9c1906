"""A graph of jobs that wait for each other: what it costs to decide who is ready, per edge.

Layers of jobs, each of which needs some of the layer before: submitted whole to a store on disk, read by a
leader, and then ended layer by layer. `decide` is the leader's share: reading the edges from the store,
entering them, and deciding each when the job at its other end is over. `end_to_end` has the store's commits
that end the jobs and release others in it, too.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from report import Case, at_most, figure
from tgpu.control.needs import Needs
from tgpu.control.series_book import SeriesBook
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.core.policy import named
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event, Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.needs import Need, NeedKind
from tgpu.store.port import Batch, Receipt, TaskClosed
from tgpu.store.sqlite import SqliteStore

JOBS, WIDTH, NEEDS = 10_000, 100, 5
QUICK_JOBS = 2_000
US_PER_EDGE = 50.0


def cases(*, quick: bool) -> list[Case]:
    return asyncio.run(_cases(QUICK_JOBS if quick else JOBS))


async def _cases(jobs: int) -> list[Case]:
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "tgpu.db", cluster_id="bench")
        try:
            return await _measured(store, jobs)
        finally:
            await store.close()


async def _measured(store: SqliteStore, jobs: int) -> list[Case]:
    epoch = await store.claim()
    specs = list(_graph(jobs))
    edges = sum(len(spec.needs) for spec in specs)
    began = time.perf_counter()
    await store.submit(specs, 1)
    submitted_s = time.perf_counter() - began
    picture, needs = Picture(named("fifo")), Needs()
    began = time.perf_counter()
    await _take_in(store, picture, needs)
    decided_s = time.perf_counter() - began
    committed_s = 0.0
    while picture.waiting:
        layer = sorted(picture.waiting)
        for task_id in layer:
            picture.remove_waiting(task_id)
        receipt = _ended(layer)
        began = time.perf_counter()
        needs.heard(receipt)
        turn = Turn(Batch(2), SeriesBook())
        needs.settle(picture, turn)
        decided_s += time.perf_counter() - began
        turn.batch.closed += [TaskClosed(each, Happening.CANCELLED, Cause.CANCELLED) for each in layer]
        began = time.perf_counter()
        await store.commit(epoch, turn.batch)
        committed_s += time.perf_counter() - began
    assert not list(picture.parked), "every job has had its turn"
    return [
        at_most("needs_decide", 1e6 * decided_s / edges, "us/edge", US_PER_EDGE),
        figure("needs_end_to_end", 1e6 * (decided_s + committed_s) / edges, "us/edge"),
        figure("needs_submit", submitted_s, "s"),
    ]


def _graph(jobs: int) -> Iterator[JobSpec]:
    """Each needs some of the layer before, evenly spread."""
    request = Request(cpu_milli=1000, user="ann")
    for place in range(jobs):
        layer, at = divmod(place, WIDTH)
        before = [(layer - 1) * WIDTH + (at * NEEDS + n) % WIDTH for n in range(NEEDS)] if layer else []
        needs = tuple(Need(NeedKind.OK, other, within=True) for other in before)
        yield JobSpec("ann", (Group(("true",), request),), name="node", needs=needs)


async def _take_in(store: SqliteStore, picture: Picture, needs: Needs) -> None:
    seq, more = 0, True
    while more:
        changes = await store.changes(seq)
        for task in changes.submitted:
            picture.add_waiting(task)
        needs.take_in(picture, changes)
        seq, more = changes.seq, changes.more


def _ended(layer: list[TaskId]) -> Receipt:
    """As if all of them had completed."""
    events = [Event(0, 2, Happening.SUCCEEDED.value, *task_id) for task_id in layer]
    return Receipt([], events, {})
