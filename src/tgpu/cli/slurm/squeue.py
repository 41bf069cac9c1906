"""`squeue`: jobs that wait or run."""

from __future__ import annotations

import os
import time

from tgpu.cli.slurm import looking
from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client, TgpuError
from tgpu.dialects.slurm import columns, job_columns, states
from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from tgpu.dialects.slurm.record import Record

_OPTIONS = named(
    values=(
        "account,A clusters,M format,o Format,O iterate,i licenses,L name,n nodelist,w partition,p qos,q "
        "reservation,R sort,S states,t user,u"
    ),
    flags=(
        "all,a array,r array-unique federation help hide local long,l me noconvert noheader,h priority,P "
        "sibling start usage verbose,v version,V"
    ),
    optional="jobs,j json steps,s",
    aliases={"state": "states", "job": "jobs", "users": "user"},
)
_VARIABLES = {
    "SQUEUE_ACCOUNT": "account", "SQUEUE_FORMAT": "format", "SQUEUE_FORMAT2": "Format",
    "SQUEUE_NAMES": "name",
    "SQUEUE_PARTITION": "partition", "SQUEUE_QOS": "qos", "SQUEUE_SORT": "sort", "SQUEUE_STATES": "states",
    "SQUEUE_USERS": "user",
}  # fmt: skip


def main(argv: list[str]) -> int:
    said = {name: os.environ[variable] for variable, name in _VARIABLES.items() if variable in os.environ}
    given, rest = _OPTIONS.read(_joined(argv), mixed=True)
    options: dict[str, str | None] = {**said, **dict(given)}
    if "format" in dict(given) and "Format" not in dict(given):
        options.pop("Format", None)
    if rest:
        raise SlurmError(f"{rest[0]!r} is no option: jobs are named with -j")
    if {"help", "usage"} & options.keys():
        print("Usage: squeue [OPTIONS]; see docs/slurm.md")
        return 0
    if "version" in options:
        print(VERSION)
        return 0
    if "steps" in options:
        raise SlurmError("-s: steps are not listed; they are the job's own processes")
    with Client() as client:
        if "iterate" not in options:
            _show(client, options)
            return 0
        pause = options["iterate"] or ""
        if not pause.isdigit() or not int(pause):
            raise SlurmError(f"--iterate must be a number of seconds; got {pause!r}")
        while True:
            print(time.strftime("%a %b %d %H:%M:%S %Y"))
            _show(client, options)
            print(flush=True)
            time.sleep(int(pause))


def _joined(argv: list[str]) -> list[str]:
    """`-j 42` is not how Slurm wants it, and what everybody writes."""
    words = list(argv)
    for at, word in enumerate(words[:-1]):
        if word in ("-j", "--jobs", "--job") and not words[at + 1].startswith("-"):
            return [*words[:at], f"--jobs={words[at + 1]}", *_joined(words[at + 2 :])]
    return words


def _show(client: Client, options: dict[str, str | None]) -> None:
    found = _sorted(_found(client, options), options)
    if "json" in options:
        _print_json(found)
        return
    form = options.get("format")
    if options.get("Format"):
        table = columns.long(str(options["Format"]), job_columns.LONG_NAMES)
    else:
        usual = job_columns.START if "start" in options else job_columns.DEFAULT
        usual = job_columns.LONG if "long" in options else usual
        table = columns.short(usual if form is None else form, job_columns.SHORT)
    if "long" in options and form is None and "noheader" not in options:
        print(time.strftime("%a %b %d %H:%M:%S %Y"))
    for line in table.lines(found, header="noheader" not in options):
        print(line)


def _found(client: Client, options: dict[str, str | None]) -> list[Record]:
    wanted = looking.Wanted("-j", options["jobs"] or "") if options.get("jobs") else None
    of_states = states.states("-t", options.get("states") or "")
    if "start" in options and not of_states:
        of_states = {"PENDING"}
    jobs = list(_jobs(client, wanted, of_states, options))
    first = looking.heads(client) if any(job["status"] in ("pending", "preempted") for job in jobs) else ()
    over = bool(of_states - states.LIVE)
    shown = looking.records(client, jobs, first=first, apart="array" in options, over=over)
    keep = of_states or states.LIVE
    filters = _filters(options)
    return [
        record
        for record in (shown if wanted is None else wanted.of(shown))
        if record.state in keep and all(passes(record) for passes in filters)
    ]


def _jobs(
    client: Client, wanted: looking.Wanted | None, of_states: set[str], options: dict[str, str | None]
) -> Iterable[dict[str, Any]]:
    users = "me" if "me" in options else _users(options.get("user"))
    filters: dict[str, Any] = {"order": "oldest"} | ({"user": users} if users else {})
    if wanted is not None:
        try:
            client.jobs_by_id(wanted.indices)
        except TgpuError as error:
            if error.status != 404:  # noqa: PLR2004
                raise
            raise SlurmError("slurm_load_jobs error: Invalid job id specified") from None
        yield from client.jobs(ids=",".join(map(str, wanted.indices)), **filters)
        return
    statuses = states.statuses_of(of_states or states.LIVE)
    yield from looking.jobs_in(client, statuses, looking.LIVE, **filters)
    if of_states - states.LIVE:
        kept = {"ended_since": f"{looking.KEPT_S}s", "attempts": True}
        yield from looking.jobs_in(client, statuses, looking.OVER, **kept, **filters)


def _users(text: str | None) -> str:
    """By name; numbers are looked up."""
    import pwd  # noqa: PLC0415  only who names users

    names = []
    for word in (text or "").split(","):
        try:
            names.append(pwd.getpwuid(int(word)).pw_name if word.isdigit() else word)
        except KeyError:
            raise SlurmError(f"Invalid user: {word}") from None
    return ",".join(name for name in names if name)


def _filters(options: dict[str, str | None]) -> list[Callable[[Record], bool]]:
    found: list[Callable[[Record], bool]] = []
    for name, value in (
        ("name", lambda record: str(record.job["name"])),
        ("account", lambda record: record.account),
        ("qos", lambda record: record.qos),
    ):
        if text := options.get(name):
            found.append(lambda record, value=value, text=text: value(record) in text.split(","))  # type: ignore[misc]
    if text := options.get("partition"):
        partitions = set(text.split(","))
        found.append(lambda record: bool(partitions & record.partitions))
    if text := options.get("nodelist"):
        nodes = set(expanded("-w", text))
        found.append(lambda record: bool(nodes & set(record.nodes)))
    return found


def _sorted(found: list[Record], options: dict[str, str | None]) -> list[Record]:
    order = options.get("sort") or ("S" if "start" in options else "P,t,-p")
    for word in ["i", *reversed(order.split(","))]:
        letter = word.strip().lstrip("+-#")
        if letter not in job_columns.SHORT:
            raise SlurmError(f"-S: {word!r} is nothing to sort by: take the letters of -o")
        key: Any = job_columns.sort_key(letter)
        found.sort(key=key, reverse=word.strip().startswith("-"))
    return found


def _print_json(found: list[Record]) -> None:
    import json  # noqa: PLC0415  only who asks for it

    from tgpu.dialects.slurm.json_shapes import in_queue  # noqa: PLC0415

    print(
        json.dumps(
            {"meta": {"plugin": {"type": "tgpu"}}, "errors": [], "jobs": [in_queue(one) for one in found]}
        )
    )
