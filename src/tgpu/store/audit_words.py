"""What the audit log says of each change, whichever store writes it: what it was before and what it is now.

Secrets and digests never get here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tgpu.domain.access import Actor, Member
from tgpu.domain.quota import BASIC
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import Token

Facts = dict[str, object]


class Deed(NamedTuple):
    """Who changes something, and when."""

    actor: Actor
    at_ms: int


class Change(NamedTuple):
    """What was done to what."""

    action: str
    target: str
    before: str = ""
    after: str = ""


def tenant_created(tenant: Tenant, *, took_over: bool) -> Change:
    """`took_over`: with the ended jobs that were kept under its name, or below it."""
    facts = _tenant_facts(tenant) | {"took_over": took_over or None}
    return Change("tenant.create", tenant.tenant_id, after=_said(facts))


def tenant_updated(before: Tenant, after: Tenant) -> Change:
    """Only what differs."""
    old, new = _differences(_tenant_facts(before), _tenant_facts(after))
    return Change("tenant.update", before.tenant_id, _text(old), _text(new))


def tenant_moved(tenant_id: str, to_id: str) -> Change:
    return Change("tenant.move", tenant_id, _text({"tenant_id": tenant_id}), _text({"tenant_id": to_id}))


def tenant_removed(tenant: Tenant, members: Sequence[Member]) -> Change:
    facts = _tenant_facts(tenant) | {"members": {member.user: member.role.word for member in members}}
    return Change("tenant.remove", tenant.tenant_id, _said(facts))


def member_set(before: Member | None, after: Member) -> Change:
    old = "" if before is None else _text(_member_facts(before))
    return Change("member.set", after.tenant_id, old, _text(_member_facts(after)))


def member_removed(member: Member) -> Change:
    return Change("member.remove", member.tenant_id, _text(_member_facts(member)))


def token_created(token: Token) -> Change:
    return Change("token.create", _token_target(token.token_id), after=_said(_token_facts(token)))


def token_revoked(token: Token) -> Change:
    return Change("token.revoke", _token_target(token.token_id), _said(_token_facts(token)))


def secret_set(user: str, name: str) -> Change:
    return Change("secret.set", f"secret/{user}/{name}")


def secret_removed(user: str, name: str) -> Change:
    return Change("secret.remove", f"secret/{user}/{name}")


def _token_target(token_id: int) -> str:
    return f"token/{token_id}"


def _tenant_facts(tenant: Tenant) -> Facts:
    limits, jobs, terms, budget = tenant.limits, tenant.job_limits, tenant.terms, tenant.budget
    return {
        "weight": tenant.weight,
        "limits": {name: getattr(limits, name) for name in BASIC} | dict(limits.named),
        "job_limits": {
            "running": jobs.running,
            "waiting": jobs.waiting,
            "gpu_ms": jobs.gpu_ms,
            "period": jobs.period.value,
        },
        "terms": {
            "tier": terms.tier,
            "default_class": None if terms.default_class is None else terms.default_class.value,
            "classes": None if terms.classes is None else sorted(each.value for each in terms.classes),
            "default_limit_s": terms.default_limit_s,
            "most_limit_s": terms.most_limit_s,
            "over_quota": None if terms.over_quota is None else terms.over_quota.value,
            "may_burst": terms.may_burst,
            "archived": terms.archived,
        },
        "budget": None if budget is None else {"gpu_ms": budget.gpu_ms, "period": budget.period.value},
    }


def _member_facts(member: Member) -> Facts:
    return {"user": member.user, "role": member.role.word}


def _token_facts(token: Token) -> Facts:
    return {
        "user": token.user,
        "role": token.role,
        "note": token.note,
        "expires_ms": token.expires_ms,
        "tenant_id": token.tenant_id,
        "actions": sorted(action.value for action in token.actions),
        "highest_class": None if token.highest_class is None else token.highest_class.value,
        "jobs_left": token.jobs_left,
        "gpu_ms_left": token.gpu_ms_left,
        "made_with": token.parent_id,
    }


def _differences(before: Facts, after: Facts) -> tuple[Facts, Facts]:
    old: Facts = {}
    new: Facts = {}
    for name in before | after:
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            was, now = _differences(was, now)
        old[name], new[name] = was, now
    return old, new


def _said(facts: Facts) -> str:
    """Without what is left open."""
    kept: Facts = {}
    for name, fact in facts.items():
        told = (
            {key: each for key, each in fact.items() if each is not None} if isinstance(fact, dict) else fact
        )
        if told not in (None, {}, []):
            kept[name] = told
    return _text(kept)


def _text(facts: Facts) -> str:
    return msgspec.json.encode(facts).decode()
