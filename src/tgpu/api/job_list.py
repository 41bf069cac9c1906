"""Job list requests: search, sort order, page and cursor of a query, as the store takes them."""

import base64
import binascii
from dataclasses import replace

import msgspec

from tgpu.api.access import command_seen_by, known_in_detail, seen_by
from tgpu.api.endpoint import Call, Param
from tgpu.api.job_filter import job_filter, words
from tgpu.api.problems import bad_request, unprocessable
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.job import Job
from tgpu.domain.priority import PriorityClass
from tgpu.store.job_filter import Paging
from tgpu.store.job_listing import Listed, Listing, ListPage, SortKey, SortValue

MOST_COUNTED = 200_000
"""Beyond that a total is said to be larger."""
_MOST_SKIPPED = 10_000_000
_LONGEST_TEXT = 200
_LONGEST_CURSOR = 600
_MOST_CLOCK_SKEW_MS = 24 * 3600 * 1000
"""Clock difference allowed between the server that made the cursor and this one."""


class _Cursor(msgspec.Struct, array_like=True):
    """Where a page in another order than that of ids ended."""

    key: SortKey
    descending: bool
    now_ms: int
    value: SortValue
    job_id: int


_cursors = msgspec.json.Decoder(_Cursor)


class JobList:
    """One request for jobs."""

    def __init__(self, listing: Listing, page: ListPage, *, exact_detail: bool) -> None:
        self._listing, self._page, self._exact_detail = listing, page, exact_detail

    @classmethod
    async def of(cls, call: Call, limit: int) -> "JobList":
        """Raises ProblemError."""
        query = call.query
        where = job_filter(call, await seen_by(call))
        tenants = frozenset(query.many("tenant_id"))
        if len(tenants) == 1:
            where, tenants = replace(where, tenant_id=next(iter(tenants))), frozenset()
        text = (query.one("q") or "").strip() or None
        if text is not None and len(text) > _LONGEST_TEXT:
            raise unprocessable("q", f"q may have at most {_LONGEST_TEXT} characters; got {len(text)}")
        listing = Listing(
            where,
            tenants,
            words("priority_class", query.many("priority_class"), PriorityClass),
            text,
            await command_seen_by(call),
        )
        return cls(listing, _page(call, limit), exact_detail=query.one("exit_code") is not None)

    async def jobs(self, call: Call) -> list[Listed]:
        store, page = call.services.store, self._page
        if not self._is_plain:
            return await store.list_jobs(self._narrowed(), page)
        paging = Paging(page.limit, page.after[1] if page.after else None, not page.descending)
        return [Listed(job, job.job_id) for job in await self._found(call, paging)]

    async def ids(self, call: Call) -> list[int]:
        return await call.services.store.list_job_ids(self._narrowed(), self._page)

    async def total(self, call: Call) -> tuple[int, bool]:
        """How many jobs match on all pages together, and whether that is exact."""
        found = await call.services.store.count_jobs(self._narrowed(), MOST_COUNTED + 1)
        return min(found, MOST_COUNTED), found <= MOST_COUNTED

    def cursor_at(self, last: Listed) -> int | str:
        page = self._page
        if page.key is SortKey.ID:
            return last.job.job_id
        cursor = _Cursor(page.key, page.descending, page.now_ms, last.value, last.job.job_id)
        return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")

    @property
    def _is_plain(self) -> bool:
        """A list in the order of ids without a search stops as soon as its page is full."""
        listing, page = self._listing, self._page
        searches = listing.tenants or listing.classes or listing.text is not None
        return page.key is SortKey.ID and not page.skip and not searches

    def _narrowed(self) -> Listing:
        """By exit code, only jobs are found of which the caller sees it."""
        listing = self._listing
        if not self._exact_detail or listing.command_seen is None:
            return listing
        return replace(listing, where=replace(listing.where, seen=listing.command_seen))

    async def _found(self, call: Call, paging: Paging) -> list[Job]:
        where, store = self._listing.where, call.services.store
        if not self._exact_detail:
            return list(await store.jobs(where, paging))
        found: dict[int, Job] = {}
        for each in await known_in_detail(call, where):
            found |= {job.job_id: job for job in await store.jobs(each, paging)}
        ordered = sorted(found.values(), key=lambda job: job.job_id, reverse=not paging.oldest_first)
        return ordered[: paging.limit]


def _page(call: Call, limit: int) -> ListPage:
    query, now_ms = call.query, call.services.now_ms()
    key = SortKey(query.choice("sort", tuple(SortKey), SortKey.ID))
    descending = query.choice("order", ("newest", "oldest", "desc", "asc"), "newest") in ("newest", "desc")
    page = ListPage(
        limit=limit,
        key=key,
        descending=descending,
        skip=query.whole("skip", 0, _MOST_SKIPPED) or 0,
        now_ms=now_ms,
    )
    written = query.one("cursor")
    if written is None:
        return page
    if key is SortKey.ID:
        last_id = query.whole("cursor", 0, MAX_JOB_ID) or 0
        return replace(page, after=(last_id, last_id))
    cursor = _cursor(written, now_ms)
    if (cursor.key, cursor.descending) != (key, descending):
        raise bad_request("cursor belongs to a list in another order: leave it out to begin again")
    return replace(page, after=(cursor.value, cursor.job_id), now_ms=cursor.now_ms)


def _cursor(written: str, now_ms: int) -> _Cursor:
    """A caller can write any: the store must be able to compare with every value. Raises ProblemError."""
    try:
        if len(written) > _LONGEST_CURSOR:
            raise bad_request("cursor is too long: use the next_cursor of the page before")
        cursor = _cursors.decode(base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)))
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise bad_request("cursor must be the next_cursor of the page before, in the same order") from None
    is_text = cursor.key in (SortKey.NAME, SortKey.USER, SortKey.TENANT, SortKey.NODE)
    fits = 0 < cursor.job_id <= MAX_JOB_ID and 0 <= cursor.now_ms <= now_ms + _MOST_CLOCK_SKEW_MS
    if not fits or isinstance(cursor.value, str) != is_text or not _is_comparable(cursor.value):
        raise bad_request("cursor must be the next_cursor of the page before, in the same order")
    return cursor


def _is_comparable(value: SortValue) -> bool:
    """With a column: numbers have 64 bits, and PostgreSQL knows neither NUL nor half a character."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= each <= "\udfff" for each in value)
    return -(2**63) < value < 2**63


_TEXT = {"type": "string"}
PARAMS = (
    Param("q", "Occurs in the name or user, begins the command, or is the id.", _TEXT, "train"),
    Param("priority_class", "Any of these classes; repeated or with commas.", _TEXT, "default,low"),
    Param("sort", "By what; equal values by id.", {"type": "string", "enum": list(SortKey)}, "id"),
    Param(
        "order",
        "`newest` is `desc` and `oldest` is `asc`.",
        {"type": "string", "enum": ["newest", "oldest", "desc", "asc"]},
        "newest",
    ),
    Param("cursor", "The `next_cursor` of the page before, in the same order.", _TEXT, "42"),
    Param("skip", "Jobs to leave out, from the cursor on.", {"type": "integer", "minimum": 0}, 0),
    Param("total", "Whether to count all jobs that match.", {"type": "boolean"}, False),
)
