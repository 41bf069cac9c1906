"""Which tenant is whose home: rules that map Unix users and groups to tenants, the first that fits wins."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tgpu.domain.quantities import BadQuantityError
from tgpu.domain.tenant import TENANT_ID

_USER = "{user}"


class Subject(StrEnum):
    USER = "user"
    GROUP = "group"
    ANYBODY = "*"


@dataclass(frozen=True, slots=True)
class TenantRule:
    """`user:ann=lab/ann`, `group:vision=lab/vision`, `*=people/{user}`."""

    subject: Subject
    name: str
    tenant_id: str
    """May contain `{user}`."""

    def fits(self, user: str, groups: Collection[str]) -> bool:
        if self.subject is Subject.USER:
            return self.name == user
        return self.subject is Subject.ANYBODY or self.name in groups


def tenant_rules(name: str, texts: Sequence[str]) -> tuple[TenantRule, ...]:
    """Raises BadQuantityError, whose text begins with `name`."""
    return tuple(_rule(name, text) for text in texts)


def _rule(name: str, text: str) -> TenantRule:
    whom, equals, tenant_id = (part.strip() for part in text.partition("="))
    kind, colon, who = whom.partition(":")
    is_anybody = whom == Subject.ANYBODY
    if not equals or not (is_anybody or (colon and who and kind in (Subject.USER, Subject.GROUP))):
        raise BadQuantityError(
            f"{name} must be rules such as user:ann=lab/ann, group:vision=lab/vision or *=default; got "
            f"{text[:80]!r}"
        )
    if not TENANT_ID.fullmatch(tenant_id.replace(_USER, "u")):
        raise BadQuantityError(
            f"{name}: {tenant_id[:80]!r} is no tenant: up to 8 names joined by slashes, each of a-z, 0-9, _ "
            "and -, such as lab/vision or people/{user}"
        )
    return TenantRule(Subject.ANYBODY if is_anybody else Subject(kind), who, tenant_id)


def home_of(rules: Sequence[TenantRule], user: str, groups: Collection[str]) -> str | None:
    """None if no rule fits, or if the name that the rule gives cannot be a tenant's."""
    for rule in rules:
        if rule.fits(user, groups):
            tenant_id = rule.tenant_id.replace(_USER, user)
            is_one_level = tenant_id.count("/") == rule.tenant_id.count("/")
            return tenant_id if is_one_level and TENANT_ID.fullmatch(tenant_id) else None
    return None


def asks_for_groups(rules: Sequence[TenantRule]) -> bool:
    return any(rule.subject is Subject.GROUP for rule in rules)
