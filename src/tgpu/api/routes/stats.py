"""The state of the whole in numbers: as JSON for people's tools, as text for Prometheus."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from tgpu.api.access import seen_by, sees_all, shown_tenants
from tgpu.api.edge import decimal, rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import LOOK
from tgpu.api.ports import NoLeaderError
from tgpu.api.reply import EXPOSITION_TYPE, json_reply
from tgpu.api.start_view import CalibrationOut, calibration
from tgpu.domain.lifecycle import NodeState, Status
from tgpu.domain.views import Alert, NodeView, Quantiles
from tgpu.observe.metrics import quantiles
from tgpu.store.port import StoreUnavailableError

_RECENT_JOBS = 1000


class Use(msgspec.Struct, kw_only=True):
    """One resource over all nodes that are up; `utilisation` is the part that is given out."""

    total: int | float
    allocated: int | float
    utilisation: float


class DeviceUse(msgspec.Struct, kw_only=True):
    """One GPU: the part given out, and the part of time it was busy, measured."""

    node_id: str
    index: int
    allocated: int | float
    busy_percent: int | None
    memory_used_mb: int | None


class Percentiles(msgspec.Struct, kw_only=True):
    """Seconds; null without any. Of waiting, running and completing: over the jobs of the cluster that run or
    ended last, 1,000 of each at most. Of deciding: over the latest scheduling cycles of the leader."""

    count: int
    p50: float | None
    p90: float | None
    p99: float | None


class AlertOut(msgspec.Struct, kw_only=True):
    """Something that is wrong now, and what to do about it."""

    name: str
    text: str
    since: str


class Stats(msgspec.Struct, kw_only=True):
    jobs: dict[Status, int]
    users: dict[str, dict[Status, int]]
    nodes: dict[NodeState, int]
    resources: dict[str, Use]
    devices: list[DeviceUse]
    wait_s: Percentiles
    run_s: Percentiles
    completion_s: Percentiles
    decision_s: Percentiles
    start_estimates: CalibrationOut
    alerts: list[AlertOut]


async def _nodes(call: Call) -> Sequence[NodeView]:
    try:
        return await call.services.live.nodes()
    except NoLeaderError:
        return ()  # the rest is still worth telling


async def _alerts(call: Call) -> list[AlertOut]:
    try:
        found = await call.services.live.alerts()
    except NoLeaderError as error:
        found = (Alert("no-leader", str(error), call.services.now_ms()),)
    shown = await shown_tenants(call)
    if shown is not None:
        found = [alert for alert in found if all(name in shown for name in alert.tenants)]
    found = [*found, *await _rules_to_nowhere(call)]
    return [AlertOut(name=alert.name, text=alert.text, since=rfc3339(alert.since_ms)) for alert in found]


async def _rules_to_nowhere(call: Call) -> list[Alert]:
    """Of the setting `tenant_rules`; kept from those from whom tenants are."""
    if not sees_all(call.caller, call.services.settings):
        return []
    return [
        Alert(
            "tenant-rule",
            f"the rule {rule} of the setting tenant_rules points to a tenant that does not exist: correct "
            f"it, or add the tenant: tgpu tenants add {rule.certain_id}",
            call.services.now_ms(),
        )
        for rule in call.book.rules_without_tenant(await call.book.pages())
    ]


async def _decisions(call: Call) -> Quantiles:
    """The leader's; of an older leader that does not report them, none."""
    try:
        return await call.services.live.decisions()
    except NoLeaderError:
        return Quantiles()


async def _times(call: Call) -> dict[str, Quantiles]:
    found = await call.services.store.recent_times(_RECENT_JOBS)
    pairs: dict[str, list[tuple[int | None, int | None]]] = {
        "wait_s": [(job.submitted_ms, job.started_ms) for job in found],
        "run_s": [(job.started_ms, job.ended_ms) for job in found],
        "completion_s": [(job.submitted_ms, job.ended_ms) for job in found if job.started_ms is not None],
    }
    return {
        name: quantiles(
            max(0, until - since) / 1000 for since, until in each if since is not None and until is not None
        )
        for name, each in pairs.items()
    }


