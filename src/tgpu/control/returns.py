"""Attempts that a node has and the picture does not know: what becomes of each.

Mostly the node was lost and is heard again. Its tasks wait by then, or run elsewhere, or are over; of the
attempts that a task has, one goes on. The others are told to stop, and keep their room until they have.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from tgpu.control import gangs, outcome
from tgpu.control.containment import about_node
from tgpu.control.inbox import NodeEvent, NodeReported, NodeSaidHello
from tgpu.control.turn import Turn
from tgpu.core.holdings import Holding, hold, let_go
from tgpu.core.picture import Picture, Placed
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Exit, JobSpec, OnReturn, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, Status
from tgpu.protocol.messages import AttemptReport, Phase
from tgpu.store.lost import AttemptGone, AttemptReturned, Origin, Superseded
from tgpu.store.port import AttemptEnded

Origins = dict[AttemptId, Origin]


def unknown(picture: Picture, event: NodeEvent) -> list[AttemptId]:
    """What has to be looked up in the store before this event is taken in."""
    with about_node(event.node_id):
        names = [AttemptId.parse(report.attempt) for report in _reports(event)]
    held = picture.table.holdings
    return [name for name in names if picture.live(name) is None and name not in held]


def must_wait(picture: Picture, event: NodeEvent, turn: Turn) -> bool:
    """Whether somebody comes back whose task has lost another attempt in this very turn: what returns is
    written down before what ends, so the two cannot be in one transaction."""
    if not turn.batch.ended or not isinstance(event, NodeSaidHello):
        return False
    ended = {change.attempt_id.task_id for change in turn.batch.ended}
    names = (AttemptId.parse(report.attempt) for report in event.hello.attempts)
    return any(name.task_id in ended and picture.live(name) is None for name in names)


def _reports(event: NodeEvent) -> tuple[AttemptReport, ...]:
    match event:
        case NodeSaidHello(hello=hello):
            return hello.attempts
        case NodeReported(report=report):
            return report.attempts
        case _:
            return ()


def take_in(
    picture: Picture, node_id: str, report: AttemptReport, origins: Origins, turn: Turn, *, hello: bool
) -> None:
    """`hello`: the node says all that it has. In between it only repeats itself, at times late."""
    attempt_id = AttemptId.parse(report.attempt)
    if (holding := picture.table.holdings.get(attempt_id)) is not None:
        if not holding.stays and report.phase is Phase.ENDED and report.exit is not None:
            gone(picture, attempt_id, report.exit, turn)
        return
    origin = origins.get(attempt_id)
    is_over = origin is not None and origin.attempt.state is AttemptState.ENDED
    if origin is None or origin.attempt.node_id != node_id or origin.attempt.state.is_live:
        turn.forget.append((node_id, report.attempt))
    elif report.phase is Phase.ENDED and report.exit is not None:
        if is_over:
            turn.forget.append((node_id, report.attempt))
        else:
            _ended(picture, origin.attempt, report.exit, turn)
            origins[attempt_id] = replace(origin, attempt=replace(origin.attempt, state=AttemptState.ENDED))
    elif hello:
        _lives(picture, origin, report, turn)
    elif is_over:
        turn.forget.append((node_id, report.attempt))


def no_record(started_ms: int | None, now_ms: int) -> Exit:
    detail = "the node has no record of it"
    return Exit(Cause.NODE_LOST, detail=detail, started_ms=started_ms, ended_ms=now_ms)


def close_lost(node_ids: Iterable[str], now_ms: int, turn: Turn, said: Collection[str] = ()) -> None:
    """What these nodes have lost and do not have (`said`) is over: also what never reached them."""
    for node_id in node_ids:
        for attempt_id in turn.lost.missing(node_id, said):
            turn.batch.gone.append(AttemptGone(attempt_id, no_record(None, now_ms)))


def gone(picture: Picture, attempt_id: AttemptId, how: Exit, turn: Turn) -> None:
    """An attempt that was left behind is no more."""
    holding = let_go(picture, attempt_id)
    if holding.state is not AttemptState.ENDED:
        turn.batch.gone.append(AttemptGone(attempt_id, how))


def leave_behind(picture: Picture, placed: Placed, detail: str, turn: Turn) -> None:
    """Its task goes on without it, or is over: it is told to stop."""
    picture.release(placed.task.task_id)
    request, stopping = placed.task.request, AttemptState.STOPPING
    _hold(picture, Holding(placed.attempt_id, placed.node_id, placed.devices, request, stopping), turn)
    turn.batch.superseded.append(Superseded(placed.attempt_id, detail))


def _hold(picture: Picture, holding: Holding, turn: Turn) -> None:
    hold(picture, holding)
    turn.left_behind.append(holding.attempt_id)


def _ended(picture: Picture, attempt: Attempt, how: Exit, turn: Turn) -> None:
    """It was lost, and has ended since. If it did its work, its task is over, whatever else runs; if not,
    whoever waits or runs instead goes on."""
    task_id = attempt.attempt_id.task_id
    placed = picture.placed.get(task_id)
    task = _waiting(picture, task_id) if placed is None else placed.task
    alone = task is not None and (task.gang is None or task.gang.repairs)  # else its gang has to start anew
    if task is None or not alone or outcome.happening(how, task) is not Happening.SUCCEEDED:
        turn.batch.gone.append(AttemptGone(attempt.attempt_id, how))
        return
    if placed is None:
        _take_waiting(picture, task_id)
    else:
        leave_behind(picture, placed, f"attempt {attempt.attempt_id.number} has done the work", turn)
    picture.ended(task)
    words = outcome.in_words(how, task)
    turn.batch.ended.append(AttemptEnded(attempt.attempt_id, how, Happening.SUCCEEDED, words))
    since_ms = (how.ended_ms or picture.now_ms) - task.submitted_ms
    turn.completions.append((Happening.SUCCEEDED, max(0, since_ms) / 1000))


def _lives(picture: Picture, origin: Origin, report: AttemptReport, turn: Turn) -> None:
    attempt, spec = origin.attempt, origin.spec
    task_id = attempt.attempt_id.task_id
    started_ms = next(
        (at for at in (attempt.started_ms, report.started_ms) if at is not None), picture.now_ms
    )
    placed = picture.placed.get(task_id)
    may_return = attempt.state is AttemptState.LOST and gangs.may_return(spec, report.started_ms)
    if may_return and _waiting(picture, task_id) is not None:
        _take_back(picture, _take_waiting(picture, task_id), attempt, started_ms, turn)
    elif may_return and placed is not None and _goes_on(started_ms, placed, spec):
        leave_behind(picture, placed, f"attempt {attempt.attempt_id.number} was heard again", turn)
        _take_back(picture, placed.task, attempt, started_ms, turn)
    else:
        request = spec.group_of(task_id.task_index).request
        _hold(
            picture,
            Holding(attempt.attempt_id, attempt.node_id, attempt.devices, request, attempt.state),
            turn,
        )


def _waiting(picture: Picture, task_id: TaskId) -> TaskBrief | None:
    """A task that waits, also one that was held since it was lost."""
    return picture.waiting.get(task_id) or picture.parked.get(task_id)


def _take_waiting(picture: Picture, task_id: TaskId) -> TaskBrief:
    return picture.parked.take(task_id) if task_id in picture.parked else picture.remove_waiting(task_id)


def _goes_on(started_ms: int, placed: Placed, spec: JobSpec) -> bool:
    """Whether an attempt that returns is kept instead of the one that replaced it: if it has run longer.

    Not of a task that lives at most once: it was frozen, its replacement was not. And not when the task is
    being stopped: that goes on with whom it was begun.
    """
    if spec.once or spec.on_return is OnReturn.REPLACEMENT or placed.state is AttemptState.STOPPING:
        return False
    return placed.started_ms is None or started_ms <= placed.started_ms


def _take_back(picture: Picture, task: TaskBrief, attempt: Attempt, started_ms: int, turn: Turn) -> None:
    """One who was held in the meantime had run on the burst."""
    picture.hours.reserve(task)
    picture.restore(
        Placed(
            replace(task, status=Status.RUNNING, burst=task.held),
            attempt.attempt_id,
            attempt.node_id,
            attempt.devices,
            AttemptState.RUNNING,
            started_ms,
            attempt.assigned_ms,
        )
    )
    reserve_gpu_ms = picture.policy.gpu_ms(task)
    turn.batch.returned.append(AttemptReturned(attempt.attempt_id, started_ms, reserve_gpu_ms))
