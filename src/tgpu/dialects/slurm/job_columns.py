"""What `squeue` can print of a job, by its letters and by its names."""

from __future__ import annotations

from tgpu.dialects.slurm import states
from tgpu.dialects.slurm.durations import written
from tgpu.dialects.slurm.record import NOT_AVAILABLE, NULL, Record, epoch, moment

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable

    Column = tuple[str, Callable[[Record], str]]

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_FULL_PRIORITY = 2**32 - 1


def _limit(record: Record) -> str:
    return "UNLIMITED" if record.limit_s is None else written(record.limit_s)


def _start(record: Record) -> str:
    return moment(record.expected_start_s, NOT_AVAILABLE)


def _end(record: Record) -> str:
    return moment(record.expected_end_s, NOT_AVAILABLE)


def _priority(record: Record) -> int:
    """Slurm knows none below 0, which is that of jobs that are held."""
    return 0 if record.job.get("held_by") else max(0, int(record.job.get("priority") or 0) + 1)


def _said(key: str) -> Callable[[Record], str]:
    return lambda record: record.said.get(key) or NULL


def _dependency(record: Record) -> str:
    waits = record.job.get("needs_met") is False
    said = ",".join(record.job.get("after") or ()) or record.said.get("dependency")
    return ",".join(f"{each}(unfulfilled)" for each in said.split(",")) if waits and said else NULL


def _pending_s(record: Record) -> str:
    start = record.now if record.started_s is None else record.started_s
    return str(max(0, int(start - (epoch(record.job["submitted_at"]) or 0))))


