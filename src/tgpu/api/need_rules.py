"""Judges what a job says of other jobs: which it waits for, by number or by name."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tgpu.api.access import Sight, sight_of
from tgpu.api.endpoint import Call
from tgpu.api.problems import ProblemError, inside, unprocessable
from tgpu.api.timing_form import TimingAsked
from tgpu.domain.job import Job, JobSpec
from tgpu.domain.needs import Need, NeedKind, circle, parse_named_need, parse_needs
from tgpu.domain.quantities import BadQuantityError
from tgpu.store.job_filter import JobFilter, Paging

_MOST_NEEDS = 200_000
"""Of all jobs that are submitted at once."""
_PAGE = 1000
_MOST_NAMED = 10

Named = tuple[str | None, Sequence[str]]
"""A job's name, if it was given one, and the names of those that it needs."""


def needs_of(asked: TimingAsked) -> tuple[Need, ...]:
    """By number. Raises ProblemError."""
    if not asked.after:
        return ()
    try:
        return parse_needs("after", asked.after)
    except BadQuantityError as error:
        raise unprocessable("after", str(error)) from None


def linked(specs: Sequence[JobSpec], named: Sequence[Named]) -> list[JobSpec]:
    """With what they say of each other by name. Raises ProblemError."""
    if not any(needs for _, needs in named):
        return list(specs)
    places = {name: place for place, (name, _) in enumerate(named) if name}
    count = Counter(name for name, _ in named if name)
    found: list[list[Need]] = []
    for place, (_, needs) in enumerate(named):
        try:
            found.append([_need(text, places, count) for text in needs])
        except (BadQuantityError, ProblemError) as error:
            problem = unprocessable("needs", str(error)) if isinstance(error, BadQuantityError) else error
            raise inside(problem, f"jobs[{place}]") from None
    total = sum(map(len, found))
    if total > _MOST_NEEDS:
        raise unprocessable("jobs", f"jobs may need {_MOST_NEEDS} others in all; got {total}")
    way = circle({place: [need.on for need in needs] for place, needs in enumerate(found) if needs})
    if way is not None:
        if len(set(way)) == 1:
            itself = named[way[0]][0]
            raise unprocessable("needs", f"needs: {itself} needs itself: leave that out")
        words = " → ".join(named[place][0] or f"jobs[{place}]" for place in way)
        raise unprocessable(
            "needs", f"needs: {words} is a circle, in which each waits for the next: leave one of them out"
        )
    for place, theirs in enumerate(found):
        for need in theirs:
            if need.kind is NeedKind.CORR and (wrong := _unlike(specs[place], specs[need.on])):
                raise inside(unprocessable("needs", f"needs: {wrong}"), f"jobs[{place}]")
    return [
        replace(spec, needs=tuple(dict.fromkeys((*spec.needs, *theirs)))) if theirs else spec
        for spec, theirs in zip(specs, found, strict=True)
    ]


def _unlike(spec: JobSpec, other: JobSpec) -> str | None:
    """Why the one cannot go index by index behind the other, if it cannot."""
    theirs = None if other.series is None else other.series.indices
    if theirs is not None and spec.series is not None and theirs.is_same(spec.series.indices):
        return None
    return "aftercorr goes index by index between two arrays of the same indices; say afterok for whole jobs"


def _need(text: str, places: dict[str, int], count: Counter[str]) -> Need:
    kind, name = parse_named_need("needs", text)
    place = places.get(name)
    if place is None:
        raise unprocessable(
            "needs",
            f"needs: no job of this request is called {name[:80]!r}; give one that name, or name a job that "
            "was submitted before by its number, in `after`",
        )
    if count[name] > 1:
        raise unprocessable("needs", f"needs: {count[name]} jobs of this request are called {name[:80]!r}")
    return Need(kind, place, within=True)


def alone(asked: TimingAsked) -> None:
    """Of a job that is submitted by itself. Raises ProblemError."""
    if asked.needs:
        named = ", ".join(repr(need[:80]) for need in asked.needs[:_MOST_NAMED])
        raise unprocessable(
            "needs",
            f"needs names other jobs of the same request, and this is the only one: submit {named} together "
            "with it, or name a job that was submitted before by its number, in `after`",
        )


async def check_others(call: Call, specs: Sequence[JobSpec], *, many: bool) -> None:
    """Whether there are the jobs that these wait for, as far as the caller may know. Raises ProblemError."""
    wanted = {need.on for spec in specs for need in spec.needs if need.on and not need.within}
    if not wanted:
        return
    known = await jobs_by_id(call, wanted)
    for place, spec in enumerate(specs):
        for need in spec.needs:
            if need.on and not need.within and (wrong := _wrong(call, spec, need, known)):
                problem = unprocessable("after", f"after: {wrong}")
                raise inside(problem, f"jobs[{place}]") if many else problem


def _wrong(call: Call, spec: JobSpec, need: Need, known: Mapping[int, Job]) -> str | None:
    job = known.get(need.on)
    sight = Sight.NOTHING if job is None else _sight(call, job)
    if job is None or sight is Sight.NOTHING:
        return f"there is no job {need.on} to wait for; `tgpu list --all` shows those there are"
    if sight is Sight.OUTLINE:
        return (
            f"job {need.on} belongs to {job.spec.user}: wait for jobs of your own, or of tenants in which "
            "you were given a role (`tgpu whoami`)"
        )
    return _unlike(spec, job.spec) if need.kind is NeedKind.CORR else None


def _sight(call: Call, job: Job) -> Sight:
    return sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)


async def jobs_by_id(call: Call, job_ids: Iterable[int]) -> dict[int, Job]:
    """Those that there are, whether or not the caller may see them."""
    found: dict[int, Job] = {}
    ids = sorted(job_ids)
    for start in range(0, len(ids), _PAGE):
        where = JobFilter(id_ranges=tuple((job_id, job_id) for job_id in ids[start : start + _PAGE]))
        jobs = await call.services.store.jobs(where, Paging(limit=_PAGE))
        found.update((job.job_id, job) for job in jobs)
    return found
