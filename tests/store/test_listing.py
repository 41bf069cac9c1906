import pytest

from tests.store.store_story import a_job, assign, end, running
from tgpu.domain.lifecycle import Happening, Status
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Batch, Counts, Store

FINISHED = frozenset({Status.COMPLETED, Status.FAILED})


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (JobFilter(), [4, 3, 2, 1]),
        (JobFilter(statuses=frozenset({Status.PENDING})), [4, 3]),
        (JobFilter(statuses=frozenset({Status.PENDING, Status.COMPLETED})), [4, 3, 1]),
        (JobFilter(users=frozenset({"ann"})), [3, 1]),
        (JobFilter(users=frozenset({"ann", "bob"}), statuses=FINISHED), [1]),
        (JobFilter(tenant_id="default"), [4, 3, 2, 1]),
        (JobFilter(tenant_id="nobody"), []),
        (JobFilter(name_contains="eXp"), [3, 2, 1]),
        (JobFilter(name_contains="p_"), [1]),
        (JobFilter(name_contains="%"), []),
        (JobFilter(name_contains="\\"), []),
        (JobFilter(id_ranges=((2, 3), (3, 3), (1, 2))), [3, 2, 1]),
        (JobFilter(id_ranges=((4, 9), (1, 1))), [4, 1]),
        (JobFilter(id_ranges=((3, 2),)), []),
        (JobFilter(submitted_from_ms=30), [4, 3]),
        (JobFilter(submitted_until_ms=30), [3, 2, 1]),
        (JobFilter(ended_from_ms=90), [1]),
        (JobFilter(ended_from_ms=91), []),
    ],
)
async def test_a_list_shows_what_its_filter_says(store: Store, where: JobFilter, expected: list[int]) -> None:
    epoch = await running(store, a_job(name="exp_1"))
    await store.commit(epoch, Batch(90, ended=[end(Happening.SUCCEEDED)]))
    await store.submit([a_job("bob", "exp-2")], 20)
    await store.submit([a_job("ann", "Exp 3")], 30)
    await store.submit([a_job("cy", "other")], 40)
    await store.commit(epoch, Batch(91, assigned=[assign(2)]))
    assert [job.job_id for job in await store.jobs(where, Paging())] == expected
    oldest_first = await store.jobs(where, Paging(oldest_first=True))
    assert [job.job_id for job in oldest_first] == expected[::-1]


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(),
        JobFilter(statuses=frozenset({Status.PENDING})),
        JobFilter(users=frozenset({"ann", "bob"})),
        JobFilter(id_ranges=((1, 4), (3, 7))),
    ],
)
async def test_pages_follow_one_another_without_gap_or_overlap(store: Store, where: JobFilter) -> None:
    await store.submit([a_job("ann" if number % 2 else "bob") for number in range(7)], 1)
    for oldest_first in (False, True):
        seen: list[int] = []
        while True:
            cursor = seen[-1] if seen else None
            page = await store.jobs(where, Paging(3, cursor, oldest_first))
            assert len(page) <= 3
            if not page:
                break
            seen += [job.job_id for job in page]
        assert seen == sorted(range(1, 8), reverse=not oldest_first)


async def test_counts_are_by_status_and_live_ones_by_user(store: Store) -> None:
    epoch = await running(store)
    await store.submit([a_job(), a_job("bob"), a_job("bob")], 1)
    assert await store.counts() == Counts(
        {Status.RUNNING: 1, Status.PENDING: 3},
        {("ann", Status.RUNNING): 1, ("ann", Status.PENDING): 1, ("bob", Status.PENDING): 2},
    )
    await store.commit(epoch, Batch(9, ended=[end(Happening.FAILED)]))
    counts = await store.counts()
    assert counts.by_status == {Status.FAILED: 1, Status.PENDING: 3}
    assert ("ann", Status.FAILED) not in counts.live_by_user


async def test_events_can_be_followed_by_job_and_by_user(store: Store) -> None:
    await running(store)
    await store.submit([a_job("bob")], 30)
    assert [event.seq for event in await store.events()] == [1, 2, 3, 4]
    assert [event.seq for event in await store.events(1, limit=2)] == [2, 3]
    assert [event.kind for event in await store.events(job_id=1)] == ["submitted", "assigned", "started"]
    assert [event.seq for event in await store.events(user="bob")] == [4]
    assert await store.events(job_id=1, user="bob") == []
    assert [event.seq for event in await store.events(2, job_id=1, user="ann")] == [3]
