"""What is refused at submission, because no node that is known could ever run it."""

from tests.core.core_story import asks, device, node, picture_of
from tgpu.core.explain import never_fits
from tgpu.core.policy import Policy


def test_the_largest_node_is_told() -> None:
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=4)])
    assert never_fits(asks(gpus=8), picture) == "it asks for 8 GPUs, the largest node has 4"


def test_the_type_that_is_asked_for_is_named() -> None:
    picture = picture_of([node(gpus=[device(0, "Tesla T4"), device(1)])])
    assert never_fits(asks(gpus=2, gpu_type="t4"), picture) == (
        "it asks for 2 GPUs of type t4, the largest node has 1"
    )


def test_every_other_obstacle_is_named() -> None:
    picture = picture_of(
        [node("n1", cpus=4, serves="bob"), node("n2", cpus=4, memory_mib=100), node("n3", pool="big")]
    )
    request = asks(cpus=8, memory_mib=50, pool="default", user="ada")
    assert never_fits(request, picture) == (
        "8 CPUs asked for, n2 has 4; it asks for pool default; n1 runs only the jobs of bob"
    )


def test_a_taint_and_a_node_without_gpus_are_two_obstacles() -> None:
    picture = picture_of([node("n1", gpus=2, taints=("spot",)), node("n2")])
    assert never_fits(asks(gpus=1), picture) == (
        "1 GPU asked for, n2 has 0; n1 is tainted with spot, which it does not tolerate"
    )


def test_many_nodes_make_no_long_sentence() -> None:
    picture = picture_of([node(f"n{number}", cpus=4 + number) for number in range(4)])
    assert never_fits(asks(cpus=64), picture) == "it asks for 64 CPUs, the largest node has 7"
    alone = picture_of([node(f"n{number}", serves=f"user{number}") for number in range(9)])
    text = never_fits(asks(user="ada"), alone)
    assert text is not None
    assert text.endswith("n4 runs only the jobs of user4; and 4 more such reasons")


def test_it_is_silent_while_no_node_is_known_or_one_would_do() -> None:
    assert never_fits(asks(gpus=8), picture_of([])) is None
    assert never_fits(asks(gpus=1), picture_of([node("n1"), node("n2", gpus=1)])) is None


def test_a_selector_or_a_working_directory_elsewhere_is_an_obstacle() -> None:
    picture = picture_of([node(labels={"disk": "ssd"})])
    assert never_fits(asks(node_selector=(("disk", "ssd"),)), picture) is None
    assert never_fits(asks(node_selector=(("disk", "hdd"),)), picture) == "it asks for a node with disk=hdd"
    assert never_fits(asks(node_id="n9"), picture) == "its working directory exists only on n9"


def test_named_resources_of_nodes_and_of_the_cluster_are_counted() -> None:
    policy = Policy(cluster_generic={"matlab": 4})
    picture = picture_of([node("n1", generic={"fpga": 1})], policy=policy)
    assert never_fits(asks(generic=(("fpga", 2),)), picture) == "2 of fpga asked for, n1 has 1"
    assert never_fits(asks(generic=(("tape", 1),)), picture) == "1 of tape asked for, n1 has 0"
    assert never_fits(asks(generic=(("matlab", 5),)), picture) == (
        "it asks for 5 of licence matlab, the cluster has 4"
    )
    assert never_fits(asks(generic=(("fpga", 1), ("matlab", 4))), picture) is None
