"""The caps of tokens on a database: spent by submissions, given back by jobs that are over.

Their rows are held after tenants and before the row that numbers events.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import BigInteger, or_, select, update

from tgpu.store.sql.session import Query, Session, Values, value
from tgpu.store.tables import tokens
from tgpu.store.token_cap import TokenCap

_IS_THIS = tokens.c.token_id == value("token")
_IS_CAPPED = or_(tokens.c.jobs_left.is_not(None), tokens.c.gpu_ms_left.is_not(None))
_JOBS, _GPU_MS = value("job_count", BigInteger()), value("gpu_ms", BigInteger())

HOLD = Query(
    "What a token with a cap may still be used for, held against every other writer.",
    select(tokens.c.token_id, tokens.c.jobs_left, tokens.c.gpu_ms_left)
    .where(_IS_THIS, _IS_CAPPED)
    .order_by(tokens.c.token_id)
    .with_for_update(key_share=True, of=tokens),
)
READ = Query(
    "What a token with a cap may still be used for.",
    select(tokens.c.token_id, tokens.c.jobs_left, tokens.c.gpu_ms_left).where(_IS_THIS, _IS_CAPPED),
)
SPEND = Query(
    "Takes jobs and GPU-hours from what is left of a token, if there is as much.",
    update(tokens)
    .values(jobs_left=tokens.c.jobs_left - _JOBS, gpu_ms_left=tokens.c.gpu_ms_left - _GPU_MS)
    .where(
        _IS_THIS,
        or_(tokens.c.jobs_left.is_(None), tokens.c.jobs_left >= _JOBS),
        or_(tokens.c.gpu_ms_left.is_(None), tokens.c.gpu_ms_left >= _GPU_MS),
    ),
)
GIVE_BACK = Query(
    "Gives back the GPU-hours that jobs have not used, unless the token is without that cap.",
    update(tokens)
    .values(gpu_ms_left=tokens.c.gpu_ms_left + _GPU_MS)
    .where(_IS_THIS, tokens.c.gpu_ms_left.is_not(None)),
)


def hold(session: Session, token_ids: Iterable[int]) -> dict[int, TokenCap]:
    """Those that there are, and have a cap."""
    return _found(session, HOLD, token_ids)


def read(session: Session, token_ids: Iterable[int]) -> dict[int, TokenCap]:
    """The same, not held: nothing is to be spent."""
    return _found(session, READ, token_ids)


def _found(session: Session, query: Query, token_ids: Iterable[int]) -> dict[int, TokenCap]:
    rows = session.row_each(query, [{"token": token_id} for token_id in sorted(set(token_ids))])
    return {row[0]: TokenCap(*row) for row in rows if row is not None}


def write(session: Session, caps: Iterable[TokenCap]) -> None:
    spent = [cap for cap in caps if cap.is_capped and cap.jobs]
    if spent:
        session.change_all(SPEND, [
            {"token": cap.token_id, "job_count": cap.jobs, "gpu_ms": cap.gpu_ms} for cap in spent
        ])  # fmt: skip


def change(session: Session, caps: Iterable[TokenCap]) -> None:
    """By jobs that were changed: none more, and more GPU-hours, or less."""
    for cap in caps:
        if cap.gpu_ms:
            session.change(SPEND, token=cap.token_id, job_count=0, gpu_ms=cap.gpu_ms)


def give_back(session: Session, gpu_ms: Mapping[int, int]) -> None:
    """By token."""
    given: list[Values] = [
        {"token": token_id, "gpu_ms": amount} for token_id, amount in sorted(gpu_ms.items()) if amount
    ]
    if given:
        session.change_each(GIVE_BACK, given)
