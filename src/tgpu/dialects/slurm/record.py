"""A job, or one index of an array, as Slurm's commands tell of it: every value by a question of its own."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from tgpu.dialects.slurm import array_ids, durations, hosts, launching, sizes, states
from tgpu.dialects.slurm.file_names import SIGN

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

UNKNOWN, NULL, NOT_AVAILABLE = "Unknown", "(null)", "N/A"


class Record:
    """`job` as the API shows it; `task`: the one index that is meant; `indices`: those that wait together."""

    def __init__(
        self,
        job: Mapping[str, Any],
        now: float,
        *,
        task: Mapping[str, Any] | None = None,
        indices: str = "",
        nodes: Sequence[str] | None = None,
        reason: str = "None",
    ) -> None:
        self.job, self.now, self.task, self.indices = job, now, task, indices
        self.one: Mapping[str, Any] = job if task is None else {**job, **_of_task(task)}
        self.said: Mapping[str, str] = job.get("annotations") or {}
        self.reason = reason
        node = self.one.get("assigned_node_id")
        self.nodes = list(nodes) if nodes is not None else [str(node)] if node else []

    @property
    def state(self) -> str:
        return states.state_of(self.one)

    @property
    def is_array(self) -> bool:
        return bool(self.job.get("array"))

    @property
    def index(self) -> str:
        if self.task is None:
            return f"[{self.indices}]" if self.indices else ""
        index = self.task.get("array_index")
        return str(self.task["task_index"] if index is None else index)

    @property
    def job_id(self) -> str:
        """`42`, `42_7` or `42_[8-99%4]`."""
        return (
            f"{self.job['job_id']}_{self.index}" if self.is_array and self.index else str(self.job["job_id"])
        )

    @property
    def own_id(self) -> int:
        """In Slurm every index has a number of its own; those that wait together have the array's."""
        job_id = int(self.job["job_id"])
        return (
            array_ids.own_id(job_id, int(self.index)) if self.is_array and self.task is not None else job_id
        )

    @property
    def partition(self) -> str:
        return str(self.job.get("pool") or self.said.get("partition", "").partition(",")[0] or "default")

    @property
    def partitions(self) -> set[str]:
        """All that it is found by: its pool, and the partitions that it was submitted to."""
        return {self.partition, *self.said.get("partition", "").split(",")}

    @property
    def account(self) -> str:
        return self.said.get("account") or str(self.job.get("tenant_id") or "default")

    @property
    def qos(self) -> str:
        usual = str(self.job.get("priority_class") or "default")
        return self.said.get("qos") or ("normal" if usual == "default" else usual)

    @property
    def user_id(self) -> str:
        import pwd  # noqa: PLC0415  only who is asked for numbers

        try:
            return str(pwd.getpwnam(str(self.job["user_id"])).pw_uid)
        except KeyError:
            return "4294967294"  # Slurm's nobody

    @property
    def group(self) -> tuple[str, str]:
        """Its name and number."""
        import grp  # noqa: PLC0415
        import pwd  # noqa: PLC0415

        try:
            number = pwd.getpwnam(str(self.job["user_id"])).pw_gid
            return grp.getgrgid(number).gr_name, str(number)
        except KeyError:
            return "nobody", "4294967294"

    @property
    def node_count(self) -> int:
        return int(self.job.get("nodes") or 0) or max(1, len(self.nodes))

    @property
    def node_list(self) -> str:
        return hosts.compressed(self.nodes)

    @property
    def tasks(self) -> int:
        text = self.said.get("tasks", "")
        return int(text) if text.isdigit() else 1 if self.is_array else int(self.job.get("tasks") or 1)

    @property
    def cpus_per_task(self) -> int:
        text = self.said.get("cpus-per-task", "")
        return int(text) if text.isdigit() else 1

    @property
    def cpus(self) -> int:
        """Of all nodes."""
        asked = self._asked("cpu_request")
        return sum(max(1, -(-int((cpus or 1) * 1000) // 1000)) * copies for cpus, copies in asked)

    @property
    def gpus(self) -> float:
        return sum(gpus * copies for gpus, copies in self._asked("gpu_request"))

    def _asked(self, name: str) -> list[tuple[float, int]]:
        """How much, and how many tasks ask for that; more than one where they are not all alike."""
        groups = self.job.get("groups") or [self.job]
        return [
            (float(group.get(name) or 0), 1 if self.is_array else int(group.get("tasks") or 1))
            for group in groups
        ]

    @property
    def memory(self) -> str:
        """Of one node."""
        return sizes.written(int(self.job.get("mem_request_mb") or 0))

    @property
    def tres(self) -> str:
        """`cpu=4,mem=16G,node=1,billing=4,gres/gpu=2`."""
        parts = [f"cpu={self.cpus}"]
        if memory := sum(int(mib) * copies for mib, copies in self._asked("mem_request_mb")):
            parts.append(f"mem={sizes.written(memory)}")
        parts += [f"node={self.node_count}", f"billing={self.cpus}"]
        return ",".join(parts + ([f"gres/gpu={self.gpus:g}"] if self.gpus else []))

    @property
    def tres_per_node(self) -> str:
        gpus = float(self.job.get("gpu_request") or 0)
        model = self.job.get("gpu_type")
        return f"gres:gpu:{model + ':' if model else ''}{gpus:g}" if gpus else NOT_AVAILABLE

    @property
    def expected_start_s(self) -> float | None:
        """When it started; of one that waits for a moment, that one."""
        begin_s = epoch(self.job.get("begin_at"))
        return begin_s if self.started_s is None and begin_s and begin_s > self.now else self.started_s

    @property
    def started_s(self) -> float | None:
        waits = self.one["status"] in ("pending", "preempted")
        return None if waits else epoch(self.one.get("started_at"))

    @property
    def ended_s(self) -> float | None:
        return epoch(self.one.get("ended_at"))

    @property
    def elapsed_s(self) -> int:
        if self.started_s is None:
            return 0
        return max(0, int((self.now if self.ended_s is None else self.ended_s) - self.started_s))

    @property
    def limit_s(self) -> int | None:
        limit = self.job.get("time_limit_s")
        return None if limit is None else int(limit)

    @property
    def expected_end_s(self) -> float | None:
        """When it ended, or must."""
        if self.ended_s is not None or self.limit_s is None or self.expected_start_s is None:
            return self.ended_s
        return self.expected_start_s + self.limit_s

    @property
    def time_left(self) -> str:
        if self.limit_s is None:
            return "UNLIMITED"
        return durations.written(max(0, self.limit_s - self.elapsed_s))

    @property
    def exit_code(self) -> str:
        """`3:0`; of one that a signal ended, `0:9`; for want of memory, `0:125`."""
        if self.state == "OUT_OF_MEMORY":
            return "0:125"
        code = self.one.get("exit_code")
        exited = self.one.get("cause") == "exited" or self.state in ("RUNNING", "PENDING", "COMPLETED")
        signal = None if exited else self._script_signal
        return f"0:{signal}" if signal else f"{int(code or 0)}:0"

    @property
    def _script_signal(self) -> int | None:
        """The signal that ended the last attempt of the index, or of the script, which is task 0. The other
        tasks of a job on several nodes are stopped by a signal whenever the script fails."""
        index = 0 if self.task is None else self.task["task_index"]
        attempts = [each for each in self.job.get("attempts") or () if each.get("task_index", 0) == index]
        return attempts[-1].get("signal") if attempts else None

    @property
    def attempts(self) -> int:
        return int(self.one.get("attempt_count") or 0)

    @property
    def restarts(self) -> int:
        return max(0, self.attempts - 1)

    @property
    def command(self) -> str:
        command = self.job.get("command")
        plain = command if isinstance(command, str) else " ".join(map(str, command or ()))
        if launching.script_of(command) is not None:  # of --wrap, or of standard input
            plain = NULL
        return self.said.get("script") or plain or NULL

    @property
    def where_or_why(self) -> str:
        """What stands last in squeue's lines."""
        if self.state == "PENDING" or (self.state not in states.LIVE and self.reason != "None"):
            return f"({self.reason})"
        return self.node_list

    def file(self, name: str) -> str:
        """`output` or `error`, as far as its name is known."""
        text = str(self.job.get(name) or self.job.get("output") or "")
        if not text:
            return "/dev/null"
        index, number = self.index if self.task is not None else "4294967294", str(self.job["job_id"])
        values = {
            "%": "%", "j": number, "A": number, "a": index, "x": str(self.job["name"]),
            "u": str(self.job["user_id"]), "N": self.nodes[0] if self.nodes else "%N",
        }  # fmt: skip
        text = SIGN.sub(lambda match: values.get(match[2], match[0]).zfill(int(match[1] or 0)), text)
        return os.path.join(str(self.job.get("cwd") or ""), text)  # noqa: PTH118  a name, on another machine


def _of_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """What one index has of its own."""
    names = ("status", "cause", "reason", "exit_code", "started_at", "ended_at", "attempt_count")
    return {name: task.get(name) for name in names} | {"assigned_node_id": task.get("node_id")}


def epoch(text: object) -> float | None:
    return None if not text else datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()


def moment(when: float | None, nothing: str = UNKNOWN) -> str:
    """In the local zone, as SLURM_TIME_FORMAT says."""
    if when is None:
        return nothing
    form = os.environ.get("SLURM_TIME_FORMAT", "standard")
    return time.strftime("%Y-%m-%dT%H:%M:%S" if "%" not in form else form, time.localtime(when))
