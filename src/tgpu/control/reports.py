"""What nodes said, brought into the picture: who is here, what runs, what ended."""

from dataclasses import replace

from tgpu.control import checkpoints, device_health, gangs, outcome, retrying, returns
from tgpu.control.inbox import NodeChanged, NodeDiskChanged, NodeEvent, NodeLeft, NodeReported, NodeSaidHello
from tgpu.control.reported_times import since_assigned
from tgpu.control.returns import Origins
from tgpu.control.turn import Turn
from tgpu.core.holdings import holdings_on
from tgpu.core.picture import Picture, Placed
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.domain.node import Node
from tgpu.domain.retries import backoff_s
from tgpu.protocol.messages import LONGEST_SHORTAGE, AttemptReport, Hello, Phase
from tgpu.store.port import AttemptEnded, Started


def take_in(picture: Picture, event: NodeEvent, turn: Turn, origins: Origins) -> None:
    """`origins`: what the store knows of the attempts that the picture does not."""
    match event:
        case NodeSaidHello(session=session, hello=hello):
            _hello(picture, hello, session, turn, origins)
            turn.settled.append((hello.node_id, session))
        case NodeReported(node_id=node_id):
            for report in event.report.attempts:
                if not _attempt(picture, node_id, report, turn):
                    returns.take_in(picture, node_id, report, origins, turn, hello=False)
            if not any(_is_kept(picture, report) for report in event.report.attempts):
                turn.acknowledgements.append((node_id, event.session, event.report.seq))
        case NodeChanged(node_id=node_id, capacity=capacity, labels=labels) if node_id in picture.places:
            known = picture.places[node_id].node
            node = replace(
                known,
                capacity=known.capacity if capacity is None else capacity,
                labels=known.labels if labels is None else labels,
            )
            picture.set_node(node)
            turn.batch.nodes.append(node)
            device_health.take_in(picture, node_id, turn)
        case NodeDiskChanged(node_id=node_id, shortage=shortage) if node_id in picture.places:
            picture.set_shortage(node_id, shortage)
        case NodeLeft(node_id=node_id) if node_id in picture.places:
            picture.set_reachable(node_id, reachable=False)


def _is_kept(picture: Picture, report: AttemptReport) -> bool:
    """Whether it tells of an end that cannot be written down, for its job is set aside: the node keeps it."""
    if report.phase is not Phase.ENDED or not picture.table.holdings:
        return False
    holding = picture.table.holdings.get(AttemptId.parse(report.attempt))
    return holding is not None and holding.stays


def _hello(picture: Picture, hello: Hello, session: int, turn: Turn, origins: Origins) -> None:
    """The node's whole truth: adopt what we know, judge what we do not, miss what is gone."""
    _describe(picture, hello, session, turn)
    for report in hello.attempts:
        if not _attempt(picture, hello.node_id, report, turn):
            returns.take_in(picture, hello.node_id, report, origins, turn, hello=True)
    said = {report.attempt for report in hello.attempts}
    returns.close_lost([hello.node_id], picture.now_ms, turn, said)
    for placed in list(picture.places[hello.node_id].attempts.values()):
        if str(placed.attempt_id) not in said:
            _missing(picture, placed, turn)
        elif placed.state is AttemptState.STOPPING:
            turn.remind.append(hello.node_id)
    for holding in holdings_on(picture, hello.node_id):
        if holding.stays:
            continue
        if str(holding.attempt_id) not in said:
            returns.gone(picture, holding.attempt_id, returns.no_record(None, picture.now_ms), turn)
        elif holding.attempt_id not in turn.left_behind:
            turn.remind.append(hello.node_id)
    device_health.take_in(picture, hello.node_id, turn)


