"""Jobs as `squeue --json` and `sacct --json` show them: those of Slurm's fields that scripts look for."""

from __future__ import annotations

from tgpu.dialects.slurm.job_columns import SHORT
from tgpu.dialects.slurm.record import NULL, Record, epoch

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any

CLUSTER = "tgpu"


def _index(record: Record) -> int | None:
    return int(record.index) if record.task is not None else None


def _array(record: Record) -> int:
    return int(record.job["job_id"]) if record.is_array else 0


def _limit_min(record: Record) -> int | None:
    return None if record.limit_s is None else -(-record.limit_s // 60)


def in_queue(record: Record) -> dict[str, Any]:
    job, said = record.job, record.said
    return {
        "job_id": record.own_id,
        "array_job_id": _array(record),
        "array_task_id": _index(record),
        "array_task_string": record.indices,
        "name": job["name"],
        "user_name": job["user_id"],
        "user_id": int(record.user_id),
        "account": record.account,
        "cluster": CLUSTER,
        "partition": record.partition,
        "qos": record.qos,
        "priority": int(SHORT["Q"][1](record)),
        "job_state": record.state,
        "state_reason": record.reason,
        "exit_code": int(record.exit_code.partition(":")[0]),
        "nodes": record.node_list,
        "batch_host": record.nodes[0] if record.nodes else "",
        "node_count": record.node_count,
        "cpus": record.cpus,
        "tasks": record.tasks,
        "tres_req_str": record.tres,
        "tres_alloc_str": record.tres if record.nodes else "",
        "time_limit": _limit_min(record),
        "submit_time": int(epoch(job["submitted_at"]) or 0),
        "start_time": int(record.expected_start_s or 0),
        "end_time": int(record.expected_end_s or 0),
        "comment": said.get("comment", ""),
        "dependency": SHORT["E"][1](record).replace(NULL, ""),
        "current_working_directory": job.get("cwd"),
        "command": record.command.replace(NULL, ""),
        "standard_output": record.file("output"),
        "standard_error": record.file("error"),
        "restart_cnt": record.restarts,
    }


def accounted(record: Record) -> dict[str, Any]:
    job = record.job
    code, _, signal = record.exit_code.partition(":")
    status = "SUCCESS" if record.exit_code == "0:0" else "ERROR" if signal == "0" else "SIGNALED"
    ended: dict[str, Any] = {"status": status, "return_code": int(code)}
    if status == "SIGNALED":
        ended["signal"] = {"signal_id": int(signal)}
    return {
        "job_id": record.own_id,
        "array": {"job_id": _array(record), "task_id": _index(record), "task": record.indices or None},
        "name": job["name"],
        "user": job["user_id"],
        "group": record.group[0],
        "account": record.account,
        "cluster": CLUSTER,
        "partition": record.partition,
        "qos": record.qos,
        "state": {"current": record.state, "reason": record.reason},
        "exit_code": ended,
        "derived_exit_code": ended,
        "nodes": record.node_list or "None assigned",
        "allocation_nodes": record.node_count if record.started_s is not None else 0,
        "required": {"CPUs": record.cpus, "memory": int(job.get("mem_request_mb") or 0)},
        "time": {
            "elapsed": record.elapsed_s,
            "submission": int(epoch(job["submitted_at"]) or 0),
            "eligible": int(epoch(job.get("begin_at")) or epoch(job["submitted_at"]) or 0),
            "start": int(record.started_s or 0),
            "end": int(record.ended_s or 0),
            "limit": _limit_min(record),
        },
        "working_directory": job.get("cwd"),
    }
