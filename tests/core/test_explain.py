"""Why does it wait, and until when? What users read is under test, word by word."""

from typing import Any

from tests.core.core_story import (
    DRF,
    NOW_MS,
    PRIORITY,
    asks,
    at,
    carry_out,
    device,
    gang,
    node,
    picture_of,
    task,
)
from tgpu.core.explain import explain
from tgpu.core.picture import Picture, Window
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import Cause, NodeState, Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Amounts, Limits, Tenant
from tgpu.domain.views import Advice, Holder, Reason, Why

HIGH, LOW = PriorityClass.HIGH, PriorityClass.LOW
LICENSED = Policy(PoolPolicy(order="priority"), cluster_generic={"matlab": 4})


def why(picture: Picture, job_id: int, index: int = 0) -> Why:
    answer = explain(picture, picture.policy, TaskId(job_id, index))
    assert answer is not None
    return answer


def waits(job_id: int, *reasons: Reason, **more: Any) -> Why:
    """First in line, and without advice, unless something else is said."""
    facts: dict[str, Any] = {"position": 1} | more
    return Why(job_id, True, f"waits: {reasons[0].text}", reasons, **facts)


def holder(job_id: int, gpus: float = 0, devices: tuple[int, ...] = (), **more: Any) -> Holder:
    facts: dict[str, Any] = {
        "user": "ada",
        "name": "",
        "node_id": "n1",
        "running_s": 0.0,
        "remaining_s": None,
    }
    return Holder(job_id=job_id, gpu_milli=round(1000 * gpus), devices=devices, **facts | more)


def fewer_gpus(now: int, instead: int, node_id: str = "n1") -> Advice:
    text = f"with --gpus {instead} it would start now on {node_id}"
    return Advice("gpu_milli", 1000 * now, 1000 * instead, text)


# Those who do not wait


def test_who_is_not_in_the_picture_has_no_answer() -> None:
    assert explain(picture_of([]), PRIORITY, TaskId(1, 0)) is None


def test_a_task_that_will_start_says_so() -> None:
    assert why(picture_of([node()], [task(1)]), 1) == Why(
        1,
        True,
        "waits: it starts in the next cycle",
        position=1,
        starts_at_ms=NOW_MS,
        estimate="starts now on n1",
    )


def test_a_placed_task_says_where_it_is() -> None:
    picture = picture_of([node(gpus=2)])
    assigned = task(1, asks(gpus=2))
    placed = picture.place(assigned, assigned.task_id.attempt(1), "n1", (0, 1))
    assert why(picture, 1) == Why(1, False, "is being started on n1, GPU 0, 1")
    picture.started(placed, NOW_MS)
    assert why(picture, 1) == Why(1, False, "runs on n1, GPU 0, 1")


# Never


def test_without_nodes_there_is_nothing_to_wait_for_yet() -> None:
    assert why(picture_of([], [task(1)]), 1) == waits(1, Reason("no-nodes", "no node has joined yet"))


def test_what_can_never_run_is_said_with_the_largest_node() -> None:
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=4)], [task(1, asks(gpus=8))])
    sentence = "can never run here: it asks for 8 GPUs, the largest node has 4"
    assert why(picture, 1) == Why(
        1,
        True,
        sentence,
        (Reason("never-fits", sentence),),
        position=1,
        advice=fewer_gpus(8, 4, "n2"),
    )


# What is missing


def test_missing_gpus_are_counted_and_their_holders_named() -> None:
    training = task(9, asks(gpus=3), user="bob", name="train", time_limit_s=100)
    cpu_only = task(8, user="cyd")
    picture = picture_of(
        [node(gpus=4)], [task(1, asks(gpus=2))], [(training, "n1", (0, 1, 2)), (cpu_only, "n1", ())]
    )
    picture.now_ms = at(30)
    text = "needs 2 GPUs; n1 has 1 of 4 GPUs free"
    assert why(picture, 1) == waits(
        1,
        Reason("gpus", text, {"node_id": "n1", "needs": 2.0, "free": 1, "of": 4}),
        holders=(Holder(9, "bob", "train", 3000, (0, 1, 2), "n1", 30.0, 70.0),),
        starts_at_ms=at(100),
        estimate="starts by backfill ≈ 13:48 UTC on n1",
        advice=fewer_gpus(2, 1),
    )


