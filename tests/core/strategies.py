"""Random small clusters in all their variety, led to where they are by the reference planner itself.

Hypothesis chooses how many there are of everything and a seed for each; what each looks like is thrown with
dice of that seed. So a story that fails becomes shorter, and large ones are not too rare.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.core.core_story import NOW_MS, carry_out, task
from tests.core.reference_planner import reference_plan
from tgpu.core.picture import Picture, Place, Placed, Window
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.job import Gang, LabelOp, LabelRule, Request, TaskBrief
from tgpu.domain.lifecycle import AttemptState, NodeState, Status
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, JobUse, Limits
from tgpu.domain.tenant import Tenant, Terms

MODELS = ("NVIDIA A100", "NVIDIA A100", "Tesla T4")
TENANTS = ("a", "a/x", "a/x/p", "a/x/q", "a/y", "b", "b/z")
STATES = (NodeState.READY,) * 8 + (NodeState.DRAINING, NodeState.OFFLINE)
GENERIC = ((),) * 8 + ((("fpga", 1),), (("matlab", 1),), (("fpga", 1), ("matlab", 2)))
RULES = (
    (LabelRule("rack", LabelOp.IN, ("r1", "r2")),),
    (LabelRule("rack", LabelOp.NOT_IN, ("r1",)),),
    (LabelRule("disk", LabelOp.EXISTS),),
    (LabelRule("disk", LabelOp.ABSENT),),
    (LabelRule("speed", LabelOp.AT_LEAST, ("2",)),),
    (LabelRule("speed", LabelOp.BELOW, ("2",)),),
)


SEEDS = st.integers(0, 2**32)


def rarely(dice: Random, once_in: int = 8) -> bool:
    return dice.randrange(once_in) == 0


@dataclass
class Story:
    """A picture, the policy it was made with, and the id that the next job gets."""

    picture: Picture
    policy: Policy
    next_id: int = 1

    def in_lines(self) -> str:
        """Every fact in one line, so that a failing story can be read."""
        picture, policy = self.picture, self.policy
        pools = {"": policy.default, **policy.pools}
        lines = [f"at {picture.now_ms}, licences {policy.cluster_generic}, min_run_s {policy.min_run_s}"]
        lines += [f"pool {name!r}: {pool}" for name, pool in pools.items()]
        lines += [f"{_node_line(place)}" for place in picture.places.values()]
        lines += [_attempt_line(placed) for placed in picture.placed.values()]
        lines += [_task_line(waiting) for waiting in picture.waiting.values()]
        lines += [str(tenant) for tenant in picture.tenants.values() if tenant != Tenant(tenant.tenant_id)]
        lines += [str(each) for each in (*picture.preempts, *picture.reservations, *picture.windows)]
        return "\n".join(lines)


def _differences(value: object) -> str:
    """Only what is not as usual."""
    usual = {field.name: field.default for field in fields(value)}  # type: ignore[arg-type]
    return " ".join(
        f"{name}={getattr(value, name)}" for name, default in usual.items() if getattr(value, name) != default
    )


def _node_line(place: Place) -> str:
    node, capacity = place.node, place.node.capacity
    devices = [
        f"{d.index}: {d.model[-4:]} {d.memory_mib} numa {d.numa_node} island {d.island}"
        + ("" if d.healthy else " sick")
        + (" avoided" if d.avoided else "")
        for d in capacity.devices
    ]
    state = f"{node.state}{'' if place.reachable else ' away'} pool {node.pool} serves {node.serves}"
    has = f"cpu {capacity.cpu_milli} memory {capacity.memory_mib} {capacity.generic} {devices}"
    return f"node {node.node_id} {state}: {has} {node.labels} {node.taints}"


def _attempt_line(placed: Placed) -> str:
    where = f"{placed.attempt_id} on {placed.node_id} {placed.devices} {placed.state} since {placed.since_ms}"
    return f"{where} stop by {placed.stop_by_ms}: {_task_line(placed.task)}"


def _task_line(task: TaskBrief) -> str:
    terms = (
        f"{task.task_id} {task.status} {task.priority_class}/{task.priority} {task.tenant_id}"
        f" since {task.submitted_ms} limit {task.time_limit_s} eligible {task.eligible_ms}"
    )
    flags = f"{'held ' * task.held}{'burst ' * task.burst}{task.gang or ''} checkpoint {task.checkpoint_ms}"
    return f"{terms} {flags}: {_differences(task.request)}"


def some_node(dice: Random, node_id: str) -> Node:
    devices = tuple(
        Device(
            index,
            f"GPU-{index}",
            dice.choice(MODELS),
            dice.choice((81920, 40960)),
            healthy=not rarely(dice, 12),
            avoided=rarely(dice, 16),
            numa_node=dice.choice((None, 0, 1)),
            island=dice.choice((None, None, 0, 1)),
        )
        for index in range(dice.choice((0, 1, 2, 2, 4, 4)))
    )
    generic = dice.choice(({}, {}, {"fpga": 1}, {"fpga": 2}))
    capacity = Capacity(dice.choice((2000, 4000, 8000)), 4096, 1000, devices, generic)
    labels = {"rack": dice.choice(("r1", "r2")), "disk": "ssd", "speed": dice.choice(("1", "2", "x"))}
    for name in ("disk", "speed"):
        if dice.random() < 0.5:
            del labels[name]
    taints = ("spot=yes",) if rarely(dice, 12) else ()
    pool = "big" if rarely(dice, 4) else "default"
    serves = "bob" if rarely(dice, 20) else "*"
    return Node(node_id, dice.choice(STATES), capacity, pool, labels, taints, serves=serves)


def some_request(dice: Random) -> Request:
    """Mostly plain, and few of each sort, so that tasks of one kind meet."""
    plain = Request(
        cpu_milli=dice.choice((0, 500, 1000, 1000, 2000, 4000)),
        memory_mib=dice.choice((0, 0, 0, 512, 3000)),
        gpu_milli=dice.choice((0, 0, 250, 500, 750, 1000, 1000, 2000, 3000)),
    )
    if not rarely(dice, 3):
        return plain
    odd: list[dict[str, Any]] = [
        {"gpu_milli": 0, "gpu_memory_mib": dice.choice((10000, 40960))},
        {"gpu_milli": 1000, "gpu_memory_mib": 50000},
        {"gpu_type": dice.choice(("a100", "t4")), "gpu_milli": 1000},
        {"gpu_types_barred": dice.choice((("a100",), ("t4",), ("nvidia a", "t4")))},
        {"exclusive": True},
        {"node_id": dice.choice(("n0", "n1", "n9"))},
        {"node_selector": (("rack", "r1"),)},
        {"node_rules": dice.choice(RULES)},
        {"tolerations": dice.choice((("spot",), ("spot=yes",), ("*",)))},
        {"generic": dice.choice(GENERIC)},
        {"generic": dice.choice(GENERIC)},
        {"pool": "big"},
        {"user": dice.choice(("ada", "bob"))},
    ]
    return replace(plain, **dice.choice(odd))


def some_job(seed: int, job_id: int, now_ms: int) -> list[TaskBrief]:
    """One task, or a gang."""
    dice = Random(seed)
    facts: dict[str, Any] = {
        "priority_class": dice.choice(tuple(PriorityClass)),
        "priority": dice.choice((-1, 0, 0, 1)),
        "submitted_ms": now_ms - dice.choice((0, 0, 1000, 4_000_000, 9_000_000)),
        "tenant_id": dice.choice(("default", *TENANTS)),
        "time_limit_s": dice.choice((30, 600, 600, 7200, 100_000, None)),
        "grace_s": dice.choice((None, None, 5, 100)),
        "held": rarely(dice, 5),
    }
    if not rarely(dice, 4):
        return [task(job_id, some_request(dice), **facts)]
    request = some_request(dice)
    small = replace(request, cpu_milli=min(1000, request.cpu_milli), gpu_milli=min(1000, request.gpu_milli))
    asked = [small] * dice.choice((2, 2, 3))
    if rarely(dice, 2):
        asked.append(replace(some_request(dice), pool=asked[0].pool))
    per_node = dice.choice((None, None, 1, 2))
    whole = Gang(len(asked), per_node, dice.choice((None, None, "rack")))
    return [task(job_id, request, index=index, gang=whole, **facts) for index, request in enumerate(asked)]


@st.composite
def policies(draw: st.DrawFn, *, preemption: bool | None = None) -> Policy:
    dice = Random(draw(SEEDS))

    def pool() -> PoolPolicy:
        return PoolPolicy(
            order=dice.choice(("drf", "drf", "priority", "fifo")),
            scorer=dice.choice(("tightest", "tightest", "spread")),
            cpu_overcommit=dice.choice((1000, 1000, 1500)),
            memory_overcommit=dice.choice((1000, 1000, 1250)),
            default_limit_s=dice.choice((86400, 3600)),
            reserve=dice.choice((1, 1, 0, 2)),
        )

    return Policy(
        pool(),
        {"big": pool()} if rarely(dice, 2) else {},
        preemption=not rarely(dice) if preemption is None else preemption,
        min_run_s=dice.choice((0, 0, 300)),
        cluster_generic=dice.choice(({}, {"matlab": 2})),
    )


def some_tenant(dice: Random, tenant_id: str) -> Tenant:
    tenant = Tenant(tenant_id, dice.randint(1, 5))
    if rarely(dice, 3):
        named = dice.choice(
            ((), (("gpu:a100", 1000),), (("generic:fpga", 1),), (("generic:fpga", 2), ("gpu:t4", 0)))
        )
        limits = Limits(
            dice.choice((None, 2000, 4000)), gpu_milli=dice.choice((None, 1000, 3000)), named=named
        )
        tenant = replace(tenant, limits=limits)
    if rarely(dice, 4):
        gpu_ms = dice.choice((None, 1000 * 3600, 5000 * 3600))
        use = JobUse(gpu_ms=dice.choice((0, 0, 900 * 3600)), period_from_ms=NOW_MS - 1_000_000)
        limits_of_jobs = JobLimits(dice.choice((None, 1, 2, 4)), gpu_ms=gpu_ms)
        tenant = replace(tenant, job_limits=limits_of_jobs, job_use=use)
    if rarely(dice, 4):
        tenant = replace(tenant, terms=Terms(may_burst=dice.choice((True, False))))
    return tenant


@st.composite
def stories(
    draw: st.DrawFn, policy: Policy | None = None, *, settled: bool = False, fresh: bool = False
) -> Story:
    """1 to 4 rounds of planning, time passing, tasks ending and coming; the last plan is left to the test.

    `settled`: the last plan has been carried out, and nothing has happened since. `fresh`: nothing ever ran.
    """
    policy = draw(policies()) if policy is None else policy
    story = Story(Picture(policy), policy)
    picture = story.picture
    picture.now_ms = NOW_MS
    for number, seed in enumerate(
        draw(st.lists(SEEDS, min_size=draw(st.sampled_from((0, 1, 2, 3))), max_size=4))
    ):
        dice = Random(seed)
        picture.set_node(some_node(dice, f"n{number}"))
        picture.set_reachable(f"n{number}", reachable=not rarely(dice, 12))
    dice = Random(draw(SEEDS))
    for name in TENANTS:
        picture.set_tenant(some_tenant(dice, name))
    if rarely(dice):
        picture.set_windows([some_window(dice)])
    jobs = st.lists(SEEDS, min_size=draw(st.sampled_from((0, 2, 5))), max_size=8)
    tasks_arrive(story, draw(jobs))
    rounds = st.lists(st.tuples(SEEDS, jobs), min_size=draw(st.sampled_from((0, 1, 2))), max_size=3)
    for seed, coming in [] if fresh else draw(rounds):
        carry_out(picture, reference_plan(picture, policy))
        dice = Random(seed)
        time_passes(dice, picture)
        tasks_arrive(story, coming)
        node_changes(dice, picture)
    if settled:
        settle(story)
    return story


def settle(story: Story) -> None:
    """Until a plan has nothing to start or to stop any more."""
    while True:
        made = reference_plan(story.picture, story.policy)
        carry_out(story.picture, made)
        if not made.starts and not made.preempts:
            return


def some_window(dice: Random) -> Window:
    from_ms = NOW_MS + 1000 * dice.choice((-100, 500, 5000))
    tenant_id = dice.choice((None, "a", "a/x"))
    return Window(frozenset({"n0", "n2"}), from_ms, from_ms + 3_600_000, tenant_id)


def tasks_arrive(story: Story, seeds: Sequence[int]) -> None:
    for seed in seeds:
        for each in some_job(seed, story.next_id, story.picture.now_ms):
            story.picture.add_waiting(each)
        story.next_id += 1


def time_passes(dice: Random, picture: Picture) -> None:
    before = picture.now_ms
    for placed in list(picture.placed.values()):
        if placed.state is AttemptState.ASSIGNED and not rarely(dice, 4):
            if rarely(dice, 4):  # by this attempt, or by one before
                saved_ms = before - 60_000 * dice.choice((0, 0, 30))
                placed.task = replace(placed.task, checkpoint_ms=saved_ms)
            picture.started(placed, before)
    picture.now_ms = before + 60_000 * dice.choice((1, 1, 10, 60, 600))
    for placed in list(picture.placed.values()):
        if rarely(dice, 3 if placed.state is AttemptState.STOPPING else 5):
            attempt_ends(dice, picture, placed)


def attempt_ends(dice: Random, picture: Picture, placed: Placed) -> None:
    """One who was stopped waits again, mostly asleep; a gang that loses a task may get it back."""
    picture.release(placed.task.task_id)
    again = replace(placed.task, burst=False)
    if placed.state is AttemptState.STOPPING or rarely(dice, 2):
        eligible_ms = picture.now_ms + dice.choice((0, 10_000, 900_000))
        picture.add_waiting(replace(again, status=Status.PREEMPTED, eligible_ms=eligible_ms))
    elif placed.task.gang is not None and not rarely(dice, 3):
        picture.add_waiting(replace(again, status=Status.PENDING))


def node_changes(dice: Random, picture: Picture) -> None:
    if picture.places and rarely(dice, 4):
        picture.set_state(dice.choice(sorted(picture.places)), dice.choice(STATES))
