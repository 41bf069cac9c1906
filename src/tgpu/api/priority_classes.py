"""Priority classes that a caller may give to jobs of a tenant: by its terms, their role and their token."""

from dataclasses import replace

from tgpu.api.access_book import Pages
from tgpu.api.endpoint import Call
from tgpu.api.identity import Caller
from tgpu.api.problems import ProblemError, forbidden, unprocessable
from tgpu.api.roles import Rights, at_least, managers_of
from tgpu.api.terms import ALL_CLASSES, Effective, in_order
from tgpu.domain.access import Role
from tgpu.domain.job import JobSpec
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.domain.views import Why
from tgpu.store.access_port import Token


def default_class(terms: Effective, token: Token | None) -> PriorityClass:
    """Of a job that does not say: the tenant's, but none above the token's highest class."""
    highest = None if token is None else token.highest_class
    if highest is None or TERMS[terms.default_class].rank >= TERMS[highest].rank:
        return terms.default_class
    return highest


def check_class(caller: Caller, spec: JobSpec, terms: Effective, before: PriorityClass | None = None) -> None:
    """`before`: the class that the job has already, which it keeps. Raises ProblemError."""
    allowed = _by_role(caller.rights, spec.tenant_id, terms)
    if spec.priority_class not in allowed and spec.priority_class is not before:
        raise _not_allowed(caller, spec, terms, allowed)
    highest = None if caller.token is None else caller.token.highest_class
    if highest is not None and TERMS[spec.priority_class].rank < TERMS[highest].rank:
        raise forbidden(
            f"priority_class: this token submits jobs of class {highest} and below; got {spec.priority_class}"
        )


def allowed_classes(caller: Caller, pages: Pages, tenant_id: str) -> frozenset[PriorityClass]:
    """None of them where the caller may not submit."""
    if not at_least(caller.rights.role_in(tenant_id), Role.USER):
        return frozenset()
    found = _by_role(caller.rights, tenant_id, pages.effective_terms(tenant_id))
    highest = None if caller.token is None else caller.token.highest_class
    if highest is None:
        return found
    return frozenset(each for each in found if TERMS[each].rank >= TERMS[highest].rank)


def classes_anywhere(caller: Caller, pages: Pages) -> frozenset[PriorityClass]:
    """Those of at least one tenant."""
    found: frozenset[PriorityClass] = frozenset()
    for tenant_id in pages.tenants:
        found |= allowed_classes(caller, pages, tenant_id)
        if found == ALL_CLASSES:
            break
    return found


async def without_forbidden_advice(call: Call, why: Why, tenant_id: str) -> Why:
    """Without the advice to take a class that the caller may not use."""
    advice = why.advice
    if advice is None or advice.field != "priority_class":
        return why
    allowed = allowed_classes(call.caller, await call.book.pages(), tenant_id)
    return why if advice.instead in allowed else replace(why, advice=None)


def _by_role(rights: Rights, tenant_id: str, terms: Effective) -> frozenset[PriorityClass]:
    return terms.classes if at_least(rights.role_in(tenant_id), Role.OPERATOR) else terms.user_classes


def _not_allowed(
    caller: Caller, spec: JobSpec, terms: Effective, allowed: frozenset[PriorityClass]
) -> ProblemError:
    whose = "tenant" if terms.class_lists else "users of tenant"
    return unprocessable(
        "priority_class",
        f"priority_class: {whose} {spec.tenant_id} may use {', '.join(in_order(allowed)) or 'none'}; got "
        f"{spec.priority_class}. {_remedy(spec, terms)}{_again(spec, allowed)}"
        f"{_narrowed(caller, spec, terms)}",
    )


def _remedy(spec: JobSpec, terms: Effective) -> str:
    """The commands and the setting that allow the class."""
    wanted, tenant_id = spec.priority_class, spec.tenant_id
    lists = terms.class_lists or ((tenant_id, terms.user_classes),)
    short = [(name, named) for name, named in lists if wanted not in named]
    commands = [f"`tgpu tenants set {name} --classes {_with(named, wanted)}`" for name, named in short]
    sentence = f"To allow {wanted}, {managers_of(short[0][0])} runs {' and '.join(commands)}"
    if terms.class_lists:
        return f"{sentence}."
    setting = _with(terms.user_classes, wanted).replace(",", '", "')
    return (
        f'{sentence}, or an administrator sets user_classes = ["{setting}"] in the settings, for all tenants.'
    )


def _again(spec: JobSpec, allowed: frozenset[PriorityClass]) -> str:
    """For a job that was once accepted in its class."""
    if spec.again_of is None or not allowed:
        return ""
    return f" In another class: `tgpu rerun {spec.again_of} --class {in_order(allowed)[0]}`."


def _with(classes: frozenset[PriorityClass], wanted: PriorityClass) -> str:
    return ",".join(in_order({*classes, wanted}))


def _narrowed(caller: Caller, spec: JobSpec, terms: Effective) -> str:
    """A token or key with a lower role than its user has."""
    rights = caller.rights
    whole = replace(rights, scope=None)
    if rights.scope is None or spec.priority_class not in _by_role(whole, spec.tenant_id, terms):
        return ""
    return (
        f" {caller.user} may use it, but {caller.shown} has only the role {rights.scope.role.word}: submit "
        "with one of the role operator or admin, or on the socket."
    )
