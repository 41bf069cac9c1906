"""Whether a caller may do what an endpoint does: settled here, by what the endpoint says it needs."""

from tgpu.api.access import Sight, sight_of
from tgpu.api.endpoint import Call
from tgpu.api.identity import Caller
from tgpu.api.needs import Needs, Where
from tgpu.api.problems import ProblemError, forbidden, not_found
from tgpu.api.query import parse_job_id
from tgpu.api.roles import at_least
from tgpu.config.settings import Settings
from tgpu.domain.access import Action, Role
from tgpu.domain.job import Job
from tgpu.store.port import StoreUnavailableError

_MOST_NAMED = 5
_DEEDS = {
    Action.LOGS: ("logs", "read its output"),
    Action.CANCEL: ("cancel", "cancel it"),
    Action.ENTER: (None, "enter it"),
    Action.SUBMIT: (None, "hold, release, change or rerun it"),
}
"""By action on somebody else's job: the word of the setting `others_may`, if one opens it, and what it is
called. Who is inside a job has all that its user has: no setting gives that to everybody."""


async def admit(call: Call, needs: Needs) -> Job | None:
    """The job in the path, where there is one. Raises ProblemError."""
    if needs.where is Where.WHOEVER:
        return None
    caller = call.caller
    _check_action(caller, needs.action)
    if needs.where is Where.JOB:
        return await _admit_to_job(call, needs)
    _check_role(caller, needs, call.tenant_id() if needs.where in {Where.TENANT, Where.ABOVE} else "")
    return None


def allows(caller: Caller, needs: Needs) -> bool:
    """Whether `admit` lets the caller in to an endpoint with these needs, which concern no job or tenant in
    its path."""
    assert needs.where in {Where.WHOEVER, Where.ANYWHERE, Where.OWN, Where.EVERYWHERE}
    if needs.where is Where.WHOEVER:
        return True
    try:
        _check_action(caller, needs.action)
        _check_role(caller, needs, "")
    except ProblemError:
        return False
    return True


async def is_still_admitted(call: Call, needs: Needs) -> bool:
    """For answers that go on for long: whether the caller would be let in now, as whom they are now."""
    try:
        call.request.scope["tgpu.caller"] = await call.identity.caller(call.request.scope)  # our own key
        await admit(call, needs)
    except ProblemError:
        return False
    except StoreUnavailableError:
        return True  # while nothing can be written, nothing is taken away
    return True


def _check_action(caller: Caller, action: Action) -> None:
    scope = caller.rights.scope
    if scope is not None and not caller.rights.may(action):
        good_for = ", ".join(sorted(scope.actions))
        raise forbidden(
            f"{caller.shown} is good only for {good_for}; this needs "
            f"{'one' if caller.job_id is None else 'a token'} that is good for {action}"
        )


def _check_role(caller: Caller, needs: Needs, tenant_id: str) -> None:
    """`tenant_id`: in the path, if there is one."""
    rights = caller.rights
    highest = rights.highest
    if highest is None:
        raise _nobody(caller)
    scope = rights.scope
    if needs.where is Where.OWN and scope is not None and scope.tenant_id is not None:
        raise forbidden(f"this token is good only in {scope.tenant_id}; this concerns all that is yours")
    role: Role | None
    match needs.where:
        case Where.ANYWHERE | Where.OWN:
            role, place = highest, "in some tenant"
        case Where.TENANT:
            role, place = rights.role_in(tenant_id), f"in {tenant_id[:100]}"
        case Where.ABOVE:
            role, place = rights.role_above(tenant_id), f"above {tenant_id[:100]}"
        case _:
            role, place = rights.role_everywhere, "everywhere"
    if not at_least(role, needs.role):
        raise _too_little(caller, needs.role, role, place)


def check_above(call: Call, tenant_id: str) -> None:
    """As for an endpoint with `Where.ABOVE`, of a tenant that is not in the path."""
    role = call.caller.rights.role_above(tenant_id)
    if not at_least(role, Role.OPERATOR):
        raise _too_little(call.caller, Role.OPERATOR, role, f"above {tenant_id[:100]}")


def may_manage(caller: Caller, tenant_id: str) -> bool:
    """Whether endpoints with `MANAGE_BELOW` admit the caller for this tenant."""
    return caller.rights.may(Action.MANAGE) and at_least(caller.rights.role_above(tenant_id), Role.OPERATOR)


