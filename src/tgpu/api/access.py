"""Who sees what: of a job its owner all, its tenant's members nearly, others the outline or nothing."""

import re
from collections.abc import Collection
from dataclasses import replace
from enum import Enum

from tgpu.api.access_book import Pages
from tgpu.api.endpoint import Call
from tgpu.api.identity import Caller
from tgpu.api.visibility import EVERYONE, Visibility
from tgpu.config.settings import Settings
from tgpu.domain.tenant import lineage
from tgpu.store.job_filter import JobFilter, Paging, Seen

MASK = "***"
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|KEY|CREDENTIAL|AUTH|COOKIE|_PWD|_PAT$|DSN|WEBHOOK", re.IGNORECASE
)
_PAGE = 1000


class Sight(Enum):
    """How much of a job is shown."""

    WHOLE = "whole"
    MASKED = "masked"
    """Everything, but secret-looking environment variables without their values."""
    OUTLINE = "outline"
    NOTHING = "nothing"
    """Not even that there is such a job."""


def sight_of(owner: str, tenant_id: str, caller: Caller, settings: Settings) -> Sight:
    rights = caller.rights
    if not rights.reaches(tenant_id):
        return Sight.NOTHING
    if owner == caller.user:
        return Sight.WHOLE
    if rights.member_role_in(tenant_id) is not None:
        return Sight.MASKED
    if settings.others_see == "nothing" and rights.role_in(tenant_id) is None:
        return Sight.NOTHING
    return Sight.MASKED if "details" in settings.others_may else Sight.OUTLINE


def masked(env: dict[str, str]) -> dict[str, str]:
    return {key: MASK if _SECRET.search(key) else value for key, value in env.items()}


def sees_all(caller: Caller, settings: Settings) -> bool:
    """Whether there is nothing that is kept from them altogether."""
    return not _is_narrowed(caller) and _may_see_others(caller, settings)


def _is_narrowed(caller: Caller) -> bool:
    """To a part of the tree, by their token."""
    scope = caller.rights.scope
    return scope is not None and scope.tenant_id is not None


def _may_see_others(caller: Caller, settings: Settings) -> bool:
    return settings.others_see != "nothing" or caller.rights.role_everywhere is not None


def sees_tenant(tenant_id: str, caller: Caller, settings: Settings) -> bool:
    """Whether they may know of those who are there."""
    rights = caller.rights
    return rights.reaches(tenant_id) and (
        _may_see_others(caller, settings) or rights.role_in(tenant_id) is not None
    )


def _seen_tenants(call: Call, pages: Pages) -> frozenset[str]:
    return frozenset(name for name in pages.tenants if sees_tenant(name, call.caller, call.services.settings))


async def seen_by(call: Call) -> Seen | None:
    """Whose jobs the caller may know of; None: everybody's."""
    if sees_all(call.caller, call.services.settings):
        return None
    tenants = _seen_tenants(call, await call.book.pages())
    return Seen(None if _is_narrowed(call.caller) else call.caller.user, tenants)


async def known_in_detail(call: Call, where: JobFilter) -> list[JobFilter]:
    """The same filter, for jobs of which the caller sees more than an outline: what is hidden of the others
    can then not be found out by which of them a list has, nor by where it goes on."""
    caller = call.caller
    if "details" in call.services.settings.others_may or caller.rights.role_everywhere is not None:
        return [where]
    tenants = (await call.book.pages()).tenants
    members = frozenset(name for name in tenants if caller.rights.member_role_in(name) is not None)
    if not _is_narrowed(caller):
        return [replace(where, seen=Seen(caller.user, members))]
    in_reach = frozenset(filter(caller.rights.reaches, tenants))
    own = where.users & {caller.user} if where.users else frozenset({caller.user})
    of_members = replace(where, seen=Seen(None, members))
    return [replace(where, users=own, seen=Seen(None, in_reach)), of_members] if own else [of_members]


async def command_seen_by(call: Call) -> Seen | None:
    """Jobs of which the caller sees more than an outline, as far as tenants and ownership tell; None: all.
    A token that is good in a part of the tree gets those of its members only."""
    caller = call.caller
    if "details" in call.services.settings.others_may or caller.rights.role_everywhere is not None:
        return None
    tenants = (await call.book.pages()).tenants
    members = frozenset(name for name in tenants if caller.rights.member_role_in(name) is not None)
    return Seen(None if _is_narrowed(caller) else caller.user, members)


async def shown_tenants(call: Call) -> Collection[str] | None:
    """The tenants that the caller may know of, and all above them, whose limits are theirs too, but none
    where their token is not good; None: all."""
    if sees_all(call.caller, call.services.settings):
        return None
    own = _seen_tenants(call, await call.book.pages())
    return {above for name in own for above in lineage(name) if call.caller.rights.reaches(above)}


async def visibility_of(call: Call) -> Visibility:
    seen = await seen_by(call)
    if seen is None:
        return EVERYONE
    return Visibility(
        everyone=False,
        user=seen.user,
        tenants=seen.tenants,
        shown=frozenset(await shown_tenants(call) or ()),
    )


async def known_jobs(call: Call, job_ids: Collection[int]) -> Collection[int]:
    """Those of them that the caller may know of."""
    seen = await seen_by(call)
    if seen is None:
        return job_ids
    found: set[int] = set()
    ids = sorted(set(job_ids))
    for start in range(0, len(ids), _PAGE):
        ranges = tuple((job_id, job_id) for job_id in ids[start : start + _PAGE])
        where = JobFilter(id_ranges=ranges, seen=seen)
        found.update(job.job_id for job in await call.services.store.jobs(where, Paging(limit=_PAGE)))
    return found
