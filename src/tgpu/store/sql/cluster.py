"""The cluster's own rows: its epoch, the numbers it gives out, its nodes."""

from collections.abc import Sequence

from sqlalchemy import insert, select, update

from tgpu.domain.node import Node
from tgpu.store.port import DeposedError
from tgpu.store.sql import codec
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import counters, meta, nodes
from tgpu.store.unreadable import Unreadable

EPOCH = Query(
    "The epoch that may write now, held against a claim until this transaction ends.",
    select(meta.c.epoch).with_for_update(read=True),
)
EPOCH_NOW = Query("The epoch that may write now.", select(meta.c.epoch))
CLAIM = Query(
    "Begins a new epoch.", update(meta).values(epoch=meta.c.epoch + constant(1)).returning(meta.c.epoch)
)
RESERVE = Query(
    "Takes the next job ids and event numbers.",
    update(counters)
    .values(
        last_job_id=counters.c.last_job_id + value("job_count"),
        last_seq=counters.c.last_seq + value("event_count"),
    )
    .returning(counters.c.last_job_id, counters.c.last_seq),
)
LAST_SEQ = Query("The number of the newest event.", select(counters.c.last_seq))
NODES = Query("Every node.", select(nodes.c.node_id, nodes.c.body).order_by(nodes.c.node_id))
REPLACE_NODE = Query(
    "Replaces a node that is known.",
    update(nodes).values(body=value("new_body")).where(nodes.c.node_id == value("node")),
)
ADD_NODE = Query("Adds a node that is not known.", insert(nodes))


def claim(session: Session) -> int:
    return int(session.the_row(CLAIM)[0])


def check_epoch(session: Session, epoch: int) -> None:
    """Raises DeposedError; the epoch lasts at least as long as the transaction."""
    _compare(epoch, session.the_row(EPOCH)[0])


def see_epoch(session: Session, epoch: int) -> None:
    """Raises DeposedError, for whoever only reads."""
    _compare(epoch, session.the_row(EPOCH_NOW)[0])


def _compare(epoch: int, current: int) -> None:
    if current != epoch:
        raise DeposedError(f"epoch {epoch} is over: {current} leads by now")


def reserve(session: Session, job_count: int, event_count: int) -> tuple[int, int]:
    """The first job id and the first event number of those taken."""
    last_job_id, last_seq = session.the_row(RESERVE, job_count=job_count, event_count=event_count)
    return last_job_id - job_count + 1, last_seq - event_count + 1


def last_seq(session: Session) -> int:
    return int(session.the_row(LAST_SEQ)[0])


def all_nodes(session: Session, unreadable: Unreadable | None = None) -> list[Node]:
    return (unreadable or Unreadable()).nodes_read(session.rows(NODES), codec.node_from)


def put_nodes(session: Session, given: Sequence[Node]) -> None:
    if not given:
        return
    bodies = {node.node_id: codec.text_of(node) for node in given}
    known = session.change_each(
        REPLACE_NODE, [{"node": node_id, "new_body": body} for node_id, body in bodies.items()]
    )
    new: list[Values] = [
        {"node_id": node_id, "body": body}
        for (node_id, body), was_there in zip(bodies.items(), known, strict=True)
        if not was_there
    ]
    if new:
        session.change_many(ADD_NODE, new)
