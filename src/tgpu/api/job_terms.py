"""Where a job belongs, and what its tenant's terms and its submitter's token make of it."""

from dataclasses import replace

import msgspec

from tgpu.api.access import sees_all
from tgpu.api.access_book import Pages
from tgpu.api.endpoint import Call
from tgpu.api.identity import Caller
from tgpu.api.priority_classes import check_class
from tgpu.api.problems import ProblemError, forbidden, unprocessable
from tgpu.api.roles import Rights, at_least
from tgpu.api.terms import Effective
from tgpu.domain.access import Role
from tgpu.domain.job import JobSpec
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import time_in_words
from tgpu.domain.tenant import GRAMMAR, TENANT_ID, lineage
from tgpu.store.access_port import AuditFilter, Token


async def terms_for(call: Call, asked_id: str | None, owner: Rights) -> tuple[str, Effective]:
    """The tenant that a job goes to, and what holds there. `owner`: whose job it is. Raises ProblemError."""
    tenant_id = _home(call, owner) if asked_id is None else asked_id
    if not TENANT_ID.fullmatch(tenant_id):
        raise unprocessable("tenant_id", f"tenant_id must be {GRAMMAR}; got {tenant_id[:80]!r}")
    pages = await call.book.pages()
    if tenant_id not in pages.tenants:
        pages = await call.book.fresh_pages()
    if tenant_id not in pages.tenants and asked_id is None:
        await _check_moved(call, tenant_id, pages)
    _check_right(call, tenant_id, pages, named=asked_id is not None)
    return tenant_id, pages.effective_terms(tenant_id)


def _home(call: Call, owner: Rights) -> str:
    """Of a token that is good only elsewhere, the tenant that it is good in."""
    scope = call.caller.rights.scope
    if owner.home is not None and call.caller.rights.reaches(owner.home):
        return owner.home
    if scope is not None and scope.tenant_id is not None:
        return scope.tenant_id
    raise unprocessable(
        "tenant_id", "tenant_id is missing: no rule of the setting tenant_rules gives you a tenant; name one"
    )


async def _check_moved(call: Call, home: str, pages: Pages) -> None:
    """Says where a home went that was moved, with a tenant above it perhaps. Raises ProblemError."""
    for name in reversed(lineage(home)):
        lines = await call.services.store.audit_entries(AuditFilter(action="tenant.move", target=name))
        moved = next((line for line in lines if line.target == name), None)
        if moved is not None and name not in pages.tenants:
            now_id = msgspec.json.decode(moved.after, type=dict[str, str])["tenant_id"] + home[len(name) :]
            break
    else:
        return
    rights, is_known = call.caller.rights, now_id in pages.tenants
    if not is_known or not (rights.role_in(now_id) or sees_all(call.caller, call.services.settings)):
        return
    way = (
        f"name it (--tenant {now_id}), and have"
        if at_least(rights.role_in(now_id), Role.USER)
        else "name another tenant, or have"
    )
    raise unprocessable(
        "tenant_id",
        f"tenant_id: your home by the setting tenant_rules is {home}, which was moved and is {now_id} now: "
        f"{way} an administrator correct the rule",
    )


def _check_right(call: Call, tenant_id: str, pages: Pages, *, named: bool) -> None:
    caller, is_there = call.caller, tenant_id in pages.tenants
    may = at_least(caller.rights.role_in(tenant_id), Role.USER)
    if is_there and may:
        return
    if not is_there and (may or sees_all(caller, call.services.settings)):
        raise _no_such_tenant(tenant_id, named=named)
    if not caller.rights.reaches(tenant_id):
        raise forbidden(f"tenant_id: {caller.shown} is not good in {tenant_id}; name one that it is good in")
    raise forbidden(
        f"tenant_id: {caller.user} may not submit to {tenant_id}; an operator above it gives the right: "
        f"tgpu users add {caller.user} {tenant_id} --role user"
    )


def _no_such_tenant(tenant_id: str, *, named: bool) -> ProblemError:
    if named:
        sentence = f"there is no tenant {tenant_id!r}; `tgpu tenants` lists those that exist"
    else:
        sentence = f"your home by the setting tenant_rules is {tenant_id}, which does not exist"
    return unprocessable(
        "tenant_id", f"tenant_id: {sentence}; an operator adds it: tgpu tenants add {tenant_id}"
    )


def check_priority(call: Call, spec: JobSpec, before: int = 0) -> None:
    """`before`: what it has already, by whoever gave it that. Raises ProblemError."""
    most = max(call.services.settings.max_priority, before)
    if spec.priority > most and not at_least(call.caller.rights.role_in(spec.tenant_id), Role.OPERATOR):
        raise unprocessable(
            "priority",
            f"priority: users may give at most {most} (the setting max_priority); got {spec.priority}. Ask "
            f"an operator of {spec.tenant_id} for more.",
        )


def under_terms(
    caller: Caller, spec: JobSpec, terms: Effective, before: PriorityClass | None = None
) -> JobSpec:
    """`before`: the class that the job has already, if it is not a new one. Raises ProblemError."""
    check_class(caller, spec, terms, before)
    limit_s = spec.time_limit_s if spec.time_limit_s is not None else terms.default_limit_s
    most_s = terms.most_limit_s
    if most_s is not None and (limit_s is None or limit_s > most_s):
        got = "this has none" if limit_s is None else f"got {time_in_words(limit_s)}"
        raise unprocessable(
            "time_limit_s",
            f"time_limit_s must be at most {time_in_words(most_s)} in tenant {spec.tenant_id}; {got}",
        )
    if limit_s is None and _wants_gpus(spec):
        _check_hours(spec, terms, caller.token)
    return spec if limit_s == spec.time_limit_s else replace(spec, time_limit_s=limit_s)


def _wants_gpus(spec: JobSpec) -> bool:
    return any(group.request.gpu_milli or group.request.gpu_memory_mib for group in spec.groups)


def _check_hours(spec: JobSpec, terms: Effective, token: Token | None) -> None:
    """What counts GPU-hours has to know how many a job may take."""
    if terms.gpu_hours_id is not None:
        whose = f"tenant {terms.gpu_hours_id}"
    elif token is not None and token.gpu_ms_left is not None:
        whose = "this token"
    else:
        return
    raise unprocessable(
        "time_limit_s",
        f"time_limit_s is missing: {whose} has a limit on GPU-hours, so a job with GPUs must say how long it "
        f"may run (tenant {spec.tenant_id} has no default)",
    )
