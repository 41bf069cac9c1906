"""GET /whoami: who one is to this server, and what one may do."""

from enum import StrEnum

import msgspec
from starlette.responses import Response

from tgpu.api.edge import optional_gpu_hours, optional_rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.identity import Caller
from tgpu.api.needs import (
    ADMINISTER,
    MAKE_TOKEN,
    MANAGE_OWN,
    MANAGE_SOME,
    OVERSEE,
    SEE_ALL,
    SUBMIT,
    WHOEVER,
    Needs,
)
from tgpu.api.permission import allows
from tgpu.api.reply import json_reply
from tgpu.api.roles import Scope
from tgpu.api.token_form import is_capped
from tgpu.domain.access import EVERYWHERE, Action
from tgpu.domain.priority import PriorityClass
from tgpu.store.access_port import Token


class Permission(StrEnum):
    """Each is listed only if the API allows all of it."""

    SUBMIT = "submit"
    MANAGE_OWN = "manage-own"
    """Their own tokens and secrets."""
    MANAGE_TENANTS = "manage-tenants"
    """Those below a tenant in which they are operator."""
    MANAGE_NODES = "manage-nodes"
    MANAGE_WINDOWS = "manage-windows"
    READ_AUDIT = "read-audit"
    ADMINISTER = "administer"
    """Settings, join tokens, and roles in the whole cluster."""


PERMISSIONS: dict[Permission, tuple[Needs, ...]] = {
    Permission.SUBMIT: (SUBMIT,),
    Permission.MANAGE_OWN: (MAKE_TOKEN, MANAGE_OWN),
    Permission.MANAGE_TENANTS: (MANAGE_SOME,),
    Permission.MANAGE_NODES: (ADMINISTER,),
    Permission.MANAGE_WINDOWS: (ADMINISTER,),
    Permission.READ_AUDIT: (OVERSEE,),
    Permission.ADMINISTER: (ADMINISTER, SEE_ALL),
}
"""By what the endpoints need."""


def permissions(caller: Caller) -> list[Permission]:
    is_limited = caller.token is not None and is_capped(caller.token)
    return [
        name
        for name, needed in PERMISSIONS.items()
        if all(allows(caller, needs) for needs in needed)
        and not (is_limited and name is Permission.MANAGE_OWN)
    ]


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
    """For a browser, the end of its session."""
    may: list[Permission]
    """What the API allows them that concerns the cluster, or what is theirs; not what they may do with a
    certain job or tenant."""


async def whoami(call: Call) -> Response:
    caller = call.caller
    rights, token = caller.rights, caller.token
    if token is not None:  # as it is now: what vouched for the caller may be some seconds old
        token = await call.services.store.token_by_digest(token.digest) or token
    ends = caller.session or token
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
            token_expires_at=None if ends is None else optional_rfc3339(ends.expires_ms),
            may=permissions(caller),
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
                    "may": ["submit", "manage-own", "manage-tenants"],
                },
            )
        },
    ),
)  # fmt: skip