def test_of_many_nodes_the_one_that_lacks_least_is_told() -> None:
    holders = [
        (task(91, asks(gpus=4), time_limit_s=60), "n1", (0, 1, 2, 3)),
        (task(92, asks(gpus=2), time_limit_s=60), "n2", (0, 1)),
        (task(93, asks(gpus=3), time_limit_s=60), "n3", (0, 1, 2)),
    ]
    picture = picture_of(
        [node(f"n{number}", gpus=8) for number in (1, 2, 3)], [task(1, asks(gpus=8))], holders
    )
    text = "needs 8 whole GPUs on one node; 3 nodes match, best has 6 free (n2)"
    assert why(picture, 1) == waits(
        1,
        Reason("gpus", text, {"node_id": "n2", "needs": 8.0, "free": 6, "of": 8, "nodes": 3}),
        holders=(holder(92, 2, (0, 1), node_id="n2", remaining_s=60.0),),
        starts_at_ms=at(60),
        estimate="starts by backfill ≈ 13:47 UTC on n1",
        advice=fewer_gpus(8, 6, "n2"),
    )


def test_a_missing_part_is_said_per_device() -> None:
    holders = [(task(8, asks(gpus=0.75)), "n1", (0,)), (task(9, asks(gpus=0.5)), "n1", (1,))]
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=0.75))], holders)
    text = "needs 0.75 of a GPU; no GPU of n1 has that much free"
    assert why(picture, 1) == waits(
        1,
        Reason("gpus", text, {"node_id": "n1", "needs": 0.75, "free": 0, "of": 2}),
        holders=(holder(8, 0.75, (0,)), holder(9, 0.5, (1,))),
        starts_at_ms=at(86400),
        estimate="starts by backfill ≈ 1970-01-13 13:46 UTC on n1",
        advice=Advice("gpu_milli", 750, 500, "with --gpus 0.5 it would start now on n1"),
    )


def test_missing_cpus_name_everybody_on_the_node() -> None:
    picture = picture_of(
        [node(cpus=4)], [task(1, asks(cpus=3))], [(task(9, asks(cpus=2), time_limit_s=60), "n1", ())]
    )
    assert why(picture, 1) == waits(
        1,
        Reason("cpus", "needs 3 CPUs; n1 has 2 free", {"node_id": "n1", "needs": 3.0, "free": 2.0}),
        holders=(holder(9, remaining_s=60.0),),
        starts_at_ms=at(60),
        estimate="starts by backfill ≈ 13:47 UTC on n1",
        advice=Advice("cpu_milli", 3000, 2000, "with --cpus 2 it would start now on n1"),
    )


def test_all_that_is_missing_on_the_nearest_node_is_told() -> None:
    full = task(9, asks(cpus=6, memory_mib=12000, generic=(("fpga", 1),)), time_limit_s=60)
    asked = asks(cpus=4, memory_mib=8192, generic=(("fpga", 1),))
    picture = picture_of([node(generic={"fpga": 1})], [task(1, asked)], [(full, "n1", ())])
    at_n1 = {"node_id": "n1"}
    assert why(picture, 1) == waits(
        1,
        Reason("cpus", "needs 4 CPUs; n1 has 2 free", at_n1 | {"needs": 4.0, "free": 2.0}),
        Reason(
            "memory", "needs 8192 MiB of memory; n1 has 4384 free", at_n1 | {"needs": 8192.0, "free": 4384.0}
        ),
        Reason("generic", "needs 1 of fpga; n1 has 0 free", at_n1 | {"needs": 1.0, "free": 0.0}),
        holders=(holder(9, remaining_s=60.0),),
        starts_at_ms=at(60),
        estimate="starts by backfill ≈ 13:47 UTC on n1",
    )


def test_an_exclusive_task_is_told_that_the_node_is_not_free() -> None:
    picture = picture_of([node()], [task(1, asks(exclusive=True))], [(task(9), "n1", ())])
    assert why(picture, 1) == waits(
        1,
        Reason("not-alone", "n1 is not free for a task that wants it alone"),
        holders=(holder(9),),
        starts_at_ms=at(86400),
        estimate="starts by backfill ≈ 1970-01-13 13:46 UTC on n1",
        advice=Advice("exclusive", True, False, "without --exclusive it would start now on n1"),
    )
    taken = picture_of([node()], [task(1)], [(task(9, asks(exclusive=True)), "n1", ())])
    assert why(taken, 1).reasons == (Reason("not-alone", "n1 is taken by a task that has it alone"),)


