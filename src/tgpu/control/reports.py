"""What nodes said, brought into the picture: who is here, what runs, what ended."""

from dataclasses import replace

from tgpu.control import outcome
from tgpu.control.inbox import NodeChanged, NodeEvent, NodeLeft, NodeReported, NodeSaidHello
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture, Placed
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.domain.node import Node
from tgpu.protocol.messages import AttemptReport, Hello, Phase
from tgpu.store.port import AttemptEnded, Started


def take_in(picture: Picture, event: NodeEvent, turn: Turn) -> None:
    match event:
        case NodeSaidHello(hello=hello):
            _hello(picture, hello, turn)
        case NodeReported(node_id=node_id):
            for report in event.report.attempts:
                _attempt(picture, node_id, report, turn)
            turn.acknowledgements.append((node_id, event.session, event.report.seq))
        case NodeChanged(node_id=node_id, capacity=capacity) if node_id in picture.places:
            node = replace(picture.places[node_id].node, capacity=capacity)
            picture.set_node(node)
            turn.batch.nodes.append(node)
        case NodeLeft(node_id=node_id) if node_id in picture.places:
            picture.set_reachable(node_id, reachable=False)


def _hello(picture: Picture, hello: Hello, turn: Turn) -> None:
    """The node's whole truth: adopt what we know, forget what we do not, miss what is gone."""
    known = picture.places.get(hello.node_id)
    state = known.node.state if known and known.node.state is NodeState.DRAINING else NodeState.READY
    node = Node(
        node_id=hello.node_id,
        state=state,
        capacity=hello.capacity,
        pool=hello.pool,
        labels=hello.labels,
        taints=hello.taints,
        boot_id=hello.boot_id,
        joined_ms=known.node.joined_ms if known else picture.now_ms,
        heard_ms=picture.now_ms,
        serves=hello.serves,
    )
    picture.set_node(node)
    picture.set_reachable(hello.node_id, reachable=True)
    turn.batch.nodes.append(node)
    for report in hello.attempts:
        _attempt(picture, hello.node_id, report, turn)
    said = {report.attempt for report in hello.attempts}
    for placed in list(picture.places[hello.node_id].attempts.values()):
        if str(placed.attempt_id) not in said:
            _missing(picture, placed, turn)
        elif placed.state is AttemptState.STOPPING:
            turn.remind.append(hello.node_id)


def _missing(picture: Picture, placed: Placed, turn: Turn) -> None:
    """Not yet started: said again. Started before: it is lost, and the node is the witness."""
    if placed.started_ms is None:
        turn.remind.append(placed.node_id)
        return
    how = Exit(
        Cause.NODE_LOST,
        detail="the node has no record of it",
        started_ms=placed.started_ms,
        ended_ms=picture.now_ms,
    )
    _ended(picture, placed, how, turn)


def _attempt(picture: Picture, node_id: str, report: AttemptReport, turn: Turn) -> None:
    placed = picture.live(AttemptId.parse(report.attempt))
    if placed is None or placed.node_id != node_id:
        turn.forget.append((node_id, report.attempt))
        return
    started_ms = report.started_ms if placed.started_ms is None else None
    if started_ms is not None:
        waited_s = (started_ms - placed.task.submitted_ms) / 1000
        turn.waits.append((placed.task.priority_class, max(0.0, waited_s)))
    if report.phase is Phase.ENDED and report.exit is not None:
        _ended(picture, placed, report.exit, turn)  # it says when it began, too: one change, not two
    elif started_ms is not None:
        picture.started(placed, started_ms)
        turn.batch.started.append(Started(placed.attempt_id, started_ms))


def _ended(picture: Picture, placed: Placed, how: Exit, turn: Turn) -> None:
    task = placed.task
    picture.release(task.task_id)
    happening = outcome.happening(how, task)
    turn.batch.ended.append(AttemptEnded(placed.attempt_id, how, happening, outcome.in_words(how, task)))
    if happening is Happening.REQUEUED:
        picture.add_waiting(replace(task, status=Status.PENDING))
    elif happening is Happening.PREEMPTED:
        picture.put_back(task)
    else:
        since_ms = (how.ended_ms or picture.now_ms) - task.submitted_ms
        turn.completions.append((happening, max(0, since_ms) / 1000))
