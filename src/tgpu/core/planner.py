"""plan(picture, policy) -> Plan: who starts now, and where."""

import heapq

from tgpu.core.devices import matches
from tgpu.core.feasibility import place, unsuitable
from tgpu.core.ordering import Key
from tgpu.core.picture import Picture, Place
from tgpu.core.plan import Hold, Plan, Start
from tgpu.core.policy import Policy
from tgpu.core.queue_line import task_of
from tgpu.core.room import WHOLE_GPU, Room
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request


def plan(picture: Picture, policy: Policy) -> Plan:
    """Serve the waiting in order; the first who cannot start keeps room, and nobody behind may take it."""
    paper, race = Paper(picture), Race(picture)
    starts: list[Start] = []
    blocked: dict[Request, TaskId] = {}
    hold: Hold | None = None
    while (head := race.first()) is not None:
        request, task_id = head
        places = suitable(request, picture)
        chosen = _best(request, places, paper, policy)
        if chosen is not None:
            node_id, devices = paper.take(request, *chosen)
            starts.append(Start(task_id, node_id, devices))
            race.advance()
            continue
        blocked[request] = task_id
        race.drop()
        if hold is None and places:
            hold = paper.hold(request, task_id, places)
    return Plan(picture.version, tuple(starts), hold, blocked)


def suitable(request: Request, picture: Picture) -> list[Place]:
    return [
        place
        for place in picture.places.values()
        if place.takes_tasks and unsuitable(request, place.node) is None
    ]


def _best(
    request: Request, places: list[Place], paper: "Paper", policy: Policy
) -> tuple[Place, tuple[int, ...]] | None:
    best: tuple[Place, tuple[int, ...]] | None = None
    best_score = float("-inf")
    for candidate in places:
        room = paper.room(candidate)
        positions = place(request, candidate.node, room)
        if positions is None:
            continue
        score = policy.score(request, candidate.node, room)
        if score > best_score:
            best, best_score = (candidate, positions), score
    return best


class Race:
    """The first of each kind of request, merged in order.

    A kind whose head did not fit is dropped as a whole: what has no room for its first task has none for
    its second.
    """

    def __init__(self, picture: Picture) -> None:
        self._lines = list(picture.lines.items())
        self._heap: list[tuple[Key, int, int]] = []
        for number, (_, line) in enumerate(self._lines):
            key = line.at(0)
            assert key is not None, "the picture keeps no empty line"
            self._heap.append((key, number, 0))
        heapq.heapify(self._heap)

    def first(self) -> tuple[Request, TaskId] | None:
        if not self._heap:
            return None
        key, number, _ = self._heap[0]
        return self._lines[number][0], task_of(key)

    def advance(self) -> None:
        _, number, position = self._heap[0]
        following = self._lines[number][1].at(position + 1)
        if following is None:
            self.drop()
        else:
            heapq.heapreplace(self._heap, (following, number, position + 1))

    def drop(self) -> None:
        heapq.heappop(self._heap)


class Paper:
    """What would be left on each node if the plan so far were carried out; the picture stays as it is."""

    def __init__(self, picture: Picture) -> None:
        self._places = picture.places
        self._rooms: dict[str, Room] = {}

    def room(self, place: Place) -> Room:
        return self._rooms.get(place.node.node_id, place.room)

    def take(self, request: Request, place: Place, positions: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        self._own(place).take(request, positions)
        devices = place.node.capacity.devices
        return place.node.node_id, tuple(devices[position].index for position in positions)

    def hold(self, request: Request, task_id: TaskId, places: list[Place]) -> Hold:
        """Keep, on the node that lacks least, all that the request could already use."""
        chosen = min(
            places, key=lambda place: (_missing(request, place, self.room(place)), place.node.node_id)
        )
        room = self._own(chosen)
        room.cpu_milli -= min(room.cpu_milli, request.cpu_milli)
        room.memory_mib -= min(room.memory_mib, request.memory_mib)
        room.disk_mib -= min(room.disk_mib, request.disk_mib)
        room.exclusive = room.exclusive or request.exclusive
        for position in _usable(request, chosen, room):
            room.gpu_free[position] = 0
        return Hold(task_id, chosen.node.node_id)

    def _own(self, place: Place) -> Room:
        return self._rooms.setdefault(place.node.node_id, place.room.copy())


def _usable(request: Request, place: Place, room: Room) -> list[int]:
    """The devices, freest first, that already suit the request: no more than it needs."""
    if not request.gpu_milli:
        return []
    fitting = [
        position
        for position, device in enumerate(place.node.capacity.devices)
        if matches(device, request.gpu_type) and room.gpu_free[position] > 0
    ]
    if request.gpu_milli >= WHOLE_GPU:
        fitting = [position for position in fitting if room.gpu_free[position] == WHOLE_GPU]
    fitting.sort(key=lambda position: (-room.gpu_free[position], position))
    return fitting[: max(1, request.gpu_milli // WHOLE_GPU)]


def _missing(request: Request, place: Place, room: Room) -> float:
    """How far the node is from having room: the sum of the missing parts of each dimension."""
    gpu_free = sum(min(room.gpu_free[position], WHOLE_GPU) for position in _usable(request, place, room))
    pairs = (
        (request.cpu_milli, room.cpu_milli),
        (request.memory_mib, room.memory_mib),
        (request.disk_mib, room.disk_mib),
        (request.gpu_milli, gpu_free),
    )
    return sum(max(0, asked - free) / asked for asked, free in pairs if asked)
