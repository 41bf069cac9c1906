"""Which tenant is whose home: rules that map Unix users and groups to tenants, the first that fits wins."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from tgpu.domain.quantities import BadQuantityError
from tgpu.domain.tenant import GRAMMAR, TENANT_ID

_USER = "{user}"
_ESCAPED = re.escape(_USER)


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

    def __str__(self) -> str:
        whom = Subject.ANYBODY if self.subject is Subject.ANYBODY else f"{self.subject}:{self.name}"
        return f"{whom}={self.tenant_id}"

    @property
    def certain_id(self) -> str:
        """The part of the tenant that is the same for everybody, empty if there is none: it should exist."""
        return "/".join(takewhile(lambda level: _USER not in level, self.tenant_id.split("/")))

    def points_into(self, tenant_id: str) -> bool:
        """Whether it gives somebody this tenant, or one below it."""
        levels, own = tenant_id.split("/"), self.tenant_id.split("/")
        alike = (
            level == mine or (_USER in mine and re.fullmatch(re.escape(mine).replace(_ESCAPED, ".+"), level))
            for level, mine in zip(levels, own, strict=False)
        )
        return len(levels) <= len(own) and all(alike)

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
        raise BadQuantityError(f"{name}: {tenant_id[:80]!r} is no tenant: {GRAMMAR} or people/{{user}}")
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
