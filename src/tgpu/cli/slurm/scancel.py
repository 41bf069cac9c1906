"""`scancel`: ends jobs, or takes them out of the queue."""

from __future__ import annotations

import os
import sys

from tgpu.cli.slurm import looking
from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client, TgpuError
from tgpu.dialects.slurm import states
from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.dialects.slurm.record import Record

_OPTIONS = named(
    values=(
        "account,A clusters,M jobname,n nodelist,w partition,p qos,q reservation,R sibling signal,s "
        "state,t user,u wckey"
    ),
    flags=("batch,b ctld cron,c full,f help hurry,H interactive,i me quiet,Q usage verbose,v version,V"),
    optional="autocomplete",
    aliases={"name": "jobname"},
)
_VARIABLES = {
    "SCANCEL_ACCOUNT": "account", "SCANCEL_NAME": "jobname", "SCANCEL_PARTITION": "partition",
    "SCANCEL_QOS": "qos", "SCANCEL_STATE": "state", "SCANCEL_USER": "user",
}  # fmt: skip
_FILTERS = ("account", "jobname", "me", "nodelist", "partition", "qos", "state", "user")
_GONE, _UNKNOWN = (409, 410), 404


def main(argv: list[str]) -> int:
    said = {name: os.environ[variable] for variable, name in _VARIABLES.items() if variable in os.environ}
    given, words = _OPTIONS.read(argv, mixed=True)
    options: dict[str, str | None] = {**said, **dict(given)}
    if {"help", "usage"} & options.keys():
        print("Usage: scancel [OPTIONS] [JOB[_INDEX]...]; see docs/slurm.md")
        return 0
    if "version" in options:
        print(VERSION)
        return 0
    if not any(words) and not any(name in options for name in _FILTERS):
        raise SlurmError(
            "No job identification provided: name jobs, or say -u, -n, -t, -p, -A, -q, -w or --me"
        )
    name = (options.get("signal") or "").upper().removeprefix("SIG")
    now = name in ("KILL", "9")
    with Client() as client:
        if name and not now:  # KILL ends the job itself; any other signal is only sent
            return _signal(client, words, options)
        if not any(name in options for name in _FILTERS):
            return _cancel_named(client, looking.Wanted("scancel", ",".join(words)), options, now=now)
        for record in _found(client, words, options):
            _cancel(client, int(record.job["job_id"]), record.index.strip("[]").partition("%")[0], now=now)
    return 0


def _found(client: Client, words: list[str], options: dict[str, str | None]) -> Iterator[Record]:
    found = _matching(client, options)
    return looking.Wanted("scancel", ",".join(words)).of(found) if words else found


def _signal(client: Client, words: list[str], options: dict[str, str | None]) -> int:
    """Jobs by their numbers, or those that run among the ones described."""
    from tgpu.cli.slurm import signalling  # noqa: PLC0415  only who sends one

    number = signalling.number_of(str(options["signal"]))
    if not any(name in options for name in _FILTERS):
        for job_id, indices in looking.Wanted("scancel", ",".join(words)).indices.items():
            with looking.by_number(job_id):
                signalling.send(client, job_id, indices, number, options)
        return 0
    for record in _found(client, words, options):
        if record.state == "RUNNING":
            some = {int(record.index)} if record.index else None
            signalling.send(client, int(record.job["job_id"]), some, number, options)
    return 0


def _cancel_named(
    client: Client, wanted: looking.Wanted, options: dict[str, str | None], *, now: bool
) -> int:
    """As Slurm: who has ended is told of, and is no failure; who never was is one."""
    code = 0
    for job_id, indices in wanted.indices.items():
        text = "" if indices is None else ",".join(map(str, sorted(indices)))
        try:
            _cancel(client, job_id, text, now=now)
        except TgpuError as error:
            if error.status not in (*_GONE, _UNKNOWN):
                raise
            gone = error.status in _GONE
            why = "Job/step already completing or completed" if gone else "Invalid job id specified"
            if not (gone and "quiet" in options):
                print(f"scancel: error: Kill job error on job id {job_id}: {why}", file=sys.stderr)
            code = code if gone else 1
    return code


def _cancel(client: Client, job_id: int, indices: str, *, now: bool) -> None:
    if not indices:
        client.cancel(job_id, now=now)
        return
    client.session.call(
        "POST", f"/jobs/{job_id}/cancel", body={"indices": indices} | ({"now": True} if now else {})
    )


def _matching(client: Client, options: dict[str, str | None]) -> Iterator[Record]:
    of_states = states.states("-t", options.get("state") or "")
    strange = of_states - states.LIVE
    if strange:
        raise SlurmError(
            f"-t: {min(strange)} is no state of what can be cancelled; take PENDING, RUNNING or SUSPENDED"
        )
    users = options.get("user") or ("me" if "me" in options else None)
    statuses = states.statuses_of(of_states or states.LIVE)
    jobs = list(looking.jobs_in(client, statuses, looking.LIVE, order="oldest", user=users))
    nodes = set(expanded("-w", options["nodelist"] or "")) if options.get("nodelist") else set()
    for record in looking.records(client, jobs):
        checks = (
            ("jobname", {str(record.job["name"])}), ("partition", record.partitions),
            ("account", {record.account}), ("qos", {record.qos}),
        )  # fmt: skip
        if (
            (not of_states or record.state in of_states)
            and all(not options.get(name) or options[name] in own for name, own in checks)
            and (not nodes or nodes & set(record.nodes))
        ):
            yield record