async def stats(call: Call) -> Response:
    counts = await call.services.store.counts(await seen_by(call))
    views = await _nodes(call)
    users: dict[str, dict[Status, int]] = {}
    for (user, status), number in counts.live_by_user.items():
        users.setdefault(user, {})[status] = number
    answer = Stats(
        jobs={status: counts.by_status.get(status, 0) for status in Status},
        users=users,
        nodes={state: sum(view.node.state is state for view in views) for state in NodeState},
        resources=_resources(views),
        devices=_devices(views),
        alerts=await _alerts(call),
        start_estimates=await calibration(call),
        **{
            name: msgspec.convert(found, Percentiles, from_attributes=True)
            for name, found in ((await _times(call)) | {"decision_s": await _decisions(call)}).items()
        },
    )
    return json_reply(answer)


def _resources(views: Sequence[NodeView]) -> dict[str, Use]:
    up = [view for view in views if view.node.state is not NodeState.OFFLINE]
    sums = {
        name: (
            sum(getattr(view.node.capacity, field) for view in up),
            sum(getattr(view.allocated, field) for view in up),
        )
        for name, field in (
            ("cpu", "cpu_milli"),
            ("mem_mb", "memory_mib"),
            ("disk_mb", "disk_mib"),
            ("gpu", "gpu_milli"),
        )
    }
    return {
        name: Use(
            total=decimal(total) if name in ("cpu", "gpu") else total,
            allocated=decimal(given) if name in ("cpu", "gpu") else given,
            utilisation=round(given / total, 4) if total else 0.0,
        )
        for name, (total, given) in sums.items()
    }


def _devices(views: Sequence[NodeView]) -> list[DeviceUse]:
    return [
        DeviceUse(
            node_id=view.node.node_id,
            index=device.index,
            allocated=decimal(device.allocated_milli),
            busy_percent=device.busy_percent,
            memory_used_mb=device.memory_used_mib,
        )
        for view in views
        for device in view.devices
    ]


async def metrics(call: Call) -> Response:
    try:
        text = await _measured(call)
    except StoreUnavailableError:
        text = call.services.metrics.without_store()
    return Response(text, media_type=EXPOSITION_TYPE)


async def _measured(call: Call) -> bytes:
    shown = await shown_tenants(call)
    if not call.services.live.leads:
        await call.services.store.leader()  # only to know that the store is there
        return call.services.metrics.of_a_follower(shown)
    counts = await call.services.store.counts(await seen_by(call))
    nodes = await _nodes(call)
    return call.services.metrics.exposition(counts.by_status, counts.live_by_user, nodes, shown)


_SCORE = {"count": 412, "inside": 0.83, "median_error_s": 95.0}
_PERCENTILES = {"count": 10, "p50": 1.0, "p90": 2.0, "p99": 3.0}
ENDPOINTS = (
    Endpoint(
        "GET",
        "/stats",
        stats,
        LOOK,
        "service",
        "Show statistics",
        "Jobs by status and user, utilisation per resource and GPU, how long jobs waited and ran, how well "
        "their starts were estimated, and what is wrong now.",
        {
            200: Answer(
                "The statistics.",
                Stats,
                {
                    "jobs": {"pending": 3, "running": 1},
                    "users": {"alice": {"running": 1}},
                    "nodes": {"ready": 1},
                    "resources": {"gpu": {"total": 8, "allocated": 2, "utilisation": 0.25}},
                    "devices": [
                        {
                            "node_id": "ws1",
                            "index": 0,
                            "allocated": 1,
                            "busy_percent": 80,
                            "memory_used_mb": 30000,
                        }
                    ],
                    "wait_s": _PERCENTILES,
                    "run_s": _PERCENTILES,
                    "completion_s": _PERCENTILES,
                    "decision_s": _PERCENTILES,
                    "start_estimates": {
                        **_SCORE,
                        "target": 0.8,
                        "by_horizon": {
                            "under-10m": _SCORE,
                            "under-1h": {"count": 0, "inside": None, "median_error_s": None},
                        },
                    },
                    "alerts": [],
                },
            )
        },
    ),
    Endpoint(
        "GET",
        "/metrics",
        metrics,
        LOOK,
        "service",
        "Show metrics",
        "Everything that is measured, in Prometheus' text format; jobs, users and alerts of tenants that the "
        "caller may know of. While the store is away only `tgpu_store_up 0` and `tgpu_leads 0` are told.",
        {
            200: Answer(
                "The metrics.", example='tgpu_jobs{status="running"} 1.0\n', media_type=EXPOSITION_TYPE
            )
        },
    ),
)
