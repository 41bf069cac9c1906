"""GET /events: what happens, as server-sent events, from where the reader left off."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Response
from litestar.response import Stream

from tgpu.api.access import sight_of
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.feed import next_wake
from tgpu.api.identity import Role
from tgpu.api.job_view import EventOut, event_out
from tgpu.api.problems import bad_request
from tgpu.api.routes.params import EVENT_EXAMPLE
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.job import Event
from tgpu.store.port import StoreUnavailableError

_PAGE = 500
_HEARTBEAT_S = 15.0
_PACE_S = 0.02  # a busy cluster wakes its readers often: this bounds how often each reads the store
_LONGEST_S = 3600.0  # then the reader comes again, and is asked again who it is
_encode = msgspec.json.encode


async def follow_events(call: Call) -> Response[Any]:
    call.services.feed.check_room(call.caller.user)
    after = _last_event_id(call)
    if after is None:
        after = call.query.whole("after", 0, MAX_JOB_ID)
    if after is None:
        after = await call.services.store.last_seq()
    job_id = call.query.whole("job_id", 1, MAX_JOB_ID)
    user = call.caller.user if call.query.flag("mine") else None
    return Stream(
        _stream(call, after, job_id, user),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _last_event_id(call: Call) -> int | None:
    written = call.request.headers.get("last-event-id")
    if not written:
        return None
    if written.isascii() and written.isdigit() and len(written) <= 16:  # noqa: PLR2004  keeps int() cheap
        return int(written)
    raise bad_request("Last-Event-ID must be the number of an event")


async def _stream(call: Call, after: int, job_id: int | None, user: str | None) -> AsyncIterator[bytes]:
    feed, store = call.services.feed, call.services.store
    until = time.monotonic() + _LONGEST_S
    with feed.subscription(call.caller.user) as flag:
        yield b": following\n\n"
        while not feed.closed and time.monotonic() < until:
            try:
                head = await store.last_seq()
                events = await store.events(after, _PAGE, job_id, user)
            except StoreUnavailableError:
                return  # the reader comes again with its Last-Event-ID
            if events:
                yield b"".join(_frame(event, call) for event in events)
                after = events[-1].seq
            if len(events) == _PAGE:
                continue
            after = max(after, head)  # what the filter left out need not be looked at again
            if await next_wake(flag, _HEARTBEAT_S):
                await asyncio.sleep(_PACE_S)
            else:
                yield b": heartbeat\n\n"


def _frame(event: Event, call: Call) -> bytes:
    data = _encode(event_out(event, sight_of(event.user, call.caller, call.services.settings)))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), data)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/events",
        follow_events,
        Role.VIEWER,
        "service",
        "Follow events",
        "A stream of server-sent events: `id` is the event's number, `event` its kind, `data` the event as "
        "JSON. It begins after Last-Event-ID, else after `after`, else now. Of others' jobs `data.data` is "
        "null.",
        {
            200: Answer(
                "The stream.",
                EventOut,
                f"id: 7\nevent: submitted\ndata: {_encode(EVENT_EXAMPLE).decode()}\n\n",
                media_type="text/event-stream",
            )
        },
        errors=(429,),
        params=(
            Param(
                "after", "Begin after this event; 0: with the first.", {"type": "integer", "minimum": 0}, 0
            ),
            Param("job_id", "Of this job only.", {"type": "integer", "minimum": 1}, 42),
            Param("mine", "Of the caller's jobs only.", {"type": "boolean"}, True),
            Param(
                "Last-Event-ID",
                "Sent by a browser that comes again.",
                {"type": "string", "pattern": "^[0-9]{1,15}$"},
                "7",
                where="header",
            ),
        ),
    ),
)
