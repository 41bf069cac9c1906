"""The feed of events: written with each change, read by whoever follows."""

from collections.abc import Sequence

from sqlalchemy import Select, Text, insert, or_, select

from tgpu.domain.job import Event
from tgpu.store.sql import codec
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import events

_FIELDS = (
    events.c.seq,
    events.c.at_ms,
    events.c.kind,
    events.c.job_id,
    events.c.task_index,
    events.c.data,
    events.c.user,
)


def _following() -> Select[Row]:
    newer = events.c.seq > value("after_seq")
    return select(*_FIELDS).where(newer).order_by(events.c.seq).limit(value("most")).offset(constant(0))


ADD = Query("Adds an event.", insert(events))
AFTER = Query("The events after some event.", _following())
AFTER_OF_USER = Query(
    "The events after some event, of one user's jobs.",
    _following().where(events.c.user == value("wanted_user")),
)
AFTER_OF_JOB = Query(
    "The events after some event, of one job, if it is that user's.",
    _following().where(
        events.c.job_id == value("job"),
        or_(value("wanted_user", Text()).is_(None), events.c.user == value("wanted_user", Text())),
    ),
)


def write(session: Session, happened: Sequence[Event]) -> None:
    session.wrote_events = True
    session.change_many(
        ADD,
        [
            {
                "seq": event.seq,
                "at_ms": event.at_ms,
                "kind": event.kind,
                "job_id": event.job_id,
                "task_index": event.task_index,
                "data": codec.text_of(event.data),
                "user": event.user,
            }
            for event in happened
        ],
    )


def read(session: Session, after_seq: int, limit: int, job_id: int | None, user: str | None) -> list[Event]:
    if job_id is not None:
        rows = session.rows(AFTER_OF_JOB, after_seq=after_seq, most=limit, job=job_id, wanted_user=user)
    elif user is not None:
        rows = session.rows(AFTER_OF_USER, after_seq=after_seq, most=limit, wanted_user=user)
    else:
        rows = session.rows(AFTER, after_seq=after_seq, most=limit)
    return [
        Event(seq, at_ms, kind, job, task_index, codec.data_from(data), owner)
        for seq, at_ms, kind, job, task_index, data, owner in rows
    ]
