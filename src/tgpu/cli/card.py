"""One job on one card: what was asked, what became of it, each try, and what happened when."""

from __future__ import annotations

import shlex
import time

from tgpu.cli import groups, outcome, rows, rule_words, words
from tgpu.cli.index_words import Indices
from tgpu.cli.screen import Screen, clean
from tgpu.cli.table import Column, table
from tgpu.cli.task_card import task_table

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ATTEMPTS = (
    Column("TRY", right=True),
    Column("STATE"),
    Column("NODE", floor=6),
    Column("GPUS"),
    Column("STARTED"),
    Column("RAN", right=True),
    Column("CPU TIME", right=True, rank=2),
    Column("PEAK MEM", right=True, rank=1),
    Column("GPU BUSY", right=True, rank=3),
    Column("WAITED", right=True, rank=4),
    Column("LOST", right=True, rank=5),
    Column("END", floor=10),
)
_MOST_EVENTS = 12
_MOST_NODES = 8
_MOST_KEPT = 3
_OWN_LABELS = "tgpu.dev/"  # asked for by tgpu itself, such as a node with a container engine for an image
_HOST = "tgpu/host"
_IN_HOSTS = (f"{_HOST} in ", f"{_HOST}=")
_FINAL = frozenset({"completed", "failed", "cancelled"})


def card(screen: Screen, job: dict[str, Any]) -> Iterator[str]:
    now = time.time()
    title = f"Job {job['job_id']}" + (f"  {clean(job['name'])}" if job.get("name") else "")
    status = rows.status(job)
    yield f"{screen.paint(title, 'bold')}  {screen.paint(status.text, status.style)}"
    for label, value in _facts(job, now):
        if value not in {"", "-"}:
            yield f"  {screen.paint(f'{label:<10}', 'dim')} {clean(value)}"
    attempts = job.get("attempts")
    if job.get("task_list"):
        yield ""
        yield from task_table(screen, job)
    elif isinstance(attempts, list) and attempts:
        yield ""
        yield from table(screen, _ATTEMPTS, [_attempt(attempt, now) for attempt in attempts])
    yield from _events(job)


def _events(job: dict[str, Any]) -> Iterator[str]:
    events = (job.get("events") or [])[-_MOST_EVENTS:]
    indices = Indices(job) if events else None
    if indices is None:
        return
    yield ""
    for event in events:
        task = event.get("task_index")
        whose = f"  {'-' if task is None else indices.at(task)}" if job.get("task_list") else ""
        data = _data(indices.in_words(event.get("data")))
        yield f"  {words.local_time(event['at'])}{whose}  {clean(event['kind'])}{data}"


def _facts(job: dict[str, Any], now: float) -> Iterator[tuple[str, str]]:
    yield "user", f"{job.get('user_id') or ''}" + _unless(job.get("tenant_id"), "default", "  (tenant {})")
    for group in groups.groups_of(job):
        yield "command", _of_group(job, group, _command(group))
    yield "image", _image(job)
    yield "mounts", ", ".join(job.get("mounts") or [])
    yield "network", job.get("network") or ""
    yield "directory", _directory(job)
    yield "snapshot", _snapshot(job)
    yield "output", ", ".join(str(job[name]) for name in ("output", "error") if job.get(name))
    yield (
        "secrets",
        ", ".join(f"{name} from {place}" for name, place in (job.get("secret_env") or {}).items()),
    )
    for group in groups.groups_of(job):
        yield "asked", _of_group(job, group, _asked(group))
    yield "only on", _hosts(job)
    yield "tasks", _tasks(job)
    yield "of these", _states(job)
    yield "priority", rows.priority(job)
    yield "quota", "held: nothing is charged until it starts" if job.get("held") else ""
    yield "limits", _limits(job)
    yield "failures", rule_words.in_words(job.get("failure_rules") or ())
    yield "after", ", ".join(job.get("after") or [])
    yield "held by", str(job.get("held_by") or "")
    yield "begins", words.local_time(job.get("begin_at"))
    yield "deadline", words.local_time(job.get("deadline_at"))
    yield "submitted", words.local_time(job.get("submitted_at"))
    yield "started", words.local_time(job.get("started_at"))
    yield "ended", words.local_time(job.get("ended_at"))
    yield ("ran" if job.get("started_at") else "waited"), rows.elapsed(job, now)
    yield "last saved", words.ago(job.get("last_saved_at"), now)
    yield "starting", str(job.get("starting_note") or "")
    yield "node", _nodes(job)
    yield "gpus", ",".join(map(str, job.get("devices") or []))
    yield "using", str(job.get("using") or "")
    for place in _kept_tmp(job):
        yield "kept /tmp", place
    yield "outcome" if job["status"] in _FINAL else "reason", _reason(job)
    for sentence in job.get("advice") or ():
        yield "advice", sentence


