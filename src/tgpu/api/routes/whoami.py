"""GET /whoami: who one is to this server, and what one may do."""

from typing import Any

import msgspec
from litestar import Response

from tgpu.api.edge import optional_gpu_hours, optional_rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import WHOEVER
from tgpu.api.reply import json_reply
from tgpu.api.roles import Scope
from tgpu.domain.access import EVERYWHERE, Action
from tgpu.domain.priority import PriorityClass
from tgpu.store.access_port import Token


class Membership(msgspec.Struct, kw_only=True):
    tenant_id: str
    role: str


class TokenScope(msgspec.Struct, kw_only=True):
    """What the token is good for; null, and no actions: not narrowed down by it."""

    token_id: int
    role: str
    tenant_id: str | None
    actions: list[Action]
    highest_class: PriorityClass | None
    jobs_left: int | None
    gpu_hours_left: int | float | None
    expires_at: str | None


class Whoami(msgspec.Struct, kw_only=True):
    """Who the caller is to this server, by whose word, and in which roles."""

    user_id: str
    uid: int
    via: str
    role: str | None
    """Everywhere, if they have one there."""
    home_tenant_id: str | None
    """Where their jobs go that name no tenant."""
    home_exists: bool
    """Whether there is such a tenant; false: an operator has to add it, or the rule is wrong."""
    home_role: str | None
    """What the rules give them there."""
    memberships: list[Membership]
    token: TokenScope | None
    token_expires_at: str | None


async def whoami(call: Call) -> Response[Any]:
    caller = call.caller
    rights, token = caller.rights, caller.token
    if token is not None:  # as it is now: what vouched for the caller may be some seconds old
        token = await call.services.store.token_by_digest(token.digest) or token
    everywhere = rights.role_everywhere
    members = sorted(rights.members.items())
    return json_reply(
        Whoami(
            user_id=caller.user,
            uid=caller.account.uid,
            via=caller.via,
            role=None if everywhere is None else everywhere.word,
            home_tenant_id=rights.home,
            home_exists=rights.home in (await call.book.pages()).tenants,
            home_role=None if rights.home_role is None else rights.home_role.word,
            memberships=[
                Membership(tenant_id=name, role=role.word) for name, role in members if name != EVERYWHERE
            ],
            token=None if token is None else _token_scope(token, rights.scope),
            token_expires_at=None if token is None else optional_rfc3339(token.expires_ms),
        )
    )


def _token_scope(token: Token, left: Scope | None) -> TokenScope:
    """`left`: what of it holds for this caller; for a job, less than for its user."""
    scope = left or Scope.of(token)
    return TokenScope(
        token_id=token.token_id,
        role=scope.role.word,
        tenant_id=token.tenant_id,
        actions=sorted(scope.actions),
        highest_class=token.highest_class,
        jobs_left=token.jobs_left,
        gpu_hours_left=optional_gpu_hours(token.gpu_ms_left),
        expires_at=optional_rfc3339(token.expires_ms),
    )


ENDPOINTS = (
    Endpoint(
        "GET", "/whoami", whoami, WHOEVER, "service",
        "Say who is calling",
        "The caller's name, by whose word, their roles, and what their token leaves of them.",
        {
            200: Answer(
                "The caller.",
                Whoami,
                {
                    "user_id": "alice",
                    "uid": 1000,
                    "via": "socket",
                    "role": None,
                    "home_tenant_id": "default",
                    "home_exists": True,
                    "home_role": "user",
                    "memberships": [{"tenant_id": "lab/vision", "role": "operator"}],
                    "token": None,
                    "token_expires_at": None,
                },
            )
        },
    ),
)  # fmt: skip
