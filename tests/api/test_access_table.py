"""Every endpoint, for every role, in one's own and another's tenant, by every kind of token: one table.

Each request is such that whoever is let in does no harm: it is refused for another reason, or changes
nothing. So "let in" is: neither 401 nor 403.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.api.people import House, house
from tests.api.stories import assign, end, submit
from tgpu.api.table import endpoints
from tgpu.domain.access import ROLES, Action, Role
from tgpu.domain.lifecycle import Cause, Happening

READ, LOGS, SUBMIT, CANCEL, ENTER, MANAGE = Action
STALE = {"If-Match": '"999999999"'}

OWN, OTHER = "lab/own", "other/own"
"""The tenants that calls are about. Members are of `lab`, or of the whole cluster."""


@dataclass(frozen=True)
class Row:
    """Who is let in: `who` is a place and the least role there."""

    who: str
    """`open`: anybody. `known`: whom somebody vouches for. `any ROLE`: with it in some tenant. `in ROLE`:
    with it in the tenant that the call is about, or above it, or everywhere. `all ROLE`: everywhere.
    `own ROLE`: as `any`, but not by a token that is good in one tenant only."""
    action: Action | None = None
    path: str = ""
    """`{t}` is the tenant, `{j}` a job in it of somebody else; empty: as the endpoint has it."""
    body: Any = None
    headers: Any = None
    jobs: bool = True
    """Whether a job is let in, by its key, where its user is."""


TABLE = {
    "GET /": Row("known"),
    "POST /agents/join": Row("open"),
    "GET /audit": Row("all operator", READ),
    "GET /ca.pem": Row("open"),
    "GET /cluster": Row("any viewer", READ),
    "GET /events/recent": Row("any viewer", READ),
    "GET /events": Row("any viewer", READ),
    "GET /executors": Row("any viewer", READ),
    "GET /healthz": Row("open"),
    "GET /join-tokens": Row("all admin", READ),
    "POST /join-tokens": Row("all admin", MANAGE, body={"uses": 0}),
    "DELETE /join-tokens/{token_id}": Row("all admin", MANAGE, "/join-tokens/999"),
    "GET /jobs": Row("any viewer", READ),
    "POST /job-files": Row("any user", SUBMIT, body={"text": "command: x"}),
    "POST /jobs": Row("in user", SUBMIT, body={"command": "x", "gpu_request": 100, "tenant_id": "{t}"}),
    "POST /jobs/cancel": Row("any user", CANCEL, body={"job_ids": [999]}),
    "POST /jobs/hold": Row("any user", SUBMIT, body={"job_ids": [999]}),
    "POST /jobs/release": Row("any user", SUBMIT, body={"job_ids": [999]}),
    "POST /jobs/retry": Row("any user", SUBMIT, body={"job_ids": [999]}),
    "GET /jobs/{job_id}": Row("any viewer", READ, "/jobs/{j}"),
    "DELETE /jobs/{job_id}": Row("in operator", CANCEL, "/jobs/{j}"),
    "POST /jobs/{job_id}/abort": Row("in operator", CANCEL, "/jobs/{j}/abort"),
    "PATCH /jobs/{job_id}": Row("in operator", SUBMIT, "/jobs/{j}", {"priority": 1}),
    "POST /jobs/{job_id}/cancel": Row("in operator", CANCEL, "/jobs/{j}/cancel", {}),
    "POST /jobs/{job_id}/retry": Row("in operator", SUBMIT, "/jobs/{j}/retry", {"indices": "9"}),
    "POST /jobs/{job_id}/suspend": Row("in operator", SUBMIT, "/jobs/{j}/suspend"),
    "POST /jobs/{job_id}/resume": Row("in operator", SUBMIT, "/jobs/{j}/resume"),
    "POST /jobs/{job_id}/hold": Row("in operator", SUBMIT, "/jobs/{j}/hold"),
    "POST /jobs/{job_id}/release": Row("in operator", SUBMIT, "/jobs/{j}/release"),
    "POST /jobs/{job_id}/rerun": Row("in admin", SUBMIT, "/jobs/{j}/rerun", {"gpu_request": 100}),
    "GET /graph": Row("any viewer", READ),
    "GET /jobs/{job_id}/logs": Row("in viewer", LOGS, "/jobs/{j}/logs"),
    "GET /jobs/{job_id}/use": Row("in viewer", LOGS, "/jobs/{j}/use"),
    "GET /jobs/{job_id}/terminal": Row("in admin", ENTER, "/jobs/{j}/terminal"),
    "GET /jobs/{job_id}/why": Row("any viewer", READ, "/jobs/{j}/why"),
    "GET /jobs/{job_id}/tasks": Row("any viewer", READ, "/jobs/{j}/tasks"),
    "GET /jobs/{job_id}/task-statuses": Row("any viewer", READ, "/jobs/{j}/task-statuses"),
    "GET /members": Row("any viewer", READ),
    "PUT /members/{user_id}": Row("all admin", MANAGE, "/members/somebody", {"role": "emperor"}),
    "DELETE /members/{user_id}": Row("all admin", MANAGE, "/members/somebody"),
    "GET /metrics": Row("any viewer", READ),
    "GET /job-fields": Row("any viewer", READ),
    "GET /nodes": Row("any viewer", READ),
    "POST /nodes/drain": Row("all admin", MANAGE, body={"nodes": []}),
    "POST /nodes/remove": Row("all admin", MANAGE, body={"nodes": []}),
    "POST /nodes/undrain": Row("all admin", MANAGE, body={"nodes": []}),
    "GET /nodes/{node_id}": Row("any viewer", READ, "/nodes/ws1"),
    "GET /nodes/{node_id}/activity": Row("any viewer", READ, "/nodes/ws1/activity"),
    "DELETE /nodes/{node_id}": Row("all admin", MANAGE, "/nodes/ws1"),
    "POST /nodes/{node_id}/approve": Row("all admin", MANAGE, "/nodes/ws1/approve"),
    "POST /nodes/{node_id}/drain": Row("all admin", MANAGE, "/nodes/ws1/drain"),
    "POST /nodes/{node_id}/undrain": Row("all admin", MANAGE, "/nodes/ws1/undrain"),
    "GET /openapi.json": Row("known"),
    "GET /overview": Row("any viewer", READ),
    "GET /utilization": Row("any viewer", READ),
    "GET /queues": Row("any viewer", READ),
    "GET /report": Row("any viewer", READ),
    "GET /secrets": Row("any viewer", READ),
    "PUT /secrets/{name}": Row("own user", MANAGE, "/secrets/!"),
    "DELETE /secrets/{name}": Row("own user", MANAGE, "/secrets/none"),
    "POST /session": Row("open"),
    "DELETE /session": Row("known"),
    "POST /session/links": Row("known", jobs=False),
    "POST /session/tickets": Row("known"),
    "GET /settings": Row("all admin", READ),
    "GET /shares": Row("any viewer", READ),
    "PUT /snapshots/{digest}": Row("any user", SUBMIT, "/snapshots/none"),
    "GET /snapshots/{digest}": Row("any user", SUBMIT, "/snapshots/none"),
    "GET /stats": Row("any viewer", READ),
    "GET /tenants": Row("any viewer", READ),
    "POST /tenants": Row("in operator", MANAGE, body={"tenant_id": "{t}/new", "weight": 0}),
    "GET /tenants/{tenant_id}": Row("any viewer", READ, "/tenants/{t}"),
    "PATCH /tenants/{tenant_id}": Row("in operator", MANAGE, "/tenants/{t}", {}, STALE),
    "DELETE /tenants/{tenant_id}": Row("in operator", MANAGE, "/tenants/{t}", None, STALE),
    "GET /tenants/{tenant_id}/members": Row("in viewer", READ, "/tenants/{t}/members"),
    "PUT /tenants/{tenant_id}/members/{user_id}": Row(
        "in operator", MANAGE, "/tenants/{t}/members/somebody", {"role": "emperor"}
    ),
    "DELETE /tenants/{tenant_id}/members/{user_id}": Row(
        "in operator", MANAGE, "/tenants/{t}/members/somebody"
    ),
    "POST /tenants/{tenant_id}/move": Row(
        "in operator", MANAGE, "/tenants/{t}/move", {"to": "{t}-moved"}, STALE
    ),
    "GET /tenants/{tenant_id}/quota": Row("any viewer", READ, "/tenants/{t}/quota"),
    "PATCH /tenants/{tenant_id}/quota": Row("in operator", MANAGE, "/tenants/{t}/quota", {}, STALE),
    "GET /timeline": Row("any viewer", READ),
    "GET /tokens": Row("any viewer", READ),
    "POST /tokens": Row("any user", MANAGE, body={"expires_in_s": 0}),
    "DELETE /tokens/{token_id}": Row("any user", MANAGE, "/tokens/999"),
    "GET /whoami": Row("known"),
    "GET /windows": Row("any viewer", READ),
    "POST /windows": Row("all admin", MANAGE, body={"until": "never"}),
    "DELETE /windows/{window_id}": Row("all admin", MANAGE, "/windows/999"),
}


@dataclass(frozen=True)
class Who:
    """Somebody with a role: of `lab`, of the whole cluster, or none at all."""

    role: Role | None
    everywhere: bool = False

    @property
    def name(self) -> str:
        return "stranger" if self.role is None else f"{self.role.word}-{'all' if self.everywhere else 'lab'}"


EVERYBODY = [Who(None), *(Who(role, everywhere) for everywhere in (False, True) for role in Role)]


def is_let_in(row: Row, who: Who, tenant_id: str) -> bool:
    kind, _, least = row.who.partition(" ")
    if kind in ("open", "known"):
        return True
    if who.role is None or who.role < ROLES[least]:
        return False
    if kind in ("any", "own") or who.everywhere:
        return True
    return kind == "in" and tenant_id.startswith("lab/")


@pytest.fixture(scope="module")
def place() -> Iterator[House]:
    with house(tenant_rules=()) as found:
        found.tenants("lab", OWN, "other", OTHER)
        found.person("somebody")
        for who in EVERYBODY:
            found.person(who.name, who.role, "*" if who.everywhere else "lab")
        yield found


@pytest.fixture(scope="module")
def jobs(place: House) -> dict[str, int]:
    return {name: submit(place.server, user="somebody", tenant_id=name) for name in (OWN, OTHER)}


def ask(client: httpx.Client, endpoint: str, tenant_id: str, job_id: int) -> int:
    row, (method, path) = TABLE[endpoint], endpoint.split(" ")
    path = (row.path or path).replace("{t}", tenant_id).replace("{j}", str(job_id))
    body = row.body
    if isinstance(body, dict):
        body = {
            key: value.replace("{t}", tenant_id) if isinstance(value, str) else value
            for key, value in body.items()
        }
    with client.stream(method, path, json=body, headers=row.headers) as answer:  # events never end
        return answer.status_code


def test_every_endpoint_is_in_the_table_and_nothing_else(place: House) -> None:
    found = {f"{endpoint.method} {endpoint.path}" for endpoint in endpoints(place.server.services)}
    assert found == TABLE.keys()


@pytest.mark.parametrize("who", EVERYBODY, ids=lambda who: who.name)
def test_roles_open_what_the_table_says_and_nothing_else(
    place: House, jobs: dict[str, int], who: Who
) -> None:
    caller = place.caller(who.name)
    wrong = []
    for endpoint, row in TABLE.items():
        for tenant_id, job_id in jobs.items():
            status = ask(caller, endpoint, tenant_id, job_id)
            if (status not in (401, 403)) != is_let_in(row, who, tenant_id) or status >= 500:
                wrong.append((endpoint, tenant_id, status))
    assert not wrong


@pytest.mark.parametrize("role", Role, ids=lambda role: role.word)
def test_a_token_s_role_makes_less_of_an_administrator(
    place: House, jobs: dict[str, int], role: Role
) -> None:
    caller = place.caller("admin-all", role=role.word)
    wrong = []
    for endpoint, row in TABLE.items():
        status = ask(caller, endpoint, OTHER, jobs[OTHER])
        if (status not in (401, 403)) != is_let_in(row, Who(role, everywhere=True), OTHER):
            wrong.append((endpoint, status))
    assert not wrong


@pytest.mark.parametrize("action", Action)
def test_a_token_s_action_is_the_only_thing_it_is_good_for(
    place: House, jobs: dict[str, int], action: Action
) -> None:
    caller = place.caller("admin-all", actions=frozenset({action}))
    wrong = []
    for endpoint, row in TABLE.items():
        status = ask(caller, endpoint, OTHER, jobs[OTHER])
        if (status not in (401, 403)) != (row.action in (None, action)):
            wrong.append((endpoint, status))
    assert not wrong


def test_a_token_s_tenant_is_the_only_place_it_is_good_in(place: House, jobs: dict[str, int]) -> None:
    caller = place.caller("admin-all", tenant_id="lab")
    wrong = []
    for endpoint, row in TABLE.items():
        for tenant_id, job_id in jobs.items():
            status = ask(caller, endpoint, tenant_id, job_id)
            let_in = is_let_in(row, Who(Role.ADMIN), tenant_id) and not row.who.startswith("own")
            if "{job_id}" in endpoint and tenant_id == OTHER:  # it does not even learn that there is one
                is_right = status == 404
            else:
                is_right = (status not in (401, 403)) == let_in
            if not is_right:
                wrong.append((endpoint, tenant_id, status))
    assert not wrong


@pytest.mark.parametrize(
    "who", [Who(Role.VIEWER), Who(Role.OPERATOR), Who(Role.ADMIN, everywhere=True)], ids=lambda who: who.name
)
def test_a_job_s_key_opens_what_the_role_user_does_and_nothing_that_is_to_be_managed(
    place: House, jobs: dict[str, int], who: Who
) -> None:
    job_id = submit(place.server, user=who.name, tenant_id=OWN)
    assign(place.server, job_id, devices=())
    caller, wrong = place.job(job_id), []
    assert who.role is not None
    narrowed = Who(min(who.role, Role.USER), who.everywhere)
    for endpoint, row in TABLE.items():
        for tenant_id, other_id in jobs.items():
            status = ask(caller, endpoint, tenant_id, other_id)
            let_in = row.jobs and row.action is not MANAGE and is_let_in(row, narrowed, tenant_id)
            if (status not in (401, 403)) != let_in or status >= 500:
                wrong.append((endpoint, tenant_id, status))
    end(place.server, job_id, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    assert not wrong
    assert {
        ask(caller, endpoint, OWN, jobs[OWN]) for endpoint, row in TABLE.items() if row.who != "open"
    } == {401}, "it is over"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer tgpu_none"}])
def test_who_is_nobody_gets_nowhere(place: House, jobs: dict[str, int], headers: dict[str, str]) -> None:
    with place.server.tcp() as nobody:
        nobody.headers.update(headers)
        for endpoint, row in TABLE.items():
            status = ask(nobody, endpoint, OWN, jobs[OWN])
            assert (status == 401) == (row.who != "open"), (endpoint, status)


def test_an_operator_does_not_change_their_own_tenant(place: House) -> None:
    operator = place.caller("operator-lab")
    for method, path, body in (
        ("PATCH", "/tenants/lab", {"weight": 100}),
        ("PATCH", "/tenants/lab/quota", {"gpu_limit": None}),
        ("PUT", "/tenants/lab/members/somebody", {"role": "user"}),
        ("DELETE", "/tenants/lab", None),
        ("POST", "/tenants/lab/move", {"to": "lab2"}),
        ("POST", "/tenants/lab/own/move", {"to": "lab2"}),
        ("POST", "/tenants/lab/own/move", {"to": "other/own2"}),
        ("POST", "/tenants", {"tenant_id": "lab2"}),
    ):
        answer = operator.request(method, path, json=body)
        assert answer.status_code == 403, (method, path)
        assert "this needs the role operator above" in answer.json()["detail"]


def test_owners_need_no_role_for_their_own_jobs(place: House, jobs: dict[str, int]) -> None:
    owner = place.caller("somebody", role="user")
    assert owner.get(f"/jobs/{jobs[OWN]}").json()["command"] is not None
    assert owner.get(f"/jobs/{jobs[OWN]}/logs").status_code == 200
    assert owner.delete(f"/jobs/{jobs[OWN]}").status_code == 202
    assert place.caller("somebody", role="viewer").delete(f"/jobs/{jobs[OWN]}").status_code == 403
    assert place.caller("somebody", tenant_id="other").delete(f"/jobs/{jobs[OWN]}").status_code == 404
