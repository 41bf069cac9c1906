"""Ended jobs follow their tenant to its new name, some at a time: there may be a million of them, and nobody
should have to wait for that.
"""

from typing import NamedTuple

from sqlalchemy import delete, insert, select

from tgpu.store.sql import subtree
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.tables import jobs, renames

AT_ONCE = 5000

_FIELDS = (renames.c.rename_id, renames.c.old_id, renames.c.new_id, renames.c.up_to_job_id)

ADD = Query(
    "Remembers that ended jobs have yet to follow.", insert(renames), ["old_id", "new_id", "up_to_job_id"]
)
FIRST = Query(
    "The oldest move that ended jobs have yet to follow.",
    select(*_FIELDS).order_by(renames.c.rename_id).limit(constant(1)).offset(constant(0)),
)
REMOVE = Query(
    "Forgets a move that all have followed.", delete(renames).where(renames.c.rename_id == value("rename"))
)
EDGE = Query(
    "The last of the next jobs.",
    select(jobs.c.job_id)
    .where(jobs.c.job_id > value("low"))
    .order_by(jobs.c.job_id)
    .limit(constant(1))
    .offset(value("skipped")),
)
HOLD_JOBS = Query(
    "Holds jobs that are to follow, in the order in which everybody holds jobs.",
    select(jobs.c.job_id)
    .where(jobs.c.job_id.between(value("first"), value("last")), subtree.is_within(jobs.c.tenant_id))
    .order_by(jobs.c.job_id)
    .with_for_update(key_share=True, of=jobs),
)
RENAME = subtree.rename(jobs, jobs.c.job_id.between(value("first"), value("last")))


class Rename(NamedTuple):
    """A move, and up to which job it goes: younger ones are of somebody who took the old name."""

    rename_id: int
    old_id: str
    new_id: str
    up_to_job_id: int


def add(session: Session, old_id: str, new_id: str, up_to_job_id: int) -> None:
    session.change(ADD, old_id=old_id, new_id=new_id, up_to_job_id=up_to_job_id)


def first(session: Session) -> Rename | None:
    """One after the other, in the order of the moves: a name may have been taken again since."""
    row = session.row(FIRST)
    return None if row is None else Rename(*row)


def follow(session: Session, rename: Rename, after_job_id: int) -> int | None:
    """Lets the next jobs follow; returns the last that was looked at, None once all have followed."""
    if after_job_id >= rename.up_to_job_id:
        session.change(REMOVE, rename=rename.rename_id)
        return None
    row = session.row(EDGE, low=after_job_id, skipped=AT_ONCE - 1)
    last = rename.up_to_job_id if row is None else min(row[0], rename.up_to_job_id)
    stretch = {"first": after_job_id + 1, "last": last}
    session.hold(HOLD_JOBS, [subtree.within(rename.old_id) | stretch])
    session.change(RENAME, **subtree.renamed(rename.old_id, rename.new_id), **stretch)
    return last
