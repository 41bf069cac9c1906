"""Gangs that are refused at submission, because the nodes that are known could never run them whole."""

from tests.core.core_story import asks, device, node, picture_of
from tgpu.core.never_gangs import gang_never_fits
from tgpu.core.policy import Policy
from tgpu.domain.job import Gang


def test_more_nodes_than_there_are() -> None:
    gang, one = Gang(2, per_node=1, nodes=2), [(asks(), 2)]
    assert gang_never_fits(gang, one, picture_of([node("n1")])) == "it needs 2 nodes; there is 1"
    assert gang_never_fits(gang, one, picture_of([node("n1"), node("n2")])) is None
    three = Gang(3, per_node=1, nodes=3)
    assert gang_never_fits(three, [(asks(), 3)], picture_of([node("n1"), node("n2")])) == (
        "it needs 3 nodes; there are 2"
    )


def test_nodes_that_are_too_small_for_their_part_do_not_count() -> None:
    picture = picture_of([node("n1", gpus=4), node("n2", gpus=1)])
    gang = Gang(4, per_node=2, nodes=2)
    assert gang_never_fits(gang, [(asks(gpus=1), 4)], picture) == (
        "it needs 2 nodes with room for 2 of its tasks; of all nodes 1 would do"
    )
    assert gang_never_fits(Gang(2, per_node=1, nodes=2), [(asks(gpus=1), 2)], picture) is None


def test_more_tasks_than_the_cluster_has_room_for() -> None:
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=2)])
    assert gang_never_fits(Gang(5), [(asks(gpus=1), 5)], picture) == (
        "5 of its tasks start together, and all nodes have room for 4 at most"
    )
    assert gang_never_fits(Gang(4), [(asks(gpus=1), 4)], picture) is None
    assert gang_never_fits(Gang(4, per_node=1), [(asks(gpus=1), 4)], picture) == (
        "4 of its tasks start together, and all nodes, 1 on each, have room for 2 at most"
    )


def test_parts_of_gpus_and_whole_nodes_are_counted() -> None:
    halves = picture_of([node("n1", gpus=[device(0), device(1)])])
    assert gang_never_fits(Gang(4), [(asks(gpus=0.5), 4)], halves) is None
    assert gang_never_fits(Gang(5), [(asks(gpus=0.5), 5)], halves) is not None
    assert gang_never_fits(Gang(2), [(asks(exclusive=True), 2)], halves) == (
        "2 of its tasks start together, and all nodes have room for 1 at most"
    )


def test_a_label_that_no_node_has_and_racks_that_are_too_small() -> None:
    gang, two = Gang(2, topology="rack", per_node=1), [(asks(), 2)]
    assert gang_never_fits(gang, two, picture_of([node("n1"), node("n2")])) == (
        "all its nodes must have one value of the label rack, which no node has"
    )
    apart = [node("n1", labels={"rack": "a"}), node("n2", labels={"rack": "b"})]
    assert "the nodes with rack=" in str(gang_never_fits(gang, two, picture_of(apart)))
    together = [*apart, node("n3", labels={"rack": "b"})]
    assert gang_never_fits(gang, two, picture_of(together)) is None


def test_licences_of_the_cluster_are_for_all_its_tasks() -> None:
    picture = picture_of([node("n1")], policy=Policy(cluster_generic={"matlab": 3}))
    assert gang_never_fits(Gang(2), [(asks(generic=(("matlab", 2),)), 2)], picture) == (
        "its tasks together ask for 4 of licence matlab, the cluster has 3"
    )


def test_it_is_silent_while_no_node_is_known() -> None:
    assert gang_never_fits(Gang(2, per_node=1, nodes=2), [(asks(), 2)], picture_of([])) is None
