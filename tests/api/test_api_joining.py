"""How machines become nodes: join tokens, what they open, and what they do not."""

import httpx
import pytest

from tests.api.conftest import NOW_MS, ServerUnderTest, serving
from tgpu.api.routes import node_orders
from tgpu.cli.commands import nodes
from tgpu.domain.node import NOT_NODE_NAMES
from tgpu.protocol import join_tokens, node_keys
from tgpu.wiring import cluster_ca


def make(client: httpx.Client, **asked: object) -> str:
    made = client.post("/join-tokens", json=asked)
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


def join(server: ServerUnderTest, token: str, node_id: str = "n1") -> httpx.Response:
    with server.tcp() as anybody:
        return anybody.post("/agents/join", json={"token": token, "node_id": node_id})


def test_a_token_lets_a_machine_in_and_gives_it_a_key(server: ServerUnderTest, client: httpx.Client) -> None:
    answer = join(server, make(client, pool="training"))
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    joined = answer.json()
    key = joined.pop("key")
    assert joined == {
        "cluster_id": server.store.cluster_id,
        "node_id": "n1",
        "ca_pem": None,
        "servers": [],
        "pool": "training",
        "approved": True,
    }
    assert key.startswith("tgpunode_")
    assert server.run(server.store.node_key_digest("n1")) == node_keys.digest_of(key)


def test_a_token_is_kept_as_a_digest_and_listed_without_its_secret(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    token = make(client, note="rack 7", uses=None)
    (kept,) = server.run(server.store.join_tokens())
    assert token not in repr(kept)
    assert client.get("/join-tokens").json() == {
        "join_tokens": [
            {
                "token_id": 1,
                "note": "rack 7",
                "pool": None,
                "created_by": me,
                "created_at": "2030-03-17T17:46:40.000Z",
                "expires_at": "2030-03-17T18:46:40.000Z",
                "uses_left": None,
                "revoked": False,
                "node_name": None,
                "labels": None,
                "serves": None,
                "address": None,
            }
        ]
    }


def test_a_token_lets_in_as_many_as_it_says(server: ServerUnderTest, client: httpx.Client) -> None:
    token = make(client, uses=2)
    assert [join(server, token, name).status_code for name in ("n1", "n2", "n3")] == [201, 201, 403]
    assert "has been used" in join(server, token, "n3").json()["detail"]
    assert server.run(server.store.node_key_digest("n3")) is None


def test_a_token_expires(server: ServerUnderTest, client: httpx.Client) -> None:
    token = make(client, expires_in_s=60)
    server.now_ms = NOW_MS + 61_000
    answer = join(server, token)
    assert answer.status_code == 403
    assert answer.json()["detail"] == (
        "this join token has expired; an administrator makes one with `tgpu nodes join-token`"
    )


def test_a_revoked_token_lets_nobody_in(server: ServerUnderTest, client: httpx.Client) -> None:
    token = make(client)
    assert client.delete("/join-tokens/1").status_code == 204
    answer = join(server, token)
    assert answer.status_code == 403
    assert "is not known here, or was revoked" in answer.json()["detail"]
    for wrong in ("7", "x", "9" * 40):
        assert client.delete(f"/join-tokens/{wrong}").status_code == 404


def test_the_name_of_a_connected_node_is_not_given_to_another(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    token = make(client)
    answer = join(server, token, "ws1")
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        "a node of that name is connected; give this one another --name, or stop that one and remove it: "
        "tgpu nodes remove ws1"
    )
    assert join(server, token).status_code == 201, "the token was not spent"


def test_a_word_of_the_commands_is_no_name_for_a_node(server: ServerUnderTest, client: httpx.Client) -> None:
    token = make(client)
    answer = join(server, token, "drain")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "node_id must not be drain, which is an order: give this node another --name",
    )
    assert join(server, token, "drain1").status_code == 201, "the token was not spent"


def test_every_word_that_stands_in_the_place_of_a_nodes_name_is_known() -> None:
    actions = nodes.parser()._subparsers._group_actions[0].choices
    paths = [endpoint.path.split("/") for endpoint in node_orders.ENDPOINTS]
    assert {*actions, *(path[2] for path in paths if path[2] != "{node_id}")} == NOT_NODE_NAMES


def test_who_has_no_token_does_not_learn_which_nodes_there_are(server: ServerUnderTest) -> None:
    assert (
        join(server, join_tokens.new_secret(), "ws1").json()
        == join(server, join_tokens.new_secret(), "other").json()
    )


