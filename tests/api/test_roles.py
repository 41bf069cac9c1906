"""What somebody may do where, by settings, memberships, rules and tokens."""

import pytest

from tgpu.api.roles import Rights, Scope
from tgpu.domain.access import Action, Role

V, U, OP, A = Role.VIEWER, Role.USER, Role.OPERATOR, Role.ADMIN


def test_a_membership_holds_for_everybody_below_and_the_highest_counts() -> None:
    rights = Rights(members={"lab": V, "lab/vision": OP, "*": U, "org": V})
    found = {name: rights.role_in(name) for name in ("lab", "lab/vision", "lab/vision/ann", "org/x", "x")}
    assert found == {"lab": U, "lab/vision": OP, "lab/vision/ann": OP, "org/x": U, "x": U}
    assert Rights(members={"lab": OP}).role_in("labour") is None
    assert Rights(members={"lab/vision": OP}).role_in("lab") is None
    assert Rights(everywhere=A, members={"lab": V}).role_in("lab") is A


def test_a_rule_lets_one_use_one_s_home_and_nothing_below_or_beside_it() -> None:
    rights = Rights(home="people")
    assert (rights.role_in("people"), rights.role_in("people/ann"), rights.role_in("other")) == (
        U,
        None,
        None,
    )
    assert rights.member_role_in("people") is None
    assert (rights.highest, rights.role_everywhere) == (U, None)


def test_who_has_nothing_is_nobody() -> None:
    assert Rights().highest is None
    assert Rights().role_in("default") is None


@pytest.mark.parametrize(
    ("tenant_id", "role"), [("lab", None), ("lab/vision", OP), ("lab/vision/ann", OP), ("org", None)]
)
def test_one_s_own_tenant_is_not_below_oneself(tenant_id: str, role: Role | None) -> None:
    assert Rights(members={"lab": OP}).role_above(tenant_id) is role


def test_what_has_no_parent_is_below_the_whole_cluster() -> None:
    assert Rights(members={"*": OP}).role_above("lab") is OP
    assert Rights(home="lab").role_above("lab/x") is None, (
        "a rule makes nobody an operator, whatever it gives"
    )


def test_a_token_only_ever_narrows() -> None:
    members = {"lab": OP, "org": V}
    assert Rights(members=members, scope=Scope(V)).role_in("lab") is V
    assert Rights(members=members, scope=Scope(A)).role_in("lab") is OP
    within = Rights(everywhere=A, members=members, scope=Scope(A, "lab/vision"))
    found = {name: within.role_in(name) for name in ("lab", "lab/vision", "lab/vision/x", "org")}
    assert found == {"lab": None, "lab/vision": A, "lab/vision/x": A, "org": None}
    assert (within.role_everywhere, within.highest) == (None, A)
    assert within.role_above("lab/vision") is None
    assert within.role_above("lab/vision/x") is A
    assert Rights(home="default", scope=Scope(A, "lab")).highest is None
    assert Rights(members={"lab/a": OP}, scope=Scope(A, "lab")).highest is OP


def test_a_token_without_actions_is_good_for_all_of_them() -> None:
    assert all(Rights(scope=Scope(A)).may(action) for action in Action)
    narrowed = Rights(scope=Scope(A, actions=frozenset({Action.READ})))
    assert [action for action in Action if narrowed.may(action)] == [Action.READ]
