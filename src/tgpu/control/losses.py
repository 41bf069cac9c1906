"""Nodes that are not heard any more: when they are offline, and when their tasks run elsewhere instead.

A node counts as silent once nothing was heard of it for the whole loss time, on the leader's own monotonic
clock. That is longer than a task that must live at most once goes on without a sign of the leader, so such a
task has been frozen by its supervisor before another attempt of it is placed:

- The supervisor counts from the moment at which its agent *sent* the last heartbeat that the leader has
  acknowledged (four fifths of the loss time, 12 s of 15 s; on CLOCK_BOOTTIME, which goes on while the machine
  sleeps).
- The leader counts from the moment at which it *received* the last word of the node, or from its own
  take-over (15 s, on CLOCK_MONOTONIC). A message is received after it was sent, and a take-over is later than
  whatever an earlier leader acknowledged, so the leader's count begins later and lasts longer.
- A node that counts as silent loses its session in the same step: nothing it says later is acknowledged
  before it has said hello again, and was told which of its attempts were replaced.
- A leader that was stopped itself for a while has heard nobody: it begins to count anew, which only makes
  it later. Rates of two quartz clocks differ by far less than the 3 s between the two limits.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from tgpu.control import checkpoints, gangs, outcome, retrying
from tgpu.control.alerts import MANY_NODES_LOST, NODES_OFFLINE
from tgpu.control.turn import Turn
from tgpu.core.holdings import holdings_on, let_go
from tgpu.core.picture import Picture, Placed
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.store.lost import AttemptGone, AttemptLost
from tgpu.store.port import TaskClosed

LEASE_PART = 0.8
QUIET_PART = 0.4
"""Of the loss time (6 s of 15 s): a node that was not heard for so long gets no new work until it is."""
WORD_S = 600.0
"""How long the last word is waited for of a task whose gang cannot start again without it."""
STALL_S = 3.0
"""A leader that did not look for so long was stopped itself."""
MANY = 3
MANY_OF = 10
"""More than so many, and more than one node in so many: then something larger is wrong than nodes."""
NAMED = 10
"""So many are named in an alert."""
PACED_OF = 100
"""Then one node in so many is replaced per second."""


class Losses:
    """Which nodes fell silent, and which of them still have tasks to be replaced."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s
        self._due: dict[str, None] = {}
        """Silent nodes that hold tasks, in the order in which they fell silent."""
        self._offline: list[str] = []
        self._paced = False
        self._allowance = 0.0
        self._looked: float | None = None
        self._quiet: set[str] = set()
        """Nodes that are connected and get no new work, for they were not heard of late."""

    @property
    def alerts(self) -> dict[str, str | None]:
        return {MANY_NODES_LOST: self.alert, NODES_OFFLINE: self.offline_alert}

    @property
    def offline_alert(self) -> str | None:
        """Who is away, until they are back or removed."""
        if not self._offline:
            return None
        more = len(self._offline) - NAMED
        names = ", ".join(self._offline[:NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"not heard any more: {names}; look at the machine and its agent, or `tgpu nodes remove` it"

    @property
    def alert(self) -> str | None:
        """What to say of it, if many are lost at once."""
        if not self._paced:
            return None
        return (
            f"many nodes fell silent at once, the tasks of {len(self._due)} are replaced slowly: check "
            "network and power of the nodes that `tgpu nodes` shows as offline"
        )

    def was_stalled(self, now: float) -> bool:
        """Whether this server has just come back to its senses: then it has not heard anybody for a while."""
        stalled = self._looked is not None and now - self._looked > STALL_S
        self._looked = now
        return stalled

    def take_in(
        self,
        picture: Picture,
        heard: dict[str, float],
        now: float,
        turn: Turn,
        is_connected: Callable[[str], bool] = lambda _: True,
    ) -> list[str]:
        """`heard`: when each node was heard last, the longest ago first. Returns who fell silent just now."""
        quiet = list(takewhile(lambda item: now - item[1] >= QUIET_PART * self._silent_s, heard.items()))
        self._hold_off(picture, {node_id for node_id, _ in quiet}, is_connected)
        quiet = [(node_id, at) for node_id, at in quiet if now - at >= self._silent_s / 2]
        fallen = [
            node_id
            for node_id, at in quiet
            if now - at >= self._silent_s and self._falls(picture, node_id, now - at, turn)
        ]
        self._offline = [name for name, at in quiet if now - at >= self._silent_s and name in picture.places]
        self._due = {name: None for name in self._due if self._is_still_due(picture, heard, name, now)}
        falling = sum(now - at < 2 * self._silent_s for _, at in quiet)
        many = falling > MANY and MANY_OF * falling > len(picture.places)
        self._paced = bool(self._due) and (self._paced or many)
        if self._due and self._is_somebody_there(picture, heard, now):
            for node_id in self._next_ones(len(picture.places)):
                del self._due[node_id]
                lose(picture, node_id, self._silent_s, turn, waits=now - heard[node_id] < WORD_S)
        return fallen

    def _hold_off(self, picture: Picture, quiet: set[str], is_connected: Callable[[str], bool]) -> None:
        """Nothing new is put on quiet nodes; those that are heard again get work again."""
        for node_id in self._quiet - quiet:
            if node_id in picture.places and is_connected(node_id):
                picture.set_reachable(node_id, reachable=True)
        self._quiet &= quiet
        for node_id in quiet:
            place = picture.places.get(node_id)
            if place is not None and place.reachable:
                self._quiet.add(node_id)
                picture.set_reachable(node_id, reachable=False)

    def _falls(self, picture: Picture, node_id: str, silent_s: float, turn: Turn) -> bool:
        """Offline from now on. Whether that is new."""
        place = picture.places.get(node_id)
        if place is None:
            return False
        given_up = (not _awaits_word(picture, each) for each in place.attempts.values())
        if silent_s >= WORD_S or any(given_up) or any(holdings_on(picture, node_id)):
            self._due.setdefault(node_id)
        if place.node.state is NodeState.OFFLINE:
            return False
        turn.batch.nodes.append(picture.set_state(node_id, NodeState.OFFLINE))
        picture.set_reachable(node_id, reachable=False)
        return True

    def _is_still_due(self, picture: Picture, heard: dict[str, float], node_id: str, now: float) -> bool:
        return node_id in picture.places and now - heard.get(node_id, now) >= self._silent_s

    def _is_somebody_there(self, picture: Picture, heard: dict[str, float], now: float) -> bool:
        """Without another node there is nowhere to go; and if nobody was heard of late, it is this server
        that is cut off."""
        for node_id in reversed(heard):
            if now - heard[node_id] >= self._silent_s / 2:
                return False
            if node_id in picture.places and picture.places[node_id].takes_tasks:
                return True
        return False

    def _next_ones(self, nodes: int) -> list[str]:
        """Whose tasks are replaced in this tick: of many, a few per second."""
        if not self._paced:
            self._allowance = 0.0
            return list(self._due)
        rate = max(1.0, nodes / PACED_OF)
        self._allowance = min(rate, self._allowance + rate / 2)  # two looks per second at the most
        chosen = list(self._due)[: int(self._allowance)]
        self._allowance -= len(chosen)
        return chosen


def lose(picture: Picture, node_id: str, silent_s: float, turn: Turn, *, waits: bool = False) -> None:
    """Whatever the node has is given up; it may come back when the node does. `waits`: but not what could not
    be replaced, while its own word may still come."""
    detail = f"{node_id} was not heard for {silent_s:g} s"
    for placed in list(picture.places[node_id].attempts.values()):
        if not (waits and _awaits_word(picture, placed)):
            _lose_one(picture, placed, detail, turn)
    for holding in holdings_on(picture, node_id):
        let_go(picture, holding.attempt_id)
        if holding.state.is_live and not holding.stays:
            how = Exit(Cause.NODE_LOST, detail=detail, ended_ms=picture.now_ms)
            turn.batch.gone.append(AttemptGone(holding.attempt_id, how))


def _awaits_word(picture: Picture, placed: Placed) -> bool:
    """Whether nothing can run instead of it, for other tasks of its gang are over: how it ended itself, or
    that it goes on, its node tells when it is back."""
    task = placed.task
    if task.cancel_by is not None or placed.state is AttemptState.STOPPING:
        return False
    return placed.started_ms is not None and not gangs.can_start_anew(picture, task)


def _lose_one(picture: Picture, placed: Placed, detail: str, turn: Turn) -> None:
    """Its task waits again where it stood in line; one that was to be cancelled is closed instead."""
    how = Exit(Cause.NODE_LOST, detail=detail, started_ms=placed.started_ms, ended_ms=picture.now_ms)
    how = checkpoints.at_end(picture, placed, how, turn)
    task = picture.release(placed.task.task_id).task
    wanted, words = task.cancel_by is None, outcome.in_words(how, task)
    again = task.requeue
    if task.retries is not None and wanted:
        plain = retrying.Verdict(Happening.REQUEUED if again else Happening.FAILED, words)
        happening, words, _, _ = retrying.judge(how, task, plain, turn.series, picture.now_ms)
        again = happening is not Happening.FAILED
    if again and not gangs.can_start_anew(picture, task):
        again, words = False, f"{words}; {gangs.CANNOT_START_ANEW}"
    turn.batch.lost.append(AttemptLost(placed.attempt_id, how, again or not wanted, words))
    turn.lost.add(placed.attempt_id, placed.node_id)
    if not wanted:
        by = f"cancelled by {task.cancel_by}"
        turn.batch.closed.append(TaskClosed(task.task_id, Happening.CANCELLED, Cause.CANCELLED, by))
    elif again:
        picture.add_waiting(replace(task, status=Status.PENDING, burst=False))
        gangs.left(picture, placed, Happening.LOST, words, turn)
        return
    picture.ended(task)
    happening = Happening.FAILED if wanted else Happening.CANCELLED
    gangs.left(picture, placed, happening, words, turn)
    since_s = max(0, picture.now_ms - task.submitted_ms) / 1000
    turn.completions.append((happening, since_s))
