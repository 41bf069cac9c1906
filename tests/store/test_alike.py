"""The memory store and SQLite do the same: random sequences of operations have the same answers on both."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_story import a_job, a_node

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening, NodeState, Status
from tgpu.domain.tenant import Limits, Tenant
from tgpu.store.memory import MemoryStore
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    IdempotencyKey,
    JobFilter,
    Paging,
    QuotaExceededError,
    Started,
    StopOrdered,
    Store,
    StoreError,
    TaskClosed,
)
from tgpu.store.sqlite import SqliteStore

times = st.integers(1, 1000)
users = st.sampled_from(["ann", "bob"])
tenant_ids = st.sampled_from(["default", "lab", "lab/ann", "lab/bob"])
job_ids = st.integers(1, 6)
causes = st.sampled_from(Cause)
happenings = st.sampled_from(Happening)
task_ids = st.builds(TaskId, job_ids, st.sampled_from([0, 0, 0, 0, 1]))
attempt_ids = st.builds(lambda task_id, number: task_id.attempt(number), task_ids, st.integers(0, 3))
devices = st.lists(st.integers(0, 7), max_size=2).map(tuple)
details = st.sampled_from(["", "because"])
exits = st.builds(
    Exit,
    causes,
    st.none() | st.integers(0, 3),
    st.none() | st.just(9),
    details,
    st.none() | times,
    st.sampled_from([0, 500]),
)
specs = st.builds(
    lambda user, tenant_id, gpus, name: a_job(user, name, tenant_id, gpus * 500),
    users,
    tenant_ids,
    st.integers(0, 3),
    st.sampled_from(["", "a_b", "A%B"]),
)
limits = st.builds(Limits, gpu_milli=st.none() | st.integers(0, 5000))
batches = st.builds(
    Batch,
    times,
    st.lists(st.builds(a_node, st.sampled_from(["n1", "n2"]), st.sampled_from(NodeState)), max_size=1),
    st.lists(st.builds(Started, attempt_ids, times), max_size=3),
    st.lists(st.builds(StopOrdered, attempt_ids, causes, st.none() | users), max_size=2),
    st.lists(st.builds(AttemptEnded, attempt_ids, exits, happenings, details), max_size=3),
    st.lists(st.builds(TaskClosed, task_ids, happenings, causes, details), max_size=1),
    st.lists(st.builds(Assigned, attempt_ids, st.just("n1"), devices), max_size=4),
)
filters = st.builds(
    JobFilter,
    st.frozensets(st.sampled_from(Status), max_size=2),
    st.frozensets(users),
    st.none() | tenant_ids,
    st.none() | st.sampled_from(["a", "_", "%"]),
    st.lists(st.tuples(job_ids, job_ids), max_size=2).map(tuple),
    st.none() | times,
    st.none() | times,
    st.none() | times,
)
pagings = st.builds(Paging, st.integers(1, 4), st.none() | job_ids, st.booleans())
keys = st.none() | st.builds(IdempotencyKey, users, st.just("k"), st.sampled_from(["d1", "d2"]))
epochs_behind = st.sampled_from([0, 0, 0, 0, 0, 0, 1])


steps = st.one_of(
    st.tuples(st.just("submit"), st.lists(specs, max_size=3), times, keys),
    st.tuples(st.just("commit"), epochs_behind, batches),
    st.tuples(st.just("commit"), epochs_behind, batches),
    st.tuples(st.just("commit"), epochs_behind, batches),
    st.tuples(st.just("request_cancel"), st.lists(job_ids, max_size=2), users, times),
    st.tuples(st.just("create_tenant"), st.builds(Tenant, tenant_ids, st.integers(1, 3), limits)),
    st.tuples(st.just("update_tenant"), tenant_ids, limits, st.none() | st.integers(1, 2)),
    st.tuples(st.just("claim")),
    st.tuples(st.just("jobs"), filters, pagings),
    st.tuples(st.just("changes"), st.integers(0, 9), st.integers(1, 9)),
    st.tuples(
        st.just("events"), st.integers(0, 9), st.integers(1, 9), st.none() | job_ids, st.none() | users
    ),
)


async def outcome(store: Store, step: tuple[object, ...], epoch: int) -> object:
    name, *given_values = step
    arguments: list[object] = list(given_values)
    named: dict[str, object] = {}
    if name == "commit":
        arguments[0] = epoch - int(str(arguments[0]))
    elif name == "update_tenant":
        named = {"limits": arguments[1], "if_version": arguments[2]}
        arguments = arguments[:1]
    try:
        return await getattr(store, str(name))(*arguments, **named)
    except QuotaExceededError as error:
        return ("refused", str(error), error.tenant, error.dimension, error.asked)
    except StoreError as error:
        return ("refused", type(error), str(error))


async def everything(store: Store) -> list[object]:
    jobs = await store.jobs(JobFilter(), Paging(1000))
    return [
        jobs,
        [await store.attempts(job.job_id) for job in jobs],
        await store.events(),
        await store.last_seq(),
        await store.counts(),
        await store.nodes(),
        await store.tenants(),
        await store.load(),
        await store.changes(0),
    ]


async def follow(path: Path, script: list[tuple[object, ...]]) -> None:
    memory, sqlite = MemoryStore(), await SqliteStore.open(path)
    try:
        epoch = 0
        for step in script:
            answers = [await outcome(store, step, epoch) for store in (memory, sqlite)]
            assert answers[0] == answers[1], step
            if step[0] == "claim":
                assert isinstance(answers[0], int)
                epoch = answers[0]
        assert await everything(memory) == await everything(sqlite)
        await check_ledger(memory)
    finally:
        await sqlite.close()


async def check_ledger(store: Store) -> None:
    """What every tenant has admitted is the sum of what is live below it."""
    live = [job for job in await store.jobs(JobFilter(), Paging(1000)) if not job.status.is_final]
    for tenant in await store.tenants():
        below = [
            job.spec.groups[0].request.gpu_milli
            for job in live
            if f"{job.spec.tenant_id}/".startswith(f"{tenant.tenant_id}/")
        ]
        assert tenant.used.gpu_milli == sum(below)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=st.lists(steps, min_size=5, max_size=30))
def test_both_stores_answer_alike(fresh_file: Path, script: list[tuple[object, ...]]) -> None:
    opening: list[tuple[object, ...]] = [
        ("claim",),
        ("create_tenant", Tenant("lab", limits=Limits(gpu_milli=4000))),
        ("submit", [a_job(), a_job("bob"), a_job(tenant_id="lab")], 1, None),
        ("commit", 0, Batch(2, assigned=[Assigned(AttemptId(1, 0, 1), "n1", (0,))])),
    ]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(shutil.copy(fresh_file, folder))
        asyncio.run(follow(path, opening + script))
