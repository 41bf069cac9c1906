"""Gangs start together: their tasks are prepared, each node says that it is ready, and then all of them go.

Nothing of this is written down. What a leader does not know it is told again: by nodes that say hello, and by
launches that are repeated until they are answered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tgpu.control import gangs
from tgpu.control.turn import Turn
from tgpu.core.gang_book import GangState
from tgpu.core.picture import Picture, Placed
from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.protocol.gangs import GangPlace, Go, Host, Spot
from tgpu.protocol.messages import AttemptReport, Phase

HERE, HERE_BY_NAME = "127.0.0.1", "localhost"


@dataclass(slots=True)
class _Start:
    """One gang on its way."""

    due: float
    """When all of it must have started, on the loop's clock."""
    spots: dict[AttemptId, Spot] = field(default_factory=dict)
    """Where those are that said so."""
    master: Spot | None = None
    """Where they meet: what those were told who went."""
    places: dict[AttemptId, GangPlace] = field(default_factory=dict)


class GangStarts:
    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._jobs: dict[int, _Start] = {}

    def place(self, picture: Picture, placed: Placed, now: float) -> GangPlace | None:
        """Of a task that is to be launched: how it stands to the others of its gang, if it is of one."""
        job_id = placed.attempt_id.job_id
        gang = None if placed.task.gang is None else picture.gangs.get(job_id)
        if gang is None:
            return None
        start = self._jobs.get(job_id)
        if start is None or placed.attempt_id not in start.places:
            start = self._begin(picture, gang, now)
        return start.places[placed.attempt_id]

    def _begin(self, picture: Picture, gang: GangState, now: float) -> _Start:
        """Tasks of it were given nodes: all of them, or some that are replaced while others run on."""
        members = [picture.placed[task_id] for task_id in sorted(gang.running)]
        old = self._jobs.get(gang.job_id)
        goes_on = old is not None and any(placed.state is AttemptState.RUNNING for placed in members)
        start = old if old is not None and goes_on else _Start(0.0)
        start.due = now + self._start_s
        start.places = places_of(gang, members)
        self._jobs[gang.job_id] = start
        return start

    def expect(self, picture: Picture, now: float) -> None:
        """The picture is new: whoever has a node and does not run yet is waited for from now on."""
        for placed in picture.placed.values():
            if placed.task.gang is not None and placed.state is AttemptState.ASSIGNED:
                self._of(placed.attempt_id.job_id, now)

    def heard(self, said: Iterable[tuple[Placed, AttemptReport]], now: float) -> dict[int, None]:
        """What nodes said of their tasks of gangs. Returns of which gangs somebody is ready."""
        ready: dict[int, None] = {}
        for placed, report in said:
            job_id = placed.attempt_id.job_id
            start = self._of(job_id, now)
            if report.spot is not None:
                start.spots[placed.attempt_id] = report.spot
            if report.master is not None and start.master is None:
                start.master = report.master
            if report.phase is Phase.READY:
                ready[job_id] = None
        return ready

    def goes(self, picture: Picture, job_ids: Iterable[int]) -> Iterator[tuple[str, Go]]:
        """(node, order) for every task that is ready, of gangs of which none is missing."""
        for job_id in job_ids:
            gang, start = picture.gangs.get(job_id), self._jobs.get(job_id)
            if gang is None or start is None or gang.waiting:
                continue
            members = [picture.placed[task_id] for task_id in sorted(gang.running)]
            if all(_has_come(picture, placed, start) for placed in members):
                yield from _orders(members, start, repairs=gang.gang.repairs)

    def late(self, picture: Picture, now: float, turn: Turn) -> None:
        """Gangs that did not get ready in time are stopped, and start anew."""
        for job_id, start in list(self._jobs.items()):
            gang = picture.gangs.get(job_id)
            if gang is None:
                del self._jobs[job_id]
            if gang is None or now < start.due:
                continue
            members = [picture.placed[task_id] for task_id in sorted(gang.running)]
            missing = [placed for placed in members if placed.state is AttemptState.ASSIGNED]
            start.due = now + self._start_s
            if not missing:
                continue
            unready = [placed for placed in missing if placed.attempt_id not in start.spots] or missing
            gangs.stop(picture, _those(gang, missing), Cause.GANG_RESTARTED, self._words(unready), turn)

    def _words(self, unready: list[Placed]) -> str:
        first = unready[0]
        more = f" and {len(unready) - 1} more" if len(unready) > 1 else ""
        rank = f"rank {first.attempt_id.task_index} on {first.node_id}{more}"
        return f"{rank} did not start within {self._start_s:g} s"

    def _of(self, job_id: int, now: float) -> _Start:
        if job_id not in self._jobs:
            self._jobs[job_id] = _Start(now + self._start_s)
        return self._jobs[job_id]


def _those(gang: GangState, missing: list[Placed]) -> GangState:
    """Of a gang that is repaired only those who are late; of any other all."""
    if not gang.gang.repairs:
        return gang
    late = {placed.task.task_id: placed.task.request for placed in missing}
    return GangState(gang.job_id, gang.gang, gang.waiting, late, gang.over)


def _has_come(picture: Picture, placed: Placed, start: _Start) -> bool:
    """It runs, or could at once; who is being stopped does neither."""
    if placed.state is AttemptState.ASSIGNED:
        return placed.attempt_id in start.spots and picture.places[placed.node_id].reachable
    return placed.state is AttemptState.RUNNING


def _orders(members: list[Placed], start: _Start, *, repairs: bool) -> Iterator[tuple[str, Go]]:
    ready = [placed for placed in members if placed.state is AttemptState.ASSIGNED]
    master, hosts = start.master, _hosts(members, start)
    if master is None:
        if len(ready) < len(members) and not repairs:
            return  # some went, and nobody knows whereto: they are stopped when it is too late
        master = start.spots[ready[0].attempt_id]
        if len(hosts) == 1:
            master = Spot(address=HERE, port=master.port)
        start.master = master
    for placed in ready:
        yield placed.node_id, Go(attempt=str(placed.attempt_id), master=master, hosts=hosts)


def _hosts(members: list[Placed], start: _Start) -> tuple[Host, ...]:
    """In the order of `node_rank`. A node that has not said where it is goes by its name."""
    slots: dict[str, int] = {}
    addresses: dict[str, str] = {}
    for placed in members:
        slots[placed.node_id] = slots.get(placed.node_id, 0) + 1
        spot = start.spots.get(placed.attempt_id)
        if spot is not None:
            addresses[placed.node_id] = spot.address
    if len(slots) == 1:
        (only,) = slots
        return (Host(address=HERE_BY_NAME, slots=len(members), name=only),)
    return tuple(
        Host(address=addresses.get(node_id, node_id), slots=number, name=node_id)
        for node_id, number in slots.items()
    )


def places_of(gang: GangState, members: list[Placed]) -> dict[AttemptId, GangPlace]:
    """How each of its tasks that have a node stands to the others. `members`: in the order of their ranks."""
    nodes: dict[str, list[AttemptId]] = {}
    for placed in members:
        nodes.setdefault(placed.node_id, []).append(placed.attempt_id)
    return {
        attempt_id: GangPlace(
            rank=attempt_id.task_index,
            size=gang.gang.size,
            local_rank=local_rank,
            local_size=len(on_node),
            node_rank=node_rank,
            nodes=len(nodes),
        )
        for node_rank, on_node in enumerate(nodes.values())
        for local_rank, attempt_id in enumerate(on_node)
    }
