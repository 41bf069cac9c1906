"""The story that the store tells afterwards, played again: what was promised at each moment?"""

import asyncio
from collections import Counter
from dataclasses import replace

from tgpu.core.invariants import Charged, overcharges, violations
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Event, Job, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Status
from tgpu.domain.node import Node
from tgpu.domain.priority import TERMS
from tgpu.domain.quota import Standing
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Store
from tgpu.store.postgres import PostgresStore

FINAL = {"succeeded", "failed", "cancelled"}
LEAVES = FINAL | {"requeued", "preempted", "lost", "gone"}
MOST_ATTEMPTS = 1000


def _task(event: Event) -> TaskId:
    return TaskId(event.job_id, event.task_index or 0)


class Story:
    """Every job, node and event of a cluster that has come to rest."""

    def __init__(self, url: str) -> None:
        self.jobs: dict[int, Job] = {}
        self.nodes: list[Node] = []
        self.events: list[Event] = []
        asyncio.run(self._read(url))

    async def _read(self, url: str) -> None:
        store: Store = await PostgresStore.open(url)
        try:
            self.nodes = await store.nodes()
            cursor: int | None = None
            while page := await store.jobs(JobFilter(), Paging(limit=1000, cursor=cursor)):
                self.jobs |= {job.job_id: job for job in page}
                cursor = page[-1].job_id
            while more := await store.events(self.events[-1].seq if self.events else 0, 1000):
                self.events += more
            self.tenants = await store.tenants()
            self.used = {tenant.tenant_id: tenant.used for tenant in self.tenants}
        finally:
            await store.close()

    def ends(self) -> Counter[TaskId]:
        """How often each task came to a final state."""
        return Counter(_task(event) for event in self.events if event.kind in FINAL)

    def broken_promises(self) -> list[str]:
        """Capacity, at every step; each attempt counts for itself, whatever became of its task."""
        picture = Picture(Policy())
        for node in self.nodes:
            picture.set_node(node)
        found: list[str] = []
        for event in self.events:
            number = event.data.get("attempt")
            if not isinstance(number, int):
                continue
            # As if each attempt were a task of its own.
            alone = TaskId(event.job_id, MOST_ATTEMPTS * _task(event).task_index + number)
            if event.kind in {"assigned", "returned"}:
                picture.restore(self._placed(event, alone))
                found += violations(picture, [str(event.data["node_id"])])
            elif event.kind in LEAVES and alone in picture.placed:
                picture.release(alone)
        return found + [f"{task_id} still holds something" for task_id in picture.placed]

    def broken_quotas(self) -> list[str]:
        """Limits, at every step. What may burst is left out: events do not say whether it was charged; nor do
        they say when a task of a series got its row: such a one counts from its first node on."""
        found: list[str] = []
        living: dict[TaskId, Charged] = {}
        for event in self.events:
            spec = self.jobs[event.job_id].spec
            if TERMS[spec.priority_class].may_burst:
                continue
            task_id, takes_node = _task(event), event.kind in {"assigned", "returned"}
            starts = takes_node if spec.series is not None else event.kind == "submitted"
            if starts and task_id not in living:
                request = spec.groups[0].request
                living[task_id] = Charged(spec.tenant_id, request, Standing.CHARGED, has_node=takes_node)
            elif event.kind in FINAL:
                living.pop(task_id, None)
            elif (takes_node or event.kind in LEAVES) and task_id in living:
                living[task_id] = replace(living[task_id], has_node=takes_node)
            found += [
                f"after {event.seq}: {over}" for over in overcharges(self.tenants, list(living.values()))
            ]
        return found

    def _placed(self, event: Event, task_id: TaskId) -> Placed:
        spec = self.jobs[event.job_id].spec
        devices = event.data["devices"]
        assert isinstance(devices, list)
        brief = TaskBrief(
            task_id,
            Status.RUNNING,
            spec.groups[0].request,
            spec.user,
            spec.tenant_id,
            spec.name,
            spec.priority_class,
            spec.priority,
            submitted_ms=0,
            attempts=1,
            time_limit_s=None,
            max_wait_s=None,
            requeue=True,
            grace_s=None,
            cancel_by=None,
        )
        return Placed(
            brief,
            AttemptId(*task_id, 1),
            str(event.data["node_id"]),
            tuple(devices),
            AttemptState.RUNNING,
            started_ms=0,
        )
