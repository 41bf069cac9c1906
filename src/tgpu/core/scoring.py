"""Which of the nodes that fit is best: one function per opinion, highest score wins."""

from collections.abc import Callable

from tgpu.core.room import WHOLE_GPU, Room
from tgpu.domain.job import Request
from tgpu.domain.node import Node

Scorer = Callable[[Request, Node, Room], float]


def tightest(request: Request, _node: Node, room: Room) -> float:
    """Per dimension, the part of what is left that the task would use; the fullest node wins."""
    gpu_left = sum(room.gpu_free)
    return (
        _part(request.cpu_milli, room.cpu_milli)
        + _part(request.memory_mib, room.memory_mib)
        + _part(request.gpu_milli, gpu_left)
        - (gpu_left / WHOLE_GPU if not request.gpu_milli else 0)  # a CPU task stays off idle GPUs
    )


def _part(asked: int, left: int) -> float:
    return asked / left if left else 0.0


SCORERS: dict[str, Scorer] = {"tightest": tightest}
