"""Overview of the cluster, utilization over time, and what happens on one node."""

from typing import Any

import msgspec
from starlette.responses import Response

from tgpu.api.access import Sight, sight_of, visibility_of
from tgpu.api.allocation_cache import Key
from tgpu.api.edge import decimal, optional_decimal, rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import LOOK
from tgpu.api.overview_view import OverviewOut
from tgpu.api.ports import NoLeaderError
from tgpu.api.problems import bad_request, not_found
from tgpu.api.reply import JSON_TYPE, json_reply
from tgpu.api.routes.windows import WindowOut, window_out
from tgpu.api.window_nodes import keeps
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.priority import PriorityClass
from tgpu.domain.utilization import AllocationSteps, MeasuredSteps
from tgpu.domain.views import NodeTask

_DAY_MS = 24 * 3600 * 1000
_LONGEST_MS = 7 * _DAY_MS
_POINTS, _MOST_POINTS = 96, 500
_SHORTEST_STEP_MS = 60_000


async def overview(call: Call) -> Response:
    terms, visibility = call.query.flag("terms"), await visibility_of(call)
    document = await call.services.overview_documents.document(call.services.live, visibility, terms=terms)
    return Response(document, media_type=JSON_TYPE)


class Allocated(msgspec.Struct, kw_only=True):
    """What jobs held, on average in each step."""

    gpu: list[int | float]
    cpu: list[int | float]
    mem_mb: list[int]


class Measured(msgspec.Struct, kw_only=True):
    """What agents measured in each step; null where there is no sample. Samples are kept by the leader since
    it leads, for a day at most."""

    gpu_busy_percent: list[float | None]
    cpu: list[int | float | None]
    mem_mb: list[int | None]


class Utilization(msgspec.Struct, kw_only=True):
    """Steps of equal length; the last one ends now."""

    since: str
    until: str
    step_s: int
    node_id: str | None
    allocated: Allocated
    measured: Measured


