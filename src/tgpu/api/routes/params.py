"""Parameters and examples that several endpoints share."""

from tgpu.api.endpoint import Param

JOB_ID = Param(
    "job_id", "The job's number.", {"type": "integer", "minimum": 1}, 42, where="path", required=True
)
TENANT_ID = Param(
    "tenant_id",
    "The tenant's path, slashes included.",
    {"type": "string"},
    "default",
    where="path",
    required=True,
)
IF_MATCH = Param(
    "If-Match",
    "The ETag it must still have; otherwise nothing is changed.",
    {"type": "string"},
    '"3"',
    where="header",
)

JOB_EXAMPLE: dict[str, object] = {
    "job_id": 42,
    "tenant_id": "default",
    "user_id": "alice",
    "name": "train",
    "command": ["python", "train.py"],
    "image": None,
    "env": {"EPOCHS": "10"},
    "cwd": "/home/alice",
    "cpu_request": 2,
    "mem_request_mb": 16384,
    "disk_request_mb": 0,
    "gpu_request": 1,
    "gpu_type": None,
    "gpu_memory_mb": 0,
    "exclusive": False,
    "generic": {},
    "pool": None,
    "node_selector": {},
    "node_rules": [],
    "tolerations": [],
    "priority_class": "default",
    "priority": 0,
    "time_limit_s": 3600,
    "max_wait_s": None,
    "requeue": True,
    "once": False,
    "on_return": "longest",
    "grace_s": None,
    "status": "pending",
    "cause": None,
    "reason": None,
    "exit_code": None,
    "cancel_requested_by": None,
    "assigned_node_id": None,
    "devices": [],
    "attempt_count": 0,
    "submitted_at": "2030-01-31T12:00:00.000Z",
    "started_at": None,
    "ended_at": None,
    "giving_way": False,
}
EVENT_EXAMPLE: dict[str, object] = {
    "seq": 7,
    "at": "2030-01-31T12:00:00.000Z",
    "kind": "submitted",
    "job_id": 42,
    "task_index": None,
    "user_id": "alice",
    "data": {},
}
