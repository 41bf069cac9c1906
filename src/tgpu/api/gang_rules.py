"""How many tasks a job has, which of them are alike, and what must be true of their nodes together."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from msgspec import UNSET

from tgpu.api.group_form import GroupAsked
from tgpu.api.job_form import JobAsked
from tgpu.api.problems import ProblemError, inside, unprocessable
from tgpu.domain.job import Gang, Group
from tgpu.domain.label_rules import label
from tgpu.domain.quantities import MAX_TASKS, MILLI, BadQuantityError

MAX_GROUPS = 64
_MAX_GROUP_NAME = 63


def groups_of(asked: JobAsked, build: Callable[[JobAsked], Group]) -> tuple[Group, ...]:
    """`build`: the group of a job that has only one. Raises ProblemError."""
    if asked.groups is None:
        group = build(_with_gpus_per_node(asked))
        tasks = _task_count(asked)
        return (group if tasks == 1 else replace(group, tasks=tasks),)
    if not 0 < len(asked.groups) <= MAX_GROUPS:
        raise unprocessable("groups", f"groups must have 1 to {MAX_GROUPS} groups; got {len(asked.groups)}")
    for field in ("nodes", "tasks", "gpus_per_node"):
        if getattr(asked, field) is not None:
            raise unprocessable(
                field, f"{field} and groups exclude each other: say in each group how many tasks it has"
            )
    found = tuple(_group(asked, index, group, build) for index, group in enumerate(asked.groups))
    names = [group.name for group in found]
    if len(set(names)) < len(names):
        raise unprocessable("groups", f"groups must have different names; got {', '.join(names)}")
    total = sum(group.tasks for group in found)
    if total > MAX_TASKS:
        raise unprocessable("groups", f"a job may have at most {MAX_TASKS} tasks; got {total} in its groups")
    return found


def gang_of(asked: JobAsked, groups: tuple[Group, ...]) -> Gang | None:
    """None of a job that is not said to be several. Raises ProblemError."""
    wanted = (asked.nodes, asked.tasks, asked.tasks_per_node, asked.groups)
    if all(each is None for each in wanted):
        for field in ("topology", "gpus_per_node"):
            if getattr(asked, field) is not None:
                raise unprocessable(field, f"{field} is about several nodes: say nodes, too")
        return None
    size = sum(group.tasks for group in groups)
    try:
        topology = None if asked.topology is None else label("topology", asked.topology)
    except BadQuantityError as error:
        raise unprocessable("topology", str(error)) from None
    per_node = _per_node(asked)
    return Gang(size, per_node, topology, nodes=_whole_nodes(asked, size, per_node))


def _per_node(asked: JobAsked) -> int | None:
    if asked.tasks_per_node is not None:
        return asked.tasks_per_node
    return None if asked.nodes is None else -(-_task_count(asked) // asked.nodes)


def _whole_nodes(asked: JobAsked, size: int, per_node: int | None) -> int | None:
    """How many it fills evenly."""
    if asked.nodes is None or per_node is None:
        return None
    return asked.nodes if asked.nodes * per_node == size else None


def _task_count(asked: JobAsked) -> int:
    for field in ("nodes", "tasks", "tasks_per_node"):
        value = getattr(asked, field)
        if value is not None and not 1 <= value <= MAX_TASKS:
            raise unprocessable(field, f"{field} must be from 1 to {MAX_TASKS}; got {value}")
    nodes, tasks, each = asked.nodes, asked.tasks, asked.tasks_per_node
    if tasks is None:
        total = (nodes or 1) * (each or 1)
        if nodes is None and each is not None:
            raise unprocessable("tasks_per_node", "tasks_per_node needs nodes or tasks: say how many")
        if total > MAX_TASKS:
            raise unprocessable("nodes", f"a job may have at most {MAX_TASKS} tasks; this asks for {total}")
        return total
    if nodes is not None and nodes > tasks:
        raise unprocessable("nodes", f"{tasks} tasks cannot be on {nodes} nodes: ask for more tasks")
    if nodes is not None and each is not None and nodes * each < tasks:
        raise unprocessable(
            "tasks_per_node",
            f"{nodes} nodes with {each} tasks each have no room for {tasks} tasks: ask for more",
        )
    return tasks


def _with_gpus_per_node(asked: JobAsked) -> JobAsked:
    """The same job, with the GPUs that each task has of its node's."""
    if asked.gpus_per_node is None:
        return asked
    if asked.gpu_request:
        raise unprocessable("gpus_per_node", "gpus_per_node and gpu_request exclude each other: say one")
    if asked.nodes is None:
        raise unprocessable("gpus_per_node", "gpus_per_node needs nodes: say how many")
    _task_count(asked)
    each = _per_node(asked) or 1
    gpus = asked.gpus_per_node / each
    if asked.gpus_per_node < 1 or (gpus > 1 and gpus * MILLI % MILLI):
        raise unprocessable(
            "gpus_per_node",
            f"gpus_per_node must be a whole number that {each} tasks can share; got {asked.gpus_per_node}",
        )
    shared = copy(asked)
    shared.gpu_request = round(gpus, 3)
    return shared


def _group(asked: JobAsked, index: int, group: GroupAsked, build: Callable[[JobAsked], Group]) -> Group:
    at = f"groups[{index}]"
    if not 1 <= group.tasks <= MAX_TASKS:
        raise unprocessable(f"{at}.tasks", f"{at}.tasks must be from 1 to {MAX_TASKS}; got {group.tasks}")
    merged = copy(asked)
    for field in group.__struct_fields__:
        value = getattr(group, field)
        if value is UNSET or field in ("name", "tasks"):
            continue
        setattr(merged, field, asked.env | value if field == "env" else value)
    name = f"group-{index}" if group.name is UNSET else str(group.name)
    if not 0 < len(name) <= _MAX_GROUP_NAME or not name.isprintable():
        raise unprocessable(f"{at}.name", f"{at}.name must be 1 to {_MAX_GROUP_NAME} printable characters")
    try:
        return replace(build(merged), name=name, tasks=group.tasks)
    except ProblemError as problem:
        raise inside(problem, at) from None
