"""What quotas count is what lives: added up in two ways, and held against the limits."""

from hypothesis import HealthCheck, given, note, settings

from tests.core.core_story import asks, carry_out
from tests.core.strategies import Story, stories
from tgpu.core.columns.quota_columns import RUNNING
from tgpu.core.invariants import Charged, Overcharge, charges, overcharges
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.domain.quota import BASIC, JobLimits, Limits, Standing
from tgpu.domain.tenant import Tenant, is_within


def living(picture: Picture) -> list[Charged]:
    found = []
    for task_id, task in picture.waiting.items():
        promised = task_id in picture.claims
        standing = Standing.HELD if task.held and not promised else Standing.CHARGED
        found.append(Charged(task.tenant_id, task.request, standing, has_node=promised))
    for placed in picture.placed.values():
        standing = Standing.BURST if placed.task.burst else Standing.CHARGED
        found.append(Charged(placed.task.tenant_id, placed.task.request, standing, has_node=True))
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(stories())
def test_what_the_picture_counts_is_the_sum_of_what_lives_at_every_level(story: Story) -> None:
    picture = story.picture
    note(story.in_lines())
    carry_out(picture, plan(picture, story.policy, whole=True))
    table = picture.table
    need = table.kinds.arrays().quota
    _, charged, burst, _, begun, spent = table.quotas.arrays(table.tenants, need, picture.hours, asked=True)
    alive = living(picture)
    for tenant in picture.tenants.values():
        row = table.tenants.top_row[tenant.tenant_id]
        limited = Tenant(
            tenant.tenant_id, limits=Limits(named=tuple((name, 0) for name in table.quotas.names))
        )
        for counted, true in zip((charged, burst), charges(limited, alive), strict=True):
            names = (*BASIC, *table.quotas.names)
            assert counted[row].tolist() == [true.of(name) for name in names]
        if table.quotas.limits_begin:
            running = sum(task.has_node and is_within(task.tenant_id, tenant.tenant_id) for task in alive)
            assert begun[row, RUNNING] == running
            placed = (placed.task for placed in picture.placed.values())
            below = [task for task in placed if is_within(task.tenant_id, tenant.tenant_id)]
            of_claims = [picture.waiting[task_id] for task_id in picture.claims]
            below += [task for task in of_claims if is_within(task.tenant_id, tenant.tenant_id)]
            used = picture.hours.used.get(tenant.tenant_id, 0)
            assert spent[row] == max(0, used - sum(map(story.policy.gpu_ms, below)))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(stories())
def test_no_plan_makes_more_of_any_overcharge(story: Story) -> None:
    """What was charged at submission may be over a limit here: these stories ask nobody."""
    picture = story.picture
    note(story.in_lines())
    before = {(over.tenant_id, over.dimension): over.by for over in of(picture)}
    carry_out(picture, plan(picture, story.policy, whole=True))
    assert [over for over in of(picture) if over.by > before.get((over.tenant_id, over.dimension), 0)] == []


def of(picture: Picture) -> list[Overcharge]:
    return overcharges(picture.tenants.values(), living(picture))


def test_every_way_to_be_over_a_limit_is_found_at_every_level() -> None:
    def task(tenant_id: str, standing: Standing, *, has_node: bool = True) -> Charged:
        return Charged(tenant_id, asks(1, gpu_type="A100"), standing, has_node)

    lab = Tenant(
        "lab", limits=Limits(gpu_milli=2000, named=(("gpu:a100", 1000),)), job_limits=JobLimits(running=2)
    )
    alive = [
        task("lab", Standing.CHARGED),
        task("lab/x", Standing.CHARGED, has_node=False),
        task("lab/x", Standing.BURST),
        task("lab/x", Standing.HELD, has_node=False),
        task("other", Standing.CHARGED),
    ]
    assert overcharges([lab, Tenant("lab/x")], alive) == [
        Overcharge("lab", "gpu:a100", 1000),
        Overcharge("lab", "burst gpu:a100", 500),
    ]
    assert overcharges([lab], [*alive, task("lab", Standing.BURST)]) == [
        Overcharge("lab", "burst gpu_milli", 1000),
        Overcharge("lab", "gpu:a100", 1000),
        Overcharge("lab", "burst gpu:a100", 1500),
        Overcharge("lab", "running", 1),
    ]
