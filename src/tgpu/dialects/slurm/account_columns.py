"""What `sacct` can print of a job and of its script, and how: in columns, or with bars in between."""

from __future__ import annotations

from tgpu.dialects.slurm import sizes
from tgpu.dialects.slurm.durations import written_whole
from tgpu.dialects.slurm.record import UNKNOWN, Record, epoch, moment
from tgpu.dialects.slurm.sheets import Sheet

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,"
    "maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,"
    "alloccpus,elapsed,state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,"
    "consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,"
    "maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,"
    "tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutmax,"
    "tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot"
)
"""As `sacct -l` has them."""


class Line:
    """A job as a whole, or with `batch` its script, of which alone memory and CPU time are told."""

    def __init__(self, record: Record, *, batch: bool = False) -> None:
        self.record, self.batch = record, batch

    @property
    def attempt(self) -> dict[str, Any]:
        """Its last one."""
        found: dict[str, Any] = {}
        for attempt in self.record.job.get("attempts") or ():
            if self.record.task is None or attempt.get("task_index") == self.record.task["task_index"]:
                found = attempt
        return found


def _of_job(value: Callable[[Record], str]) -> Callable[[Line], str]:
    return lambda line: "" if line.batch else value(line.record)


def _of_both(value: Callable[[Record], str]) -> Callable[[Line], str]:
    return lambda line: value(line.record)


def _of_script(value: Callable[[Line], str]) -> Callable[[Line], str]:
    return lambda line: value(line) if line.batch else ""


def _id(line: Line) -> str:
    return f"{line.record.job_id}.batch" if line.batch else line.record.job_id


def _raw_id(line: Line) -> str:
    return f"{line.record.own_id}.batch" if line.batch else str(line.record.own_id)


def _state(line: Line) -> str:
    record = line.record
    by = record.job.get("cancel_requested_by")
    if record.state != "CANCELLED" or line.batch or not by:
        return record.state
    return f"CANCELLED by {_number_of(str(by))}"


def _number_of(user: str) -> str:
    import pwd  # noqa: PLC0415  only of what was cancelled

    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return user


def _memory(line: Line) -> str:
    peak = line.attempt.get("peak_memory_mb")
    return "" if peak is None else f"{int(peak) * 1024}K"


def _cpu_time(line: Line) -> str:
    """As Slurm has it: `00:05.250`, with hours only when there are some."""
    used = line.attempt.get("cpu_time_s")
    if used is None:
        return "00:00:00" if not line.batch else ""
    whole, part = divmod(int(float(used) * 1000), 1000)
    if whole >= 3600:  # noqa: PLR2004
        return written_whole(whole)
    return f"{whole // 60:02}:{whole % 60:02}.{part:03}"


def _waited(record: Record) -> str:
    start = record.now if record.started_s is None else record.started_s
    return written_whole(max(0, int(start - (epoch(record.job["submitted_at"]) or 0))))


def _limit(record: Record) -> str:
    return "UNLIMITED" if record.limit_s is None else written_whole(record.limit_s)