def may_add_tenant(caller: Caller, parent_id: str | None) -> bool:
    """Whether the caller may create a tenant below this one; None: one without a parent."""
    return may_manage(caller, "new" if parent_id is None else f"{parent_id}/new")


def _nobody(caller: Caller) -> ProblemError:
    if caller.rights.scope is not None:
        return forbidden(f"{caller.shown} grants nothing: {caller.user} has no role where it is good")
    return forbidden(
        f"{caller.user} has no role in any tenant; an operator gives one: tgpu users add {caller.user} "
        "TENANT --role user"
    )


def _too_little(caller: Caller, needed: Role, role: Role | None, place: str) -> ProblemError:
    scope = caller.rights.scope
    if scope is not None and scope.role < needed:
        if needed is Role.USER:
            return forbidden(f"{caller.shown} may only look: make one with the role `user`")
        return forbidden(f"{caller.shown} has the role {scope.role.word}; this needs {needed.word} {place}")
    if needed is Role.ADMIN:
        return forbidden(f"only administrators may do this; {caller.user} is none")
    has = _held(caller) if role is None else f"the role {role.word} there"
    return forbidden(f"this needs the role {needed.word} {place}; {caller.user} has {has}")


def _held(caller: Caller) -> str:
    """`the role operator only in org/vision`: who has none here may have one elsewhere."""
    by_role: dict[Role, list[str]] = {}
    for name, role in caller.rights.held:
        by_role.setdefault(role, []).append(name)
    said = [f"the role {role.word} only in {_few(by_role[role])}" for role in sorted(by_role, reverse=True)]
    return ", ".join(said) or "no role"


def _few(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


async def _admit_to_job(call: Call, needs: Needs) -> Job:
    caller, settings = call.caller, call.services.settings
    scope = caller.rights.scope
    if scope is not None and scope.role < needs.role:
        raise _too_little(caller, needs.role, scope.role, "")
    job_id = parse_job_id(call.path("job_id"))
    job = await call.services.store.job(job_id)
    if caller.rights.highest is None and (job is None or job.spec.user != caller.user):
        raise _nobody(caller)
    if job is None or _sight(job, caller, settings) is Sight.NOTHING:
        where = (
            ""
            if scope is None or scope.tenant_id is None
            else f" in {scope.tenant_id}, where this token is good"
        )
        raise not_found(f"there is no job {job_id}{where}; `tgpu list --all` shows those there are")
    if not may_with(job, needs, caller, settings):
        raise _not_yours(job, needs)
    return job


def _sight(job: Job, caller: Caller, settings: Settings) -> Sight:
    return sight_of(job.spec.user, job.spec.tenant_id, caller, settings)


def may_with(job: Job, needs: Needs, caller: Caller, settings: Settings) -> bool:
    """Whether they may do it with a job that they may know of."""
    rights, scope = caller.rights, caller.rights.scope
    if scope is not None and scope.role < needs.role:
        return False
    if needs.others is None or (job.spec.user == caller.user and rights.reaches(job.spec.tenant_id)):
        return True
    if at_least(rights.member_role_in(job.spec.tenant_id), needs.others):
        return True
    word, _ = _DEEDS[needs.action]
    return word in settings.others_may and at_least(rights.highest, needs.role)


def is_allowed(job: Job, needs: Needs, caller: Caller, settings: Settings) -> bool:
    """Whether `admit` lets the caller act on a job that it may see."""
    return caller.rights.may(needs.action) and may_with(job, needs, caller, settings)


def _not_yours(job: Job, needs: Needs) -> ProblemError:
    owner = job.spec.user
    _, deed = _DEEDS[needs.action]
    assert needs.others is not None
    return forbidden(
        f"job {job.job_id} belongs to {owner}: only {owner}, those with the role {needs.others.word} in "
        f"{job.spec.tenant_id}, and administrators may {deed}"
    )


def check_undoing(call: Call, by: str | None, done: str, undo: str) -> None:
    """Who holds or suspends a job may undo that, and so may operators; its owner may not undo what these did.
    `by`: who did it, if anybody. Raises ProblemError."""
    job = call.job
    if may_undo(call.caller, job, by):
        return
    raise forbidden(
        f"job {job.job_id} is {done} by {by}: only {by}, and those with the role operator in "
        f"{job.spec.tenant_id}, may {undo} it"
    )


def may_undo(caller: Caller, job: Job, by: str | None) -> bool:
    role = caller.rights.member_role_in(job.spec.tenant_id)
    return by in (None, caller.user) or at_least(role, Role.OPERATOR)
