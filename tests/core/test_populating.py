"""Nodes that come into a picture all at once are the same as those that come one by one."""

import random

import numpy as np
import pytest

from tgpu.core.edge import BadPictureError
from tgpu.core.picture import Picture
from tgpu.core.policy import Policy
from tgpu.core.populating import populate
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Device, Node


def a_node(number: int) -> Node:
    devices = tuple(Device(at, f"{number}-{at}", "A100", 1000, healthy=at != 1) for at in range(number % 4))
    capacity = Capacity(1000 * number + 1000, 64, 10, devices, {"tape": 1} if number % 5 == 2 else {})
    state = NodeState.OFFLINE if number % 7 == 3 else NodeState.READY
    return Node(f"n{number:03d}", state, capacity, labels={"rack": str(number % 3)}, serves="*")


def test_all_at_once_or_one_by_one_is_the_same() -> None:
    nodes = [a_node(number) for number in range(40)]
    random.Random(1).shuffle(nodes)
    at_once, one_by_one = Picture(Policy()), Picture(Policy())
    populate(at_once, nodes)
    for node in nodes:
        one_by_one.set_node(node)
    assert at_once.places == one_by_one.places
    assert at_once.table.nodes.names == one_by_one.table.nodes.names
    assert at_once.table.nodes.nodes == one_by_one.table.nodes.nodes
    arrays = (picture.table.nodes.arrays()[:7] for picture in (at_once, one_by_one))
    for mine, theirs in zip(*arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(at_once.table.nodes.total(), one_by_one.table.nodes.total())
    assert at_once.table.verdict.freed == one_by_one.table.verdict.freed


def test_a_picture_without_nodes_stays_one() -> None:
    picture = Picture(Policy())
    populate(picture, [])
    assert (picture.places, len(picture.table.nodes)) == ({}, 0)


def test_a_node_that_cannot_be_true_is_refused() -> None:
    with pytest.raises(BadPictureError, match="n001"):
        populate(Picture(Policy()), [Node("n001", NodeState.READY, Capacity(-1, 0, 0))])
