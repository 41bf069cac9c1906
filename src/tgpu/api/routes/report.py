"""Who used how much: attempts added up by user, tenant, pool and more."""

from collections.abc import Callable
from dataclasses import replace

from starlette.responses import Response

from tgpu.api.edge import optional_rfc3339, rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import LOOK
from tgpu.api.problems import bad_request
from tgpu.api.reply import json_reply
from tgpu.api.report_view import ReportOut, ReportRowOut, as_csv, figures_out, folded
from tgpu.domain.access import EVERYWHERE
from tgpu.domain.tenant import is_within
from tgpu.store.usage_port import GroupBy, ReportDetail, ReportFilter

_MOST_DEPTH = 8
_MOST_KEYS = 4


async def report(call: Call) -> Response:
    query, now_ms, prices = call.query, call.services.now_ms(), call.services.settings.prices
    by = _by(query.many("by") or ["user"])
    where, covers = _may_see(call, _filter(call, now_ms))
    # What a GPU costs may depend on its model.
    asked = (*by, GroupBy.GPU_TYPE) if prices.models else by
    found = await call.services.store.report(where, asked, now_ms)
    rows, total = folded(found, len(by), prices)
    details, detail_of_all = await _details(call, where, by, now_ms)
    answer = ReportOut(
        since=optional_rfc3339(where.from_ms),
        until=rfc3339(now_ms if where.until_ms is None else where.until_ms),
        by=by,
        covers=covers,
        currency=prices.currency if prices else None,
        rows=[
            ReportRowOut(
                keys=dict(zip((each.value for each in by), keys, strict=True)),
                figures=figures_out(figures, cost if prices else None, details(keys)),
            )
            for keys, figures, cost in rows
        ],
        total=figures_out(total[0], total[1] if prices else None, detail_of_all),
    )
    if query.choice("format", ("json", "csv"), _accepted(call)) == "csv":
        names = {"Content-Disposition": 'attachment; filename="report.csv"'}
        return Response(as_csv(answer), media_type="text/csv", headers=names)
    return json_reply(answer)


def _accepted(call: Call) -> str:
    """What the header `Accept` asks for: CSV if it names that and not JSON."""
    accept = call.request.headers.get("accept", "")
    return "csv" if "text/csv" in accept and "json" not in accept else "json"


async def _details(
    call: Call, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int
) -> tuple[Callable[[tuple[str, ...]], ReportDetail | None], ReportDetail | None]:
    """By the keys of a row, and of all rows together; None of each unless they were asked for."""
    if not call.query.flag("detail"):
        return lambda _keys: None, None
    async with call.services.turns.turn(call.caller.user):
        found = await call.services.store.report_details(where, by, now_ms)
    total = ReportDetail()
    for detail in found.values():
        total.add(detail)
    return lambda keys: found.get(keys, ReportDetail()), total


def _by(words: list[str]) -> tuple[GroupBy, ...]:
    if len(words) > _MOST_KEYS or len(set(words)) < len(words):
        raise bad_request(f"by takes up to {_MOST_KEYS} different words; got {', '.join(words)[:80]}")
    try:
        by = tuple(GroupBy(word) for word in words)
    except ValueError:
        raise bad_request(f"by takes {', '.join(GroupBy)}; got {', '.join(words)[:80]}") from None
    if sum(each.is_time for each in by) > 1:
        raise bad_request("by takes one of day, week and month, not several")
    return by


def _filter(call: Call, now_ms: int) -> ReportFilter:
    query = call.query
    from_ms, until_ms = query.time_ms("since", now_ms), query.time_ms("until", now_ms)
    if from_ms is not None and from_ms >= (now_ms if until_ms is None else until_ms):
        raise bad_request("since must be before until, and in the past")
    return ReportFilter(
        from_ms=from_ms,
        until_ms=now_ms if until_ms is None else until_ms,
        users=frozenset(call.caller.user if user == "me" else user for user in query.many("user")),
        tenants=tuple(query.many("tenant")),
        pools=frozenset(query.many("pool")),
        gpu_type=query.one("gpu_type"),
        tenant_depth=query.whole("depth", 1, _MOST_DEPTH),
    )


