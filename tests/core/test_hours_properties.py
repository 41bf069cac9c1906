"""Where GPU-hours are short and most are held: a plan is the one that the plain reference makes."""

from random import Random

from hypothesis import given, settings

from tests.core.core_story import DRF, PRIORITY, asks, carry_out, gang, node, picture_of, task
from tests.core.reference_planner import reference_plan
from tests.core.strategies import SEEDS
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, JobUse, Limits
from tgpu.domain.tenant import Tenant

HOUR = 1000 * 3600
TENANTS = ("a", "a/x", "a/y", "b")
HOURS_S = (1800, 3600, 3600, 2 * 3600, 4 * 3600, 9 * 3600)


def crowd(dice: Random, policy: Policy) -> Picture:
    """On machines that have room for almost all of them; at times most are alike but for their limits."""
    names, gpus = dice.choice(((TENANTS, (0, 1, 1, 2)), (("a/x",), (1, 2, 2, 2))))
    picture = picture_of([node(cpus=64, gpus=8), node("n2", cpus=64, gpus=8)], policy=policy)
    for name in TENANTS:
        jobs = JobLimits(dice.choice((None, None, 3)), gpu_ms=dice.choice((None, 6 * HOUR, 10 * HOUR)))
        use = JobUse(gpu_ms=HOUR * dice.choice((0, 2, 4, 8)))
        limits = Limits(gpu_milli=dice.choice((None, 2000, 4000)))
        picture.set_tenant(Tenant(name, limits=limits, job_limits=jobs, job_use=use))
    for number in range(dice.randint(0, 3)):
        placed = some_task(dice, 1 + number, names, gpus, held=False)
        devices = (2 * number, 2 * number + 1)[: placed.request.gpu_milli // 1000]
        picture.place(placed, TaskId(1 + number, 0).attempt(1), "n1", devices)
    for job_id in range(10, 10 + dice.randint(3, 9)):
        if dice.random() < 0.15:
            limit_s, tenant_id = dice.choice(HOURS_S), dice.choice(names)
            for each in gang(job_id, [asks(1)] * 2, tenant_id=tenant_id, held=True, time_limit_s=limit_s):
                picture.add_waiting(each)
        else:
            picture.add_waiting(some_task(dice, job_id, names, gpus, held=dice.random() < 0.85))
    return picture


def some_task(
    dice: Random, job_id: int, names: tuple[str, ...], gpus: tuple[int, ...], *, held: bool
) -> TaskBrief:
    return task(
        job_id,
        asks(dice.choice(gpus)),
        dice.choice((PriorityClass.DEFAULT, PriorityClass.DEFAULT, PriorityClass.LOW)),
        tenant_id=dice.choice(names),
        held=held,
        time_limit_s=dice.choice(HOURS_S) - 60,
    )


def told(made: Plan) -> list[str]:
    """One line per start, so that a difference can be read."""
    return [f"{each.task_id} on {each.node_id} {each.devices} {each.admission}" for each in made.starts]


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_whom_quotas_refuse_and_who_passes_is_as_in_the_reference(seed: int) -> None:
    dice = Random(seed)
    policy = dice.choice((PRIORITY, DRF))
    picture = crowd(dice, policy)
    for _ in range(3):
        made = plan(picture, policy)
        assert told(made) == told(plan(picture, policy, whole=True)) == told(reference_plan(picture, policy))
        carry_out(picture, made)
        picture.now_ms += 1000 * dice.choice((600, 3600))
        for task_id in sorted(picture.placed):
            if dice.random() < 0.4:
                picture.release(task_id)