def _describe(picture: Picture, hello: Hello, session: int, turn: Turn) -> None:
    """Most agents come back as they were: then only their session is new."""
    known = picture.places.get(hello.node_id)
    before = known.node.session if known else 0
    drain = known.node.drain if known else None
    node = Node(
        node_id=hello.node_id,
        state=NodeState.READY if drain is None else NodeState.DRAINING,
        capacity=hello.capacity,
        pool=hello.pool,
        labels=hello.labels,
        taints=hello.taints,
        boot_id=hello.boot_id,
        joined_ms=known.node.joined_ms if known else picture.now_ms,
        heard_ms=picture.now_ms,
        serves=hello.serves,
        drain=drain,
        session=before if hello.last_sessions is None else session,
    )
    if known is None or replace(known.node, heard_ms=node.heard_ms, session=node.session) != node:
        picture.set_node(node)
        turn.batch.nodes.append(node)
    elif node.session != before:
        turn.batch.nodes.append(known.begin_session(node.session))
    picture.set_shortage(hello.node_id, hello.disk_shortage[:LONGEST_SHORTAGE])
    picture.set_reachable(hello.node_id, reachable=True)


def _missing(picture: Picture, placed: Placed, turn: Turn) -> None:
    """Not yet started: said again. Started before: it is lost, and the node is the witness."""
    if placed.started_ms is None:
        turn.remind.append(placed.node_id)
        return
    _ended(picture, placed, returns.no_record(placed.started_ms, picture.now_ms), turn)


def _attempt(picture: Picture, node_id: str, report: AttemptReport, turn: Turn) -> bool:
    """Whether it is the one that its task goes on with."""
    placed = picture.live(AttemptId.parse(report.attempt))
    if placed is None or placed.node_id != node_id:
        return False
    report = since_assigned(report, placed.assigned_ms)
    started_ms = report.started_ms if placed.started_ms is None else None
    if started_ms is not None:
        waited_s = (started_ms - placed.task.submitted_ms) / 1000
        turn.waits.append((placed.task.priority_class, max(0.0, waited_s)))
        turn.began.append((placed.task.task_id.job_id, started_ms))
    if report.phase is Phase.ENDED and report.exit is not None:
        _ended(picture, placed, report.exit, turn)  # it says when it began, too: one change, not two
    elif started_ms is not None:
        picture.started(placed, started_ms)
        turn.batch.started.append(Started(placed.attempt_id, started_ms))
    if report.phase is not Phase.ENDED:
        checkpoints.heard(picture, placed, report.checkpoint_ms, turn)
    if report.spot is not None and placed.task.gang is not None:
        turn.in_gangs.append((placed, report))
    return True


def _ended(picture: Picture, placed: Placed, how: Exit, turn: Turn) -> None:
    how = checkpoints.at_end(picture, placed, how, turn)
    task = placed.task
    if how.started_ms is not None and how.ended_ms:
        turn.runs.append((task, max(0, how.ended_ms - how.started_ms), how.cause))
    picture.release(task.task_id)
    on_gpu_failure = picture.policy.on_gpu_failure
    happening = outcome.happening(how, task, on_gpu_failure)
    words = outcome.in_words(how, task, on_gpu_failure)
    counts, eligible_ms = False, 0
    if task.retries is not None:
        plain = retrying.Verdict(happening, words)
        verdict = retrying.judge(how, task, plain, turn.series, picture.now_ms)
        happening, words, counts, eligible_ms = verdict
    if how.cause is Cause.SUPERVISOR_LOST and happening is Happening.REQUEUED:
        # A task may be able to end its supervisor: then it must not be tried again without end and pause.
        eligible_ms = max(eligible_ms, picture.now_ms + 1000 * backoff_s(task.attempts))
    if happening in (Happening.REQUEUED, Happening.PREEMPTED) and not gangs.can_start_anew(picture, task):
        happening, words = Happening.FAILED, f"{words}; {gangs.CANNOT_START_ANEW}"
    turn.batch.ended.append(AttemptEnded(placed.attempt_id, how, happening, words, counts, eligible_ms))
    if happening is Happening.REQUEUED:
        again = replace(task, status=Status.PENDING, burst=False, failures=task.failures + counts)
        picture.add_waiting(replace(again, eligible_ms=eligible_ms))
    elif happening is Happening.PREEMPTED:
        picture.put_back(task)
    else:
        picture.ended(task)
        since_ms = (how.ended_ms or picture.now_ms) - task.submitted_ms
        turn.completions.append((happening, max(0, since_ms) / 1000))
    gangs.left(picture, placed, happening, words, turn)
