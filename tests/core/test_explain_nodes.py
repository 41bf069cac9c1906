"""Nodes that are not to be had, and room that is kept for others: told, word by word."""

from tests.core.core_story import NOW_MS, PRIORITY, asks, at, carry_out, device, node, picture_of, task
from tests.core.explain_story import holder, waits, why
from tgpu.core.picture import Window
from tgpu.core.planner import plan
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import ForeignUse
from tgpu.domain.tenant import Tenant
from tgpu.domain.views import Advice, Reason

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
        Reason("taint", tainted, {"node_id": "n2", "taints": ["spot"]}),
        holders=(holder(9, 1, (0,), remaining_s=60.0),),
        starts_at_ms=at(60),
        estimate="has a reservation: starts ≈ 13:47 UTC on n1",
        advice=Advice("tolerations", (), ("spot",), "with --tolerate spot it would start now on n2"),
    )


def test_several_taints_of_a_node_are_told_at_once() -> None:
    nodes = [node("n1", taints=("old",)), node("n2", taints=("spot", "team=a"))]
    picture = picture_of(nodes, [task(1, asks(cpus=8, tolerations=("old",)))], [(task(9), "n1", ())])
    answer = why(picture, 1)
    text = "n2 is tainted with spot and team=a, which it does not tolerate"
    assert Reason("taint", text, {"node_id": "n2", "taints": ["spot", "team=a"]}) in answer.reasons
    assert answer.advice is not None
    assert answer.advice.text == "with --cpus 7 it would start now on n1"
    alone = picture_of(nodes[1:], [task(1)])
    assert why(alone, 1).summary == f"can never run here: {text}"
    assert why(alone, 1).advice == Advice(
        "tolerations",
        (),
        ("spot", "team=a"),
        "with --tolerate spot --tolerate team=a it would start now on n2",
    )


def test_a_window_that_comes_and_one_that_has_come_are_told() -> None:
    picture = picture_of([node()], [task(1, time_limit_s=7200)])
    picture.set_windows([Window(frozenset({"n1"}), at(3600), at(7200))])
    text = (
        "n1 is closed from 14:46 UTC to 15:46 UTC, and it might still run then; "
        "with a time limit of at most 58m it would not"
    )
    assert why(picture, 1) == waits(
        1,
        Reason("window", text, {"node_id": "n1", "nodes": 1, "time_limit_s": 3480}),
        starts_at_ms=at(7200),
        estimate="has a reservation: starts ≈ 15:46 UTC on n1",
        advice=Advice("time_limit_s", 7200, 3480, "with --time 58m it would start now on n1"),
    )
    picture.set_tenant(Tenant("vip"))
    picture.set_windows([Window(frozenset({"n1"}), NOW_MS, at(7200), "vip")])
    text = "n1 is closed to all but tenant vip until 15:46 UTC"
    assert why(picture, 1) == waits(
        1,
        Reason("window", text, {"node_id": "n1", "nodes": 1}),
        starts_at_ms=at(7200),
        estimate="has a reservation: starts ≈ 15:46 UTC on n1",
    )


def _reasons_with(windows: list[Window], nodes: int, *tenants: str, tenant: str = "default") -> list[str]:
    picture = picture_of([node(f"n{number}") for number in range(1, nodes + 1)])
    for each in tenants:
        picture.set_tenant(Tenant(each))
    picture.add_waiting(task(1, time_limit_s=7200, tenant_id=tenant))
    picture.set_windows(windows)
    return [reason.text for reason in why(picture, 1).reasons]


def test_nodes_in_windows_are_told_by_their_own_times() -> None:
    open_, coming = Window(frozenset({"n1"}), NOW_MS, at(3600)), Window(frozenset({"n2"}), at(600), at(7200))
    on_both = Window(frozenset({"n1", "n3"}), at(60), at(9000))
    apart = "n2 is closed from 13:56 UTC to 15:46 UTC, and it might still run then"
    limit = "with a time limit of at most 9m it would not"
    assert _reasons_with([open_, coming], 2) == [f"{apart}; {limit}", "n1 is closed until 14:46 UTC"]
    # One that follows another without a gap closes the node for as long as both last.
    assert _reasons_with([on_both, open_, coming], 3)[2] == "n1 is closed until 16:16 UTC"


