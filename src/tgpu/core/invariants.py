"""What must always hold, in one place: used by the committer, the simulator and the tests alike."""

from collections.abc import Iterable

from tgpu.core.picture import Picture, Place
from tgpu.core.room import WHOLE_GPU
from tgpu.domain.lifecycle import Status


def violations(picture: Picture, node_ids: Iterable[str] | None = None) -> list[str]:
    """Every promise that this picture breaks, in words; only these nodes if they are named."""
    places = picture.places.values() if node_ids is None else [picture.places[name] for name in node_ids]
    found = [text for place in places for text in _overcommitted(place)]
    if node_ids is None:
        found += _in_two_states(picture)
    return found


def _overcommitted(place: Place) -> list[str]:
    """No device and no node is given out beyond its capacity: summed up from the attempts themselves."""
    node, capacity = place.node, place.node.capacity
    requests = [placed.task.request for placed in place.attempts.values()]
    found = []
    for name, given, has in (
        ("cpu_milli", sum(request.cpu_milli for request in requests), capacity.cpu_milli),
        ("memory_mib", sum(request.memory_mib for request in requests), capacity.memory_mib),
        ("disk_mib", sum(request.disk_mib for request in requests), capacity.disk_mib),
    ):
        if given > has:
            found.append(f"{node.node_id}: {given} {name} given out of {has}")
    on_device: dict[int, int] = {}
    for placed in place.attempts.values():
        request = placed.task.request
        wanted = max(1, request.gpu_milli // WHOLE_GPU) if request.gpu_milli else 0
        if len(set(placed.devices)) != wanted:
            found.append(
                f"{placed.attempt_id}: has devices {placed.devices} and asked for {request.gpu_milli}"
            )
        for index in placed.devices:
            on_device[index] = on_device.get(index, 0) + min(request.gpu_milli, WHOLE_GPU)
    found += [
        f"{node.node_id}: device {index} given out to {n}" for index, n in on_device.items() if n > WHOLE_GPU
    ]
    if len(requests) > 1 and any(request.exclusive for request in requests):
        found.append(f"{node.node_id}: an exclusive task is not alone")
    return found


def _in_two_states(picture: Picture) -> list[str]:
    found = [
        f"{task_id} both waits and is placed" for task_id in picture.waiting.keys() & picture.placed.keys()
    ]
    found += [
        f"{task.task_id} waits as {task.status}" for task in picture.waiting.values() if not task.status.waits
    ]
    found += [
        f"{placed.attempt_id} is placed as {placed.task.status}"
        for placed in picture.placed.values()
        if placed.task.status not in (Status.SCHEDULED, Status.RUNNING)
    ]
    waiting_in_lines = sum(len(line) for line in picture.lines.values())
    if waiting_in_lines != len(picture.waiting):
        found.append(f"{len(picture.waiting)} tasks wait, {waiting_in_lines} stand in line")
    return found
