"""`sacct`: jobs, those that have ended too, and what they used."""

from __future__ import annotations

import os

from tgpu.cli.slurm import looking
from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client
from tgpu.dialects.slurm import account_columns, moments, states
from tgpu.dialects.slurm.account_columns import Line
from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Any

    from tgpu.dialects.slurm.record import Record

_OPTIONS = named(
    values=(
        "accounts,A clusters,M constraints,C delimiter endtime,E file,f flags,F format,o group,g jobs,j "
        "name ncpus,I nnodes,i nodelist,N partition,r qos,q reason,R starttime,S state,s timelimit-max,K "
        "timelimit-min,k units user,u uid wckeys,W"
    ),
    flags=(
        "allusers,a allocations,X array batch-script,B brief,b completion,c duplicates,D env-vars "
        "federation help,h helpformat,e local long,l noconvert noheader,n parsable,p parsable2,P "
        "truncate,T usage use-local-uid verbose,v version,V"
    ),
    optional="json whole-hetjob yaml",
    aliases={"states": "state", "fields": "format", "job": "jobs", "account": "accounts"},
)
_LIVE = "pending,preempted,scheduled,running"
_OVER = "completed,failed,cancelled"
_ABREAST = 4


def main(argv: list[str]) -> int:
    given, rest = _OPTIONS.read(argv, mixed=True)
    options: dict[str, str | None] = dict(given)
    if rest:
        raise SlurmError(f"{rest[0]!r} is no option: jobs are named with -j")
    if {"help", "usage"} & options.keys():
        print("Usage: sacct [OPTIONS]; see docs/slurm.md")
        return 0
    if "version" in options:
        print(VERSION)
        return 0
    if "helpformat" in options:
        _print_fields()
        return 0
    if {"yaml", "batch-script", "env-vars"} & options.keys():
        raise SlurmError(
            "--yaml, --batch-script and --env-vars are not there: `tgpu show JOB --json` has it all"
        )
    forms = [value for name, value in given if name == "format" and value]
    form = ",".join(forms) or os.environ.get("SACCT_FORMAT") or account_columns.DEFAULT
    if not forms and {"brief", "long"} & options.keys():
        form = account_columns.LONG if "long" in options else account_columns.BRIEF
    sheet = account_columns.sheet(form, options.get("units") or "")
    with Client() as client:
        found = list(_found(client, options))
    lines = [line for record in found for line in _lines(record, options)]
    if "json" in options:
        import json  # noqa: PLC0415  only who asks for it

        from tgpu.dialects.slurm.json_shapes import accounted  # noqa: PLC0415

        print(json.dumps({"errors": [], "jobs": [accounted(record) for record in found]}))
        return 0
    for text in sheet.printed(lines, options):
        print(text)
    return 0


def _lines(record: Record, options: dict[str, str | None]) -> Iterator[Line]:
    """A job that has started has a script, too."""
    only = (options.get("jobs") or "").endswith(".batch")
    if not only:
        yield Line(record)
    if "allocations" not in options and record.started_s is not None:
        yield Line(record, batch=True)


def _found(client: Client, options: dict[str, str | None]) -> Iterator[Record]:
    of_states = states.states("-s", options.get("state") or "")
    wanted = looking.Wanted("-j", options["jobs"] or "") if "jobs" in options else None
    jobs = sorted(_jobs(client, wanted, of_states, options), key=lambda job: int(job["job_id"]))
    nodes = set(expanded("-N", options["nodelist"] or "")) if options.get("nodelist") else set()
    found = looking.records(client, jobs, over=True, apart="array" in options)
    for record in found if wanted is None else wanted.of(found):
        checks = (
            ("name", {str(record.job["name"])}), ("partition", record.partitions),
            ("accounts", {record.account}), ("qos", {record.qos}),
        )  # fmt: skip
        if (
            (not of_states or record.state in of_states)
            and all(not options.get(name) or own & set(str(options[name]).split(",")) for name, own in checks)
            and (not nodes or nodes & set(record.nodes))
        ):
            yield record


def _jobs(
    client: Client, wanted: looking.Wanted | None, of_states: set[str], options: dict[str, str | None]
) -> list[dict[str, Any]]:
    """Those that were there in the time asked for: that live, or ended since its beginning."""
    users = options.get("user") or options.get("uid")
    everybody = "allusers" in options or (wanted is not None and not users)
    filters: dict[str, Any] = {"attempts": True} | ({} if everybody else {"user": users or "me"})
    now = moments.local_now()
    until = _moment("endtime", options, now)
    if until is not None:
        filters["until"] = until
    if wanted is not None:
        return list(client.jobs(ids=",".join(map(str, wanted.indices)), **filters)) if wanted.indices else []
    since = _moment("starttime", options, now) or moments.rfc3339(
        moments.moment("--starttime", "now" if of_states else "midnight", now, past=True)
    )
    live = list(client.jobs(status=_LIVE, **filters))
    return live + list(client.jobs(status=_OVER, ended_since=since, **filters))


def _moment(name: str, options: dict[str, str | None], now: datetime) -> str | None:
    text = options.get(name)
    if not text:
        return None
    if text.lower() == "today":
        text = "midnight"
    return moments.rfc3339(moments.moment(f"--{name}", text, now, past=True))


def _print_fields() -> None:
    titles = [title for title, _, _ in sorted(account_columns.FIELDS.values())]
    for at in range(0, len(titles), _ABREAST):
        print(" ".join(title.ljust(19) for title in titles[at : at + _ABREAST]))
