"""Snapshots of callers' code: put here piece by piece, named by jobs, and read again."""

import msgspec
from starlette.responses import Response

from tgpu.api.decode import MIB, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.needs import SUBMIT
from tgpu.api.problems import ProblemError, bad_request, disk_full, forbidden, not_found, unprocessable
from tgpu.api.reply import json_reply
from tgpu.domain.quantities import BadQuantityError
from tgpu.domain.snapshot import checked_digest
from tgpu.store.snapshot_shelf import NotThereYetError, ShelfFullError, ShelfRefusedError

PIECE = 8 * MIB
_MOST = 1 << 40


class SnapshotOut(msgspec.Struct, kw_only=True):
    """How far a snapshot has come."""

    digest: str
    received: int
    """How many bytes of it are here."""
    complete: bool
    """Whether that is all, and is what its digest says: jobs may name it now."""


async def put_snapshot(call: Call) -> Response:
    user, digest = _whose(call), _digest(call)
    offset, total = call.query.whole("offset", 0, _MOST) or 0, call.query.whole("total", 1, _MOST)
    if total is None:
        raise bad_request("total is missing: how many bytes the whole snapshot has")
    data = await read_body(call, PIECE)
    if not data:
        raise unprocessable("body", "the body is empty: it is a piece of the snapshot")
    try:
        received = await call.services.snapshots.put(user, digest, offset, total, data)
    except NotThereYetError as error:
        raise ProblemError(409, "not-next", str(error), extras={"received": error.received}) from None
    except ShelfFullError as error:
        raise disk_full(str(error)) from None
    except ShelfRefusedError as error:
        raise unprocessable("snapshot", str(error)) from None
    return json_reply(SnapshotOut(digest=digest, received=received, complete=received >= total))


async def read_snapshot(call: Call) -> Response:
    user, digest = _whose(call), _digest(call)
    offset = call.query.whole("offset", 0, _MOST) or 0
    most = call.query.whole("max_bytes", 0, PIECE)
    found = await call.services.snapshots.read(user, digest, offset, PIECE if most is None else most)
    if found is None:
        raise not_found(f"there is no snapshot {digest} of {user}, or no longer: put it here, PUT /snapshots")
    headers = {"X-Tgpu-Total": str(found[1]), "X-Content-Type-Options": "nosniff"}
    return Response(found[0], media_type="application/octet-stream", headers=headers)


def _digest(call: Call) -> str:
    try:
        return checked_digest("digest", call.path("digest"))
    except BadQuantityError as error:
        raise unprocessable("digest", str(error)) from None


def _whose(call: Call) -> str:
    """Snapshots are the caller's own; an administrator may name somebody else, as in a submission."""
    own, said = call.caller.account.name, call.query.one("user_id")
    if said is None or said == own:
        return own
    if not call.caller.is_admin:
        raise forbidden(f"user_id: {own} may use only their own snapshots; leave it out")
    return said


_DIGEST = Param(
    "digest",
    "`sha256:` and the digest of the whole archive, a tar file packed by gzip.",
    {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    "sha256:" + "0" * 64,
    where="path",
    required=True,
)
_OFFSET = Param("offset", "Where the piece begins.", {"type": "integer", "minimum": 0}, 0)
_USER = Param("user_id", "Whose it is; for administrators.", {"type": "string"}, "alice")
_EXAMPLE = {"digest": "sha256:" + "0" * 64, "received": 1024, "complete": True}
ENDPOINTS = (
    Endpoint(
        "PUT",
        "/snapshots/{digest}",
        put_snapshot,
        SUBMIT,
        "jobs",
        "Put a snapshot of code, or a piece of it",
        "Pieces of up to 8 MiB come in their order. With the last one the whole is checked by its digest. "
        "One that is here already is answered as complete.",
        {200: Answer("How much of it is here.", SnapshotOut, _EXAMPLE)},
        errors=(404, 409, 413, 422),
        params=(
            _DIGEST,
            _OFFSET,
            Param(
                "total",
                "How many bytes it has in all.",
                {"type": "integer", "minimum": 1},
                1024,
                required=True,
            ),
            _USER,
        ),
        body=Body((), {"a piece": "…"}, media_type="application/octet-stream"),
    ),
    Endpoint(
        "GET",
        "/snapshots/{digest}",
        read_snapshot,
        SUBMIT,
        "jobs",
        "Read a snapshot of code, or a piece of it",
        "As it was put: up to 8 MiB at once.",
        {
            200: Answer(
                "The piece.",
                media_type="application/octet-stream",
                example="…",
                headers={"X-Tgpu-Total": "1024"},
            )
        },
        errors=(404, 422),
        params=(
            _DIGEST,
            _OFFSET,
            Param("max_bytes", "How long it may be.", {"type": "integer", "minimum": 0, "maximum": PIECE}, 0),
            _USER,
        ),
    ),
)
