"""Jobs that have ended are found again by how, where and when they ran."""

import pytest

from tests.store.store_story import a_job, nth
from tgpu.domain.access import Actor
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.tenant import Tenant
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started, Store
from tgpu.store.ran import Ran

WANTED = [
    (JobFilter(), [4, 3, 2, 1]),
    (JobFilter(within="lab"), [3, 2]),
    (JobFilter(within="lab/a"), [3]),
    (JobFilter(ran=Ran(causes=frozenset({Cause.EXITED}))), [1]),
    (JobFilter(ran=Ran(causes=frozenset({Cause.EXITED, Cause.TIME_LIMIT}))), [2, 1]),
    (JobFilter(ran=Ran(node_ids=frozenset({"n2", "n3"}))), [3, 2]),
    (JobFilter(ran=Ran(exit_code=0)), [1]),
    (JobFilter(ran=Ran(exit_code=137)), [2]),
    (JobFilter(ran=Ran(started_from_ms=200)), [3, 2]),
    (JobFilter(ran=Ran(started_until_ms=200)), [2, 1]),
    (JobFilter(ran=Ran(ended_from_ms=151)), [2]),
    (JobFilter(ran=Ran(ended_until_ms=150)), [1]),
    (JobFilter(ran=Ran(ended_from_ms=150, ended_until_ms=600)), [2, 1]),
    (JobFilter(ran=Ran(least_run_ms=400, now_ms=1000)), [3, 2]),
    (JobFilter(ran=Ran(least_run_ms=701, now_ms=1000)), []),
    (JobFilter(users=frozenset({"bob"}), ran=Ran(node_ids=frozenset({"n2"}))), [2]),
    (JobFilter(within="lab", ran=Ran(node_ids=frozenset({"n2"}), ended_until_ms=599)), []),
]


async def four_jobs(store: Store) -> None:
    """One that succeeded, one out of time, one that runs, one that waits."""
    epoch = await store.claim()
    for name in ("lab", "lab/a", "labour"):
        await store.create_tenant(Tenant(name), Actor("root", "server"), 1)
    tenants = ("default", "lab", "lab/a", "labour")
    users = ("ann", "bob", "ann", "bob")
    await store.submit(
        [a_job(user, tenant_id=tenant) for user, tenant in zip(users, tenants, strict=True)], 10
    )
    placed = [Assigned(nth(1, job), node, (0,)) for job, node in ((1, "n1"), (2, "n2"), (3, "n3"))]
    await store.commit(epoch, Batch(50, assigned=placed))
    began = [Started(nth(1, job), at) for job, at in ((1, 100), (2, 200), (3, 300))]
    await store.commit(epoch, Batch(300, started=began))
    ended = [
        AttemptEnded(nth(1, 1), Exit(Cause.EXITED, 0, ended_ms=150), Happening.SUCCEEDED),
        AttemptEnded(nth(1, 2), Exit(Cause.TIME_LIMIT, 137, ended_ms=600), Happening.FAILED),
    ]
    receipt = await store.commit(epoch, Batch(600, ended=ended))
    assert not receipt.refused


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_only_what_is_asked_for_is_found(store: Store, oldest_first: bool) -> None:
    await four_jobs(store)
    for where, ids in WANTED:
        found = [job.job_id for job in await store.jobs(where, Paging(oldest_first=oldest_first))]
        assert found == (ids[::-1] if oldest_first else ids), where
