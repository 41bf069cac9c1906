"""What holds for a tenant's jobs, from the root down."""

from tgpu.api.terms import ALL_CLASSES, Effective, effective
from tgpu.config.tiers import TierSettings
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, OverQuota
from tgpu.domain.tenant import Tenant, Terms

HIGH, DEFAULT, LOW, BEST = (
    PriorityClass.HIGH,
    PriorityClass.DEFAULT,
    PriorityClass.LOW,
    PriorityClass.BEST_EFFORT,
)


def of(*terms: Terms, tiers: dict[str, TierSettings] | None = None) -> Effective:
    names = ["a", "a/b", "a/b/c"]
    return effective(
        [Tenant(name, terms=said) for name, said in zip(names, terms, strict=False)], tiers or {}
    )


def test_where_nobody_says_anything_the_defaults_hold() -> None:
    assert of(Terms()) == Effective() == of()
    assert Effective().classes == ALL_CLASSES


def test_the_nearest_that_says_something_counts() -> None:
    found = of(
        Terms(default_class=HIGH, default_limit_s=60, over_quota=OverQuota.QUEUE, may_burst=False),
        Terms(),
        Terms(default_class=LOW, default_limit_s=30, over_quota=OverQuota.REJECT, may_burst=True),
    )
    assert (found.default_class, found.default_limit_s) == (LOW, 30)
    assert (found.over_quota, found.may_burst) == (OverQuota.REJECT, True)
    above = of(Terms(over_quota=OverQuota.QUEUE, may_burst=False), Terms())
    assert (above.over_quota, above.may_burst) == (OverQuota.QUEUE, False)


def test_nobody_may_use_what_somebody_above_may_not() -> None:
    found = of(
        Terms(classes=frozenset({DEFAULT, LOW}), most_limit_s=100),
        Terms(classes=frozenset({HIGH, LOW}), most_limit_s=1000, default_limit_s=500),
    )
    assert found.classes == {LOW}
    assert (found.most_limit_s, found.default_limit_s) == (100, 100)
    assert of(Terms(archived=True), Terms(), Terms()).archived_id == "a"


def test_the_default_class_is_one_that_is_allowed() -> None:
    assert of(Terms(classes=frozenset({LOW, BEST}))).default_class is LOW
    assert of(Terms(classes=frozenset({HIGH}))).default_class is HIGH
    assert of(Terms(classes=frozenset({LOW})), Terms(default_class=HIGH)).default_class is LOW


def test_a_tier_says_what_the_tenant_itself_does_not() -> None:
    gold = TierSettings(name="gold", default_class=HIGH, classes=(HIGH, LOW), max_time_limit_s=50)
    found = of(Terms(default_class=LOW), Terms(tier="gold"), tiers={"gold": gold})
    assert (found.default_class, found.classes, found.most_limit_s) == (HIGH, {HIGH, LOW}, 50)
    own = of(Terms(tier="gold", default_class=LOW, most_limit_s=70), tiers={"gold": gold})
    assert (own.default_class, own.most_limit_s) == (LOW, 70)
    assert of(Terms(tier="gone")) == Effective()


def test_a_limit_on_gpu_hours_is_found_wherever_it_is() -> None:
    line = [Tenant("a", job_limits=JobLimits(gpu_ms=0)), Tenant("a/b")]
    assert effective(line, {}).gpu_hours_id == "a"
