"""Who belongs where, and that nobody becomes more than somebody above them made of them."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.people import House, house
from tgpu.domain.access import Role


@pytest.fixture
def place() -> Iterator[House]:
    with house() as found:
        found.tenants("lab", "lab/vision", "org")
        found.person("olga", Role.OPERATOR, "lab")
        found.person("ann")
        yield found


@pytest.fixture
def root(place: House) -> Iterator[httpx.Client]:
    with place.server.unix() as opened:
        yield opened


def test_a_member_is_added_changed_and_removed_and_it_holds_at_once(place: House, root: httpx.Client) -> None:
    olga, ann = place.caller("olga"), place.caller("ann")
    job = {"command": "x", "cwd": "/", "tenant_id": "lab/vision"}
    assert ann.post("/jobs", json=job).status_code == 403
    added = olga.put("/tenants/lab/vision/members/ann", json={"role": "user"})
    assert (added.status_code, added.json()["role"], added.json()["by"]) == (200, "user", "olga")
    assert ann.post("/jobs", json=job).status_code == 201
    olga.put("/tenants/lab/vision/members/ann", json={"role": "viewer"})
    assert ann.post("/jobs", json=job).status_code == 403
    listed = root.get("/tenants/lab/vision/members").json()["members"]
    assert [(member["user_id"], member["role"]) for member in listed] == [("ann", "viewer")]
    assert olga.delete("/tenants/lab/vision/members/ann").status_code == 204
    assert olga.delete("/tenants/lab/vision/members/ann").status_code == 404
    assert root.get("/tenants/lab/vision/members").json()["members"] == []


def test_who_has_a_role_elsewhere_is_told_where(place: House, root: httpx.Client) -> None:
    ann = place.caller("ann")
    told = ann.put("/tenants/lab/vision/members/ann", json={"role": "user"}).json()["detail"]
    assert told == "this needs the role operator above lab/vision; ann has the role user only in default"
    root.put("/tenants/org/members/ann", json={"role": "operator"})
    told = ann.put("/tenants/lab/vision/members/ann", json={"role": "user"}).json()["detail"]
    assert told.endswith("; ann has the role operator only in org, the role user only in default")
    me = ann.get("/whoami").json()
    assert (me["home_tenant_id"], me["home_role"]) == ("default", "user")
    root.put("/tenants/lab/members/ann", json={"role": "viewer"})
    told = ann.put("/tenants/lab/vision/members/ann", json={"role": "user"}).json()["detail"]
    assert told.endswith("; ann has the role viewer there")


def test_a_role_everywhere_is_given_by_administrators(place: House, root: httpx.Client) -> None:
    ann = place.caller("ann")
    assert ann.get("/settings").status_code == 403
    assert root.put("/members/ann", json={"role": "admin"}).json()["tenant_id"] == "*"
    assert ann.get("/settings").status_code == 200
    assert ann.get("/whoami").json()["role"] == "admin"
    assert ann.put("/members/olga", json={"role": "admin"}).status_code == 200
    assert root.delete("/members/ann").status_code == 204
    assert ann.get("/settings").status_code == 403
    assert place.caller("olga").put("/members/ann", json={"role": "viewer"}).status_code == 200


def test_everybody_sees_the_members_of_where_they_belong(place: House, root: httpx.Client) -> None:
    root.put("/tenants/org/members/ann", json={"role": "viewer"})
    root.put("/members/nobody", json={"role": "viewer"})
    seen = {
        name: {(m["user_id"], m["tenant_id"]) for m in place.caller(name).get("/members").json()["members"]}
        for name in ("olga", "ann")
    }
    assert seen == {"olga": {("olga", "lab")}, "ann": {("ann", "org")}}
    assert len(root.get("/members").json()["members"]) == 3
    assert place.caller("ann").get("/tenants/lab/members").status_code == 403
    mine = place.caller("ann").get("/whoami").json()["memberships"]
    assert mine == [{"tenant_id": "org", "role": "viewer"}]


def test_a_role_whose_account_is_gone_is_marked(place: House, root: httpx.Client) -> None:
    assert root.put("/tenants/lab/members/ann", json={"role": "user"}).json()["has_account"] is True
    place.gone("ann")
    for path in ("/members", "/tenants/lab/members"):
        listed = root.get(path).json()["members"]
        assert {one["user_id"]: one["has_account"] for one in listed} == {"ann": False, "olga": True}
    assert root.delete("/tenants/lab/members/ann").status_code == 204


@pytest.mark.parametrize(
    ("path", "role", "sentence"),
    [
        ("/tenants/lab/vision/members/ann", "admin", "nobody gives a role higher than their own there"),
        ("/tenants/lab/vision/members/olga", "admin", "nobody gives a role higher than their own there"),
        ("/tenants/lab/members/olga", "admin", "this needs the role operator above lab"),
        ("/tenants/lab/members/ann", "user", "this needs the role operator above lab"),
        ("/tenants/org/members/olga", "user", "this needs the role operator above org"),
        ("/members/olga", "viewer", "only administrators may do this"),
    ],
)
def test_an_operator_makes_nobody_more_than_an_operator(
    place: House, path: str, role: str, sentence: str
) -> None:
    answer = place.caller("olga").put(path, json={"role": role})
    assert answer.status_code == 403
    assert sentence in answer.json()["detail"]


def test_who_is_higher_is_not_touched_from_below(place: House, root: httpx.Client) -> None:
    root.put("/tenants/lab/vision/members/ann", json={"role": "admin"})
    olga = place.caller("olga")
    for answer in (
        olga.put("/tenants/lab/vision/members/ann", json={"role": "viewer"}),
        olga.delete("/tenants/lab/vision/members/ann"),
    ):
        assert answer.status_code == 403
        assert "ann has the role admin" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/tenants/lab/members/ann", {"role": "emperor"}, 422, "role must be one of viewer, user, operator"),
        ("/tenants/lab/members/ann", {"role": 4}, 422, "role must be a string"),
        ("/tenants/lab/members/ann", {}, 422, "role is missing"),
        ("/tenants/lab/members/ann", {"role": "user", "by": "root"}, 422, "unknown field 'by'"),
        ("/tenants/lab/members/nosuch", {"role": "user"}, 422, "there is no account 'nosuch'"),
        ("/tenants/none/members/ann", {"role": "user"}, 404, "there is no tenant 'none'"),
        ("/members/nosuch", {"role": "user"}, 422, "there is no account 'nosuch'"),
    ],
)
def test_a_member_that_cannot_be_meant_is_refused(
    root: httpx.Client, path: str, body: object, status: int, sentence: str
) -> None:
    answer = root.put(path, json=body)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]
