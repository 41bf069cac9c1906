"""GPUs that failed, and GPUs that others use: tasks are taken off the first, and somebody is told of both."""

from collections.abc import Iterator

from tgpu.control.alerts import GPU_FOREIGN, GPU_UNHEALTHY
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import OnGpuFailure
from tgpu.core.unusable import nodes_with_trouble
from tgpu.domain.gpu_words import foreign_in_words, named
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.domain.node import Device
from tgpu.store.port import StopOrdered

NAMED = 10
"""So many are named in an alert."""


def take_in(picture: Picture, node_id: str, turn: Turn) -> None:
    """The node has said how its GPUs are: what runs on one that failed is stopped, unless it is to go on."""
    if picture.policy.on_gpu_failure is OnGpuFailure.KEEP:
        return
    place = picture.places[node_id]
    failed = {device.index: device for device in place.node.capacity.devices if device.lost}
    present = {device.index for device in place.node.capacity.devices}
    for placed in list(place.attempts.values()) if place.attempts else ():
        why = next(_failures(placed, failed, present), None)
        if why is not None and placed.state is not AttemptState.STOPPING:
            placed.stop_detail = why
            picture.stopping(placed, Cause.DEVICE_LOST)
            turn.batch.stop_ordered.append(StopOrdered(placed.attempt_id, Cause.DEVICE_LOST, why))


def _failures(placed: Placed, failed: dict[int, Device], present: set[int]) -> Iterator[str]:
    for index in placed.devices:
        if index in failed:
            yield f"{named(failed[index], placed.node_id)}: {failed[index].note}"
        elif index not in present:
            yield f"GPU {index} of {placed.node_id}: it is not there any more"


def alerts(picture: Picture) -> dict[str, str | None]:
    """Of all nodes that are here."""
    ill, foreign = [], []
    for node in nodes_with_trouble(picture):
        for device in node.capacity.devices:
            if not device.healthy:
                ill.append(f"{named(device, node.node_id)} ({device.note or 'not healthy'})")
            if device.foreign:
                foreign.append(foreign_in_words(device, node.node_id))
    return {
        GPU_UNHEALTHY: _told("not given out: ", ill, "see `tgpu nodes`, and docs/gpus.md for what helps"),
        GPU_FOREIGN: _told("", foreign, "ask them to use tgpu, or see foreign_gpu_use in docs/gpus.md"),
    }


def _told(before: str, things: list[str], advice: str) -> str | None:
    if not things:
        return None
    more = len(things) - NAMED
    return before + ", ".join(things[:NAMED]) + (f" and {more} more" if more > 0 else "") + f": {advice}"
