"""What there is to run on, and who has it."""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from starlette.responses import Response

from tgpu.api.access import known_jobs
from tgpu.api.edge import decimal, optional_decimal, rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import LOOK
from tgpu.api.ports import NoLeaderError
from tgpu.api.problems import not_found
from tgpu.api.reply import json_reply
from tgpu.api.window_nodes import OpenWindow, is_open, open_on
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Device, DeviceSigns, Drain, Node
from tgpu.domain.quota import Amounts
from tgpu.domain.views import DeviceView, NodeView
from tgpu.store.cluster_port import Applicant, WindowRow


class HolderOut(msgspec.Struct, kw_only=True):
    """Who has a part of a GPU."""

    job_id: int
    user_id: str


class ForeignOut(msgspec.Struct, kw_only=True):
    """A process on a GPU that belongs to no job."""

    pid: int
    user: str
    program: str
    memory_mb: int | None


class DeviceOut(msgspec.Struct, kw_only=True):
    """One GPU: what it is, who has it, and what was measured."""

    index: int
    uuid: str
    model: str
    memory_mb: int
    healthy: bool
    numa_node: int | None
    island: int | None
    note: str
    allocated: int | float
    taken: bool
    """Whether a job has it or a part of it, also one that the caller may not know of."""
    holders: list[HolderOut]
    busy_percent: int | None
    memory_used_mb: int | None
    usable: bool
    """Whether something new may be put there: it is healthy, and not avoided for others who use it."""
    foreign: list[ForeignOut]
    temperature_c: int | None
    power_w: int | None
    throttled: str
    """Why it runs slower than it could, if it does."""
    ecc_uncorrected: int | None
    """Memory errors that could not be corrected since its driver was loaded, and (the next) ever."""
    ecc_uncorrected_ever: int | None
    minor: int | None
    """`/dev/nvidiaN`"""
    pci: str


class DrainOut(msgspec.Struct, kw_only=True):
    """Why nothing new starts on a node."""

    reason: str
    by: str
    since: str


class ApprovalOut(msgspec.Struct, kw_only=True):
    """A node that has joined and gets no work until an administrator approves it."""

    since: str
    token_id: int
    """The join token by which it joined."""
    address: str | None
    """From where; only for administrators."""


class NodeOut(msgspec.Struct, kw_only=True):
    """A machine that runs tasks."""

    node_id: str
    pool: str
    status: NodeState
    cpu_total: int | float
    mem_total_mb: int
    disk_total_mb: int
    gpu_total: int | float
    generic_total: Mapping[str, int]
    cpu_allocated: int | float
    mem_allocated_mb: int
    disk_allocated_mb: int
    gpu_allocated: int | float
    generic_allocated: Mapping[str, int]
    cpu_used: int | float | None
    mem_used_mb: int | None
    devices: list[DeviceOut]
    labels: Mapping[str, str]
    taints: Sequence[str]
    serves: str
    running: list[str]
    silent_s: float | None
    drain: DrainOut | None
    windows: list[OpenWindow]
    """Those that are open on it now."""
    refused_copy: str = ""
    """If an agent with a copy of this node's identity was refused lately: where, and what to do."""
    fault: str = ""
    """What is wrong with what its agent says; empty if nothing is. Then parts of this may be missing."""
    disk_shortage: str = ""
    """Why the node takes no new tasks for want of disk space; empty: it does."""
    approval: ApprovalOut | None = None
    """What it waits for, if it was not approved yet: it is offline until then."""


class NodeList(msgspec.Struct, kw_only=True):
    """Every node."""

    nodes: list[NodeOut]


def device_out(device: Device, view: DeviceView | None, known: Collection[int]) -> DeviceOut:
    signs = view.signs if view else DeviceSigns()
    return DeviceOut(
        index=device.index,
        uuid=device.uuid,
        model=device.model,
        memory_mb=device.memory_mib,
        healthy=device.healthy,
        numa_node=device.numa_node,
        island=device.island,
        note=device.note,
        allocated=decimal(view.allocated_milli) if view else 0,
        taken=view is not None and bool(view.holders or view.allocated_milli),
        holders=[
            HolderOut(job_id=job_id, user_id=user)
            for job_id, user in (view.holders if view else ())
            if job_id in known
        ],
        busy_percent=view.busy_percent if view else None,
        memory_used_mb=view.memory_used_mib if view else None,
        usable=device.is_usable,
        foreign=[
            ForeignOut(pid=use.pid, user=use.user, program=use.program, memory_mb=use.memory_mib or None)
            for use in device.foreign
        ],
        temperature_c=signs.temperature_c,
        power_w=signs.power_w,
        throttled=signs.throttled,
        ecc_uncorrected=signs.ecc_uncorrected,
        ecc_uncorrected_ever=signs.ecc_uncorrected_ever,
        minor=device.minor,
        pci=device.pci,
    )


def node_out(view: NodeView, known: Collection[int], windows: Sequence[WindowRow] = ()) -> NodeOut:
    """`known`: the jobs that the caller may know of; `windows`: those that are open."""
    node, capacity, given = view.node, view.node.capacity, view.allocated
    by_index = {device.index: device for device in view.devices}
    return NodeOut(
        node_id=node.node_id,
        pool=node.pool,
        status=node.state,
        cpu_total=decimal(capacity.cpu_milli),
        mem_total_mb=capacity.memory_mib,
        disk_total_mb=capacity.disk_mib,
        gpu_total=decimal(capacity.gpu_milli),
        generic_total=capacity.generic,
        cpu_allocated=decimal(given.cpu_milli),
        mem_allocated_mb=given.memory_mib,
        disk_allocated_mb=given.disk_mib,
        gpu_allocated=decimal(given.gpu_milli),
        generic_allocated=view.allocated_generic,
        cpu_used=optional_decimal(view.used_cpu_milli),
        mem_used_mb=view.used_memory_mib,
        devices=[device_out(device, by_index.get(device.index), known) for device in capacity.devices],
        labels=node.labels,
        taints=node.taints,
        serves=node.serves,
        running=[str(attempt_id) for attempt_id in view.running if attempt_id.job_id in known],
        silent_s=view.silent_s,
        drain=_drain_out(node.drain),
        windows=open_on(node, windows),
        refused_copy=view.copy,
        fault=view.fault,
        disk_shortage=view.disk_shortage,
    )


