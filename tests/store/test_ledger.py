"""What is charged when a job is submitted, by the tenant's way with work beyond its quota."""

import asyncio

import pytest

from tests.store.ledger_story import (
    LOW,
    QUEUE,
    check_exact,
    close,
    counts,
    finish,
    given,
    gpu_job,
    gpus,
    limit,
    seen,
    start,
    submit,
    tenant,
)
from tests.store.store_story import ROOT, setting
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Happening
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.domain.quota import Admission, JobLimits, Limits, OverQuota
from tgpu.domain.tenant import Terms
from tgpu.store.port import ArchivedTenantError, IdempotencyKey, Store, UnknownTenantError
from tgpu.store.quota_port import QuotaExceededError

FOUR_GPUS = Limits(gpu_milli=4000)


async def held(store: Store) -> dict[int, bool]:
    return {task.task_id.job_id: task.held for task in (await store.load()).tasks}


async def refusal(store: Store, *jobs: object) -> tuple[str, str, int]:
    with pytest.raises(QuotaExceededError) as refused:
        await submit(store, *jobs)  # type: ignore[arg-type]
    return refused.value.tenant.tenant_id, refused.value.dimension, refused.value.asked


async def test_where_work_is_queued_it_is_charged_only_when_it_starts(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS, terms=QUEUE)
    epoch = await store.claim()
    submitted = await store.submit([gpu_job(3)] * 3, 1)
    assert submitted.held == {1, 2, 3}
    assert await held(store) == {1: True, 2: True, 3: True}
    assert (await gpus(store), await counts(store)) == ((0, 0), (0, 3))
    assert await start(store, epoch, given(1, Admission.NOW), given(2, Admission.NOW)) == [2]
    assert (await gpus(store), await counts(store)) == ((3000, 0), (1, 2))
    assert await held(store) == {1: False, 2: True, 3: True}
    await finish(store, epoch, 1)
    assert (await gpus(store), await counts(store)) == ((0, 0), (0, 2))
    assert await start(store, epoch, given(2, Admission.NOW)) == []
    await check_exact(store)


async def test_what_is_held_is_not_started_as_if_it_were_charged(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS, terms=QUEUE)
    epoch = await store.claim()
    await submit(store, gpu_job())
    assert await start(store, epoch, given(1)) == [1]
    await check_exact(store)