def _of_group(job: dict[str, Any], group: dict[str, Any], said: str) -> str:
    """Whose it is, where not all tasks are alike."""
    return f"{group['name']}: {said}" if said and group is not job else said


def _nodes(job: dict[str, Any]) -> str:
    """Of several tasks those of the first ones, which are there to be told."""
    those = dict.fromkeys(task.get("node_id") for task in job.get("task_list") or ())
    named = [node for node in those if node] or [job.get("assigned_node_id") or ""]
    return ", ".join(named[:_MOST_NODES]) + (" …" if len(named) > _MOST_NODES else "")


def _kept_tmp(job: dict[str, Any]) -> list[str]:
    """Where its nodes keep what its last failed attempts left in their private /tmp."""
    attempts = [attempt for attempt in job.get("attempts") or () if attempt.get("kept_tmp")]
    return [f"{attempt['kept_tmp']} on {attempt['node_id']}" for attempt in attempts[-_MOST_KEPT:]]


def _reason(job: dict[str, Any]) -> str:
    return outcome.in_words(job) if job["status"] in _FINAL else str(job.get("reason") or "")


def _image(job: dict[str, Any]) -> str:
    """What was asked for, and what runs by that name."""
    image, runs = job.get("image"), job.get("image_digest")
    if not image or runs == image:
        return str(image or "")
    return f"{image}  ({runs})" if runs else f"{image}  (not pinned: its name is read when it starts)"


def _directory(job: dict[str, Any]) -> str:
    """A container that was submitted from nowhere in particular has its own."""
    if job.get("image") and job.get("cwd") == "/":
        return str(job.get("container_cwd") or "the image's own")
    return str(job.get("container_cwd") or job.get("cwd") or "")


def _command(job: dict[str, Any]) -> str:
    """Of a batch script its name: it travels in the command, and is long."""
    command = job.get("command") or ""
    script = (job.get("annotations") or {}).get("script") if job.get("dialect") == "slurm" else None
    if script and isinstance(command, list):
        from tgpu.dialects.slurm.launching import arguments_of  # noqa: PLC0415  only of such jobs

        return f"{shlex.join([script, *arguments_of(command)])}  (as it was when it was submitted)"
    return (command if isinstance(command, str) else shlex.join(command)).replace("\n", " ↵ ")


def _snapshot(job: dict[str, Any]) -> str:
    """Which commit, and whether it is that alone."""
    digest, commit = job.get("snapshot"), job.get("snapshot_commit")
    if not digest:
        return ""
    changes = " with changes" if job.get("snapshot_dirty") else ""
    origin = f"commit {commit[:12]}{changes} of " if commit else ""
    return f"{origin}{job.get('snapshot_root')}{'' if commit else ', in no commit'}  ({digest[:19]}…)"


def _asked(job: dict[str, Any]) -> str:
    parts = [
        words.plural_number(job.get("gpu_request"), "GPU"),
        words.plural_number(job.get("cpu_request"), "CPU"),
    ]
    if job.get("gpu_type"):
        parts[0] += f" ({job['gpu_type']})"
    for name, label in (("mem_request_mb", "memory"), ("disk_request_mb", "disk")):
        if job.get(name):
            parts.append(f"{words.size(job[name])} {label}")
    if job.get("gpu_memory_mb"):
        each = " on each GPU" if job.get("gpu_request") else ""
        parts.append(f"{words.size(job['gpu_memory_mb'])} GPU memory{each}")
    parts += [f"{number} {name}" for name, number in (job.get("generic") or {}).items()]
    parts += ["a whole node"] if job.get("exclusive") else []
    parts += [f"pool {job['pool']}"] if job.get("pool") else []
    selector = (job.get("node_selector") or {}).items()
    parts += [f"{key}={value}" for key, value in selector if key != _HOST]
    parts += [rule for rule in job.get("node_rules") or [] if not rule.startswith((_OWN_LABELS, *_IN_HOSTS))]
    parts += [f"tolerates {taint}" for taint in job.get("tolerations") or []]
    each = " each" if int(job.get("tasks") or 1) > 1 else ""
    return ", ".join(part for part in parts if part) + each


def _hosts(job: dict[str, Any]) -> str:
    """Mostly tgpu's own doing: no other host has its directory, or its image."""
    rules = [rule for rule in job.get("node_rules") or [] if rule.startswith(_IN_HOSTS)]
    among = [rule.removeprefix(_IN_HOSTS[0]).removeprefix(_IN_HOSTS[1]) for rule in rules]
    host = (job.get("node_selector") or {}).get(_HOST)
    return " and ".join([*([host] if host else []), *(hosts.strip("()") for hosts in among)])


