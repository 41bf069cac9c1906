"""Why does it wait, and until when? What users read is under test, word by word."""

from tests.core.core_story import NOW_MS, PRIORITY, asks, at, device, node, picture_of, task
from tests.core.explain_story import class_high, fewer_gpus, holder, waits, why
from tgpu.core.explain import explain
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import Cause
from tgpu.domain.views import Advice, Holder, Reason, Why

LICENSED = Policy(PoolPolicy(order="priority"), cluster_generic={"matlab": 4})


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


def test_who_is_in_its_grace_is_told_why() -> None:
    picture = picture_of([node(gpus=2)])
    for job_id, gpu in ((1, 0), (2, 1)):
        ends = task(job_id, asks(gpus=1), time_limit_s=60)
        picture.started(picture.place(ends, ends.task_id.attempt(1), "n1", (gpu,)), NOW_MS)
    picture.stopping(picture.placed[TaskId(2, 0)], Cause.CANCELLED)
    assert why(picture, 2).summary == "is being stopped on n1, GPU 1: somebody asked to cancel it"
    picture.now_ms = NOW_MS + 59_999
    assert why(picture, 1).summary == "runs on n1, GPU 0"
    picture.now_ms = NOW_MS + 60_000
    told = "it has reached its time limit, and has its grace"
    assert why(picture, 1).summary == f"is being stopped on n1, GPU 0: {told}"


def test_who_gives_way_is_told_so() -> None:
    once = task(2, asks(gpus=1), requeue=False)
    picture = picture_of([node(gpus=2)], [], [(task(1, asks(gpus=1)), "n1", (0,)), (once, "n1", (1,))])
    for placed in list(picture.placed.values()):
        picture.stopping(placed, Cause.PREEMPTED)
    told = "it gives way to a task of a higher class"
    assert why(picture, 1).summary == f"is being stopped on n1, GPU 0: {told}, and waits again"
    assert why(picture, 2).summary == (
        f"is being stopped on n1, GPU 1: {told}, and has then failed, for it is not to be tried again"
    )


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


def test_a_device_that_is_too_small_is_said() -> None:
    picture = picture_of(
        [node(gpus=[device(0, memory_mib=40960)])], [task(1, asks(gpus=1, gpu_memory_mib=81920))]
    )
    assert why(picture, 1).summary == (
        "can never run here: it asks for 1 GPU with 80 GiB, the largest node has 0: "
        "no GPU has more than 40 GiB"
    )


def test_a_pool_without_nodes_is_told_with_those_there_are() -> None:
    waiting = [task(1, asks(pool="huge"))]
    one = picture_of([node("n1", pool="small")], waiting)
    assert why(one, 1).summary == (
        "can never run here: it asks for pool huge, which has no nodes; there is only the pool small"
    )
    several = picture_of([node("n1", pool="small"), node("n2", pool="big")], waiting)
    assert why(several, 1).summary == (
        "can never run here: it asks for pool huge, which has no nodes; there are the pools big, small"
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
        estimate="has a reservation: starts ≈ 13:48 UTC on n1",
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
        estimate="has a reservation: starts ≈ 13:47 UTC on n1",
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
        estimate="has a reservation: starts ≈ 1970-01-13 13:46 UTC on n1",
        advice=Advice("gpu_milli", 750, 500, "with --gpus 0.5 it would start now on n1"),
    )


def test_who_asked_for_gpu_memory_is_named_with_what_it_asked_for() -> None:
    small, large = asks(gpu_memory_mib=20480), asks(gpu_memory_mib=40960)
    holders = [(task(8, small), "n1", (0,)), (task(9, large), "n1", (0,))]
    picture = picture_of([node(gpus=1)], [task(1, large)], holders)
    answer = why(picture, 1)
    assert answer.summary == "waits: needs 40 GiB of a GPU; no GPU of n1 has that much free"
    assert answer.holders == (
        holder(9, devices=(0,), gpu_memory_mib=40960),
        holder(8, devices=(0,), gpu_memory_mib=20480),
    )


def test_missing_cpus_name_their_holders() -> None:
    picture = picture_of(
        [node(cpus=4)], [task(1, asks(cpus=3))], [(task(9, asks(cpus=2), time_limit_s=60), "n1", ())]
    )
    assert why(picture, 1) == waits(
        1,
        Reason("cpus", "needs 3 CPUs; n1 has 2 free", {"node_id": "n1", "needs": 3.0, "free": 2.0}),
        holders=(holder(9, remaining_s=60.0, cpu_milli=2000),),
        starts_at_ms=at(60),
        estimate="has a reservation: starts ≈ 13:47 UTC on n1",
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
            "memory",
            "needs 8 GiB of memory; n1 has 4.281 GiB free",
            at_n1 | {"needs": 8192.0, "free": 4384.0},
        ),
        Reason("generic", "needs 1 of fpga; n1 has 0 free", at_n1 | {"needs": 1.0, "free": 0.0}),
        holders=(holder(9, remaining_s=60.0, cpu_milli=6000, memory_mib=12000, generic=(("fpga", 1),)),),
        starts_at_ms=at(60),
        estimate="has a reservation: starts ≈ 13:47 UTC on n1",
        advice=class_high(),
    )


def test_holders_of_the_missing_amount_come_largest_first_and_others_not_at_all() -> None:
    placed = [
        (task(7, asks(cpus=1, memory_mib=100)), "n1", ()),
        (task(8, asks(cpus=1, memory_mib=9000)), "n1", ()),
        (task(9, asks(cpus=1, memory_mib=0)), "n1", ()),
    ]
    picture = picture_of([node()], [task(1, asks(cpus=1, memory_mib=16000))], placed)
    answer = why(picture, 1)
    assert answer.reasons[0].code == "memory"
    assert [(each.job_id, each.memory_mib, each.cpu_milli) for each in answer.holders] == [
        (8, 9000, 0),
        (7, 100, 0),
    ]


def test_an_exclusive_task_is_told_that_the_node_is_not_free() -> None:
    picture = picture_of([node()], [task(1, asks(exclusive=True))], [(task(9), "n1", ())])
    assert why(picture, 1) == waits(
        1,
        Reason("not-alone", "n1 is not free for a task that wants it alone"),
        holders=(holder(9),),
        starts_at_ms=at(86400),
        estimate="has a reservation: starts ≈ 1970-01-13 13:46 UTC on n1",
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
        holders=(holder(9, licences=(("matlab", 3),)),),
        advice=Advice("generic", (("matlab", 2),), (("matlab", 1),), instead),
    )
    text = "needs 1 of licence matlab; 1 of 4 is free and kept for job 1 of bob"
    data = {"name": "matlab", "needs": 1, "free": 1, "of": 4, "job_id": 1, "user": "bob"}
    instead = "without --resource matlab it would start now on n1"
    assert why(picture, 2) == waits(
        2,
        Reason("licence", text, data),
        Reason("in-line", "2nd in line in class default", {"ahead": 1, "class": "default"}),
        holders=(holder(9, licences=(("matlab", 3),)),),
        position=2,
        advice=Advice("generic", (("matlab", 1),), (), instead),
    )
