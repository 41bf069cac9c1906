"""GET /timeline and GET /shares: what the pages of the dashboard show, and to which callers."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import NOW_MS, ServerUnderTest
from tests.api.people import House, house
from tests.api.stories import assign, commit, end, start, submit
from tgpu.api.edge import rfc3339
from tgpu.api.routes.shares import fair_shares
from tgpu.domain.access import Action, Role
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Cause, Happening, NodeState
from tgpu.domain.node import Capacity, Device, Drain, Node
from tgpu.domain.quota import Amounts, JobUse
from tgpu.domain.tenant import Tenant
from tgpu.domain.views import ClusterShares, PlannedStart, StartKind, TenantShare

HOUR = 3_600_000
ASKED = Request(cpu_milli=2000, gpu_milli=1000)
AHEAD = rfc3339(NOW_MS + 4 * HOUR)


def a_node(name: str, pool: str = "default", drain: Drain | None = None) -> Node:
    devices = (Device(0, f"{name}-0", "A100", 1), Device(1, f"{name}-1", "A100", 1))
    return Node(name, NodeState.READY, Capacity(8000, 8192, 0, devices), pool, drain=drain)


@pytest.fixture
def filled(server: ServerUnderTest) -> ServerUnderTest:
    """A finished job and a running one, on node ws1; ws2 is drained, ws10 is of another pool."""
    drain = Drain(reason="new fans", by="root", since_ms=NOW_MS - HOUR)
    nodes = [a_node("ws10", "big"), a_node("ws2", drain=drain), a_node("ws1")]
    server.now_ms = NOW_MS - 5 * HOUR
    first, second = submit(server, name="first", request=ASKED), submit(server, name="second", request=ASKED)
    commit(server, nodes=nodes)
    assign(server, first, devices=(1,))
    start(server, first)
    server.now_ms = NOW_MS - 3 * HOUR
    end(server, first, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    assign(server, second)
    start(server, second)
    server.now_ms = NOW_MS
    server.live.planned = [
        PlannedStart(
            StartKind.RESERVATION, TaskId(9, 0), "root", "default", "next", "ws1", (0,), NOW_MS + HOUR,
            NOW_MS + 2 * HOUR,
        )
    ]  # fmt: skip
    return server


def test_timeline_shows_attempts_on_their_devices_and_planned_starts(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        found = client.get("/timeline", params={"until": AHEAD}).json()
    first, second = sorted(found["attempts"], key=lambda one: one["job_id"])
    assert first["attempt_id"] == "1.0.1"
    assert (first["devices"], first["cause"]) == ([1], "exited")
    assert (first["since"], first["ended_at"]) == (
        rfc3339(NOW_MS - 5 * HOUR),
        rfc3339(NOW_MS - 3 * HOUR),
    )
    assert (second["name"], second["devices"], second["ended_at"]) == ("second", [0], None)
    (planned,) = found["planned"]
    assert (planned["kind"], planned["job_id"], planned["devices"]) == ("reservation", 9, [0])
    assert [node["node_id"] for node in found["nodes"]] == ["ws1", "ws2", "ws10"], "as people count"
    assert [node["drain_reason"] for node in found["nodes"]] == ["", "new fans", ""]
    assert (found["truncated"], found["complete"], found["planned_known"]) == (False, True, True)


def test_timeline_shows_windows_on_the_nodes_of_the_page(filled: ServerUnderTest) -> None:
    asked = {"nodes": ["ws1", "ws2"], "from": rfc3339(NOW_MS + HOUR), "until": rfc3339(NOW_MS + 9 * HOUR)}
    with filled.unix() as client:
        assert client.post("/windows", json=asked).status_code == 201
        ahead = client.get("/timeline", params={"until": AHEAD, "node_id": "ws2"}).json()
        past = client.get("/timeline").json()
    assert [(window["kind"], window["nodes"]) for window in ahead["windows"]] == [("maintenance", ["ws2"])]
    assert past["windows"] == []


def test_timeline_is_paged_by_node(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        pages, cursor = [], None
        while True:
            page = client.get("/timeline", params={"limit": 1, **({"cursor": cursor} if cursor else {})})
            pages.append(page.json())
            cursor = pages[-1]["next_cursor"]
            if cursor is None:
                break
        big = client.get("/timeline", params={"pool": "big"}).json()
    assert [[node["node_id"] for node in page["nodes"]] for page in pages] == [["ws1"], ["ws2"], ["ws10"]]
    assert [len(page["attempts"]) for page in pages] == [2, 0, 0]
    assert {page["node_count"] for page in pages} == {3}
    assert [node["node_id"] for node in big["nodes"]] == ["ws10"]


def test_timeline_without_a_leader_says_that_planned_starts_are_unknown(filled: ServerUnderTest) -> None:
    filled.live.leads = False
    with filled.unix() as client:
        found = client.get("/timeline", params={"until": AHEAD})
    assert found.status_code == 200
    assert (found.json()["planned"], found.json()["planned_known"]) == ([], False)
    assert len(found.json()["attempts"]) == 2


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "1h", "until": "2h"},
        {"since": "2000-01-01T00:00:00Z"},
        {"until": "2999-01-01T00:00:00Z"},
        {"limit": "0"},
    ],
)
def test_timeline_refuses_windows_that_make_no_sense(server: ServerUnderTest, asked: dict[str, str]) -> None:
    with server.unix() as client:
        assert client.get("/timeline", params=asked).status_code == 400


# What callers may see, and may change


@pytest.fixture
def place() -> Iterator[House]:
    with house(others_see="nothing", tenant_rules=("user:ann=lab/ann", "user:bob=org")) as found:
        found.tenants("lab", "lab/ann", "org")
        for name in ("ann", "bob"):
            found.person(name)
        found.person("op", Role.OPERATOR, "lab")
        commit(found.server, nodes=[a_node("ws1")])
        for user, tenant_id, device in (("ann", "lab/ann", 0), ("bob", "org", 1)):
            job_id = submit(found.server, user, f"job of {user}", tenant_id=tenant_id, request=ASKED)
            assign(found.server, job_id, devices=(device,))
            start(found.server, job_id)
        found.server.live.planned = [
            PlannedStart(
                StartKind.CLAIM, TaskId(3, 0), "bob", "org", "next", "ws1", (0,), NOW_MS, NOW_MS + HOUR
            )
        ]
        yield found


def test_timeline_leaves_out_jobs_that_the_caller_may_not_know_of(place: House) -> None:
    ann, bob = (
        place.caller(name, role="user").get("/timeline", params={"until": AHEAD}) for name in ("ann", "bob")
    )
    assert [one["user_id"] for one in ann.json()["attempts"]] == ["ann"]
    assert (ann.json()["planned"], ann.json()["complete"]) == ([], False)
    assert [one["user_id"] for one in bob.json()["attempts"]] == ["bob"]
    assert len(bob.json()["planned"]) == 1
    assert "bob" not in ann.text


def test_how_an_attempt_ended_is_shown_to_those_who_may_see_its_exit_code() -> None:
    with house(tenant_rules=("user:ann=lab", "user:bob=org")) as found:
        found.tenants("lab", "org")
        for name in ("ann", "bob"):
            found.person(name)
        commit(found.server, nodes=[a_node("ws1")])
        job_id = submit(found.server, "ann", "train", tenant_id="lab", request=ASKED)
        assign(found.server, job_id)
        start(found.server, job_id)
        found.server.now_ms += HOUR
        end(found.server, job_id, Happening.FAILED, Cause.EXITED, exit_code=3)
        ((own,), (other,)) = (
            found.caller(name, role="user").get("/timeline").json()["attempts"] for name in ("ann", "bob")
        )
        shown = found.caller("bob", role="user").get(f"/jobs/{job_id}").json()["attempts"][0]
    assert (own["failed"], own["status"], own["attempt_id"]) == (True, "ended", f"{job_id}.0.1")
    assert (other["failed"], shown["exit_code"]) == (None, None)
    assert other == {**own, "failed": None}


def test_shares_say_what_the_caller_may_change_and_the_api_agrees(place: House) -> None:
    for who in ("op", "ann"):
        caller = place.caller(who, role="operator" if who == "op" else "user")
        answer = caller.get("/shares").json()
        for tenant in answer["tenants"]:
            name = tenant["tenant_id"]
            stale = {"If-Match": '"999999999"'}
            edited = caller.patch(f"/tenants/{name}", json={"weight": 3}, headers=stale).status_code
            quota = caller.patch(f"/tenants/{name}/quota", json={"gpu_limit": 1}, headers=stale).status_code
            added = caller.post("/tenants", json={"tenant_id": f"{name}/new", "weight": 0}).status_code
            assert tenant["may"]["edit"] == (edited != 403) == (quota != 403), (who, name)
            assert tenant["may"]["add"] == (added != 403), (who, name)
            assert (tenant["may"]["highest_role"] is None) == (not tenant["may"]["edit"])
        added = caller.post("/tenants", json={"tenant_id": "new", "weight": 0}).status_code
        assert answer["may_add"] == (added != 403)
    told = {row["tenant_id"]: row["may"] for row in place.caller("op").get("/shares").json()["tenants"]}
    assert told["lab/ann"] == {"edit": True, "add": True, "highest_role": "operator"}
    assert told["lab"] == {"edit": False, "add": True, "highest_role": None}
    narrowed = place.caller("op", actions=frozenset({Action.READ})).get("/shares").json()
    assert not any(row["may"]["edit"] or row["may"]["add"] for row in narrowed["tenants"])


def test_shares_of_tenants_the_caller_may_not_see_are_left_out(place: House) -> None:
    answer = place.caller("ann", role="user").get("/shares").json()
    assert [row["tenant_id"] for row in answer["tenants"]] == ["lab", "lab/ann"]
    assert not answer["complete"]
    assert {row["fair_share"] for row in answer["tenants"]} == {None}, "it would tell of the others"


def test_shares_pair_the_fair_share_with_what_is_held(server: ServerUnderTest) -> None:
    held = TenantShare("default", 0.5, "gpu", Amounts(2000, 1024, 0, 1000))
    server.live.shares = ClusterShares(Amounts(8000, 4096, 0, 2000), (held,))
    submit(server)
    with server.unix() as client:
        answer = client.get("/shares").json()
    (row,) = answer["tenants"]
    assert answer["total"] == {"cpu": 8, "mem_mb": 4096, "gpu": 2}
    assert (row["fair_share"], row["dominant_share"], row["dominant_resource"]) == (1.0, 0.5, "gpu")
    assert row["held"] == {"cpu": 2, "mem_mb": 1024, "gpu": 1}
    assert (row["pending_jobs"], row["active"]) == (1, True)
    assert answer["may_add"]


def test_fair_share_is_divided_among_active_siblings_by_weight() -> None:
    def tenant(name: str, weight: int = 1, pending: int = 0) -> Tenant:
        return Tenant(name, weight, job_use=JobUse(waiting=pending))

    tree = [
        tenant("a", 3, 2), tenant("a/x", 1, 1), tenant("a/y", 1, 1), tenant("b", 1, 1), tenant("c", 4),
    ]  # fmt: skip
    shares = fair_shares({each.tenant_id: each for each in tree})
    assert shares == {"a": 0.75, "a/x": 0.375, "a/y": 0.375, "b": 0.25, "c": 0.5}
