"""House rules for tgpu: one function for each of the three things that a plug-in can add."""

from tgpu.core.policy import Left
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Node
from tgpu.domain.views import Reason


def no_interns_in_production(request: Request, node: Node) -> Reason | None:
    """A rule: None, or why a task may not run there, even if the node were empty."""
    if request.user != "intern" or node.labels.get("production") != "yes":
        return None
    return Reason("production", f"{node.node_id} is in production, which is not for interns")


def shortest_first(task: TaskBrief, _now_ms: int) -> tuple[int, ...]:
    """An order: the task with the smallest key is served first. Who names no time limit comes last."""
    if task.time_limit_s is None:
        return (1, 0, task.submitted_ms)
    return (0, task.time_limit_s, task.submitted_ms)


def warmest(_request: Request, node: Node, left: Left) -> float:
    """A scorer: of the nodes with room, the one with the highest score is taken."""
    return float(node.capacity.cpu_milli - left.cpu_milli)