async def utilization(call: Call) -> Response:
    query, services, now_ms = call.query, call.services, call.services.now_ms()
    since_ms = query.time_ms("since", now_ms)
    since_ms = now_ms - _DAY_MS if since_ms is None else since_ms
    if not now_ms - _LONGEST_MS - _DAY_MS // 24 <= since_ms < now_ms:
        raise bad_request("since must be in the past, and at most 7 days ago")
    points = query.whole("points", 1, _MOST_POINTS) or _POINTS
    node_id = query.one("node_id")
    minutes = -(-(now_ms - since_ms) // (points * _SHORTEST_STEP_MS))
    step_ms = max(1, minutes) * _SHORTEST_STEP_MS
    from_ms = since_ms // step_ms * step_ms
    held = await _held(call, (from_ms, step_ms, node_id), now_ms)
    try:
        measured = await services.live.measured(from_ms, node_id)
    except NoLeaderError:
        measured = MeasuredSteps()
    return json_reply(
        Utilization(
            since=rfc3339(from_ms),
            until=rfc3339(now_ms),
            step_s=step_ms // 1000,
            node_id=node_id,
            allocated=Allocated(
                gpu=[decimal(each) for each in held.gpu_milli],
                cpu=[decimal(each) for each in held.cpu_milli],
                mem_mb=held.memory_mib,
            ),
            measured=_in_steps(measured, held),
        )
    )


async def _held(call: Call, key: Key, now_ms: int) -> AllocationSteps:
    """As of some seconds ago, if it was asked for then."""
    services = call.services
    async with services.turns.turn(call.caller.user):
        held = services.allocations.get(key)
        if held is None:
            from_ms, step_ms, node_id = key
            held = await services.store.allocation(from_ms, now_ms, step_ms, node_id)
            services.allocations.put(key, held)
    return held


def _in_steps(found: MeasuredSteps, steps: AllocationSteps) -> Measured:
    """Averages of the samples in each step."""

    def averages(values: list[Any]) -> list[float | None]:
        sums = [[0.0, 0] for _ in steps.gpu_milli]
        for at, value in enumerate(values):
            step = (found.from_ms + at * found.step_ms - steps.from_ms) // steps.step_ms
            if value is not None and 0 <= step < len(sums):
                sums[step][0] += value
                sums[step][1] += 1
        return [total / count if count else None for total, count in sums]

    def whole(values: list[float | None]) -> list[int | None]:
        return [None if each is None else round(each) for each in values]

    return Measured(
        gpu_busy_percent=[
            None if each is None else round(each, 1) for each in averages(found.gpu_busy_percent)
        ],
        cpu=[optional_decimal(each) for each in whole(averages(found.cpu_milli))],
        mem_mb=whole(averages(found.memory_mib)),
    )


class NodeTaskOut(msgspec.Struct, kw_only=True):
    """A task that holds resources of the node, in the words of GET /timeline."""

    attempt_id: str
    job_id: int
    task_index: int
    user_id: str
    tenant_id: str
    name: str
    priority_class: PriorityClass
    status: AttemptState
    since: str
    """When it started; before that, when it was assigned to the node."""
    time_limit_s: int | None
    devices: list[int]
    gpu: int | float
    cpu: int | float
    mem_mb: int


class NodeActivity(msgspec.Struct, kw_only=True):
    """Tasks on a node, and the reservations and maintenance windows that keep it, now or later."""

    node_id: str
    tasks: list[NodeTaskOut]
    hidden_tasks: int
    """Tasks of jobs that the caller may not know of."""
    windows: list[WindowOut]


async def node_activity(call: Call) -> Response:
    node_id, services = call.path("node_id"), call.services
    found = await services.live.node(node_id)
    if found is None:
        raise not_found(f"there is no node {node_id[:100]!r}; `tgpu nodes` lists them")
    shown = [_task_out(call, task) for task in found.tasks]
    tasks = [task for task in shown if task is not None]
    now_ms = services.now_ms()
    windows = [
        window_out(row, now_ms)
        for row in await services.store.windows()
        if not row.cancelled and row.until_ms > now_ms and keeps(row, found.view.node)
    ]
    windows.sort(key=lambda window: window.from_)
    return json_reply(
        NodeActivity(
            node_id=node_id, tasks=tasks, hidden_tasks=len(found.tasks) - len(tasks), windows=windows
        )
    )


def _task_out(call: Call, task: NodeTask) -> NodeTaskOut | None:
    sight = sight_of(task.user, task.tenant_id, call.caller, call.services.settings)
    if sight is Sight.NOTHING:
        return None
    attempt = task.attempt_id
    return NodeTaskOut(
        attempt_id=str(attempt),
        job_id=attempt.job_id,
        task_index=attempt.task_index,
        user_id=task.user,
        tenant_id=task.tenant_id,
        name=task.name,
        priority_class=task.priority_class,
        status=task.state,
        since=rfc3339(task.since_ms),
        time_limit_s=task.time_limit_s,
        devices=list(task.devices),
        gpu=decimal(task.gpu_milli),
        cpu=decimal(task.cpu_milli),
        mem_mb=task.memory_mib,
    )


_AT = "2030-01-31T12:00:00.000Z"
_OVERVIEW_EXAMPLE: dict[str, object] = {
    "whole": True,
    "at": _AT,
    "nodes": {
        "name": ["ws1"], "pool": ["default"], "status": ["ready"], "gpus": [2],
        "cpu_total": [32], "cpu_allocated": [2.5], "cpu_used": [1.7],
        "mem_total_mb": [131072], "mem_allocated_mb": [16384], "mem_used_mb": [9000], "silent_since": [None],
    },
    "devices": {
        "index": [0, 1], "model": [0, 0], "allocated": [0.5, 0], "busy_percent": [80, None],
        "user": [0, -1], "job_id": [42, 0],
    },
    "models": ["NVIDIA A100"],
    "users": [{"user_id": "alice", "tenant_id": "lab"}],
    "flags": {"drained": [], "reserved": [], "maintenance": [], "disk_full": []},
    "health": {"unhealthy": [], "external": [1]},
    "queue": [{"priority_class": "default", "pending": 3, "oldest_since": _AT, "median_since": _AT}],
    "jobs": {"running": 1, "pending": 3, "held": 0},
    "resources": {"gpu": {"total": 2, "allocated": 0.5, "used": 0.8}},
    "alerts": [{"name": "gpu-foreign", "text": "GPU 1 of ws1 is used by others.", "since": _AT}],
}  # fmt: skip
_TASK_EXAMPLE: dict[str, object] = {
    "attempt_id": "42.0.1", "job_id": 42, "task_index": 0, "user_id": "alice", "tenant_id": "lab",
    "name": "train", "priority_class": "default", "status": "running", "since": _AT, "time_limit_s": 3600,
    "devices": [0], "gpu": 0.5, "cpu": 2, "mem_mb": 16384,
}  # fmt: skip
ENDPOINTS = (
    Endpoint(
        "GET",
        "/overview",
        overview,
        LOOK,
        "service",
        "Show the cluster at a glance",
        "Nodes and GPUs with their holders as columns, queues by priority class, resources and alerts, for a "
        "map of the cluster. GET /events?overview=true sends it first, and then what changes. Users and jobs "
        "that the caller may not know of are left out.",
        {200: Answer("The overview.", OverviewOut, _OVERVIEW_EXAMPLE)},
        params=(
            Param("terms", "With labels, taints and drain reasons of all nodes.", {"type": "boolean"}, True),
        ),
    ),
    Endpoint(
        "GET",
        "/utilization",
        utilization,
        LOOK,
        "stats",
        "Show utilization over time",
        "What jobs held (exact, from their attempts) and what agents measured, of the cluster or of one "
        "node, in steps of whole minutes. Samples are lost when another server becomes the leader.",
        {
            200: Answer(
                "The steps.",
                Utilization,
                {
                    "since": _AT, "until": _AT, "step_s": 900, "node_id": None,
                    "allocated": {"gpu": [1.5], "cpu": [4], "mem_mb": [16384]},
                    "measured": {"gpu_busy_percent": [71.5], "cpu": [3.2], "mem_mb": [9000]},
                },
            )
        },
        params=(
            Param("since", "A time, or how long ago (24h; at most 7d).", {"type": "string"}, "24h"),
            Param("node_id", "Of this node only.", {"type": "string"}, "ws1"),
            Param(
                "points", "About how many steps.",
                {"type": "integer", "minimum": 1, "maximum": _MOST_POINTS}, _POINTS,
            ),
        ),
    ),
    Endpoint(
        "GET",
        "/nodes/{node_id}/activity",
        node_activity,
        LOOK,
        "nodes",
        "Show tasks and windows of a node",
        "The tasks that hold resources of the node, of jobs that the caller may know of, and the windows "
        "that keep it now or later.",
        {
            200: Answer(
                "What is on it.",
                NodeActivity,
                {"node_id": "ws1", "tasks": [_TASK_EXAMPLE], "hidden_tasks": 0, "windows": []},
            )
        },
        errors=(404,),
        params=(
            Param("node_id", "The node's name.", {"type": "string"}, "ws1", where="path", required=True),
        ),
    ),
)  # fmt: skip