SHORT: dict[str, Column] = {
    "a": ("ACCOUNT", lambda record: record.account),
    "A": ("JOBID", lambda record: str(record.own_id)),
    "b": ("TRES_PER_NODE", lambda record: record.tres_per_node),
    "B": ("EXEC_HOST", lambda record: record.nodes[0] if record.nodes else "n/a"),
    "c": ("MIN_CPUS", lambda record: str(record.cpus_per_task)),
    "C": ("CPUS", lambda record: str(record.cpus)),
    "d": ("MIN_TMP_DISK", lambda record: str(record.job.get("disk_request_mb") or 0)),
    "D": ("NODES", lambda record: str(record.node_count)),
    "e": ("END_TIME", _end),
    "E": ("DEPENDENCY", _dependency),
    "f": ("FEATURES", _said("constraint")),
    "F": ("ARRAY_JOB_ID", lambda record: str(record.job["job_id"])),
    "g": ("GROUP", lambda record: record.group[0]),
    "G": ("GROUP", lambda record: record.group[1]),
    "h": ("OVER_SUBSCRIBE", lambda record: "NO" if record.job.get("exclusive") else "OK"),
    "H": ("SOCKETS_PER_NODE", lambda _: "*"),
    "i": ("JOBID", lambda record: record.job_id),
    "I": ("CORES_PER_SOCKET", lambda _: "*"),
    "j": ("NAME", lambda record: str(record.job["name"])),
    "J": ("THREADS_PER_CORE", lambda _: "*"),
    "k": ("COMMENT", _said("comment")),
    "K": ("ARRAY_TASK_ID", lambda record: record.index.strip("[]") or NOT_AVAILABLE),
    "l": ("TIME_LIMIT", _limit),
    "L": ("TIME_LEFT", lambda record: record.time_left),
    "m": ("MIN_MEMORY", lambda record: record.memory),
    "M": ("TIME", lambda record: written(record.elapsed_s)),
    "n": ("REQ_NODES", lambda record: record.said.get("nodelist", "")),
    "N": ("NODELIST", lambda record: record.node_list),
    "o": ("COMMAND", lambda record: record.command),
    "O": ("CONTIGUOUS", lambda _: "0"),
    "p": ("PRIORITY", lambda record: f"{_priority(record) / _FULL_PRIORITY:.14f}"),
    "P": ("PARTITION", lambda record: record.partition),
    "q": ("QOS", lambda record: record.qos),
    "Q": ("PRIORITY", lambda record: str(_priority(record))),
    "r": ("REASON", lambda record: record.reason),
    "R": ("NODELIST(REASON)", lambda record: record.where_or_why),
    "s": ("SELECT_JOBINFO", lambda _: ""),
    "S": ("START_TIME", _start),
    "t": ("ST", lambda record: states.COMPACT[record.state]),
    "T": ("STATE", lambda record: record.state),
    "u": ("USER", lambda record: str(record.job["user_id"])),
    "U": ("UID", lambda record: record.user_id),
    "v": ("RESERVATION", _said("reservation")),
    "V": ("SUBMIT_TIME", lambda record: moment(epoch(record.job["submitted_at"]))),
    "w": ("WCKEY", _said("wckey")),
    "W": ("LICENSES", _said("licenses")),
    "x": ("EXC_NODES", lambda record: record.said.get("exclude", "")),
    "X": ("CORE_SPEC", lambda _: NOT_AVAILABLE),
    "y": ("NICE", lambda record: record.said.get("nice", "0")),
    "Y": ("SCHEDNODES", lambda _: NULL),
    "z": ("S:C:T", lambda _: "*:*:*"),
    "Z": ("WORK_DIR", lambda record: str(record.job.get("cwd") or NULL)),
}
_BY_LETTER = {
    "account": "a", "arrayjobid": "F", "arraytaskid": "K", "batchhost": "B", "command": "o", "comment": "k",
    "contiguous": "O", "cores": "I", "corespec": "X", "dependency": "E", "endtime": "e", "feature": "f",
    "gres": "b",  # as it was called before
    "groupid": "G", "groupname": "g", "jobarrayid": "i", "jobid": "A", "licenses": "W", "mincpus": "c",
    "minmemory": "m", "mintmpdisk": "d", "name": "j", "nice": "y", "nodelist": "N", "nodes": "N",
    "numcpus": "C", "numnodes": "D", "oversubscribe": "h", "partition": "P", "priority": "p",
    "prioritylong": "Q", "qos": "q", "reason": "r", "reasonlist": "R", "reqnodes": "n", "reservation": "v",
    "schednodes": "Y", "sct": "z", "selectjobinfo": "s", "sockets": "H", "starttime": "S", "state": "T",
    "statecompact": "t", "submittime": "V", "threads": "J", "timeleft": "L", "timelimit": "l",
    "timeused": "M", "tres-per-node": "b", "userid": "U", "username": "u", "wckey": "w", "workdir": "Z",
}  # fmt: skip
_ONLY_LONG: dict[str, Column] = {
    "batchflag": ("BATCH_FLAG", lambda _: "1"),
    "cluster": ("CLUSTER", lambda _: "tgpu"),
    "cpus-per-task": ("CPUS_PER_TASK", lambda record: record.said.get("cpus-per-task", NOT_AVAILABLE)),
    "deadline": ("DEADLINE", lambda record: moment(epoch(record.job.get("deadline_at")), NOT_AVAILABLE)),
    "eligibletime": ("ELIGIBLE_TIME", lambda record: moment(
        epoch(record.job.get("begin_at")) or epoch(record.job["submitted_at"]))),
    "exit_code": ("EXIT_CODE", lambda record: record.exit_code.partition(":")[0]),
    "numtasks": ("TASKS", lambda record: str(record.tasks)),
    "pendingtime": ("PENDING_TIME", _pending_s),
    "requeue": ("REQUEUE", lambda record: str(int(bool(record.job.get("requeue"))))),
    "restartcnt": ("RESTART_COUNT", lambda record: str(record.restarts)),
    "stderr": ("STDERR", lambda record: record.file("error")),
    "stdin": ("STDIN", lambda _: "/dev/null"),
    "stdout": ("STDOUT", lambda record: record.file("output")),
    "tres-alloc": ("TRES_ALLOC", lambda record: record.tres),
    "tres": ("TRES_ALLOC", lambda record: record.tres),
}  # fmt: skip
_NOTHING = (
    "accruetime", "admin_comment", "allocnodes", "allocsid", "associd", "boardspernode", "burstbuffer",
    "burstbufferstate", "clusterfeature", "container", "cpufreq", "cpus-per-tres", "delayboot", "derivedec",
    "hetjobid", "hetjobidset", "hetjoboffset", "lastschedeval", "maxcpus", "maxnodes", "mcslabel",
    "mem-per-tres", "mintime", "network", "ntperboard", "ntpercore", "ntpernode", "ntpersocket", "origin",
    "originraw", "preempttime", "prefer", "profile", "reboot", "reqswitch", "resizetime", "resvport",
    "siblingsactive", "siblingsactiveraw", "siblingsviable", "siblingsviableraw", "sperboard", "stepid",
    "stepname", "stepstate", "system_comment", "tres-bind", "tres-freq", "tres-per-job", "tres-per-socket",
    "tres-per-step", "tres-per-task", "wait4switch",
)  # fmt: skip
"""Slurm has words for these, and nothing here is like them."""


def _nothing(name: str) -> Column:
    return name.upper().replace("-", "_"), lambda _: NOT_AVAILABLE


LONG_NAMES: dict[str, Column] = (
    {name: _nothing(name) for name in _NOTHING}
    | {name: SHORT[letter] for name, letter in _BY_LETTER.items()}
    | _ONLY_LONG
)


def sort_key(letter: str) -> Callable[[Record], object]:
    """By what jobs are sorted: as numbers where they are numbers."""
    numbers: dict[str, Callable[[Record], float]] = {
        "i": lambda record: int(record.job["job_id"]),
        "A": lambda record: record.own_id,
        "t": lambda record: states.ORDER[record.state],
        "T": lambda record: states.ORDER[record.state],
        "p": _priority,
        "Q": _priority,
        "M": lambda record: record.elapsed_s,
        "l": lambda record: record.limit_s or 2**62,
        "L": lambda record: (record.limit_s or 2**62) - record.elapsed_s,
        "D": lambda record: record.node_count,
        "C": lambda record: record.cpus,
        "m": lambda record: int(record.job.get("mem_request_mb") or 0),
        "S": lambda record: record.expected_start_s or 2**62,
        "e": lambda record: record.expected_end_s or 2**62,
        "V": lambda record: epoch(record.job["submitted_at"]) or 0,
    }
    return numbers.get(letter) or SHORT[letter][1]
