from dataclasses import replace

from tests.store.store_story import a_job, assign, end, running
from tgpu.domain.job import JobSpec
from tgpu.domain.lifecycle import Happening, Status
from tgpu.domain.priority import PriorityClass
from tgpu.store.job_filter import JobFilter, Seen
from tgpu.store.job_listing import Listing, ListPage, SortKey
from tgpu.store.port import Batch, Store

ALL = JobFilter()


async def some_jobs(store: Store) -> None:
    """1 completed, 2 scheduled, 3 and 4 pending."""
    epoch = await running(store, _running(a_job(name="exp_1"), "sleep", "9"))
    await store.commit(epoch, Batch(90, ended=[end(Happening.SUCCEEDED)]))
    await store.submit([a_job("bob", "exp-2", gpu_milli=2000)], 20)
    await store.submit([_running(a_job("ann", "Exp 3", priority=7), "sleep 9")], 30)
    await store.submit([_running(a_job("cy", "other", priority_class=PriorityClass.HIGH), "sleep")], 40)
    await store.commit(epoch, Batch(91, assigned=[assign(2)]))


def _running(spec: JobSpec, *command: str) -> JobSpec:
    return replace(spec, groups=(replace(spec.groups[0], command=command),))


async def ids(store: Store, listing: Listing, page: ListPage) -> list[int]:
    listed = [each.job.job_id for each in await store.list_jobs(listing, page)]
    assert listed == await store.list_job_ids(listing, page)
    return listed


SEARCHES = [
    (Listing(ALL), [4, 3, 2, 1]),
    (Listing(ALL, text="EXP"), [3, 2, 1]),
    (Listing(ALL, text="p_1"), [1]),
    (Listing(ALL, text="%"), []),
    (Listing(ALL, text="bo"), [2]),
    (Listing(ALL, text="4"), [4]),
    (Listing(ALL, text="PYTHON tr"), [2]),
    (Listing(ALL, text="train.py"), []),
    (Listing(ALL, text="python", command_seen=Seen("ann", frozenset())), []),
    (Listing(ALL, text="python", command_seen=Seen("bob", frozenset())), [2]),
    (Listing(ALL, text="python", command_seen=Seen(None, frozenset({"default"}))), [2]),
    (Listing(ALL, classes=frozenset({PriorityClass.HIGH})), [4]),
    (Listing(ALL, tenants=frozenset({"default", "nobody"})), [4, 3, 2, 1]),
    (Listing(ALL, tenants=frozenset({"nobody", "no-one"})), []),
    (Listing(JobFilter(statuses=frozenset({Status.PENDING}), users=frozenset({"ann", "cy"}))), [4, 3]),
    (Listing(JobFilter(within="default")), [4, 3, 2, 1]),
    (Listing(JobFilter(within="def")), []),
    (Listing(JobFilter(seen=Seen("cy", frozenset()))), [4]),
    (Listing(JobFilter(id_ranges=((1, 2), (4, 9)))), [4, 2, 1]),
]
# As many parts as a request may have, each a range of its own.
SEARCHES.append((Listing(JobFilter(id_ranges=tuple((2 * at, 2 * at) for at in range(2, 1002)))), [4]))
ORDERS = [
    (SortKey.SUBMITTED, [4, 3, 2, 1]),
    (SortKey.STARTED, [1, 4, 3, 2]),
    (SortKey.ENDED, [1, 4, 3, 2]),
    (SortKey.RUN_TIME, [1, 4, 3, 2]),
    (SortKey.PRIORITY, [4, 3, 2, 1]),
    (SortKey.GPUS, [2, 4, 3, 1]),
    (SortKey.USER, [4, 2, 3, 1]),
    (SortKey.STATUS, [1, 4, 3, 2]),
    (SortKey.TASKS, [4, 3, 2, 1]),
    (SortKey.TENANT, [4, 3, 2, 1]),
]


async def test_listing_finds_what_its_search_says(store: Store) -> None:
    await some_jobs(store)
    for listing, expected in SEARCHES:
        assert await ids(store, listing, ListPage(10)) == expected, listing
        assert await ids(store, listing, ListPage(10, descending=False)) == expected[::-1], listing
        assert await store.count_jobs(listing, 10) == len(expected), listing
        assert await store.count_jobs(listing, 2) == min(2, len(expected)), listing


async def test_listing_is_sorted_and_its_pages_follow_one_another(store: Store) -> None:
    await some_jobs(store)
    for key, expected in ORDERS:
        page = ListPage(10, key, now_ms=100)
        assert await ids(store, Listing(ALL), page) == expected, key
        for descending in (True, False):
            whole = await ids(store, Listing(ALL), replace(page, descending=descending))
            paged: list[int] = []
            part = replace(page, limit=1, descending=descending)
            while found := await store.list_jobs(Listing(ALL), part):
                paged += [each.job.job_id for each in found]
                part = replace(part, after=(found[-1].value, found[-1].job.job_id))
            assert paged == whole, key
            assert sorted(paged) == [1, 2, 3, 4]
            skipped = await ids(store, Listing(ALL), replace(page, descending=descending, skip=3))
            assert skipped == whole[3:], key


async def test_jobs_without_a_start_come_last_in_both_directions(store: Store) -> None:
    await some_jobs(store)
    for descending in (True, False):
        assert (await ids(store, Listing(ALL), ListPage(10, SortKey.STARTED, descending)))[0] == 1


async def test_edited_job_is_sorted_by_its_new_gpus(store: Store) -> None:
    await some_jobs(store)
    job = await store.job(3)
    assert job is not None
    await store.edit(job, replace(job.spec, groups=a_job(gpu_milli=4000).groups), "ann", 95, {})
    assert (await ids(store, Listing(ALL), ListPage(10, SortKey.GPUS)))[0] == 3


async def test_jobs_are_read_by_id_in_the_order_asked_for(store: Store) -> None:
    await some_jobs(store)
    found = await store.jobs_by_id([3, 99, 1])
    assert [job and job.job_id for job in found] == [3, None, 1]
