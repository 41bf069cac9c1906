"""All nodes of a cluster into a picture that has none yet."""

from collections.abc import Iterable

from tgpu.core import edge
from tgpu.core.picture import Picture, Place
from tgpu.domain.node import Node


def populate(picture: Picture, nodes: Iterable[Node]) -> None:
    """As `set_node` would, one after the other; but the arrays are laid out once, not for each of them."""
    assert not picture.places, "nodes that are there are described one by one"
    for node in nodes:
        edge.check_node(node)
        picture.places[node.node_id] = Place(node)
    picture.version += 1
    picture.lay_out()
