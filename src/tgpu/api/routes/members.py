"""Who belongs to which tenant, in which role."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.needs import ADMINISTER, LOOK, MANAGE_BELOW, SEE_MEMBERS
from tgpu.api.problems import forbidden, not_found, unprocessable
from tgpu.api.reply import json_reply, no_content
from tgpu.api.roles import at_least
from tgpu.api.routes.params import MEMBER_EXAMPLE, TENANT_ID, USER_ID
from tgpu.api.tenant_lookup import no_tenant, tenant_or_404
from tgpu.domain.access import EVERYWHERE, ROLES, Member, Role
from tgpu.store.access_port import NoSuchMemberError
from tgpu.store.port import UnknownTenantError


class RoleAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What somebody is to be in a tenant."""

    role: Annotated[str, Meta(extra_json_schema={"enum": sorted(ROLES)}, examples=["user"])]


class MemberOut(msgspec.Struct, kw_only=True):
    """Somebody's role in a tenant and everybody below it; `*` is the whole cluster."""

    user_id: str
    tenant_id: str
    role: str
    by: str
    at: str
    has_account: bool
    """On the server that answers. Without one the role is nobody's, until there is such an account again."""


class MemberList(msgspec.Struct, kw_only=True):
    """The members that the caller may see."""

    members: list[MemberOut]


_asked = msgspec.json.Decoder(RoleAsked)


def _out(member: Member, *, has_account: bool) -> MemberOut:
    return MemberOut(
        user_id=member.user,
        tenant_id=member.tenant_id,
        role=member.role.word,
        by=member.by,
        at=rfc3339(member.at_ms),
        has_account=has_account,
    )


async def _listed(call: Call, members: list[Member]) -> Response:
    users = list({member.user for member in members})
    found = await asyncio.gather(*map(call.services.accounts.by_name, users))
    there = {user for user, account in zip(users, found, strict=True) if account is not None}
    out = [_out(member, has_account=member.user in there) for member in members]
    return json_reply(MemberList(members=out))


async def list_members(call: Call) -> Response:
    members = await call.services.store.members()
    return await _listed(call, [member for member in members if _may_see(call, member)])


def _may_see(call: Call, member: Member) -> bool:
    rights = call.caller.rights
    if member.user == call.caller.user:
        return True
    if member.tenant_id == EVERYWHERE:
        return rights.role_everywhere is not None
    return rights.role_in(member.tenant_id) is not None


async def list_members_of(call: Call) -> Response:
    tenant = await tenant_or_404(call)
    members = await call.services.store.members()
    return await _listed(call, [member for member in members if member.tenant_id == tenant.tenant_id])


async def set_member(call: Call) -> Response:
    tenant = await tenant_or_404(call)
    return await _set(call, tenant.tenant_id, call.caller.rights.role_above(tenant.tenant_id))


async def set_member_everywhere(call: Call) -> Response:
    return await _set(call, EVERYWHERE, call.caller.rights.role_everywhere)


async def remove_member(call: Call) -> Response:
    tenant = await tenant_or_404(call)
    return await _remove(call, tenant.tenant_id, call.caller.rights.role_above(tenant.tenant_id))


async def remove_member_everywhere(call: Call) -> Response:
    return await _remove(call, EVERYWHERE, call.caller.rights.role_everywhere)


async def _set(call: Call, tenant_id: str, own: Role | None) -> Response:
    """`own`: the caller's role, above which nobody is raised, and above which nobody is touched."""
    asked, services, user = decode(_asked, await read_body(call, MIB)), call.services, call.path("user_id")
    role = ROLES.get(asked.role)
    if role is None:
        raise unprocessable("role", f"role must be one of {', '.join(ROLES)}; got {asked.role[:40]!r}")
    if not at_least(own, role):
        has = own.word if own else "none"
        raise forbidden(f"role: nobody gives a role higher than their own there, which is {has}")
    await _check_below(call, user, tenant_id, own)
    if await services.accounts.by_name(user) is None:
        raise unprocessable("user_id", f"user_id: there is no account {user[:80]!r} on this machine")
    now_ms = services.now_ms()
    try:
        member = await services.store.set_member(
            Member(user, tenant_id, role, call.caller.user, now_ms), call.actor, now_ms
        )
    except UnknownTenantError:
        raise no_tenant(tenant_id) from None
    await call.identity.changed()
    return json_reply(_out(member, has_account=True))


async def _check_below(call: Call, user: str, tenant_id: str, own: Role | None) -> None:
    pages = await call.book.fresh_pages()
    present = pages.members.get(user, {}).get(tenant_id)
    if present is not None and not at_least(own, present):
        raise forbidden(f"{user} has the role {present.word} there: only somebody with that role changes it")


async def _remove(call: Call, tenant_id: str, own: Role | None) -> Response:
    services, user = call.services, call.path("user_id")
    await _check_below(call, user, tenant_id, own)
    try:
        await services.store.remove_member(user, tenant_id, call.actor, services.now_ms())
    except NoSuchMemberError:
        where = "everywhere" if tenant_id == EVERYWHERE else f"in {tenant_id}"
        raise not_found(f"{user[:80]} has no role {where}; `tgpu users` shows who has one") from None
    await call.identity.changed()
    return no_content()


_BODY = Body((RoleAsked,), {"an operator": {"role": "operator"}})
_GRANTS = "Adds a member, or changes the role. Nobody gives a role higher than their own there."
_ONE = {200: Answer("The member.", MemberOut, MEMBER_EXAMPLE)}
_MANY = {200: Answer("The members.", MemberList, {"members": [MEMBER_EXAMPLE]})}
ENDPOINTS = (
    Endpoint(
        "GET", "/members", list_members, LOOK, "tenants",
        "List members", "Those of every tenant in which the caller has a role, and the caller's own.", _MANY,
    ),
    Endpoint(
        "GET", "/tenants/{tenant_id}/members", list_members_of, SEE_MEMBERS, "tenants",
        "List a tenant's members", "Those of this tenant; members of one above it have a role here, too.",
        _MANY, errors=(404,), params=(TENANT_ID,),
    ),
    Endpoint(
        "PUT", "/tenants/{tenant_id}/members/{user_id}", set_member, MANAGE_BELOW, "tenants",
        "Give somebody a role in a tenant", f"{_GRANTS} For operators of a tenant above it.",
        _ONE, errors=(404, 413, 422), params=(TENANT_ID, USER_ID), body=_BODY,
    ),
    Endpoint(
        "DELETE", "/tenants/{tenant_id}/members/{user_id}", remove_member, MANAGE_BELOW, "tenants",
        "Take somebody's role in a tenant away", "What they have by a tenant above it, or by a rule, stays.",
        {204: Answer("Removed.")}, errors=(404,), params=(TENANT_ID, USER_ID),
    ),
    Endpoint(
        "PUT", "/members/{user_id}", set_member_everywhere, ADMINISTER, "tenants",
        "Give somebody a role everywhere", f"{_GRANTS} For administrators.",
        _ONE, errors=(404, 413, 422), params=(USER_ID,), body=_BODY,
    ),
    Endpoint(
        "DELETE", "/members/{user_id}", remove_member_everywhere, ADMINISTER, "tenants",
        "Take somebody's role everywhere away", "What they have in single tenants stays. For administrators.",
        {204: Answer("Removed.")}, errors=(404,), params=(USER_ID,),
    ),
)  # fmt: skip