def test_guesses_are_slowed_down_and_a_right_token_always_gets_in(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    """All from one address, as behind NAT or on one machine."""
    before, used = make(client), make(client)
    assert join(server, used, "n0").status_code == 201
    statuses = [join(server, join_tokens.new_secret()).status_code for _ in range(12)]
    assert statuses == [403] * 10 + [429] * 2
    assert 1 <= int(join(server, used).headers["retry-after"]) <= 60
    assert join(server, before, "n1").status_code == 201
    assert join(server, make(client), "n2").status_code == 201, "also a token made since"


def test_token_with_limits_lets_in_only_its_node_from_its_network(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    token = make(client, node_name="n1", address="127.0.0.1", labels=["zone=a", "ssd"], serves="ann")
    (kept,) = client.get("/join-tokens").json()["join_tokens"]
    assert (kept["address"], kept["labels"]) == ("127.0.0.1/32", ["ssd", "zone=a"])
    refused = join(server, token, "n2")
    assert (refused.status_code, "is for node n1" in refused.json()["detail"]) == (403, True)
    far = join(server, make(client, address="10.0.0.0/8"))
    assert (far.status_code, "in 10.0.0.0/8, and this one connects from" in far.json()["detail"]) == (
        403,
        True,
    )
    assert join(server, token, "n1").status_code == 201, "the token was not spent"


def test_node_waits_for_approval_by_an_administrator(me: str) -> None:
    with serving(None, join_approval="on") as server, server.unix() as client:
        assert join(server, make(client), "n9").json()["approved"] is False
        (node,) = [node for node in client.get("/nodes").json()["nodes"] if node["node_id"] == "n9"]
        assert (node["status"], node["gpu_total"], node["running"]) == ("offline", 0, [])
        assert node["approval"] == {
            "since": "2030-03-17T17:46:40.000Z",
            "token_id": 1,
            "address": "127.0.0.1",
        }
        assert client.get("/nodes/n9").json() == node
        assert client.post("/nodes/n8/approve").status_code == 404
        for _ in range(2):  # a client that lost the answer asks again
            approved = client.post("/nodes/n9/approve")
            assert (approved.status_code, approved.json()) == (200, {"nodes": ["n9"]})
        assert client.get("/nodes/n9").status_code == 404, "it has not connected yet"
        lines = [line for line in client.get("/audit").json()["entries"] if line["action"] == "node.approve"]
        assert [(line["user_id"], line["target"]) for line in lines] == [(me, "n9")]


@pytest.mark.parametrize("token", ["", "tgpu_x", "tgpujoin_x.zz", "tgpujoin_" + "x" * 1000])
def test_what_is_no_token_is_told_so(server: ServerUnderTest, token: str) -> None:
    answer = join(server, token)
    assert answer.status_code == 422
    assert "a join token looks like tgpujoin_…" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 254, "-x", "ä"])
def test_a_node_s_name_is_a_plain_word(server: ServerUnderTest, client: httpx.Client, name: str) -> None:
    assert join(server, make(client), name).status_code == 422


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"uses": 0}, "uses must be at least 1"),
        ({"uses": 1.5}, "uses must be a whole number"),
        ({"expires_in_s": 0}, "expires_in_s must be at least 1"),
        ({"expires_in_s": 10**9}, "expires_in_s may be at most"),
        ({"pool": ""}, "pool must be 1 to 253"),
        ({"node_name": "a b"}, "node_name must be 1 to 253"),
        ({"labels": ["=a"]}, "labels must be 1 to 253"),
        ({"serves": ""}, "serves must be 1 to 253"),
        ({"address": "10.0.0"}, "address must be a network or an address, such as 10.0.0.0/24"),
        ({"note": "\x1b[31m"}, "note must be at most 200 printable characters"),
    ],
)
def test_a_token_is_made_within_bounds(client: httpx.Client, asked: dict[str, object], sentence: str) -> None:
    answer = client.post("/join-tokens", json=asked)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_only_administrators_have_to_do_with_join_tokens(other: httpx.Client) -> None:
    assert other.get("/join-tokens").status_code == 403
    assert other.post("/join-tokens", json={}).status_code == 403
    assert other.delete("/join-tokens/1").status_code == 403


def test_the_authority_is_shown_to_anybody_and_named_by_every_token() -> None:
    pem = cluster_ca.load(cluster_ca.found("c", cluster_ca.utc_now())).pem
    known = {"ca_pem": pem, "servers": lambda: ["https://gpu1:7480"]}
    with serving(None, known) as server, server.tcp() as anybody, server.unix() as client:
        shown = anybody.get("/ca.pem")
        assert (shown.status_code, shown.text) == (200, pem)
        token = make(client)
        assert token.endswith("." + join_tokens.fingerprint(pem))
        joined = join(server, token).json()
        assert (joined["ca_pem"], joined["servers"]) == (pem, ["https://gpu1:7480"])


def test_a_server_without_an_authority_says_so(quiet: ServerUnderTest) -> None:
    with quiet.tcp() as anybody:
        assert anybody.get("/ca.pem").status_code == 404


def test_a_server_answers_to_the_names_it_has() -> None:
    with serving(None, {"names": frozenset({"GPU1.example.org"})}) as server, server.tcp() as anybody:
        for host, status in (("gpu1.example.org:7480", 200), ("gpu2.example.org", 421), ("localhost", 200)):
            assert anybody.get("/healthz", headers={"Host": host}).status_code == status
        own = {"Host": "gpu1.example.org", "Origin": "http://gpu1.example.org"}
        assert anybody.get("/healthz", headers=own).status_code == 200
        refused = anybody.get("/healthz", headers={"Host": "evil.example"}).json()["detail"]
        assert "gpu1.example.org: check the Host header; the setting `advertise` adds a name" in refused