def test_a_window_that_lets_the_task_in_is_no_reason() -> None:
    own, others = (
        Window(frozenset({"n1"}), NOW_MS, at(9000), "vip"),
        Window(frozenset({"n1"}), at(600), at(3600)),
    )
    (text,) = _reasons_with([own, others], 1, "vip", tenant="vip")
    assert text.startswith("n1 is closed from 13:56 UTC to 14:46 UTC")


def test_of_many_different_windows_some_are_told_and_the_others_counted() -> None:
    windows = [Window(frozenset({f"n{number}"}), NOW_MS, at(3600 * number)) for number in range(1, 6)]
    assert _reasons_with(windows, 5)[2:] == [
        "n3 is closed until 16:46 UTC",
        "2 more nodes with room are in windows that end at 17:46 UTC at the earliest",
    ]


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
        "with a time limit of at most 1h57m it would pass"
    )
    expected = waits(
        2,
        Reason("kept-for", kept, {"job_id": 1, "user": "bob", "node_id": "n1", "time_limit_s": 7020}),
        Reason("in-line", "2nd in line in class default", {"ahead": 1, "class": "default"}),
        position=2,
        starts_at_ms=at(7200 + 3600),
        estimate="not before 16:46 UTC",
        advice=Advice("time_limit_s", None, 7020, "with --time 1h57m it would start now by backfill on n1"),
    )
    assert why(picture, 2) == expected
    carry_out(picture, plan(picture, PRIORITY))
    assert why(picture, 2) == expected
    assert why(picture, 3).reasons[-1].text == "3rd in line in class default"


# GPUs that are there and not to be had

BOB = ForeignUse(4711, "bob", "python", 12288)


def test_a_gpu_that_others_use_is_named_with_whoever_uses_it() -> None:
    picture = picture_of([node("n1", gpus=[device(2, foreign=(BOB,))])], [task(1, asks(gpus=1))])
    text = "GPU 2 of n1 is used by bob outside of tgpu: python, 12 GiB"
    answer = why(picture, 1)
    assert answer.summary == f"waits: {text}"
    assert answer.reasons == (Reason("gpu-foreign", text, {"node_id": "n1", "gpu": 2, "pids": [4711]}),)


def test_a_gpu_that_is_ill_is_named_with_what_is_wrong_beside_those_that_are_taken() -> None:
    devices = [device(0), device(1, healthy=False, note="GPU is lost")]
    taken = [(task(9, asks(gpus=1)), "n1", (0,))]
    answer = why(picture_of([node("n1", gpus=devices)], [task(1, asks(gpus=1))], taken), 1)
    ill = Reason("gpu-unhealthy", "GPU 1 of n1 is not given out: GPU is lost", {"node_id": "n1", "gpu": 1})
    assert [reason.code for reason in answer.reasons][:2] == ["gpus", "gpu-unhealthy"]
    assert ill in answer.reasons


def test_of_many_gpus_that_are_not_to_be_had_some_are_named() -> None:
    nodes = [node(f"n{at}", gpus=[device(0, foreign=(BOB,)), device(1, foreign=(BOB,))]) for at in range(3)]
    answer = why(picture_of(nodes, [task(1, asks(gpus=1))]), 1)
    assert [reason.code for reason in answer.reasons] == ["gpu-foreign"] * 3 + ["gpu-unusable"]
    assert answer.reasons[-1].text == ("3 more GPUs that would do are not to be had, such as GPU 1 of n1")


def test_gpus_that_would_not_do_anyway_are_not_named() -> None:
    elsewhere = node("n2", gpus=[device(0, "NVIDIA T4", foreign=(BOB,))])
    drained = node("n3", gpus=[device(0, foreign=(BOB,))], state=NodeState.DRAINING)
    nodes = [node("n1", gpus=1), elsewhere, drained]
    taken = [(task(9, asks(gpus=1)), "n1", (0,))]
    answer = why(picture_of(nodes, [task(1, asks(gpus=1, gpu_type="a100"))], taken), 1)
    assert not [reason for reason in answer.reasons if reason.code.startswith("gpu-")]
    assert not why(picture_of([elsewhere], [task(1, asks(cpus=99))]), 1).reasons[0].code.startswith("gpu-")


def test_where_nothing_else_is_to_be_said_gpus_of_nodes_that_take_no_tasks_are_named() -> None:
    drained = node("n3", gpus=[device(0, foreign=(BOB,))], state=NodeState.DRAINING)
    assert why(picture_of([drained], [task(1, asks(gpus=1))]), 1).reasons[0].code == "gpu-foreign"