def test_licences_of_the_cluster_are_counted_and_kept_for_the_first_who_lacks_some() -> None:
    waiting = [task(1, asks(generic=(("matlab", 2),)), user="bob"), task(2, asks(generic=(("matlab", 1),)))]
    using = (task(9, asks(generic=(("matlab", 3),))), "n1", ())
    picture = picture_of([node()], waiting, [using], LICENSED)
    text = "needs 2 of licence matlab; 1 of 4 is free"
    instead = "with --resource matlab=1 it would start now on n1"
    assert why(picture, 1) == waits(
        1,
        Reason("licence", text, {"name": "matlab", "needs": 2, "free": 1, "of": 4}),
        advice=Advice("generic", (("matlab", 2),), (("matlab", 1),), instead),
    )
    text = "needs 1 of licence matlab; 1 of 4 is free and kept for job 1 of bob"
    data = {"name": "matlab", "needs": 1, "free": 1, "of": 4, "job_id": 1, "user": "bob"}
    instead = "without --resource matlab it would start now on n1"
    assert why(picture, 2) == waits(
        2,
        Reason("licence", text, data),
        Reason("in-line", "2nd in line in class default", {"ahead": 1, "class": "default"}),
        position=2,
        advice=Advice("generic", (("matlab", 1),), (), instead),
    )


# Nodes that are not to be had


def test_a_node_that_is_away_or_drains_is_named() -> None:
    picture = picture_of([node("n1"), node("n2", state=NodeState.DRAINING)], [task(1)])
    picture.set_reachable("n1", reachable=False)
    assert why(picture, 1) == waits(
        1,
        Reason("node-away", "n1 is not connected", {"node_id": "n1"}),
        Reason("node-away", "n2 is draining and takes no new tasks", {"node_id": "n2"}),
    )


def test_many_nodes_that_are_away_are_counted() -> None:
    picture = picture_of([node(f"n{number}") for number in range(5)], [task(1)])
    for number in range(5):
        picture.set_reachable(f"n{number}", reachable=False)
    text = "5 nodes that would do are not connected: n0, n1, n2 and 2 more"
    assert why(picture, 1) == waits(1, Reason("node-away", text, {"nodes": 5}))


def test_a_taint_that_is_not_tolerated_is_told() -> None:
    nodes = [node("n1", gpus=1), node("n2", gpus=1, taints=("spot",))]
    picture = picture_of(
        nodes, [task(1, asks(gpus=1))], [(task(9, asks(gpus=1), time_limit_s=60), "n1", (0,))]
    )
    text = "needs 1 GPU; n1 has 0 of 1 GPUs free"
    tainted = "n2 is tainted with spot, which it does not tolerate"
    assert why(picture, 1) == waits(
        1,
        Reason("gpus", text, {"node_id": "n1", "needs": 1.0, "free": 0, "of": 1}),
        Reason("taint", tainted, {"node_id": "n2", "taint": "spot"}),
        holders=(holder(9, 1, (0,), remaining_s=60.0),),
        starts_at_ms=at(60),
        estimate="starts by backfill ≈ 13:47 UTC on n1",
        advice=Advice("tolerations", (), ("spot",), "with --tolerate spot it would start now on n2"),
    )


def test_a_window_that_comes_and_one_that_has_come_are_told() -> None:
    picture = picture_of([node()], [task(1, time_limit_s=7200)])
    picture.set_windows([Window(frozenset({"n1"}), at(3600), at(7200))])
    text = (
        "n1 is closed from 14:46 UTC to 15:46 UTC, and it might still run then; "
        "with a time limit of at most 1h it would not"
    )
    assert why(picture, 1) == waits(
        1,
        Reason("window", text, {"node_id": "n1", "nodes": 1, "time_limit_s": 3600}),
        starts_at_ms=at(7200),
        estimate="starts by backfill ≈ 15:46 UTC on n1",
        advice=Advice("time_limit_s", 7200, 3600, "with --time 1h it would start now on n1"),
    )
    picture.set_tenant(Tenant("vip"))
    picture.set_windows([Window(frozenset({"n1"}), NOW_MS, at(7200), "vip")])
    text = "n1 is closed to all but tenant vip until 15:46 UTC"
    assert why(picture, 1) == waits(
        1,
        Reason("window", text, {"node_id": "n1", "nodes": 1}),
        starts_at_ms=at(7200),
        estimate="starts by backfill ≈ 15:46 UTC on n1",
    )


