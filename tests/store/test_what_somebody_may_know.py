"""Lists and counts for somebody who may not know of every job; and jobs that wait for a quota."""

import pytest

from tests.store.store_story import a_job
from tgpu.domain.access import Actor
from tgpu.domain.lifecycle import Status
from tgpu.domain.quota import OverQuota
from tgpu.domain.tenant import Tenant, Terms
from tgpu.store.job_filter import JobFilter, Paging, Seen
from tgpu.store.port import Store

ROOT = Actor("root", "server")


async def submitted(store: Store) -> None:
    """1: ann's in lab, 2: bob's in lab_x, 3: ann's in lab-x, 4: bob's in lab/a."""
    for name in ("lab", "lab_x", "lab-x", "lab/a"):
        await store.create_tenant(Tenant(name), ROOT, 1)
    for user, tenant_id in (("ann", "lab"), ("bob", "lab_x"), ("ann", "lab-x"), ("bob", "lab/a")):
        await store.submit([a_job(user, tenant_id=tenant_id)], 1)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Seen(None, frozenset()), []),
        (Seen("ann", frozenset()), [3, 1]),
        (Seen(None, frozenset({"lab"})), [1]),
        (Seen(None, frozenset({"lab_x"})), [2]),
        (Seen("ann", frozenset({"lab/a", "lab_x"})), [4, 3, 2, 1]),
        (Seen("eve", frozenset({"default"})), []),
    ],
)
async def test_what_may_not_be_known_is_left_out(store: Store, seen: Seen, expected: list[int]) -> None:
    await submitted(store)
    jobs = await store.jobs(JobFilter(seen=seen), Paging())
    assert [job.job_id for job in jobs] == expected
    pending = await store.jobs(JobFilter(seen=seen, statuses=frozenset({Status.PENDING})), Paging(limit=1))
    assert [job.job_id for job in pending] == expected[:1]
    counts = await store.counts(seen)
    assert sum(counts.by_status.values()) == sum(counts.live_by_user.values()) == len(expected)


async def test_a_job_that_waits_for_its_quota_is_told_as_held(store: Store) -> None:
    await store.create_tenant(Tenant("lab", terms=Terms(over_quota=OverQuota.QUEUE)), ROOT, 1)
    await store.submit([a_job(tenant_id="lab"), a_job()], 1)
    held, charged = await store.job(1), await store.job(2)
    assert held is not None
    assert charged is not None
    assert (held.held, charged.held) == (True, False)
    assert [job.held for job in await store.jobs(JobFilter(), Paging())] == [False, True]
    assert [job.held for job in await store.request_cancel([1, 2], "ann", 2) if job] == [True, False]
