"""Who says what holds for a tenant's jobs: it, its tier, or somebody above it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tgpu.api.terms import Effective
from tgpu.config.tiers import TierSettings
from tgpu.domain.tenant import Tenant

_NO_TIER = TierSettings(name="")
_NOBODY = (None, "default")
_Said = list[tuple[object, str]]
"""What was said, and by whom; the nearest first."""


@dataclass(frozen=True, slots=True)
class Sources:
    """For each of the effective terms: `own`, `tier NAME`, `parent NAME`, or `default` if nobody says it."""

    default_class: str
    classes: str
    default_limit_s: str
    most_limit_s: str
    over_quota: str
    may_burst: str
    archived: str


def sources(line: Sequence[Tenant], tiers: Mapping[str, TierSettings], holds: Effective) -> Sources:
    """`line`: from the root down to the tenant, of which `holds` is what is effective."""
    said: dict[str, _Said] = {}
    for tenant in reversed(line):
        for name, value, whose in _says(tenant, tiers.get(tenant.terms.tier or "", _NO_TIER)):
            told_by = whose if tenant is line[-1] else f"parent {tenant.tenant_id}"
            said.setdefault(name, []).append((value, told_by))
    classes = _who(said.get("classes"), holds.user_classes)
    most = _who(said.get("most_limit_s"), holds.most_limit_s)
    usual, usual_by = _nearest(said.get("default_class"))
    limit_s, limit_by = _nearest(said.get("default_limit_s"))
    return Sources(
        # What is said, but may not be, is cut down by whoever does not allow it.
        default_class=usual_by if usual in (None, holds.default_class) else classes,
        classes=classes,
        default_limit_s=limit_by if limit_s == holds.default_limit_s else most,
        most_limit_s=most,
        over_quota=_nearest(said.get("over_quota"))[1],
        may_burst=_nearest(said.get("may_burst"))[1],
        archived=said["archived"][-1][1] if "archived" in said else _NOBODY[1],
    )


def _says(tenant: Tenant, tier: TierSettings) -> Iterator[tuple[str, object, str]]:
    terms = tenant.terms
    both = (
        ("default_class", terms.default_class, tier.default_class),
        ("classes", terms.classes, None if tier.classes is None else frozenset(tier.classes)),
        ("default_limit_s", terms.default_limit_s, tier.default_time_limit_s),
        ("most_limit_s", terms.most_limit_s, tier.max_time_limit_s),
        ("over_quota", terms.over_quota, None),
        ("may_burst", terms.may_burst, None),
        ("archived", terms.archived or None, None),
    )
    for name, own, by_tier in both:
        if own is not None:
            yield name, own, "own"
        elif by_tier is not None:
            yield name, by_tier, f"tier {tier.name}"


def _nearest(said: _Said | None) -> tuple[object, str]:
    return said[0] if said else _NOBODY


def _who(said: _Said | None, holds: object) -> str:
    """The nearest who says just that; of classes that only several together leave, the nearest of them."""
    return next((whose for value, whose in said or () if value == holds), _nearest(said)[1])
