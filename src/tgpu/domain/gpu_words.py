"""What is wrong with a GPU, in words for people: one wording for one fact, whoever tells it."""

from collections.abc import Sequence

from tgpu.domain.node import Device, ForeignUse
from tgpu.domain.quantities import size_in_words

_MOST_NAMED = 3


def folded(model: str) -> str:
    """As models are compared: a label of Kubernetes is `NVIDIA-H100-80GB-HBM3`, drivers have spaces there."""
    return model.lower().replace("-", " ")


def named(device: Device, node_id: str) -> str:
    return f"GPU {device.index} of {node_id}"


def ill_in_words(device: Device, node_id: str) -> str:
    """`GPU 2 of n1 is not given out: GPU is lost`."""
    return f"{named(device, node_id)} is not given out: {device.note or 'it is not healthy'}"


def foreign_in_words(device: Device, node_id: str) -> str:
    """`GPU 2 of n1 is used by bob outside of tgpu: python, 12 GiB`."""
    if not device.foreign:
        return f"{named(device, node_id)} was used outside of tgpu until a moment ago"
    users = " and ".join(sorted({use.user for use in device.foreign}))
    return f"{named(device, node_id)} is used by {users} outside of tgpu: {programs(device.foreign)}"


def programs(foreign: Sequence[ForeignUse]) -> str:
    """The largest first; where several users are there, whose each one is."""
    several = len({use.user for use in foreign}) > 1
    largest = sorted(foreign, key=lambda use: -use.memory_mib)
    words = [_program(use, owned=several) for use in largest[:_MOST_NAMED]]
    more = len(largest) - _MOST_NAMED
    return "; ".join(words) + (f" and {more} more" if more > 0 else "")


def _program(use: ForeignUse, *, owned: bool) -> str:
    whose = f"{use.user}'s " if owned else ""
    size = f", {size_in_words(use.memory_mib)}" if use.memory_mib else ""
    return f"{whose}{use.program}{size}"
