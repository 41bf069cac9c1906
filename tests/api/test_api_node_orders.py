"""Orders about nodes, and windows: who may give them, and what is refused before anybody hears of it."""

import httpx
import pytest

from tests.api.conftest import NOW_MS, ServerUnderTest
from tests.store.store_story import a_node
from tgpu.domain.access import Actor
from tgpu.domain.label_rules import label_rules
from tgpu.domain.node_orders import NodeOrder, NodesOrdered, NodeVerb
from tgpu.domain.tenant import Tenant
from tgpu.store.port import Batch

HOUR = "2030-03-17T18:46:40Z"


def test_orders_reach_the_leader_with_whose_they_are(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    assert client.post("/nodes/ws1/drain", json={"reason": "hot"}).json() == {"nodes": ["ws1"]}
    assert client.post("/nodes/ws1/drain").status_code == 200
    assert client.post("/nodes/ws1/undrain").status_code == 200
    assert client.delete("/nodes/ws1").status_code == 200
    client.post("/nodes/drain", json={"where": ["rack=r7", "!spot"], "reason": "cooling"})
    client.post("/nodes/remove", json={"nodes": ["a", "b"]})
    client.post("/v1/nodes/undrain", json={"nodes": ["a"]})
    rules = label_rules("where", ["rack=r7", "!spot"])
    assert server.live.orders == [
        NodeOrder(NodeVerb.DRAIN, me, ("ws1",), reason="hot"),
        NodeOrder(NodeVerb.DRAIN, me, ("ws1",)),
        NodeOrder(NodeVerb.UNDRAIN, me, ("ws1",)),
        NodeOrder(NodeVerb.REMOVE, me, ("ws1",)),
        NodeOrder(NodeVerb.DRAIN, me, rules=rules, reason="cooling"),
        NodeOrder(NodeVerb.REMOVE, me, ("a", "b")),
        NodeOrder(NodeVerb.UNDRAIN, me, ("a",)),
    ]


def test_refusals_of_the_leader_are_told_in_its_own_words(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    server.live.outcome = NodesOrdered(refusal="there is no node x", unknown=True)
    answer = client.post("/nodes/x/drain")
    assert (answer.status_code, answer.json()["detail"]) == (404, "there is no node x")
    server.live.outcome = NodesOrdered(refusal="x is connected")
    answer = client.delete("/nodes/x")
    assert (answer.status_code, answer.json()["detail"]) == (409, "x is connected")
    assert answer.json()["type"] == "urn:tgpu:problem:node-conflict"
    server.live.leads = False
    assert client.post("/nodes/x/undrain").status_code == 503


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/nodes/drain", {}, "give nodes by name, or rules in where"),
        ("/nodes/undrain", {"nodes": ["a"], "where": ["b"]}, "one of the two"),
        ("/nodes/drain", {"where": ["=="]}, "where must be rules such as"),
        ("/nodes/drain", {"nodes": ["a"], "reason": "x" * 501}, "reason must be at most 500"),
        ("/nodes/a/drain", {"reason": "\n"}, "reason must be at most 500 printable"),
        ("/windows", {"nodes": ["ws1"], "until": "soon"}, "until must be a time with a zone"),
        ("/windows", {"nodes": ["ws1"], "until": "2030-03-17T18:46:40"}, "until must be a time with a zone"),
        ("/windows", {"nodes": ["ws1"], "until": "2029-03-17T18:46:40Z"}, "until must be later than from"),
        (
            "/windows",
            {"nodes": ["ws1"], "from": "2020-01-01T00:00:00Z", "until": "2021-01-01T00:00:00Z"},
            "until is in the past",
        ),
        ("/windows", {"nodes": ["ws1"], "until": "2032-03-17T18:46:40Z"}, "at most a year"),
        ("/windows", {"nodes": ["ws1", "ws2"], "until": HOUR}, "there is no node ws1, ws2"),
        ("/windows", {"until": HOUR}, "give nodes by name, or rules in where"),
        ("/windows", {"where": ["zone=a"], "until": HOUR, "tenant_id": "x"}, "there is no tenant 'x'"),
        ("/windows", {"where": ["zone=a"], "until": HOUR, "name": "x" * 201}, "name must be at most 200"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(
    quiet: ServerUnderTest, quiet_client: httpx.Client, path: str, body: dict[str, object], sentence: str
) -> None:
    answer = quiet_client.post(path, json=body)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]
    assert quiet.live.orders == []
    assert quiet_client.get("/windows").json() == {"windows": []}


def test_only_administrators_give_orders_and_everybody_sees_windows(other: httpx.Client) -> None:
    for method, path in (
        ("POST", "/nodes/ws1/drain"),
        ("POST", "/nodes/drain"),
        ("DELETE", "/nodes/ws1"),
        ("POST", "/windows"),
        ("DELETE", "/windows/1"),
    ):
        assert other.request(method, path, json={}).status_code == 403
    assert other.get("/windows").json() == {"windows": []}


def test_a_window_is_made_listed_and_cancelled_once(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    epoch = server.run(server.store.claim())
    server.run(server.store.commit(epoch, Batch(NOW_MS, nodes=[a_node("ws1")])))
    server.run(server.store.create_tenant(Tenant("org"), Actor("root", "server"), 1))
    made = client.post(
        "/windows",
        json={"nodes": ["ws1"], "where": ["rack=r7"], "until": HOUR, "tenant_id": "org", "name": "course"},
    )
    assert made.status_code == 201
    expected = {
        "window_id": 1,
        "kind": "reservation",
        "name": "course",
        "nodes": ["ws1"],
        "where": ["rack=r7"],
        "tenant_id": "org",
        "from": "2030-03-17T17:46:40.000Z",
        "until": "2030-03-17T18:46:40.000Z",
        "created_by": me,
        "created_at": "2030-03-17T17:46:40.000Z",
        "state": "open",
    }
    assert made.json() == {**expected, "overlaps": []}
    during = {"where": ["!gone"], "until": HOUR, "name": "fans"}
    assert client.post("/windows", json=during).json()["overlaps"] == [1]
    assert client.delete("/windows/2").status_code == 204
    later = client.post("/windows", json={"nodes": ["ws1"], "from": HOUR, "until": "2030-03-18T00:00:00Z"})
    assert (later.json()["kind"], later.json()["state"]) == ("maintenance", "coming")
    assert client.delete("/windows/1").status_code == 204
    assert client.delete("/windows/1").json()["detail"] == "window 1 is cancelled already"
    assert client.delete("/windows/x").status_code == client.delete("/windows/9").status_code == 404
    server.now_ms = NOW_MS + 24 * 3_600_000
    assert [one["state"] for one in client.get("/windows").json()["windows"]] == [
        "cancelled",
        "cancelled",
        "over",
    ]
    assert client.delete("/windows/3").json()["detail"] == "window 3 is over already"
