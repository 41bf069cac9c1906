"""The leader's picture and the store agree: no drift is ever found, and none is there at rest."""

from collections.abc import Iterator

from tgpu.control.reconciler import drift
from tgpu.sim.facts import Watcher
from tgpu.sim.world import World


class PictureTellsTheTruth(Watcher):
    def __init__(self, world: World) -> None:
        self._world = world

    def now_and_then(self) -> Iterator[str]:
        if self._world.facts.drift:
            yield f"the reconciler found {self._world.facts.drift} facts that differ"

    def at_rest(self) -> Iterator[str]:
        state, picture = self._world.store.state, self._world.picture
        if picture is None:
            yield "nobody leads"
            return
        newest = max(state.jobs, default=0)
        found = drift(picture, state.live_summary(newest))
        if found:
            yield f"{found} facts of the picture differ from the store"
        for machine in self._world.machines:
            place = picture.places.get(machine.node_id)
            if place is None or not place.takes_tasks:
                yield f"{machine.node_id} is up, and the leader gives it nothing"
            elif place.node.capacity != machine.capacity:
                yield f"{machine.node_id} has another capacity than the leader believes"
            for attempt in machine.records:
                yield f"{machine.node_id} still keeps a record of {attempt}"