def _tasks(job: dict[str, Any]) -> str:
    count = int(job.get("tasks") or 1)
    if count == 1 and not job.get("gang"):
        return f"index {job['array']}" if job.get("array") else ""
    parts = [words.plural_number(count, "task")]
    if job.get("array"):
        parts.append(f"indices {job['array']}")
    if job.get("at_once"):
        parts.append(f"at most {job['at_once']} at once")
    parts += [f"{group['tasks']} {group['name']}" for group in job.get("groups") or ()]
    parts += ["which start together"] if job.get("gang") and count > 1 else []
    if job.get("nodes"):
        parts.append(f"{job['tasks_per_node']} on each of {job['nodes']} nodes")
    elif job.get("tasks_per_node"):
        parts.append(f"at most {job['tasks_per_node']} on a node")
    parts += [f"all in one {job['topology']}"] if job.get("topology") else []
    parts += ["each goes on if another fails"] if job.get("fail_together") is False else []
    return ", ".join(parts)


def _states(job: dict[str, Any]) -> str:
    """How many are in which state, if not all in one."""
    counts = job.get("task_counts") or {}
    return ", ".join(f"{number} {status}" for status, number in counts.items()) if len(counts) > 1 else ""


def _limits(job: dict[str, Any]) -> str:
    parts = [
        f"{label} {words.duration(job[name])}"
        for name, label in (("time_limit_s", "runs"), ("max_wait_s", "waits"), ("grace_s", "grace"))
        if job.get(name) is not None
    ]
    parts += [f"stopped by SIG{job['stop_signal']}"] if job.get("stop_signal") else []
    if job.get("warn_signal"):
        whom = " to its main process" if job.get("warn_main") else ""
        before = words.duration(job.get("warn_s") or 0)
        parts.append(f"warned by SIG{job['warn_signal']}{whom} {before} before its end")
    parts += _most(job)
    parts += ["waits again at its time limit"] if job.get("requeue_on_timeout") else []
    parts += ["never tried again"] if job.get("requeue") is False else []
    parts += ["lives at most once"] if job.get("once") else []
    parts += ["shares the /tmp of its node"] if job.get("shared_tmp") else []
    parts += _of_failures(job)
    return ", ".join(parts)


def _of_failures(job: dict[str, Any]) -> list[str]:
    """How often failures are tried again, and when all of it is over."""
    parts = [
        f"{words.plural(job[name], 'failure')}{of} tried again"
        for name, of in (("backoff_limit", ""), ("backoff_limit_per_index", " of each index"))
        if job.get(name) is not None
    ]
    if job.get("max_failures") is not None:
        parts.append(f"stops once more than {job['max_failures']} have failed")
    if job.get("active_deadline_s") is not None:
        parts.append(f"over {words.duration(job['active_deadline_s'])} after its submission")
    if job.get("ttl_after_finished_s") is not None:
        parts.append(f"forgotten {words.duration(job['ttl_after_finished_s'])} after its end")
    return parts


def _most(job: dict[str, Any]) -> list[str]:
    """What it may use beyond what it reserves; that it may use no more than that is the rule."""
    cpu, memory = job.get("cpu_limit"), job.get("mem_limit_mb")
    parts = [] if cpu in (None, job.get("cpu_request")) else [f"uses up to {words.plural_number(cpu, 'CPU')}"]
    if memory is not None and memory != job.get("mem_request_mb"):
        parts.append(f"uses up to {words.size(memory)} memory")
    return parts


def _attempt(attempt: dict[str, Any], now: float) -> list[str]:
    ran = words.between(attempt.get("started_at"), attempt.get("ended_at"), now)
    spent = attempt.get("cpu_time_s")
    return [
        str(attempt["number"]),
        attempt["status"],
        attempt.get("node_id") or "",
        ",".join(map(str, attempt.get("devices") or [])),
        words.local_time(attempt.get("started_at")),
        "-" if ran is None else words.duration(ran),
        words.duration(spent) if spent else "",
        words.size(attempt.get("peak_memory_mb")) if attempt.get("peak_memory_mb") else "",
        *(
            words.duration(attempt[name]) if attempt.get(name) else ""
            for name in ("gpu_busy_s", "wait_s", "lost_s")
        ),
        _end(attempt),
    ]


def _end(attempt: dict[str, Any]) -> str:
    """The server's words, or to those who may not have them the bare cause."""
    return str(attempt.get("reason") or (attempt.get("cause") or "").replace("-", " "))


def _data(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    return "".join(
        f"  {clean(key)}={clean(value)}" for key, value in data.items() if value not in (None, "", [])
    )


def _unless(value: object, usual: str, form: str) -> str:
    return "" if value in (None, "", usual) else form.format(value)
