"""GET /timeline: attempts on nodes and devices in a window of time, and what is kept ahead."""

from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from tgpu.api.access import Sight, seen_by, sight_of
from tgpu.api.edge import decimal, optional_rfc3339, rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import LOOK
from tgpu.api.ports import NoLeaderError
from tgpu.api.problems import bad_request
from tgpu.api.reply import json_reply
from tgpu.api.window_nodes import keeps
from tgpu.domain.lifecycle import AttemptState, Cause, NodeState
from tgpu.domain.node import Node, as_counted
from tgpu.domain.views import PlannedStart, StartKind
from tgpu.store.cluster_port import WindowKind, WindowRow
from tgpu.store.job_filter import Seen
from tgpu.store.timeline_port import LoadBin, Occupation, TimelineFilter

MOST_ATTEMPTS = 20_000
_BINS = 96
_DAY_MS = 86_400_000
_LONGEST_MS = 400 * _DAY_MS
_MOST_NODES = 1000
_DEFAULT_NODES = 200


class TimelineDevice(msgspec.Struct, kw_only=True):
    index: int
    model: str


class TimelineNode(msgspec.Struct, kw_only=True):
    """A row of the timeline; its devices are the rows below it."""

    node_id: str
    pool: str
    status: NodeState
    devices: list[TimelineDevice]
    drained_at: str | None
    """Since when no new task starts there; null: new tasks start."""
    drain_reason: str


class TimelineAttempt(msgspec.Struct, kw_only=True):
    """An attempt with the node and the devices that it had."""

    attempt_id: str
    job_id: int
    task_index: int
    user_id: str
    tenant_id: str
    name: str
    status: AttemptState
    node_id: str
    devices: Sequence[int]
    gpu: int | float
    since: str
    """When it started; before that, when it was assigned to its node."""
    ended_at: str | None
    """Null while it holds its devices."""
    ends_by: str | None
    """Of a running attempt with a time limit: when that ends."""
    cause: Cause | None
    """Why it ended, or is being stopped."""
    failed: bool | None
    """It ended by itself, with an exit code other than 0; null: the caller may not see how it ended."""


class TimelinePlanned(msgspec.Struct, kw_only=True):
    """A pending task with the node and the devices that are kept for it."""

    kind: StartKind
    """`reservation`: a backfill reservation; `claim`: preempted attempts are leaving these devices."""
    job_id: int
    task_index: int
    user_id: str
    name: str
    node_id: str
    devices: Sequence[int]
    starts_by: str
    ends_by: str


class TimelineWindow(msgspec.Struct, kw_only=True):
    """Maintenance, or a reservation for a tenant."""

    window_id: int
    kind: WindowKind
    name: str
    tenant_id: str | None
    nodes: list[str]
    """Those of the page."""
    from_: str = msgspec.field(name="from")
    until: str


class TimelineLoad(msgspec.Struct, kw_only=True):
    """Finished attempts of a node, summed up: parts of the window that have some."""

    node_id: str
    bins: list[tuple[int, int, float, float]]
    """Number of the part, attempts, GPU-seconds, CPU-seconds."""


class Timeline(msgspec.Struct, kw_only=True):
    """A page of nodes with what ran on them, and what is kept ahead."""

    since: str
    until: str
    now: str
    nodes: list[TimelineNode]
    attempts: list[TimelineAttempt]
    planned: list[TimelinePlanned]
    windows: list[TimelineWindow]
    truncated: bool
    """There are more attempts than fit in an answer: finished ones are summed up in `load`."""
    bin_s: float
    """How long each of the parts is that `load` counts in."""
    load: list[TimelineLoad]
    planned_known: bool
    """False: no leader answered, so `planned` is empty."""
    complete: bool
    """False: jobs that the caller may not know of are left out."""
    node_count: int
    """Nodes on all pages."""
    next_cursor: str | None
    """Null on the last page."""