def _may_see(call: Call, where: ReportFilter) -> tuple[ReportFilter, str]:
    """What of it the caller may see: their own use, and that of tenants of which they are a member."""
    rights = call.caller.rights
    if rights.role_everywhere is not None:
        return where, "everybody"
    top = rights.scope.tenant_id if rights.scope is not None else None
    if top is not None:
        where = replace(where, tenants=_within(where.tenants, top))
    known = {*rights.members, *([] if top is None else [top])} - {EVERYWHERE}
    tenants = tuple(sorted(name for name in known if rights.member_role_in(name) is not None))
    own = "your own jobs" if top is None else f"your own jobs in {top}"
    covers = " and ".join([own, *([f"those of {', '.join(tenants)}"] if tenants else [])])
    return replace(where, seen_by=call.caller.user, seen_tenants=tenants), covers


def _within(asked: tuple[str, ...], top: str) -> tuple[str, ...]:
    """What a token that is good only in one part of the tree leaves of it."""
    kept = [
        name if is_within(name, top) else top
        for name in asked
        if is_within(name, top) or is_within(top, name)
    ]
    if asked and not kept:
        raise bad_request(f"this token is good only for {top} and below; ask for that")
    return tuple(kept) or (top,)


_TEXT = {"type": "string"}
_FIGURES: dict[str, object] = {
    "attempts": 3,
    "jobs": 2,
    "wait_mean_s": 12.5,
    "wait_max_s": 30.25,
    "run_s": 7200.0,
    "cpu_s": 28800.0,
    "cpu_used_s": 20000.5,
    "cpu_measured_s": 28800.0,
    "cpu_wasted_s": 8799.5,
    "mem_mb_s": 58982400,
    "mem_used_mb_s": 41000000,
    "mem_measured_mb_s": 58982400,
    "mem_wasted_mb_s": 17982400,
    "gpu_s": 7200.0,
    "gpu_used_s": 6100.0,
    "gpu_measured_s": 7200.0,
    "gpu_wasted_s": 1100.0,
    "gpu_hours": 2,
    "lost_s": 0.0,
    "lost_gpu_s": 0.0,
    "cost": 5.0,
    "wait_p50_s": 10.2,
    "wait_p90_s": 30.2,
    "failed_s": 0.0,
    "failed_gpu_s": 0.0,
}
_EXAMPLE = {
    "since": "2026-01-01T00:00:00.000Z",
    "until": "2026-01-31T00:00:00.000Z",
    "by": ["user"],
    "covers": "everybody",
    "currency": "EUR",
    "rows": [{"keys": {"user": "alice"}, "figures": _FIGURES}],
    "total": _FIGURES,
}
_EXAMPLE_CSV = f"user,{','.join(_FIGURES)}\nalice,{','.join(map(str, _FIGURES.values()))}\n"
ENDPOINTS = (
    Endpoint(
        "GET",
        "/report",
        report,
        LOOK,
        "stats",
        "Report who used how much",
        "What attempts were given and what they used, added up. Attempts are cut at the edges of the time "
        "asked for, and what runs counts up to now. Everybody sees their own use, and that of tenants of "
        "which they are a member; `covers` says it.",
        {
            200: Answer(
                "The report; with `format=csv` or `Accept: text/csv` one line per row.",
                ReportOut,
                _EXAMPLE,
                as_text={"text/csv": _EXAMPLE_CSV},
            )
        },
        params=(
            Param("by", f"Any of {', '.join(GroupBy)}; at most one time.", _TEXT, "user"),
            Param("since", "A time, or how long ago; from the beginning unless said.", _TEXT, "30d"),
            Param("until", "A time, or how long ago; now unless said.", _TEXT, "2030-01-31T12:00:00Z"),
            Param("user", "Of any of these users; `me` is the caller.", _TEXT, "me"),
            Param("tenant", "Of any of these tenants and those below them.", _TEXT, "default"),
            Param(
                "depth",
                "Tenants below so many levels count as their ancestor there.",
                {"type": "integer", "minimum": 1, "maximum": _MOST_DEPTH},
                1,
            ),
            Param("pool", "On nodes of any of these pools.", _TEXT, "default"),
            Param("gpu_type", "On GPUs with this in their model's name.", _TEXT, "A100"),
            Param(
                "detail",
                "Whether to add percentiles of waits, and the time of tasks that failed.",
                {"type": "boolean"},
                False,
            ),
            Param("format", "How it is written.", {"type": "string", "enum": ["json", "csv"]}, "json"),
        ),
    ),
)
