"""State of the dependencies of jobs that are not submitted yet."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tgpu.api.endpoint import Call
from tgpu.api.need_rules import jobs_by_id
from tgpu.domain.job import Job, JobSpec
from tgpu.domain.lifecycle import Status
from tgpu.domain.needs import Need, NeedKind
from tgpu.store.job_filter import JobFilter, Paging

_LIVE = frozenset(status for status in Status if not status.is_final)
_MOST_NAMED = 10
_HAS_TO = {
    NeedKind.OK: "complete",
    NeedKind.NOT_OK: "fail or be cancelled",
    NeedKind.ANY: "finish",
    NeedKind.CORR: "complete index by index",
}


class Dependency(NamedTuple):
    """What keeps a job from starting, if it is another job."""

    text: str
    job_ids: tuple[int, ...] = ()
    never: bool = False
    """It can never be met."""


async def dependencies(call: Call, specs: Sequence[JobSpec]) -> list[Dependency | None]:
    """Of each job; None: it has none, or all are met. The caller may see the jobs that these depend on: that
    was checked before."""
    known = await jobs_by_id(call, {need.on for spec in specs for need in spec.needs if need.on > 0})
    found: list[Dependency | None] = []
    for place, spec in enumerate(specs):
        if any(need.kind is NeedKind.SINGLETON for need in spec.needs) and await _has_namesake(
            call, spec, specs[:place]
        ):
            text = f"waits until no older job of {spec.user} named {spec.name} is live"
            found.append(Dependency(text))
        else:
            found.append(_of_others(spec, specs, known))
    return found


def _of_others(spec: JobSpec, specs: Sequence[JobSpec], known: Mapping[int, Job]) -> Dependency | None:
    unmet: list[Need] = []
    for need in spec.needs:
        job = None if need.within else known.get(need.on)
        if need.kind is NeedKind.SINGLETON or (job is not None and _is_met(need, job)):
            continue
        if job is not None and job.status.is_final and need.kind is not NeedKind.CORR:
            text = f"job {job.job_id} is {job.status}, and has to {_HAS_TO[need.kind]} before this one starts"
            return Dependency(text, (job.job_id,), never=True)
        unmet.append(need)
    if not unmet:
        return None
    parts = [_named(kind, [need for need in unmet if need.kind is kind], specs) for kind in _HAS_TO]
    ids = tuple(need.on for need in unmet if not need.within)
    return Dependency(f"needs {' and '.join(filter(None, parts))} first", ids)


def _is_met(need: Need, job: Job) -> bool:
    return job.status.is_final and need.kind.is_met_by(job.status)


def _named(kind: NeedKind, needs: Sequence[Need], specs: Sequence[JobSpec]) -> str:
    if not needs:
        return ""
    names = [
        (specs[need.on].name if need.on < len(specs) else f"jobs[{need.on}]")
        if need.within
        else f"job {need.on}"
        for need in needs[:_MOST_NAMED]
    ]
    more = f" and {len(needs) - _MOST_NAMED} more" if len(needs) > _MOST_NAMED else ""
    return f"{', '.join(names)}{more} to {_HAS_TO[kind]}"


async def _has_namesake(call: Call, spec: JobSpec, before: Sequence[JobSpec]) -> bool:
    """A live job of the same user and name, stored or in the same submission."""
    if any((each.user, each.name) == (spec.user, spec.name) for each in before):
        return True
    where = JobFilter(statuses=_LIVE, users=frozenset({spec.user}), name_contains=spec.name)
    jobs = await call.services.store.jobs(where, Paging(limit=1000))
    return any(job.spec.name == spec.name for job in jobs)