# Room that is kept


def test_who_would_delay_another_is_told_whom_and_what_would_let_it_pass() -> None:
    running = (task(9, asks(gpus=1), time_limit_s=7200), "n1", (0,))
    waiting = [
        task(1, asks(gpus=2), user="bob", time_limit_s=3600),
        task(2, asks(gpus=1)),
        task(3, asks(gpus=1)),
    ]
    picture = picture_of([node(gpus=2)], waiting, [running])
    kept = (
        "it would fit on n1 but would delay job 1 of bob, which starts there at about 15:46 UTC; "
        "with a time limit of at most 2h it would pass"
    )
    expected = waits(
        2,
        Reason("kept-for", kept, {"job_id": 1, "user": "bob", "node_id": "n1", "time_limit_s": 7200}),
        Reason("in-line", "2nd in line in class default", {"ahead": 1, "class": "default"}),
        position=2,
        starts_at_ms=at(7200 + 3600),
        estimate="not before 16:46 UTC",
        advice=Advice("time_limit_s", None, 7200, "with --time 2h it would start now by backfill on n1"),
    )
    assert why(picture, 2) == expected
    carry_out(picture, plan(picture, PRIORITY))
    assert why(picture, 2) == expected
    assert why(picture, 3).reasons[-1].text == "3rd in line in class default"


# Quota, backoff, victims


def test_a_held_task_is_told_whose_limit_holds_it_with_the_numbers() -> None:
    waiting = [
        task(1, asks(gpus=2), tenant_id="lab/vision", held=True),
        task(2, asks(gpus=1), tenant_id="lab/vision", held=True),
    ]
    picture = picture_of([node(gpus=4)], waiting, policy=DRF)
    picture.set_tenant(Tenant("lab", 1, Limits(gpu_milli=4000), Amounts(gpu_milli=3000)))
    text = "held by the quota of tenant lab: 3 of 4 GPUs are admitted, and it needs 2"
    data = {"tenant_id": "lab", "resource": "GPUs", "limit": 4.0, "used": 3.0, "needs": 2.0}
    assert why(picture, 1) == waits(1, Reason("quota", text, data), advice=fewer_gpus(2, 1))
    text = "held: job 1 comes before it, and the quota has no room for that one yet"
    in_line = "2nd in line of tenant lab/vision in class default"
    assert why(picture, 2) == waits(
        2,
        Reason("quota", text, {"job_id": 1}),
        Reason("in-line", in_line, {"ahead": 1, "class": "default", "tenant_id": "lab/vision"}),
        position=2,
    )


def test_a_held_gang_stops_every_task_of_a_held_gang_behind_it() -> None:
    large = gang(1, [asks(gpus=1)] * 3, tenant_id="lab", held=True)
    small = gang(2, [asks(gpus=1)] * 2, tenant_id="lab", held=True)
    picture = picture_of([node(gpus=8)], large + small, policy=DRF)
    picture.set_tenant(Tenant("lab", 1, Limits(gpu_milli=2000)))
    for index in range(2):
        assert why(picture, 2, index).reasons[0] == Reason(
            "quota",
            "held: job 1 comes before it, and the quota has no room for that one yet",
            {"job_id": 1},
        )


def test_who_was_preempted_is_told_when_it_may_start_again() -> None:
    picture = picture_of([node()], [task(1, status=Status.PREEMPTED, eligible_ms=at(8))])
    assert why(picture, 1) == waits(
        1,
        Reason("backoff", "was preempted; it may start again in 8 s", {"eligible_in_s": 8}),
        starts_at_ms=at(8),
        estimate="not before 13:46 UTC",
    )


def test_who_has_a_claim_is_told_who_is_being_stopped_for_it() -> None:
    victim = (task(17, asks(gpus=1), LOW, user="ann"), "n1", (0,))
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2), HIGH)], [victim])
    text = "job 17 of ann is being stopped for it; it starts on n1 when that has gone"
    expected = waits(
        1,
        Reason("claim", text, {"node_id": "n1", "job_ids": [17]}),
        starts_at_ms=at(30),
        estimate="starts ≈ 13:47 UTC at the latest",
    )
    assert why(picture, 1) == expected
    carry_out(picture, plan(picture, PRIORITY))
    assert why(picture, 1) == expected
    picture.release(TaskId(17, 0))
    assert why(picture, 1).estimate == "starts now on n1"


