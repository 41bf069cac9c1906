"""`scontrol`: shows jobs, nodes and partitions, and changes jobs."""

from __future__ import annotations

import os
import sys

from tgpu.cli.slurm import looking, updating
from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client, TgpuError
from tgpu.dialects.slurm import hosts, launching, pages
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OPTIONS = named(
    values="clusters,M uid,u",
    flags=(
        "all,a details,d help,h hide oneliner,o quiet,Q usage verbose,v "
        "version,V federation,F future local sibling"
    ),
)
_LIVE = "pending,preempted,scheduled,running"
_NOT_FOUND, _CONFLICT = 404, 409


def main(argv: list[str]) -> int:
    given, words = _OPTIONS.read(argv, mixed=True)
    options = dict(given)
    if {"help", "usage"} & options.keys():
        print(f"Usage: scontrol [OPTIONS] COMMAND, one of {', '.join(sorted(_COMMANDS))}; see docs/slurm.md")
        return 0
    if "version" in options or words[:1] == ["version"]:
        print(VERSION)
        return 0
    if not words:
        raise SlurmError(f"say what to do: {', '.join(sorted(_COMMANDS))}")
    command = _one_of("command", words[0].lower(), list(_COMMANDS))
    return _COMMANDS[command](words[1:], "oneliner" in options)


def _one_of(what: str, word: str, known: list[str]) -> str:
    """By its name, or the beginning of it if only one begins like that."""
    if word in known:
        return word
    near = [name for name in known if word and name.startswith(word)]
    if len(near) != 1:
        raise SlurmError(f"{word!r} is no {what} here; there are {', '.join(sorted(known))}")
    return near[0]


def _show(words: list[str], one_line: bool) -> int:
    if not words:
        raise SlurmError(f"say what to show: {', '.join(_SHOWN)}")
    kind, equals, name = words[0].partition("=")
    names = ([name] if equals else []) + words[1:]
    _SHOWN[_one_of("thing to show", kind.lower(), list(_SHOWN))](names, one_line)
    return 0


def _show_jobs(names: list[str], one_line: bool) -> None:
    with Client() as client:
        if not names:
            records = list(looking.records(client, client.jobs(status=_LIVE), first=looking.heads(client)))
            if not records:
                print("No jobs in the system")
        else:
            wanted = looking.Wanted("job", ",".join(names))
            jobs = [_job(client, job_id) for job_id in wanted.indices]
            first = looking.heads(client) if any(job["status"] == "pending" for job in jobs) else ()
            records = list(wanted.of(looking.records(client, jobs, first=first, over=True)))
    for record in records:
        print(pages.job_page(record, one_line=one_line))


def _job(client: Client, job_id: int) -> dict[str, Any]:
    try:
        return client.job(job_id)
    except TgpuError as error:
        if error.status == _NOT_FOUND:
            raise SlurmError("slurm_load_jobs error: Invalid job id specified") from None
        raise


def _show_nodes(names: list[str], one_line: bool) -> None:
    with Client() as client:
        nodes = client.nodes()
    wanted = hosts.expanded("node", ",".join(names)) if names else [node["node_id"] for node in nodes]
    by_name = {node["node_id"]: node for node in nodes}
    for name in wanted:
        if name not in by_name:
            raise SlurmError(f"Node {name} not found")
        print(pages.node_page(by_name[name], one_line=one_line))


def _show_partitions(names: list[str], one_line: bool) -> None:
    with Client() as client:
        parts = {part.pool: part for part in pages.parts_of(client.nodes())}
    for name in names or parts:
        if name not in parts:
            raise SlurmError(f"Partition {name} not found")
        print(pages.partition_page(parts[name], one_line=one_line))


def _show_hostnames(names: list[str], _one_line: bool) -> None:
    text = ",".join(names) or os.environ.get("SLURM_JOB_NODELIST", "")
    if not text:
        raise SlurmError("say which hosts, such as n[1-3]; SLURM_JOB_NODELIST is not set")
    for host in hosts.expanded("hostnames", text):
        print(host)


def _show_hostlist(names: list[str], _one_line: bool) -> None:
    print(hosts.compressed(hosts.expanded("hostlist", ",".join(names))))


def _show_config(_names: list[str], _one_line: bool) -> None:
    """What scripts look for."""
    import time  # noqa: PLC0415  only who asks for it

    from tgpu.domain.index_set import MAX_INDICES  # noqa: PLC0415

    print(f"Configuration data as of {time.strftime('%Y-%m-%dT%H:%M:%S')}")
    for key, value in (("ClusterName", "tgpu"), ("MaxArraySize", MAX_INDICES + 1),
                       ("MinJobAge", f"{looking.KEPT_S} sec"),
                       ("SLURM_VERSION", VERSION.partition(" ")[2])):  # fmt: skip
        print(f"{key:<23} = {value}")


