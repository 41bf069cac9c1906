"""Sign-in, sign-out, one-time sign-in links and WebSocket tickets of browsers."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.auth.web_session import (
    LINK_S,
    PAGE_KEY_HEADER,
    TERMINAL_PROTOCOL,
    TICKET_PREFIX,
    TICKET_S,
    Principal,
)
from tgpu.api.decode import KIB, decode, read_body
from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.needs import WHOEVER
from tgpu.api.problems import ProblemError, bad_request, forbidden, unprocessable
from tgpu.api.reply import json_reply, no_content
from tgpu.store.access_port import Token

_BODY_S = 10.0
_MOST_BYTES = 16 * KIB
_NO_STORE = {"Cache-Control": "no-store"}


class SignIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Either a code or a token."""

    code: Annotated[str | None, Meta(description="From a one-time sign-in link.")] = None
    token: Annotated[str | None, Meta(description="An API token.")] = None
    only_user_id: Annotated[
        str | None,
        Meta(description="With a code: sign in only as this user. A link of another user stays valid."),
    ] = None


class SignedIn(msgspec.Struct, kw_only=True):
    """A session: its other half is the cookie that comes with this answer."""

    page_key: str
    user_id: str
    expires_at: str


class SignInLink(msgspec.Struct, kw_only=True):
    """A link that signs a browser in, once."""

    url: str
    expires_at: str


class Ticket(msgspec.Struct, kw_only=True):
    """Opens one WebSocket."""

    ticket: str
    expires_at: str


_sign_in = msgspec.json.Decoder(SignIn)


async def sign_in(call: Call) -> Response:
    sessions, scope = call.identity.sessions, call.request.scope
    sessions.check_place(scope)
    asked = await _body(call)
    if asked.code is not None and asked.token is None:
        opened = await sessions.open_by_code(scope, asked.code, asked.only_user_id)
    elif asked.token is not None and asked.code is None:
        opened = await sessions.open_by_token(scope, asked.token.strip())
    else:
        raise unprocessable("code", "send either a code or a token")
    row = opened.row
    answer = SignedIn(page_key=opened.page_key, user_id=row.user, expires_at=rfc3339(row.expires_ms or 0))
    return json_reply(answer, 201, {**_NO_STORE, "Set-Cookie": opened.set_cookie})


async def _body(call: Call) -> SignIn:
    """The caller is not known yet, so the body is small and must arrive soon."""
    try:
        async with asyncio.timeout(_BODY_S):
            return decode(_sign_in, await read_body(call, _MOST_BYTES))
    except TimeoutError:
        raise bad_request(f"the request must be whole within {_BODY_S:.0f} s") from None


async def sign_out(call: Call) -> Response:
    sessions = call.identity.sessions
    await sessions.close(_session(call).token_id, call.actor)
    headers = {**_NO_STORE, "Set-Cookie": sessions.removed_cookie}
    return no_content(headers)


async def create_link(call: Call) -> Response:
    caller, sessions = call.caller, call.identity.sessions
    if caller.job_id is not None:
        raise forbidden("jobs make no sign-in links: a session would outlive the job")
    if caller.session is not None:
        raise ProblemError(
            409, "session", "a session makes no sign-in links: run `tgpu web`, or sign in with a token"
        )
    url = sessions.browser.url_for(call.request.scope)
    if not url:
        raise ProblemError(409, "no-browser-access", sessions.browser.closed)
    token_id = None if caller.token is None else caller.token.token_id
    code = sessions.new_code(Principal(caller.user, token_id))
    answer = SignInLink(url=f"{url}/ui/signin#code={code}", expires_at=_in(call, LINK_S))
    return json_reply(answer, 201, _NO_STORE)


async def create_ticket(call: Call) -> Response:
    ticket = call.identity.sessions.new_ticket(call.request.scope, _session(call))
    return json_reply(Ticket(ticket=ticket, expires_at=_in(call, TICKET_S)), 201, _NO_STORE)


def _session(call: Call) -> Token:
    session = call.caller.session
    if session is None:
        raise ProblemError(
            409, "no-session", "this is for browsers that have signed in; the caller uses no session"
        )
    return session


def _in(call: Call, seconds: float) -> str:
    return rfc3339(call.services.now_ms() + round(1000 * seconds))


_LATER = "2030-01-31T12:05:00.000Z"
ENDPOINTS = (
    Endpoint(
        "POST", "/session", sign_in, None, "session",
        "Sign in",
        "For browsers. The session is a token of the user (`tgpu token list` shows it) with the scope of the "
        "token, or of the caller that made the link. Its secret has two halves: a cookie, and `page_key`, "
        f"which each request sends in the header `{PAGE_KEY_HEADER}`. Neither half authenticates alone.",
        {
            201: Answer(
                "Signed in.",
                SignedIn,
                {"page_key": "…", "user_id": "alice", "expires_at": _LATER},
                headers={"Set-Cookie": "The cookie: HttpOnly, SameSite=Strict."},
            )
        },
        errors=(401, 403, 409, 413, 421, 422, 429),
        body=Body((SignIn,), {"by link": {"code": "…"}, "by token": {"token": "tgpu_…"}}),
    ),
    Endpoint(
        "DELETE", "/session", sign_out, WHOEVER, "session",
        "Sign out", "The session ends, and with it what was opened by it.",
        {204: Answer("Signed out.")},
        errors=(409,),
    ),
    Endpoint(
        "POST", "/session/links", create_link, WHOEVER, "session",
        "Make a sign-in link",
        f"It signs one browser in, once, within {LINK_S / 60:.0f} minutes, with what the caller may do. The "
        "code is in the fragment, which browsers do not send. Jobs and sessions make none.",
        {201: Answer("Made.", SignInLink, {
            "url": "https://gpu1:7480/ui/signin#code=…", "expires_at": _LATER})},
        errors=(409,),
    ),
    Endpoint(
        "POST", "/session/tickets", create_ticket, WHOEVER, "session",
        "Make a WebSocket ticket",
        f"Pages cannot set headers of a WebSocket. They offer the subprotocols `{TERMINAL_PROTOCOL}` and "
        f"`{TICKET_PREFIX}TICKET` instead. It is valid once, within {TICKET_S:.0f} s, with the cookie of its "
        "session.",
        {201: Answer("Made.", Ticket, {"ticket": "…", "expires_at": _LATER})},
        errors=(409,),
    ),
)  # fmt: skip
