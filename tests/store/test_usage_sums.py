"""Reports against a slow count by the definition of each figure, on every store."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.store_story import a_job
from tgpu.domain.access import Actor
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit, JobSpec
from tgpu.domain.lifecycle import Cause, Happening, NodeState
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Tenant
from tgpu.domain.usage import Figures, Usage
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started, Store
from tgpu.store.usage_port import GroupBy, ReportFilter

HOUR, DAY = 3_600_000, 86_400_000
BEGIN = round(datetime(2026, 3, 27, tzinfo=UTC).timestamp()) * 1000
JOBS = 60
NODES = [
    Node(
        f"n{n}",
        NodeState.READY,
        Capacity(64_000, 1 << 20, 1 << 20, (Device(0, f"G{n}", ("A100", "H100")[n % 2], 81920),)),
        pool=("default", "big")[n // 2],
    )
    for n in range(4)
]
ENDS = (
    (Happening.SUCCEEDED, Cause.EXITED),
    (Happening.FAILED, Cause.OUT_OF_MEMORY),
    (Happening.PREEMPTED, Cause.PREEMPTED),
    (Happening.REQUEUED, Cause.REBOOTED),
)


async def fill(store: Store, random: Random) -> list[Usage]:
    """Attempts of all kinds over two weeks, many of which begin or end at midnight."""
    epoch = await store.claim()
    for name in ("lab", "lab/a", "lab/a/x", "labour"):
        await store.create_tenant(Tenant(name), Actor("root", "server"), 1)
    await store.submit([some_job(random) for _ in range(JOBS)], BEGIN - HOUR)
    ids = [AttemptId(job_id, 0, 1) for job_id in range(1, JOBS + 1)]
    placed = [Assigned(each, random.choice(NODES).node_id, (0,) if each.job_id % 3 else ()) for each in ids]
    await store.commit(epoch, Batch(BEGIN - HOUR, nodes=NODES, assigned=placed))
    begins = [BEGIN + random.choice((random.randrange(10 * DAY), random.randrange(10) * DAY)) for _ in ids]
    started = [Started(each, at) for each, at in zip(ids, begins, strict=True)]
    await store.commit(epoch, Batch(BEGIN, started=started))
    ended = [some_end(random, each, at) for each, at in zip(ids, begins, strict=True)]
    receipt = await store.commit(epoch, Batch(BEGIN + 20 * DAY, ended=ended))
    assert not receipt.refused
    return [usage for each in ids for usage in await store.usage(each.job_id)]


def some_job(random: Random) -> JobSpec:
    spec = a_job(random.choice(("ann", "bob")), tenant_id=random.choice(("lab/a/x", "lab/a", "labour")))
    (group,) = spec.groups
    asked = replace(
        group.request,
        cpu_milli=random.randint(1, 9999),
        memory_mib=random.randint(0, 99),
        gpu_milli=random.choice((0, 333, 1000)),
    )
    group = replace(group, request=asked)
    return replace(spec, groups=(group,), priority_class=random.choice([*PriorityClass]))


def some_end(random: Random, attempt_id: AttemptId, begin_ms: int) -> AttemptEnded:
    happening, cause = random.choice(ENDS)
    run_ms = random.choice((0, random.randrange(5 * HOUR), random.randrange(4 * DAY), DAY))
    how = Exit(
        cause,
        started_ms=begin_ms,
        ended_ms=begin_ms + run_ms,
        cpu_ms=random.choice((0, random.randrange(10**8))),
        peak_memory_mib=random.choice((0, random.randrange(200))),
        gpu_ms=random.choice((None, random.randrange(10**8))),
    )
    return AttemptEnded(attempt_id, how, happening)


def slowly(usages: Iterable[Usage], by: GroupBy, from_ms: int, until_ms: int) -> dict[str, Figures]:
    """The same sums, a day of an attempt at a time."""
    sums: dict[str, Figures] = {}
    for usage in usages:
        for begin, stop in days(from_ms, until_ms):
            piece = by_definition(usage, begin, stop)
            if piece.attempts or piece.run_ms:
                key = key_of(usage, by, begin)
                sums[key] = sums.get(key, Figures()).plus(piece)
    return sums


def days(from_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
    for day in range(from_ms // DAY, until_ms // DAY + 1):
        yield max(from_ms, day * DAY), min(until_ms, (day + 1) * DAY)


def key_of(usage: Usage, by: GroupBy, at_ms: int) -> str:
    date = datetime.fromtimestamp(at_ms / 1000, UTC).date()
    return {
        GroupBy.USER: usage.user,
        GroupBy.TENANT: usage.tenant_id,
        GroupBy.POOL: usage.pool,
        GroupBy.NODE: usage.node_id,
        GroupBy.GPU_TYPE: usage.gpu_type,
        GroupBy.CAUSE: str(usage.cause),
        GroupBy.CLASS: usage.priority_class.value,
        GroupBy.DAY: date.isoformat(),
        GroupBy.WEEK: (date - timedelta(days=date.weekday())).isoformat(),
        GroupBy.MONTH: date.replace(day=1).isoformat(),
    }[by]


def by_definition(usage: Usage, begin: int, stop: int) -> Figures:
    begins = begin <= usage.started_ms < stop
    first = min(max(begin - usage.started_ms, 0), usage.run_ms)
    last = min(max(stop - usage.started_ms, 0), usage.run_ms)

    def given_of(amount: int) -> int:
        return amount * last // 1000 - amount * first // 1000

    def share_of(total: int) -> int:
        if not usage.run_ms:
            return total if begins else 0
        return total * last // usage.run_ms - total * first // usage.run_ms

    return Figures(
        attempts=int(begins),
        jobs=int(begins),
        wait_ms=usage.wait_ms * begins,
        longest_wait_ms=usage.wait_ms * begins,
        run_ms=last - first,
        cpu_ms=given_of(usage.cpu_milli),
        memory_mib_s=given_of(usage.memory_mib),
        gpu_ms=given_of(usage.gpu_milli),
        used_cpu_ms=share_of(usage.used_cpu_ms or 0),
        used_memory_mib_s=given_of(usage.peak_memory_mib or 0),
        used_gpu_ms=share_of(usage.used_gpu_ms or 0),
        told_cpu_ms=given_of(usage.cpu_milli) if usage.used_cpu_ms is not None else 0,
        told_memory_mib_s=given_of(usage.memory_mib) if usage.used_cpu_ms is not None else 0,
        told_gpu_ms=given_of(usage.gpu_milli) if usage.used_gpu_ms is not None else 0,
        lost_ms=share_of(usage.lost_ms),
        lost_gpu_ms=share_of(usage.gpu_milli * usage.lost_ms // 1000),
    )


def test_every_sum_is_what_a_slow_count_gives(store: Store) -> None:
    over = asyncio.run(fill(store, Random(5)))
    edges = [moment for usage in over for moment in (usage.started_ms, usage.ended_ms)]
    moments = st.integers(BEGIN - DAY, BEGIN + 16 * DAY) | st.sampled_from(
        [*edges, *(BEGIN + n * DAY for n in range(12))]
    )

    @settings(max_examples=100, deadline=None)
    @given(st.tuples(moments, moments), st.sampled_from([*GroupBy]))
    def agree(times: tuple[int, int], by: GroupBy) -> None:
        from_ms, until_ms = sorted(times)
        rows = asyncio.run(store.report(ReportFilter(from_ms, until_ms), (by,), BEGIN + 30 * DAY))
        assert {row.keys[0]: row.figures for row in rows} == slowly(over, by, from_ms, until_ms)

    agree()


def test_what_is_filtered_and_what_is_asked_by_are_independent(store: Store) -> None:
    over = asyncio.run(fill(store, Random(6)))
    filters = {
        "users": (ReportFilter(users=frozenset({"ann"})), lambda usage: usage.user == "ann"),
        "tenants": (ReportFilter(tenants=("lab",)), lambda usage: usage.tenant_id.startswith("lab/")),
        "pools": (ReportFilter(pools=frozenset({"big"})), lambda usage: usage.pool == "big"),
        "model": (ReportFilter(gpu_type="a1"), lambda usage: usage.gpu_type == "A100"),
        "own": (ReportFilter(seen_by="bob"), lambda usage: usage.user == "bob"),
        "seen": (
            ReportFilter(seen_by="bob", seen_tenants=("lab/a/x",)),
            lambda usage: usage.user == "bob" or usage.tenant_id == "lab/a/x",
        ),
    }
    for name, (where, is_wanted) in filters.items():
        wanted = [usage for usage in over if is_wanted(usage)]
        assert 0 < len(wanted) < len(over)
        for by in GroupBy:
            rows = asyncio.run(store.report(where, (by,), BEGIN + 30 * DAY))
            expected = slowly(wanted, by, BEGIN - DAY, BEGIN + 30 * DAY)
            assert {row.keys[0]: row.figures for row in rows} == expected, (name, by)


def test_several_keys_depth_of_tenants_and_parts_of_time_add_up(store: Store) -> None:
    over = asyncio.run(fill(store, Random(7)))
    whole = slowly(over, GroupBy.POOL, BEGIN - DAY, BEGIN + 30 * DAY)
    where = ReportFilter(tenant_depth=1)
    rows = asyncio.run(store.report(where, (GroupBy.TENANT, GroupBy.DAY, GroupBy.POOL), BEGIN + 30 * DAY))
    assert {row.keys[0] for row in rows} == {"lab", "labour"}
    sums: dict[str, Figures] = {}
    for row in rows:
        sums[row.keys[2]] = sums.get(row.keys[2], Figures()).plus(row.figures)
    assert sums == whole
    assert [row.keys for row in rows] == sorted(row.keys for row in rows)


def test_gpu_time_since_a_moment_is_that_of_a_tenant_and_everybody_below_it(store: Store) -> None:
    over = asyncio.run(fill(store, Random(8)))
    since = {
        "lab": BEGIN + 3 * DAY,
        "lab/a/x": BEGIN + 3 * DAY,
        "labour": BEGIN + 5 * DAY + 1,
        "default": BEGIN,
    }
    found = asyncio.run(store.gpu_ms_since(since, BEGIN + 30 * DAY))
    expected = {
        top: sum(
            by_definition(usage, from_ms, BEGIN + 30 * DAY).gpu_ms
            for usage in over
            if f"{usage.tenant_id}/".startswith(f"{top}/")
        )
        for top, from_ms in since.items()
    }
    assert found == expected
    assert found["default"] == 0 < found["lab/a/x"] < found["lab"]