async def test_a_job_that_is_more_than_a_whole_limit_is_refused_everywhere(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    await tenant(store, "lab/ann", terms=QUEUE)
    assert await refusal(store, gpu_job(1), gpu_job(5, "lab/ann")) == ("lab", "gpu_milli", 5000)
    assert await refusal(store, gpu_job(5, priority_class=LOW)) == ("lab", "gpu_milli", 5000)
    await check_exact(store)


@pytest.mark.parametrize("terms", [Terms(), QUEUE])
async def test_a_job_that_may_take_more_gpu_hours_than_a_period_has_is_refused(
    store: Store, terms: Terms
) -> None:
    await tenant(store, job_limits=JobLimits(gpu_ms=2000 * 3600), terms=terms)
    await tenant(store, "lab/ann")
    grace = TERMS[PriorityClass.DEFAULT].grace_s
    fits = gpu_job(2, "lab/ann", time_limit_s=3600 - grace)
    over = gpu_job(2, "lab/ann", time_limit_s=3601 - grace)
    with pytest.raises(QuotaExceededError) as refused:
        await submit(store, fits, over)
    told = refused.value
    assert (told.tenant.tenant_id, told.dimension, told.asked) == ("lab", "gpu_ms", 2000 * 3601)
    assert told.longest_limit_s == 3600 - grace
    await check_exact(store)
    await submit(store, fits, fits, gpu_job(0, "lab/ann", time_limit_s=10**6))
    await check_exact(store)


@pytest.mark.parametrize(
    ("above", "own", "queued"),
    [
        (None, None, False),
        (OverQuota.QUEUE, None, True),
        (OverQuota.QUEUE, OverQuota.REJECT, False),
        (None, OverQuota.QUEUE, True),
    ],
)
async def test_the_nearest_tenant_that_says_decides_what_becomes_of_work_over_quota(
    store: Store, above: OverQuota | None, own: OverQuota | None, *, queued: bool
) -> None:
    await tenant(store, terms=Terms(over_quota=above))
    await tenant(store, "lab/ann", terms=Terms(over_quota=own), limits=FOUR_GPUS)
    await submit(store, gpu_job(4, "lab/ann"))
    if queued:
        assert (await store.submit([gpu_job(4, "lab/ann")], 1)).held == {2}
    else:
        assert await refusal(store, gpu_job(4, "lab/ann")) == ("lab/ann", "gpu_milli", 4000)


async def test_work_that_may_burst_is_held_unless_it_is_more_than_half_of_the_limit(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    epoch = await store.claim()
    await submit(store, gpu_job(4))
    assert await refusal(store, gpu_job(1)) == ("lab", "gpu_milli", 1000)
    assert (await store.submit([gpu_job(2, priority_class=LOW)], 1)).held == {2}
    assert await refusal(store, gpu_job(3, priority_class=LOW)) == ("lab", "gpu_milli", 3000)
    assert await start(store, epoch, given(2, Admission.NOW)) == [2]
    assert await start(store, epoch, given(2, Admission.BURST)) == []
    assert (await gpus(store), await counts(store)) == ((4000, 2000), (1, 1))
    assert (await store.submit([gpu_job(1, priority_class=LOW)], 1)).held == {3}, "the burst will have room"
    assert await start(store, epoch, given(3, Admission.BURST)) == [3]
    await finish(store, epoch, 2)
    assert await start(store, epoch, given(3, Admission.BURST)) == []
    await check_exact(store)


async def test_what_leaves_the_burst_is_held_again(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    epoch = await store.claim()
    await submit(store, gpu_job(4))
    await submit(store, gpu_job(2, priority_class=LOW))
    await start(store, epoch, given(2, Admission.BURST))
    await finish(store, epoch, 2, happening=Happening.PREEMPTED)
    assert (await gpus(store), await counts(store)) == ((4000, 0), (0, 2))
    assert await held(store) == {1: False, 2: True}
    await close(store, epoch, 1)
    assert await start(store, epoch, given(2, Admission.NOW, number=2)) == []
    assert (await gpus(store), await counts(store)) == ((2000, 0), (1, 0))
    await check_exact(store)


async def test_what_was_admitted_stays_charged_when_it_is_put_back(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS, terms=QUEUE)
    epoch = await store.claim()
    await submit(store, gpu_job(4), gpu_job(4))
    await start(store, epoch, given(1, Admission.NOW))
    await finish(store, epoch, 1, happening=Happening.PREEMPTED)
    assert (await gpus(store), await counts(store)) == ((4000, 0), (0, 2))
    assert await start(store, epoch, given(2, Admission.NOW)) == [2]
    assert await start(store, epoch, given(1, number=2)) == []
    await check_exact(store)


async def test_a_tenant_that_may_not_burst_holds_nothing_for_it(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS, terms=Terms(may_burst=False))
    epoch = await store.claim()
    await submit(store, gpu_job(4))
    assert await refusal(store, gpu_job(1, priority_class=LOW)) == ("lab", "gpu_milli", 1000)
    await store.update_tenant("lab", setting(terms=Terms(may_burst=True)), ROOT, 1)
    await submit(store, gpu_job(1, priority_class=LOW))
    await store.update_tenant("lab", setting(terms=Terms(may_burst=False)), ROOT, 1)
    assert await start(store, epoch, given(2, Admission.BURST)) == [2]
    await check_exact(store)


async def test_a_full_burst_keeps_nobody_from_the_quota(store: Store) -> None:
    """Nor do admitted ones take anything of the burst: each has its own limit."""
    await tenant(store, limits=FOUR_GPUS)
    epoch = await store.claim()
    await submit(store, gpu_job(4))
    await submit(store, gpu_job(2, priority_class=LOW))
    assert await start(store, epoch, given(1), given(2, Admission.BURST)) == []
    await finish(store, epoch, 1)
    assert not (await store.submit([gpu_job(3), gpu_job(1, priority_class=LOW)], 1)).held
    assert await start(store, epoch, given(3), given(4)) == []
    assert await gpus(store) == (4000, 2000)
    await check_exact(store)


async def test_a_full_burst_keeps_nobody_held_from_being_admitted(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS, terms=QUEUE)
    epoch = await store.claim()
    await submit(store, gpu_job(2), *[gpu_job(2, priority_class=LOW)] * 2, gpu_job(2))
    assert await start(store, epoch, given(1, Admission.NOW), given(2, Admission.BURST)) == []
    assert await start(store, epoch, given(3, Admission.BURST)) == [3]
    assert await start(store, epoch, given(4, Admission.NOW)) == []
    assert await gpus(store) == (4000, 2000)
    await check_exact(store)


async def test_who_asks_nothing_of_a_full_dimension_is_let_in(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    await submit(store, gpu_job(4))
    await limit(store, gpu_milli=1000)
    await submit(store, gpu_job(0))
    assert await refusal(store, gpu_job(1)) == ("lab", "gpu_milli", 1000)


async def test_a_place_among_those_that_wait_is_limited_too(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(waiting=2), terms=QUEUE)
    epoch = await store.claim()
    assert await refusal(store, *[gpu_job()] * 3) == ("lab", "waiting", 3)
    await submit(store, *[gpu_job()] * 2)
    assert await refusal(store, gpu_job()) == ("lab", "waiting", 1)
    await start(store, epoch, given(1, Admission.NOW))
    await submit(store, gpu_job())
    await finish(store, epoch, 1, happening=Happening.REQUEUED)
    assert await counts(store) == (0, 3), "what is put back may exceed it"
    await check_exact(store)


async def test_named_limits_count_who_asks_by_name(store: Store) -> None:
    await tenant(store, limits=Limits(named=(("generic:licence", 3), ("gpu:a100", 2000))))
    await tenant(store, "lab/ann", limits=Limits(named=(("generic:licence", 2),)))
    await submit(store, gpu_job(2, "lab/ann", gpu_type="NVIDIA-A100-SXM"))
    await submit(store, gpu_job(1, "lab/ann", gpu_type="V100", generic=(("licence", 2),)))
    assert (await seen(store)).used.named == (("generic:licence", 2), ("gpu:a100", 2000))
    assert (await seen(store, "lab/ann")).used.named == (("generic:licence", 2),)
    assert await refusal(store, gpu_job(1, gpu_type="a100")) == ("lab", "gpu:a100", 1000)
    asking = gpu_job(0, "lab/ann", generic=(("licence", 1),))
    assert await refusal(store, asking) == ("lab/ann", "generic:licence", 1)
    epoch = await store.claim()
    await close(store, epoch, 2)
    await submit(store, asking)
    await check_exact(store)


async def test_models_that_are_limited_are_kept_from_who_did_not_ask(store: Store) -> None:
    await tenant(store, limits=Limits(named=(("gpu:a100", 2000), ("gpu:h100", 0))))
    await submit(store, gpu_job(1), gpu_job(1, gpu_type="A100"), gpu_job(0))
    requests = [task.request for task in (await store.load()).tasks]
    assert [request.gpu_types_barred for request in requests] == [("a100", "h100"), ("h100",), ()]
    assert [task.request for task in (await store.changes(0)).submitted] == requests
    job = await store.job(1)
    assert job is not None
    assert job.spec.groups[0].request == Request(1000, 0, 0, 1000), "what was asked is not changed"


async def test_an_archived_tenant_and_those_below_it_take_nothing(store: Store) -> None:
    await tenant(store)
    await tenant(store, "lab/ann")
    await submit(store, gpu_job(1, "lab/ann"))
    await store.update_tenant("lab", setting(terms=Terms(archived=True)), ROOT, 1)
    for tenant_id in ("lab", "lab/ann"):
        with pytest.raises(ArchivedTenantError, match="'lab' is archived"):
            await submit(store, gpu_job(1, "default"), gpu_job(1, tenant_id))
    epoch = await store.claim()
    assert await start(store, epoch, given(1)) == []
    await check_exact(store)


async def test_the_first_tenant_from_the_root_that_there_is_not_is_named(store: Store) -> None:
    await tenant(store)
    for tenant_id, missing in (("lab/ann/x", "lab/ann"), ("other/ann", "other")):
        with pytest.raises(UnknownTenantError) as refused:
            await submit(store, gpu_job(1, tenant_id))
        assert refused.value.tenant_id == missing


async def test_a_refusal_falls_on_nobody_else(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    asked = [gpu_job(2), gpu_job(9), gpu_job(1, "nobody"), gpu_job(3), gpu_job(2), gpu_job(1, "default")]
    answers = await asyncio.gather(*(store.submit([job], 1) for job in asked), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == [
        "Submitted",
        "QuotaExceededError",
        "UnknownTenantError",
        "QuotaExceededError",
        "Submitted",
        "Submitted",
    ]
    assert await gpus(store) == (4000, 0)
    assert await store.last_seq() == 3
    await check_exact(store)


async def test_a_repeated_request_is_told_again_what_is_held(store: Store) -> None:
    await tenant(store, terms=QUEUE)
    epoch = await store.claim()
    key = IdempotencyKey("ann", "k", "d")
    first = await store.submit([gpu_job()] * 2, 1, key)
    assert first.held == {1, 2}
    await start(store, epoch, given(1, Admission.NOW))
    again = await store.submit([gpu_job()] * 2, 2, key)
    assert (again.job_ids, again.replayed, again.held) == ([1, 2], True, {2})
    assert await counts(store) == (1, 1)


async def test_classes_that_may_not_burst_do_not(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    await submit(store, gpu_job(4))
    for name in PriorityClass:
        if name is not LOW:
            assert await refusal(store, gpu_job(1, priority_class=name)) == ("lab", "gpu_milli", 1000)


async def test_trial_submission_is_judged_as_a_submission_and_charges_nothing(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS)
    before = await seen(store), await store.last_seq()
    tried = await store.try_submit([gpu_job(3)])
    assert [(job.held, job.tasks) for job in tried.jobs] == [(False, 1)]
    assert [(each.tenant_id, each.used.gpu_milli) for each in tried.tenants] == [("lab", 3000)]
    with pytest.raises(QuotaExceededError):
        await store.try_submit([gpu_job(3), gpu_job(3)])
    with pytest.raises(UnknownTenantError):
        await store.try_submit([gpu_job(1, "nowhere")])
    assert (await seen(store), await store.last_seq()) == before
    assert await submit(store, gpu_job(3)) == [1]


async def test_trial_submission_tells_what_would_wait_for_its_quota(store: Store) -> None:
    await tenant(store, limits=FOUR_GPUS, terms=QUEUE)
    (job,) = (await store.try_submit([gpu_job(3)])).jobs
    assert (job.held, await gpus(store), await counts(store)) == (True, (0, 0), (0, 0))
