import pytest

from tgpu.domain.quantities import BadQuantityError
from tgpu.domain.tenant_rules import asks_for_groups, home_of, tenant_rules


def test_the_first_rule_that_fits_gives_the_home() -> None:
    rules = tenant_rules("r", ["user:ann=lab/boss", "group:vision=lab/vision", "*=people/{user}"])
    assert home_of(rules, "ann", {"vision"}) == "lab/boss"
    assert home_of(rules, "bob", {"staff", "vision"}) == "lab/vision"
    assert home_of(rules, "eve", {"staff"}) == "people/eve"
    assert home_of(rules[:2], "eve", {"staff"}) is None
    assert asks_for_groups(rules)
    assert not asks_for_groups(rules[2:])


@pytest.mark.parametrize("user", ["Ann", "a b", "x/y", "..", "a" * 64])
def test_a_name_that_no_tenant_can_have_has_no_home(user: str) -> None:
    assert home_of(tenant_rules("r", ["*=people/{user}"]), user, ()) is None


@pytest.mark.parametrize(
    "text",
    ["default", "=default", "user:=x", "group:=x", "role:ann=x", "user:ann=", "*=Lab", "*=a//b", "*=.."],
)
def test_a_rule_that_cannot_be_meant_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadQuantityError, match=r"^tenant_rules"):
        tenant_rules("tenant_rules", [text])


@pytest.mark.parametrize(
    ("rule", "tenant_id", "points", "certain"),
    [
        ("user:ann=lab/ann", "lab", True, "lab/ann"),
        ("user:ann=lab/ann", "lab/ann", True, "lab/ann"),
        ("user:ann=lab/ann", "lab/an", False, "lab/ann"),
        ("group:g=lab", "lab/ann", False, "lab"),
        ("*=people/{user}", "people", True, "people"),
        ("*=people/{user}", "people/eve", True, "people"),
        ("*=people/u-{user}/own", "people/eve", False, "people"),
        ("*=people/u-{user}/own", "people/u-eve", True, "people"),
        ("*={user}", "eve", True, ""),
    ],
)
def test_a_rule_knows_into_which_tenants_it_points(
    rule: str, tenant_id: str, points: bool, certain: str
) -> None:
    (made,) = tenant_rules("r", [rule])
    assert (made.points_into(tenant_id), made.certain_id, str(made)) == (points, certain, rule)
