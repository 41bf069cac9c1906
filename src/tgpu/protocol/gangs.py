"""What server and agent say of the tasks of a gang, which start together."""

import msgspec


class GangPlace(msgspec.Struct, frozen=True, kw_only=True):
    """How a task stands to the others of its gang. It is only prepared, and started by `Go`."""

    rank: int
    size: int
    local_rank: int
    """Among those on its node."""
    local_size: int
    node_rank: int
    """Of its node, among the nodes of the gang."""
    nodes: int


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Where others reach a task: its node's address, and a port that is kept free for it until it starts."""

    address: str
    port: int


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a gang, and how many of its tasks are there."""

    address: str
    slots: int
    name: str = ""
    """What the node is called; empty from a server that does not say it."""


class Go(msgspec.Struct, frozen=True, kw_only=True):
    """All of its gang are ready: it starts."""

    attempt: str
    master: Spot
    """Where they meet: the first task's."""
    hosts: tuple[Host, ...]
    """In the order of `GangPlace.node_rank`."""