async def timeline(call: Call) -> Response:
    now_ms = call.services.now_ms()
    from_ms, until_ms = _window(call, now_ms)
    page, node_count, next_cursor = await _nodes(call)
    names = tuple(node.node_id for node in page)
    seen = await seen_by(call)
    where = TimelineFilter(from_ms, until_ms, names, seen)
    async with call.services.turns.turn(call.caller.user):
        found = await call.services.store.occupations(where, MOST_ATTEMPTS, _BINS, now_ms)
        planned, planned_known = await _planned(call, where, now_ms)
    return json_reply(
        Timeline(
            since=rfc3339(from_ms),
            until=rfc3339(until_ms),
            now=rfc3339(now_ms),
            nodes=[_node_out(node) for node in page],
            attempts=[_attempt_out(call, one) for one in found.attempts],
            planned=planned,
            windows=_windows_out(await call.services.store.windows(), page, where),
            truncated=found.is_summed,
            bin_s=max(1, -(-(until_ms - from_ms) // _BINS)) / 1000,
            load=_load_out(found.load),
            planned_known=planned_known,
            complete=seen is None,
            node_count=node_count,
            next_cursor=next_cursor,
        )
    )


def _window(call: Call, now_ms: int) -> tuple[int, int]:
    until_ms = call.query.time_ms("until", now_ms)
    until_ms = now_ms if until_ms is None else until_ms
    from_ms = call.query.time_ms("since", now_ms)
    from_ms = min(now_ms, until_ms) - _DAY_MS if from_ms is None else from_ms
    if not 0 <= from_ms < until_ms:
        raise bad_request("since must be before until")
    if until_ms - from_ms > _LONGEST_MS:
        raise bad_request(f"since and until must be at most {_LONGEST_MS // _DAY_MS} days apart")
    if until_ms > now_ms + _LONGEST_MS:
        raise bad_request(f"until must be at most {_LONGEST_MS // _DAY_MS} days ahead")
    return from_ms, until_ms


async def _nodes(call: Call) -> tuple[list[Node], int, str | None]:
    """The page of nodes, how many there are on all pages, and where the next one begins."""
    wanted, pools = frozenset(call.query.many("node_id")), frozenset(call.query.many("pool"))
    nodes = [
        node
        for node in await call.services.store.nodes()
        if (not wanted or node.node_id in wanted) and (not pools or node.pool in pools)
    ]
    nodes.sort(key=lambda node: as_counted(node.node_id))
    limit = call.query.whole("limit", 1, _MOST_NODES) or _DEFAULT_NODES
    after = call.query.one("cursor")
    first = 0
    if after is not None:
        first = sum(as_counted(node.node_id) <= as_counted(after) for node in nodes)
    page = nodes[first : first + limit]
    return page, len(nodes), page[-1].node_id if first + limit < len(nodes) else None


async def _planned(call: Call, where: TimelineFilter, now_ms: int) -> tuple[list[TimelinePlanned], bool]:
    if where.until_ms <= now_ms:
        return [], True
    try:
        starts = await call.services.live.planned_starts()
    except NoLeaderError:  # also an older leader, which does not know the question
        return [], False
    names = frozenset(where.node_ids or ())
    return [
        _planned_out(start)
        for start in starts
        if start.node_id in names and start.at_ms < where.until_ms and _is_seen(start, where.seen)
    ], True


def _is_seen(start: PlannedStart, seen: Seen | None) -> bool:
    return seen is None or seen.has(start.user, start.tenant_id)


def _node_out(node: Node) -> TimelineNode:
    drain = node.drain
    return TimelineNode(
        node_id=node.node_id,
        pool=node.pool,
        status=node.state,
        devices=[TimelineDevice(index=device.index, model=device.model) for device in node.capacity.devices],
        drained_at=None if drain is None else rfc3339(drain.since_ms),
        drain_reason="" if drain is None else drain.reason,
    )


def _attempt_out(call: Call, one: Occupation) -> TimelineAttempt:
    limit_s = one.time_limit_s if one.ended_ms is None and not one.is_starting else None
    sight = sight_of(one.user, one.tenant_id, call.caller, call.services.settings)
    return TimelineAttempt(
        attempt_id=str(one.attempt_id),
        job_id=one.attempt_id.job_id,
        task_index=one.attempt_id.task_index,
        user_id=one.user,
        tenant_id=one.tenant_id,
        name=one.name,
        status=_status(one),
        node_id=one.node_id,
        devices=one.devices,
        gpu=decimal(one.gpu_milli),
        since=rfc3339(one.started_ms),
        ended_at=optional_rfc3339(one.ended_ms),
        ends_by=None if limit_s is None else rfc3339(one.started_ms + 1000 * limit_s),
        cause=one.cause,
        failed=None if sight is Sight.OUTLINE else one.has_failed,
    )


def _status(one: Occupation) -> AttemptState:
    if one.ended_ms is not None:
        return AttemptState.ENDED
    if one.cause is not None:
        return AttemptState.STOPPING
    return AttemptState.ASSIGNED if one.is_starting else AttemptState.RUNNING


def _planned_out(start: PlannedStart) -> TimelinePlanned:
    return TimelinePlanned(
        kind=start.kind,
        job_id=start.task_id.job_id,
        task_index=start.task_id.task_index,
        user_id=start.user,
        name=start.name,
        node_id=start.node_id,
        devices=start.devices,
        starts_by=rfc3339(start.at_ms),
        ends_by=rfc3339(start.until_ms),
    )


def _windows_out(
    rows: Sequence[WindowRow], page: Sequence[Node], where: TimelineFilter
) -> list[TimelineWindow]:
    found = []
    for row in rows:
        if row.cancelled or row.from_ms >= where.until_ms or row.until_ms <= where.from_ms:
            continue
        names = [node.node_id for node in page if keeps(row, node)]
        if names:
            found.append(
                TimelineWindow(
                    window_id=row.window_id,
                    kind=row.kind,
                    name=row.name,
                    tenant_id=row.tenant_id,
                    nodes=names,
                    from_=rfc3339(row.from_ms),
                    until=rfc3339(row.until_ms),
                )
            )
    return found


def _load_out(load: Mapping[str, Mapping[int, LoadBin]]) -> list[TimelineLoad]:
    return [
        TimelineLoad(
            node_id=node_id,
            bins=[
                (at, part.attempts, part.gpu_ms / 1000, part.cpu_ms / 1000)
                for at, part in sorted(bins.items())
            ],
        )
        for node_id, bins in sorted(load.items())
    ]


_TEXT = {"type": "string"}
_EXAMPLE: dict[str, object] = {
    "since": "2030-01-30T12:00:00.000Z",
    "until": "2030-01-31T14:00:00.000Z",
    "now": "2030-01-31T12:00:00.000Z",
    "nodes": [
        {
            "node_id": "ws1",
            "pool": "default",
            "status": "ready",
            "devices": [{"index": 0, "model": "NVIDIA A100"}],
            "drained_at": None,
            "drain_reason": "",
        }
    ],
    "attempts": [
        {
            "attempt_id": "42.0.1",
            "job_id": 42,
            "task_index": 0,
            "user_id": "alice",
            "tenant_id": "lab",
            "name": "train",
            "status": "running",
            "node_id": "ws1",
            "devices": [0],
            "gpu": 1,
            "since": "2030-01-31T11:00:00.000Z",
            "ended_at": None,
            "ends_by": "2030-01-31T13:00:00.000Z",
            "cause": None,
            "failed": False,
        }
    ],
    "planned": [
        {
            "kind": "reservation",
            "job_id": 43,
            "task_index": 0,
            "user_id": "bob",
            "name": "eval",
            "node_id": "ws1",
            "devices": [0],
            "starts_by": "2030-01-31T13:00:00.000Z",
            "ends_by": "2030-01-31T14:00:00.000Z",
        }
    ],
    "windows": [
        {
            "window_id": 3,
            "kind": "maintenance",
            "name": "new fans",
            "tenant_id": None,
            "nodes": ["ws1"],
            "from": "2030-01-31T13:30:00.000Z",
            "until": "2030-01-31T18:00:00.000Z",
        }
    ],
    "truncated": False,
    "bin_s": 975.0,
    "load": [],
    "planned_known": True,
    "complete": True,
    "node_count": 1,
    "next_cursor": None,
}
ENDPOINTS = (
    Endpoint(
        "GET", "/timeline", timeline, LOOK, "nodes",
        "Show the timeline of nodes",
        "What ran on which devices of a page of nodes in a window of time, and, if the window reaches into "
        "the future, backfill reservations and claims of preempting jobs. Jobs that the caller may not know "
        f"of are left out. With more than {MOST_ATTEMPTS} attempts, finished ones are summed up per node.",
        {200: Answer("The timeline.", Timeline, _EXAMPLE)},
        params=(
            Param("since", "A time, or how long ago; a day before `until` or now.", _TEXT, "1d"),
            Param("until", "A time, also ahead of now; now by default.", _TEXT, "2030-01-31T14:00:00Z"),
            Param("node_id", "Only these nodes.", _TEXT, "ws1"),
            Param("pool", "Only nodes of these pools.", _TEXT, "default"),
            Param("limit", "Nodes per page.", {"type": "integer", "minimum": 1, "maximum": _MOST_NODES}, 200),
            Param("cursor", "The `next_cursor` of the page before.", _TEXT, "ws1"),
        ),
    ),
)  # fmt: skip