_SHOWN: dict[str, Callable[[list[str], bool], None]] = {
    "config": _show_config,
    "job": _show_jobs,
    "jobs": _show_jobs,
    "jobid": _show_jobs,
    "node": _show_nodes,
    "nodes": _show_nodes,
    "partition": _show_partitions,
    "partitions": _show_partitions,
    "hostnames": _show_hostnames,
    "hostlist": _show_hostlist,
    "hostlistsorted": _show_hostlist,
}


def _each(words: list[str], path: str) -> int:
    """Asks for the same of every job named: `42`, `42,43`, `name=train`."""
    if not any(words):
        raise SlurmError("say which job, such as 42")
    with Client() as client:
        wanted = looking.Wanted(path, ",".join(_by_name(client, words)))
        for job_id in wanted.whole(path):
            with looking.by_number(job_id):
                client.session.call("POST", f"/jobs/{job_id}/{path}", body={})
    return 0


def _by_name(client: Client, words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.lower() in ("name", "jobname"):
            jobs = client.jobs(status=_LIVE, user="me", name=value)
            found += [str(job["job_id"]) for job in jobs if job["name"] == value]
        else:
            found.append(value if equals else word)
    return found


def _requeue(words: list[str], _one_line: bool) -> int:
    """What runs is stopped and waits again. What is over is tried again by a job of its own."""
    if not any(words):
        raise SlurmError("say which job, such as 42 or 42_7")
    with Client() as client:
        for job_id, indices in looking.Wanted("requeue", ",".join(_by_name(client, words))).indices.items():
            meant = _running(client, job_id) if indices is None else indices
            body = {"indices": ",".join(map(str, sorted(meant)))} if meant else {}
            answer = _once_more(client, job_id, body)
            if answer.get("job_id") is not None:
                print(f"job {job_id} was over: it is tried again as job {answer['job_id']}", file=sys.stderr)
    return 0


def _once_more(client: Client, job_id: int, body: dict[str, str]) -> dict[str, Any]:
    """Of a job of which nothing is left to be tried again, all of it."""
    try:
        answer: dict[str, Any] = client.session.call("POST", f"/jobs/{job_id}/retry", body=body)
    except TgpuError as error:
        if error.status != _CONFLICT or body or _job(client, job_id)["status"] != "completed":
            raise
        return client.rerun(job_id)
    return answer


def _running(client: Client, job_id: int) -> set[int]:
    """The indices of an array that run: those alone are stopped for it."""
    if not _job(client, job_id).get("array"):
        return set()
    return {int(task["array_index"]) for task in client.tasks(job_id, status="scheduled,running")}


def _ping(_words: list[str], _one_line: bool) -> int:
    with Client() as client:
        client.stats()
        print(f"Slurmctld(primary) at {client.session.address} is UP")
    return 0


def _write(words: list[str], _one_line: bool) -> int:
    """`write batch_script 42 [FILE|-]`"""
    if len(words) < 2 or words[0].lower() != "batch_script":  # noqa: PLR2004
        raise SlurmError("what can be written is `write batch_script JOB [FILE]`")
    with Client() as client:
        (job_id, *_) = looking.Wanted("write", words[1]).indices
        text = launching.script_of(_job(client, job_id)["command"])
    if text is None:
        raise SlurmError(f"job {words[1]} has no script")
    target = words[2] if len(words) > 2 else f"slurm-{words[1]}.sh"  # noqa: PLR2004
    if target == "-":
        sys.stdout.write(text)
        return 0
    with open(target, "w", encoding="utf-8") as file:  # noqa: PTH123  as the shell has it
        file.write(text)
    print(f"batch script for job {words[1]} written to {target}")
    return 0


_COMMANDS: dict[str, Callable[[list[str], bool], int]] = {
    "show": _show,
    "hold": lambda words, _: _each(words, "hold"),
    "uhold": lambda words, _: _each(words, "hold"),
    "release": lambda words, _: _each(words, "release"),
    "requeue": _requeue,
    "suspend": lambda words, _: _each(words, "suspend"),
    "resume": lambda words, _: _each(words, "resume"),
    "update": lambda words, _: updating.update(words),
    "ping": _ping,
    "write": _write,
}
