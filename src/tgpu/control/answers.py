"""What the live picture can tell: why a task waits, who holds what, how the queues stand."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from tgpu.control.alerts import JOB_SET_ASIDE
from tgpu.control.deadlines import first_due, has_begun, waits_until
from tgpu.control.hub import Hub
from tgpu.control.loop import Control
from tgpu.control.overview import Heard, OverviewColumns
from tgpu.control.parked_reasons import why_parked, with_its_end, with_the_rest
from tgpu.control.planned_starts import PlannedStarts
from tgpu.control.previews import Previews, TooManyPreviewsError, held_back, store_restored
from tgpu.control.start_estimates import fallback
from tgpu.control.to_come import to_come
from tgpu.core.explain import explain, never_fits
from tgpu.core.giving_way import giving_way
from tgpu.core.kernel.shapes import WHOLE
from tgpu.core.never_gangs import gang_never_fits
from tgpu.core.picture import Picture, Place
from tgpu.core.queues import cluster_shares, queue_views
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request
from tgpu.domain.node import DeviceSigns, as_counted
from tgpu.domain.node_orders import NodeOrder, NodesOrdered
from tgpu.domain.overview import ClusterOverview
from tgpu.domain.preview import HypotheticalJob, StartPreview
from tgpu.domain.quota import Amounts
from tgpu.domain.start_estimate import ExpectedStart, StartInterval
from tgpu.domain.utilization import MeasuredSteps
from tgpu.domain.views import (
    Alert,
    ClusterShares,
    DeviceView,
    NodeDetail,
    NodeTask,
    NodeView,
    PlannedStart,
    QueueView,
    Reason,
    Why,
)
from tgpu.observe.logs import logger, trace_of
from tgpu.protocol.messages import NodeUse

ORDER_S = 8.0
"""How long an order may take until it is committed; less than another server waits for an answer."""


OVERVIEW_S = 0.5
"""How long a snapshot of the cluster is shown again."""
MOST_HEADS = 50
"""Queues whose first is told why it waits: each answer looks at the whole cluster."""
MOST_REASONS = 2


class NotLeadingError(Exception):
    """There is no picture to ask yet."""


class Answers:
    def __init__(self, term: Callable[[], Control | None], hub: Hub) -> None:
        """`term` is the control loop of this server's present term as leader, if it leads."""
        self._term = term
        self._hub = hub
        self._log = logger("answers")
        self._overview = OverviewColumns()
        self._made: dict[bool, tuple[ClusterOverview, float, Control]] = {}
        """The latest snapshot, without and with the terms of nodes."""
        self._previews = Previews(self._at_rest)
        self._planned = PlannedStarts()

    @property
    def _control(self) -> Control:
        control = self._term()
        if control is None or not control.leads:
            raise NotLeadingError("the scheduler is starting: try again shortly")
        return control

    async def _at_rest(self) -> Control:
        """Once no plan is being made beside the loop; whoever does not pause may then look at the picture."""
        while (control := self._control).planning.locked():
            async with control.planning:
                pass
        return control

    async def why(self, job_id: int) -> Why | None:
        control = await self._at_rest()
        if (fault := control.containment.jobs.get(job_id)) is not None:
            text = f"set aside, since the scheduler failed on it ({fault}): ask an administrator"
            return Why(job_id, True, f"waits: {text}", (Reason(JOB_SET_ASIDE, text),))
        picture, entry = control.picture, control.series.get(job_id)
        kept_back = set() if entry is None else entry.kept_back
        task_id = _asked_about(picture, job_id, () if entry is None else sorted(entry.live - kept_back))
        waits = picture.waiting.get(task_id)
        parked = [task for task in picture.parked.of_job(job_id) if task.task_id not in kept_back]
        why = explain(picture, control.policy, task_id, control.engine)
        if why is None and entry is not None and entry.to_come and not entry.live:
            why = Why(job_id, True, "waits: none of its tasks can be taken on now")
        if parked and waits is None:
            waits = parked[0]
            why = why_parked(waits, control.needs.waits_for(job_id), picture.now_ms)
        if why is not None and waits is not None:
            whole = None if entry is None or has_begun(picture, entry) else waits_until(entry)
            dues = [due for due in (first_due(waits, entry), whole) if due is not None]
            why = with_its_end(why, min(dues, default=None), picture.now_ms)
        elif why is not None and entry is not None:
            why = with_the_rest(why, entry)
        held = store_restored(control)
        if why is None or held is not None:
            return None if why is None or held is None else held_back(why, held)
        return replace(why, start=_expected_start(control, why)) if why.waiting else why

    async def expected_starts(self, job_ids: Sequence[int]) -> list[ExpectedStart | None]:
        """None of a job that the latest estimate does not know."""
        control = self._control
        if control.estimates is None:
            return [None] * len(job_ids)
        return control.estimates.of(job_ids, control.picture.now_ms)

    async def never_fits(self, requests: Sequence[Request]) -> list[str | None]:
        """Judged once per kind of request: a bulk of 10,000 alike costs one look."""
        picture = (await self._at_rest()).picture
        if len(requests) == 1:
            return [never_fits(requests[0], picture)]
        verdicts = {request: never_fits(request, picture) for request in set(requests)}
        return [verdicts[request] for request in requests]

    async def why_never(self, request: Request, tasks: int, tenant_id: str) -> str | None:
        return never_fits(request, (await self._at_rest()).picture, tenant_id, tasks)

    async def gang_never_fits(self, gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        return gang_never_fits(gang, members, (await self._at_rest()).picture)

    async def preview(self, jobs: Sequence[HypotheticalJob]) -> list[StartPreview]:
        try:
            return await self._previews.make(jobs)
        except TooManyPreviewsError as error:
            raise NotLeadingError(str(error)) from None

    async def nodes(self) -> list[NodeView]:
        now, picture = asyncio.get_running_loop().time(), (await self._at_rest()).picture
        places = sorted(picture.places.values(), key=lambda place: as_counted(place.node.node_id))
        return [self._node_or_fault(picture, place, now) for place in places]

    async def node(self, node_id: str) -> NodeDetail | None:
        now, picture = asyncio.get_running_loop().time(), (await self._at_rest()).picture
        place = picture.places.get(node_id)
        if place is None:
            return None
        gpu = picture.table.dimensions.gpu
        tasks = [
            NodeTask(
                attempt_id=placed.attempt_id,
                user=placed.task.user,
                tenant_id=placed.task.tenant_id,
                name=placed.task.name,
                priority_class=placed.task.priority_class,
                devices=placed.devices,
                cpu_milli=placed.task.request.cpu_milli,
                memory_mib=placed.task.request.memory_mib,
                gpu_milli=int(picture.table.charged(placed.task.task_id)[gpu]),
                state=placed.state,
                since_ms=placed.since_ms,
                time_limit_s=placed.task.time_limit_s,
            )
            for placed in place.attempts.values()
        ]
        return NodeDetail(self._node_or_fault(picture, place, now), tuple(tasks))

    async def overview(self, *, terms: bool = False) -> ClusterOverview:
        """One snapshot for a while, shared by all servers that ask."""
        control = await self._at_rest()
        now = asyncio.get_running_loop().time()
        if (known := self._made.get(terms)) is not None:
            made, at, of = known
            if of is control and now - at < OVERVIEW_S:
                return made
        heard = Heard(self._hub.use, self._hub.heard, now)
        made = self._overview.make(
            control.picture, control.series, heard, control.picture.now_ms, terms=terms
        )
        self._made[terms] = made, now, control
        self._made[False] = replace(made, terms=None), now, control
        return made

    async def measured(self, from_ms: int, node_id: str | None) -> MeasuredSteps:
        """What agents measured, of a node or of all; empty of a node that is not known."""
        control = self._control
        if node_id is None:
            return control.samples.since(from_ms)
        place = control.picture.places.get(node_id)
        return MeasuredSteps() if place is None else control.samples.since(from_ms, place.node)

    def _node_or_fault(self, picture: Picture, place: Place, now: float) -> NodeView:
        """What cannot be shown of one node leaves the others as they are."""
        node_id = place.node.node_id
        try:
            return replace(self._node(picture, place, now), fault=self._hub.refusals.fault_of(node_id))
        except Exception as error:  # noqa: BLE001  whatever this node has said
            self._log.error("a node cannot be shown", node_id=node_id, trace=trace_of(error))
            fault = f"what its agent measured cannot be shown: {type(error).__name__}: {error}"
            return NodeView(place.node, Amounts(), (), tuple(place.attempts), None, fault=fault)

    def _node(self, picture: Picture, place: Place, now: float) -> NodeView:
        node_id = place.node.node_id
        use = self._hub.use.get(node_id)
        free = picture.left(node_id).gpu_free
        return NodeView(
            node=place.node,
            allocated=_allocated(place, picture),
            devices=tuple(self._device(place, position, left) for position, left in enumerate(free)),
            running=tuple(place.attempts),
            silent_s=None if place.reachable else round(now - self._hub.heard.get(node_id, now), 1),
            used_cpu_milli=use.cpu_milli if use else None,
            used_memory_mib=use.memory_mib if use else None,
            allocated_generic=_allocated_generic(place),
            copy=self._hub.copies.told_of(node_id, now),
            disk_shortage=place.shortage if place.reachable else "",
        )

    def _device(self, place: Place, position: int, left: int) -> DeviceView:
        index = place.node.capacity.devices[position].index
        use = self._hub.use.get(place.node.node_id) or NodeUse()
        holders = [
            (placed.task.task_id.job_id, placed.task.user)
            for placed in place.attempts.values()
            if index in placed.devices
        ]
        percent, memory_mib, signs = use.gpu_percent, use.gpu_memory_mib, use.gpu_signs
        return DeviceView(
            index=index,
            allocated_milli=WHOLE - max(0, left),  # a claim is on top of what its victims still hold
            holders=tuple(holders),
            busy_percent=percent[position] if position < len(percent) else None,
            memory_used_mib=memory_mib[position] if position < len(memory_mib) else None,
            signs=signs[position] if position < len(signs) else DeviceSigns(),
        )

    async def starting_note(self, job_id: int) -> str:
        """Of the first of its tasks that has one, by the word of the node that it is on."""
        picture = (await self._at_rest()).picture
        for node_id, attempt_id, note in self._hub.notes.of_job(job_id):
            placed = picture.live(attempt_id)
            if placed is not None and placed.node_id == node_id:
                return note
        return ""

    async def giving_way(self) -> list[int]:
        return giving_way((await self._at_rest()).picture)

    async def order_nodes(self, order: NodeOrder) -> NodesOrdered:
        try:
            return await asyncio.wait_for(self._control.order_nodes(order), ORDER_S)
        except TimeoutError:
            raise NotLeadingError(
                "the leader did not confirm it in time: look with `tgpu nodes` whether it was done"
            ) from None

    async def alerts(self) -> list[Alert]:
        return list(self._control.alerts.now)

    async def queues(self) -> list[QueueView]:
        control = await self._at_rest()
        views = queue_views(control.picture, to_come(control.series))
        return [await self._with_reasons(view) for view in views[:MOST_HEADS]] + views[MOST_HEADS:]

    async def planned_starts(self) -> Sequence[PlannedStart]:
        return self._planned.of(await self._at_rest())

    async def cluster_shares(self) -> ClusterShares:
        return cluster_shares((await self._at_rest()).picture)

    async def _with_reasons(self, view: QueueView) -> QueueView:
        """One at a time, so that others are served in between."""
        if view.head_job_id is None or view.head_reasons:
            return view
        why = await self.why(view.head_job_id)
        await asyncio.sleep(0)
        return view if why is None else replace(view, head_reasons=why.reasons[:MOST_REASONS])


def _expected_start(control: Control, why: Why) -> StartInterval | None:
    """By the latest projection or, before there is one, by the estimate from time limits."""
    now_ms = control.picture.now_ms
    known = None if control.estimates is None else control.estimates.of([why.job_id], now_ms)[0]
    if known is not None:
        return known.interval
    if why.starts_at_ms is None:
        return None
    reserved = any(each.task_ids[0].job_id == why.job_id for each in control.picture.reservations)
    return fallback(now_ms, why.starts_at_ms, reserved=reserved)


def _asked_about(picture: Picture, job_id: int, live: Sequence[TaskId]) -> TaskId:
    """Of several tasks the first that waits, or that there is. `live`: if somebody keeps a book of them."""
    gang = picture.gangs.get(job_id)
    if gang is not None:
        return min(gang.waiting or gang.running)
    first = TaskId(job_id, 0)
    if live:
        return next((task_id for task_id in live if task_id in picture.waiting), live[0])
    if first in picture.waiting or first in picture.placed:
        return first
    theirs = (task_id for tasks in (picture.waiting, picture.placed) for task_id in tasks)
    return next((task_id for task_id in theirs if task_id.job_id == job_id), first)


def _allocated_generic(place: Place) -> dict[str, int]:
    given = dict.fromkeys(place.node.capacity.generic, 0)
    for placed in place.attempts.values() if given else ():
        for name, amount in placed.task.request.generic:
            if name in given:  # what is not the node's own is the cluster's
                given[name] += amount
    return given


def _allocated(place: Place, picture: Picture) -> Amounts:
    """What attempts hold there; GPUs as tenants are charged for them, also those asked for by memory."""
    requests = [placed.task.request for placed in place.attempts.values()]
    gpu = picture.table.dimensions.gpu
    return Amounts(
        cpu_milli=sum(request.cpu_milli for request in requests),
        memory_mib=sum(request.memory_mib for request in requests),
        disk_mib=sum(request.disk_mib for request in requests),
        gpu_milli=sum(int(picture.table.charged(p.task.task_id)[gpu]) for p in place.attempts.values()),
    )