def _limit_raw(record: Record) -> str:
    return "UNLIMITED" if record.limit_s is None else str(-(-record.limit_s // 60))


def _nodes(record: Record) -> str:
    return record.node_list or "None assigned"


def _by_name(tres: str) -> str:
    """Elsewhere they stand in the order of their kinds."""
    return ",".join(sorted(tres.split(",")))


def _exit_code(line: Line) -> str:
    """What ended a job that was cancelled is told of its script alone."""
    return "0:0" if line.record.state == "CANCELLED" and not line.batch else line.record.exit_code


def _allocated(record: Record) -> bool:
    return record.started_s is not None


FIELDS: dict[str, tuple[str, int, Callable[[Line], str]]] = {
    "account": ("Account", 10, _of_both(lambda record: record.account)),
    "alloccpus": ("AllocCPUS", 10, _of_both(lambda record: str(record.cpus if _allocated(record) else 0))),
    "allocnodes": ("AllocNodes", 10, _of_both(
        lambda record: str(record.node_count if _allocated(record) else 0))),
    "alloctres": ("AllocTRES", 10, _of_both(
        lambda record: _by_name(record.tres) if _allocated(record) else "")),
    "avecpu": ("AveCPU", 10, _of_script(_cpu_time)),
    "averss": ("AveRSS", 10, _of_script(_memory)),
    "cluster": ("Cluster", 10, _of_both(lambda _: "tgpu")),
    "comment": ("Comment", 14, _of_job(lambda record: record.said.get("comment", ""))),
    "constraints": ("Constraints", 20, _of_job(lambda record: record.said.get("constraint", ""))),
    "cputime": ("CPUTime", 10, _of_both(lambda record: written_whole(record.elapsed_s * record.cpus))),
    "cputimeraw": ("CPUTimeRAW", 10, _of_both(lambda record: str(record.elapsed_s * record.cpus))),
    "derivedexitcode": ("DerivedExitCode", 15, _of_job(lambda record: record.exit_code)),
    "elapsed": ("Elapsed", 10, _of_both(lambda record: written_whole(record.elapsed_s))),
    "elapsedraw": ("ElapsedRaw", 10, _of_both(lambda record: str(record.elapsed_s))),
    "eligible": ("Eligible", 19, _of_both(lambda record: moment(
        epoch(record.job.get("begin_at")) or epoch(record.job["submitted_at"])))),
    "end": ("End", 19, _of_both(lambda record: moment(record.ended_s, UNKNOWN))),
    "exitcode": ("ExitCode", 8, _exit_code),
    "gid": ("GID", 6, _of_job(lambda record: record.group[1])),
    "group": ("Group", 9, _of_job(lambda record: record.group[0])),
    "jobid": ("JobID", -12, _id),
    "jobidraw": ("JobIDRaw", -12, _raw_id),
    "jobname": ("JobName", 10, lambda line: "batch" if line.batch else str(line.record.job["name"])),
    "maxrss": ("MaxRSS", 10, _of_script(_memory)),
    "maxrssnode": ("MaxRSSNode", 10, _of_script(
        lambda line: line.record.nodes[0] if line.record.nodes else "")),
    "maxrsstask": ("MaxRSSTask", 10, _of_script(lambda line: "0" if _memory(line) else "")),
    "maxvmsize": ("MaxVMSize", 10, _of_script(_memory)),
    "ncpus": ("NCPUS", 10, _of_both(lambda record: str(record.cpus if _allocated(record) else 0))),
    "nnodes": ("NNodes", 8, _of_both(lambda record: str(record.node_count))),
    "nodelist": ("NodeList", 15, _of_both(_nodes)),
    "ntasks": ("NTasks", 8, _of_script(lambda _: "1")),
    "partition": ("Partition", 10, _of_job(lambda record: record.partition)),
    "planned": ("Planned", 10, _of_job(_waited)),
    "priority": ("Priority", 10, _of_job(
        lambda record: str(max(0, int(record.job.get("priority") or 0) + 1)))),
    "qos": ("QOS", 10, _of_job(lambda record: record.qos)),
    "reason": ("Reason", 22, _of_job(lambda record: record.reason)),
    "reqcpus": ("ReqCPUS", 8, _of_both(lambda record: str(record.cpus))),
    "reqmem": ("ReqMem", 10, _of_job(lambda record: record.memory)),
    "reqnodes": ("ReqNodes", 8, _of_both(lambda record: str(record.node_count))),
    "reqtres": ("ReqTRES", 10, _of_job(lambda record: _by_name(record.tres))),
    "reservation": ("Reservation", 20, _of_job(lambda record: record.said.get("reservation", ""))),
    "reserved": ("Reserved", 10, _of_job(_waited)),
    "start": ("Start", 19, _of_both(lambda record: moment(record.started_s, UNKNOWN))),
    "state": ("State", 10, _state),
    "submit": ("Submit", 19, _of_both(lambda record: moment(epoch(record.job["submitted_at"])))),
    "suspended": ("Suspended", 10, _of_both(lambda _: "00:00:00")),
    "timelimit": ("Timelimit", 10, _of_job(_limit)),
    "timelimitraw": ("TimelimitRaw", 10, _of_job(_limit_raw)),
    "totalcpu": ("TotalCPU", 10, _cpu_time),
    "uid": ("UID", 6, _of_job(lambda record: record.user_id)),
    "user": ("User", 9, _of_job(lambda record: str(record.job["user_id"]))),
    "wckey": ("WCKey", 10, _of_job(lambda record: record.said.get("wckey", ""))),
    "workdir": ("WorkDir", 20, _of_job(lambda record: str(record.job.get("cwd") or ""))),
}  # fmt: skip
_NOTHING = (
    "AdminComment AssocID AveCPUFreq AveDiskRead AveDiskWrite AvePages AveVMSize BlockID ConsumedEnergy "
    "ConsumedEnergyRaw Container DBIndex Flags Layout MaxDiskRead MaxDiskReadNode MaxDiskReadTask "
    "MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxVMSizeNode "
    "MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask QOSRAW ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax "
    "ReqCPUFreqMin ReservationId ResvCPU ResvCPURAW SubmitLine SystemComment SystemCPU TRESUsageInAve "
    "TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode "
    "TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode "
    "TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot "
    "UserCPU WCKeyID"
)
"""Slurm has words for these, and nothing here is like them."""
FIELDS |= {name.lower(): (name, max(10, len(name)), lambda _: "") for name in _NOTHING.split()}


_SIZES = ("averss", "maxrss", "maxvmsize", "reqmem")


def sheet(form: str, unit: str = "") -> Sheet:
    """`unit`: that in which memory is told, as `--units` says it."""
    fields = FIELDS | ({name: _in_unit(FIELDS[name], unit) for name in _SIZES} if unit else {})
    return Sheet(form, fields, "`sacct --helpformat` lists those that there are")


def _in_unit(
    field: tuple[str, int, Callable[[Line], str]], unit: str
) -> tuple[str, int, Callable[[Line], str]]:
    title, width, value = field
    sizes.in_unit("", unit)  # or it is refused, also where there is nothing to show
    return title, width, lambda line: sizes.in_unit(value(line), unit)
