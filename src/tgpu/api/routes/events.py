"""GET /events: what happens, as server-sent events, from where the reader left off."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack

import msgspec
from starlette.responses import Response, StreamingResponse

from tgpu.api.access import Sight, sight_of, visibility_of
from tgpu.api.access_book import Pages
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.feed import Page, next_wake
from tgpu.api.job_view import EventOut, event_out
from tgpu.api.needs import LOOK
from tgpu.api.overview_feed import OverviewFeed, Subscription
from tgpu.api.permission import is_still_admitted
from tgpu.api.problems import bad_request
from tgpu.api.reply import json_reply
from tgpu.api.roles import Rights
from tgpu.api.routes.params import EVENT_EXAMPLE
from tgpu.api.visibility import NO_ONE
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.job import Event
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import StoreUnavailableError

_PAGE = 500
_HEARTBEAT_S = 15.0
_PACE_S = 0.02  # a busy cluster wakes its readers often: this bounds how often each reads the store
_OVERVIEW_PACE_S = 0.25  # pages that show the overview read events less often, and together
_LONGEST_S = 3600.0  # then the reader comes again, and is asked again who it is
_RECENT, _MOST_RECENT = 20, 200
_encode = msgspec.json.encode


async def follow_events(call: Call) -> Response:
    call.services.feed.check_room(call.caller.user)
    after = _last_event_id(call)
    if after is None:
        after = call.query.whole("after", 0, MAX_JOB_ID)
    if after is None:
        after = await call.services.store.last_seq()
    job_id = call.query.whole("job_id", 1, MAX_JOB_ID)
    user = call.caller.user if call.query.flag("mine") else None
    overviews = call.services.overviews if call.query.flag("overview") else None
    return StreamingResponse(
        _stream(call, after, job_id, user, overviews),
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


async def _stream(
    call: Call, after: int, job_id: int | None, user: str | None, overviews: OverviewFeed | None
) -> AsyncIterator[bytes]:
    feed = call.services.feed
    until = time.monotonic() + _LONGEST_S
    with ExitStack() as stack:
        flag = stack.enter_context(feed.subscription(call.caller.user))
        overview = (
            _Overview(call, stack.enter_context(overviews.subscription(call.services, flag.set)))
            if overviews
            else None
        )
        yield b": following\n\n"
        wakes: int | None = None
        head = after
        events: Sequence[Event] = ()
        while not feed.closed and time.monotonic() < until:
            try:
                if wakes != feed.wakes:
                    wakes = feed.wakes
                    head, events = await _page(call, after, job_id, user)
                if not await is_still_admitted(call, LOOK):
                    return
                frames = await _frames(events, call) if events else b""
                if overview is not None:
                    frames += await overview.frames()
            except StoreUnavailableError:
                return  # the reader comes again with its Last-Event-ID
            if frames:
                yield frames
            if events:
                after = events[-1].seq
            if len(events) == _PAGE:
                wakes = None
                continue
            after, events = max(after, head), ()  # what the filter left out need not be looked at again
            if await next_wake(flag, _HEARTBEAT_S):
                is_behind = overview is None or not overview.has_begun
                await asyncio.sleep(_PACE_S if is_behind else _OVERVIEW_PACE_S)
            else:
                wakes = None
                yield b": heartbeat\n\n"


class _Overview:
    """What a stream still has to be sent of the overview, by what its caller may see now."""

    def __init__(self, call: Call, subscription: Subscription) -> None:
        self._call, self._subscription = call, subscription
        self._pages: Pages | None = None
        self._rights: Rights | None = None
        self._visibility = NO_ONE
        self.has_begun = False
        """Whether the stream has been sent the whole."""

    async def frames(self) -> bytes:
        pages, rights = await self._call.book.pages(), self._call.caller.rights
        if pages is not self._pages or rights != self._rights:
            self._pages, self._rights = pages, rights
            self._visibility = await visibility_of(self._call)
        frames = self._subscription.next(self._visibility)
        self.has_begun = self.has_begun or bool(frames)
        return frames


async def _page(call: Call, after: int, job_id: int | None, user: str | None) -> Page:
    store = call.services.store

    async def read() -> Page:
        return await store.last_seq(), await store.events(after, _PAGE, job_id, user)

    if job_id is None and user is None:
        return await call.services.feed.page(after, read)
    return await read()


class EventList(msgspec.Struct, kw_only=True):
    """Events, the newest first."""

    events: list[EventOut]


async def recent_events(call: Call) -> Response:
    """Of the last events those that the caller may know of: fewer than asked for, if most are hidden."""
    limit = call.query.whole("limit", 1, _MOST_RECENT) or _RECENT
    store = call.services.store
    events = await store.events(max(0, await store.last_seq() - _MOST_RECENT), _MOST_RECENT)
    seen = [event_out(event, sight) for event, sight in await _seen(events, call)]
    return json_reply(EventList(events=seen[: -limit - 1 : -1]))


async def _frames(events: Sequence[Event], call: Call) -> bytes:
    return b"".join(_frame(event, sight) for event, sight in await _seen(events, call))


async def _seen(events: Sequence[Event], call: Call) -> list[tuple[Event, Sight]]:
    """Those that the caller may know of, each with how much."""
    tenants, settings = await _tenants(events, call), call.services.settings
    found = [
        (event, sight_of(event.user, tenants.get(event.job_id, ""), call.caller, settings))
        for event in events
    ]
    return [(event, sight) for event, sight in found if sight is not Sight.NOTHING]


async def _tenants(events: Sequence[Event], call: Call) -> dict[int, str]:
    """By job, where that makes a difference to what the caller sees."""
    rights, outline = call.caller.rights, call.services.settings.others_see == "outline"
    narrowed = rights.scope is not None and rights.scope.tenant_id is not None
    if not narrowed and (rights.role_everywhere is not None or (outline and not rights.members)):
        return {}
    ids = sorted({event.job_id for event in events})
    where = JobFilter(id_ranges=tuple((job_id, job_id) for job_id in ids))
    jobs = await call.services.store.jobs(where, Paging(limit=len(ids))) if ids else []
    return {job.job_id: job.spec.tenant_id for job in jobs}


def _frame(event: Event, sight: Sight) -> bytes:
    data = _encode(event_out(event, sight))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), data)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/events/recent",
        recent_events,
        LOOK,
        "service",
        "List the latest events",
        "The newest first. Of others' jobs `data` is null.",
        {200: Answer("The events.", EventList, {"events": [EVENT_EXAMPLE]})},
        params=(
            Param("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": _MOST_RECENT}, _RECENT),
        ),
    ),
    Endpoint(
        "GET",
        "/events",
        follow_events,
        LOOK,
        "service",
        "Follow events",
        "A stream of server-sent events: `id` is the event's number, `event` its kind, `data` the event as "
        "JSON. It begins after Last-Event-ID, else after `after`, else now. Of others' jobs `data.data` is "
        "null. With `overview=true` there are also events `overview`, without an `id`: first the document of "
        "GET /overview, then at most one a second with what has changed since (`whole` is false). There "
        "`nodes`, `use` (of nodes), `devices` and `busy` (of devices) hold new values of the rows in `row`; "
        "the other fields are replaced. If nodes or devices are added or removed, the whole document comes "
        "again.",
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
            Param("overview", "Also the overview of the cluster.", {"type": "boolean"}, True),
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
