"""Why does it wait? What users read is under test, word by word."""

from tests.core.core_story import PRIORITY, asks, device, node, picture_of, task
from tgpu.core.explain import explain, never_fits
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState, NodeState
from tgpu.domain.views import Holder, Reason, Why


def why(picture: Picture, job_id: int) -> Why | None:
    return explain(picture, PRIORITY, TaskId(job_id, 0))


def test_who_is_not_in_the_picture_has_no_answer() -> None:
    assert why(picture_of([]), 1) is None


def test_a_task_that_will_start_says_so() -> None:
    assert why(picture_of([node()], [task(1)]), 1) == Why(
        1, True, "waits: it starts in the next cycle", position=1
    )


def test_a_placed_task_says_where_it_is() -> None:
    picture = picture_of([node(gpus=2)], placed=[(task(1, asks(gpus=2)), "n1", (0, 1))])
    assert why(picture, 1) == Why(1, False, "is being started on n1, GPU 0, 1")
    placed = picture.placed[TaskId(1, 0)]
    placed.state, placed.started_ms = AttemptState.RUNNING, 5
    assert why(picture, 1) == Why(1, False, "runs on n1, GPU 0, 1")


def test_without_nodes_there_is_nothing_to_wait_for_yet() -> None:
    assert why(picture_of([], [task(1)]), 1) == Why(
        1,
        True,
        "waits: no node has joined yet",
        (Reason("no-nodes", "no node has joined yet"),),
        position=1,
    )


def test_missing_gpus_are_counted_and_their_holders_named() -> None:
    holder = task(9, asks(gpus=3), user="bob", name="train", time_limit_s=100)
    cpu_only = task(8, user="cyd")
    picture = picture_of(
        [node(gpus=4)], [task(1, asks(gpus=2))], [(holder, "n1", (0, 1, 2)), (cpu_only, "n1", ())]
    )
    picture.placed[TaskId(9, 0)].started_ms = 1000
    picture.now_ms = 31_000
    text = "needs 2 GPUs; n1 has 1 of 4 GPUs free"
    data = {"node_id": "n1", "needs": 2.0, "free": 1, "of": 4}
    assert why(picture, 1) == Why(
        1,
        True,
        f"waits: {text}",
        (Reason("gpus", text, data),),
        (Holder(9, "bob", "train", 3000, (0, 1, 2), "n1", 30.0, 70.0),),
        1,
    )


def test_a_missing_fraction_is_said_per_device() -> None:
    holders = [(task(8, asks(gpus=0.75)), "n1", (0,)), (task(9, asks(gpus=0.5)), "n1", (1,))]
    answer = why(picture_of([node(gpus=2)], [task(1, asks(gpus=0.75))], holders), 1)
    assert answer is not None
    assert answer.summary == "waits: needs 0.75 of a GPU; no GPU of n1 has that much free"
    assert [holder.job_id for holder in answer.holders] == [8, 9]


def test_missing_cpus_name_everybody_on_the_node() -> None:
    picture = picture_of([node(cpus=4)], [task(1, asks(cpus=3))], [(task(9, asks(cpus=2)), "n1", ())])
    text = "needs 3 CPUs; n1 has 2 free"
    assert why(picture, 1) == Why(
        1,
        True,
        f"waits: {text}",
        (Reason("cpus", text, {"node_id": "n1", "needs": 3.0, "free": 2.0}),),
        (Holder(9, "ada", "", 0, (), "n1", None, None),),
        1,
    )


def test_one_behind_the_head_is_told_for_whom_room_is_kept_and_how_many_are_before_it() -> None:
    holder = (task(9, asks(gpus=1)), "n1", (0,))
    waiting = [task(1, asks(gpus=2), user="bob"), task(2, asks(gpus=1)), task(3, asks(gpus=1))]
    picture = picture_of([node(gpus=2)], waiting, [holder])
    kept = "job 1 of bob is first in line and keeps what it needs on n1"
    data = {"job_id": 1, "user": "bob", "node_id": "n1"}
    assert why(picture, 2) == Why(
        2,
        True,
        f"waits: {kept}",
        (
            Reason("kept-for", kept, data),
            Reason("in-line", "1 waiting task is served before it", {"ahead": 1}),
        ),
        position=2,
    )
    last = why(picture, 3)
    assert last is not None
    assert last.reasons[-1] == Reason("in-line", "2 waiting tasks are served before it", {"ahead": 2})


def test_an_exclusive_task_is_told_that_the_node_is_not_free() -> None:
    answer = why(picture_of([node()], [task(1, asks(exclusive=True))], [(task(9), "n1", ())]), 1)
    assert answer is not None
    assert answer.summary == "waits: n1 is not free for a task that wants it alone"


def test_a_node_that_is_away_or_drains_is_named() -> None:
    picture = picture_of([node("n1"), node("n2", state=NodeState.DRAINING)], [task(1)])
    picture.set_reachable("n1", reachable=False)
    answer = why(picture, 1)
    assert answer is not None
    assert answer.reasons == (
        Reason("node-away", "n1 is not connected", {"node_id": "n1"}),
        Reason("node-away", "n2 is draining and takes no new tasks", {"node_id": "n2"}),
    )


def test_what_can_never_run_is_said_with_the_largest_node() -> None:
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=4)], [task(1, asks(gpus=8))])
    obstacle = "it asks for 8 GPUs, the largest node has 4"
    assert never_fits(asks(gpus=8), picture) == obstacle
    sentence = f"can never run here: {obstacle}"
    assert why(picture, 1) == Why(1, True, sentence, (Reason("never-fits", sentence),), position=1)


def test_never_fits_names_the_type_that_is_asked_for() -> None:
    picture = picture_of([node(gpus=[device(0, "Tesla T4"), device(1)])])
    assert never_fits(asks(gpus=2, gpu_type="t4"), picture) == (
        "it asks for 2 GPUs of type t4, the largest node has 1"
    )


def test_never_fits_names_every_other_obstacle() -> None:
    picture = picture_of(
        [node("n1", cpus=4, serves="bob"), node("n2", cpus=4, memory_mib=100), node("n3", pool="big")]
    )
    request = asks(cpus=8, memory_mib=50, pool="default", user="ada")
    assert never_fits(request, picture) == (
        "8 CPUs asked for, n2 has 4; it asks for pool default; n1 runs only the jobs of bob"
    )


def test_never_fits_is_silent_while_no_node_is_known_or_one_would_do() -> None:
    assert never_fits(asks(gpus=8), picture_of([])) is None
    assert never_fits(asks(gpus=1), picture_of([node("n1"), node("n2", gpus=1)])) is None


def test_a_selector_or_a_working_directory_elsewhere_is_an_obstacle() -> None:
    picture = picture_of([node(labels={"disk": "ssd"})])
    assert never_fits(asks(node_selector=(("disk", "ssd"),)), picture) is None
    assert never_fits(asks(node_selector=(("disk", "hdd"),)), picture) == ("it asks for a node with disk=hdd")
    assert never_fits(asks(node_id="n9"), picture) == ("its working directory exists only on n9")