def _drain_out(drain: Drain | None) -> DrainOut | None:
    return (
        None if drain is None else DrainOut(reason=drain.reason, by=drain.by, since=rfc3339(drain.since_ms))
    )


async def list_nodes(call: Call) -> Response:
    return json_reply(NodeList(nodes=await _nodes_out(call)))


async def _nodes_out(call: Call, name: str | None = None) -> list[NodeOut]:
    """All of them, or the one of this name; with those that wait for approval."""
    views = await call.services.live.nodes() if name is None else await _one_node(call, name)
    waiting = {row.node_id: row for row in await call.services.store.applicants()}
    unheard = [row for row in waiting.values() if row.node_id not in {view.node.node_id for view in views}]
    known = await known_jobs(call, _holding(views))
    windows = await _open_windows(call)
    out = [node_out(view, known, windows) for view in views]
    out += [node_out(_unheard(row), known) for row in unheard if name in (None, row.node_id)]
    for node in out:
        if node.node_id in waiting:
            node.approval = _approval_out(call, waiting[node.node_id])
    return out


async def _one_node(call: Call, name: str) -> list[NodeView]:
    try:
        found = await call.services.live.node(name)
    except NoLeaderError:  # or a leader of an older version, which knows only all of them
        return [view for view in await call.services.live.nodes() if view.node.node_id == name]
    return [] if found is None else [found.view]


def _unheard(applicant: Applicant) -> NodeView:
    """Nothing is known of a node before it is approved but its name."""
    node = Node(applicant.node_id, NodeState.OFFLINE, Capacity(0, 0, 0), joined_ms=applicant.joined_ms)
    return NodeView(node, Amounts(), devices=(), running=(), silent_s=None)


def _approval_out(call: Call, applicant: Applicant) -> ApprovalOut:
    return ApprovalOut(
        since=rfc3339(applicant.joined_ms),
        token_id=applicant.token_id,
        address=(applicant.address or None) if call.caller.is_admin else None,
    )


async def _open_windows(call: Call) -> list[WindowRow]:
    now_ms = call.services.now_ms()
    return [row for row in await call.services.store.windows() if is_open(row, now_ms)]


def _holding(views: Sequence[NodeView]) -> set[int]:
    return {attempt_id.job_id for view in views for attempt_id in view.running} | {
        job_id for view in views for device in view.devices for job_id, _ in device.holders
    }


async def show_node(call: Call) -> Response:
    name = call.path("node_id")
    for node in await _nodes_out(call, name):
        return json_reply(node)
    raise not_found(f"there is no node {name[:100]!r}; `tgpu nodes` lists them")


_NODE_EXAMPLE: dict[str, object] = {
    "node_id": "ws1",
    "pool": "default",
    "status": "ready",
    "cpu_total": 32,
    "mem_total_mb": 131072,
    "disk_total_mb": 512000,
    "gpu_total": 1,
    "generic_total": {"licence": 2},
    "cpu_allocated": 2,
    "mem_allocated_mb": 16384,
    "disk_allocated_mb": 0,
    "gpu_allocated": 0.5,
    "generic_allocated": {"licence": 1},
    "cpu_used": 1.7,
    "mem_used_mb": 9000,
    "devices": [
        {
            "index": 0,
            "uuid": "GPU-0",
            "model": "NVIDIA A100",
            "memory_mb": 81920,
            "healthy": True,
            "numa_node": 0,
            "island": 0,
            "note": "",
            "allocated": 0.5,
            "taken": True,
            "holders": [{"job_id": 42, "user_id": "alice"}],
            "busy_percent": 80,
            "memory_used_mb": 30000,
            "usable": False,
            "foreign": [{"pid": 4711, "user": "bob", "program": "python", "memory_mb": 12288}],
            "temperature_c": 61,
            "power_w": 250,
            "throttled": "",
            "ecc_uncorrected": 0,
            "ecc_uncorrected_ever": 2,
            "minor": 0,
            "pci": "0000:1b:00.0",
        }
    ],
    "labels": {"zone": "a"},
    "taints": [],
    "serves": "*",
    "running": ["42.0.1"],
    "silent_s": None,
    "drain": None,
    "refused_copy": "",
    "fault": "",
}


def _list(path: str, summary: str) -> Endpoint:
    return Endpoint(
        "GET",
        path,
        list_nodes,
        LOOK,
        "nodes",
        summary,
        "Every node with its resources, its GPUs and who has them. GET /nodes and GET /executors are one.",
        {200: Answer("The nodes.", NodeList, {"nodes": [_NODE_EXAMPLE]})},
    )


ENDPOINTS = (
    _list("/nodes", "List nodes"),
    _list("/executors", "List executors (nodes)"),
    Endpoint(
        "GET",
        "/nodes/{node_id}",
        show_node,
        LOOK,
        "nodes",
        "Show a node",
        "One node with its resources, its GPUs and who has them.",
        {200: Answer("The node.", NodeOut, _NODE_EXAMPLE)},
        errors=(404,),
        params=(
            Param("node_id", "The node's name.", {"type": "string"}, "ws1", where="path", required=True),
        ),
    ),
)