# Gangs


def test_every_task_of_a_gang_is_told_how_many_places_were_found() -> None:
    running = (task(9, asks(gpus=2), time_limit_s=60), "n1", (0, 1))
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=2)], gang(1, [asks(gpus=1)] * 3), [running])
    for index in range(3):
        assert why(picture, 1, index) == waits(
            1,
            Reason("gang", "needs 3 places together; 2 found", {"needs": 3, "found": 2}),
            starts_at_ms=at(60),
            estimate="starts by backfill ≈ 13:47 UTC on n1 and n2",
        )


def test_a_gang_is_told_its_terms() -> None:
    nodes = [node("n1", gpus=2, labels={"rack": "a"}), node("n2", gpus=2, labels={"rack": "b"})]
    picture = picture_of(nodes, gang(1, [asks(gpus=1)] * 4, per_node=2, topology="rack"))
    text = "needs 4 places together, at most 2 on a node, all on nodes with one value of rack; 2 found"
    assert why(picture, 1) == waits(
        1,
        Reason("gang", text, {"needs": 4, "found": 2}),
        advice=Advice("topology", "rack", None, "without its topology rack it would start now on n1 and n2"),
    )


def test_a_gang_that_is_not_all_there_waits_for_the_rest() -> None:
    picture = picture_of([node()], gang(1, [asks()] * 3)[:2])
    text = "2 of the 3 tasks of its gang are known; it starts when all are"
    assert why(picture, 1) == waits(1, Reason("gang", text, {"known": 2, "of": 3}))


# The line


def test_the_line_is_told_with_the_tenants_standing_and_higher_classes() -> None:
    waiting = [
        task(1, asks(gpus=4), tenant_id="vision"),
        task(2, asks(gpus=4), tenant_id="lang"),
        task(3, asks(gpus=4), tenant_id="vision"),
        task(4, asks(gpus=4), HIGH),
    ]
    running = [
        (task(8, asks(gpus=3), HIGH, tenant_id="vision", time_limit_s=60), "n1", (0, 1, 2)),
        (task(9, asks(gpus=1), HIGH, tenant_id="lang", time_limit_s=60), "n1", (3,)),
    ]
    picture = picture_of([node(gpus=4)], waiting, running, DRF)
    in_line = "2nd in line of tenant vision in class default"
    share = "tenant vision is at 1.5 times its share; 1 other tenant is served first"
    assert why(picture, 3).reasons[1:] == (
        Reason("in-line", in_line, {"ahead": 1, "class": "default", "tenant_id": "vision"}),
        Reason("share", share, {"tenant_id": "vision", "times": 1.5, "before": 1}),
        Reason("higher-class", "1 task of higher classes waits before it", {"ahead": 1}),
    )
    assert [reason.code for reason in why(picture, 2).reasons] == ["gpus", "higher-class"]


def test_who_has_a_reservation_stands_before_the_queue() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2))], [(task(9, asks(gpus=2)), "n1", (0, 1))])
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(task(2, asks(gpus=2), submitted_ms=NOW_MS - 1001))
    first, second = why(picture, 1), why(picture, 2)
    assert (first.position, [reason.code for reason in first.reasons]) == (1, ["gpus"])
    assert (second.position, [reason.code for reason in second.reasons]) == (2, ["gpus", "in-line"])


def test_who_comes_with_a_higher_priority_stands_before_the_reservation() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2))], [(task(9, asks(gpus=2)), "n1", (0, 1))])
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(task(2, asks(gpus=2), priority=5))
    assert (why(picture, 1).position, why(picture, 2).position) == (2, 1)


def test_a_device_that_is_too_small_is_said() -> None:
    picture = picture_of(
        [node(gpus=[device(0, memory_mib=40960)])], [task(1, asks(gpus=1, gpu_memory_mib=81920))]
    )
    assert why(picture, 1).summary == (
        "can never run here: it asks for 1 GPU with 81920 MiB, the largest node has 0: "
        "no GPU has more than 40960 MiB"
    )


def test_who_gives_way_is_told_so() -> None:
    picture = picture_of([node(gpus=1)], [], [(task(1, asks(gpus=1)), "n1", (0,))])
    picture.stopping(picture.placed[TaskId(1, 0)], Cause.PREEMPTED)
    assert why(picture, 1).summary == (
        "is being stopped on n1, GPU 0: it gives way to a task of a higher class, and waits again"
    )
