"""Nodes that have proved their key: approval comes before anything they say, and limits after it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.wiring.cluster_server import ClusterServer, cluster
from tests.wiring.test_one_port import AgentStream, hello
from tgpu.control.inbox import NodeSaidHello
from tgpu.domain.node_limits import BeyondLimitsError, NodeLimits, is_within
from tgpu.domain.node_terms import CONTAINERS_LABEL, HOST_LABEL, NODE_LABEL
from tgpu.protocol import join_tokens, node_keys
from tgpu.protocol.messages import Elsewhere, FromServer, Greeting, Heartbeat, Hello, NodeUse, Refused
from tgpu.wiring import admission
from tgpu.wiring.admission import within

OWN = {HOST_LABEL: "h", NODE_LABEL: "n1", CONTAINERS_LABEL: "docker"}


@pytest.mark.parametrize(
    ("allowed", "claimed"),
    [
        (None, {"zone": "b", "any": "thing"}),
        (("zone=a", "ssd"), {"zone": "a", "ssd": "fast", **OWN}),
        ((), OWN),
        ((f"{HOST_LABEL}=h",), OWN),
    ],
)
def test_node_keeps_the_labels_that_its_token_allows(
    allowed: tuple[str, ...] | None, claimed: dict[str, str]
) -> None:
    assert NodeLimits(labels=allowed).allowed_labels("n1", claimed) == claimed


@pytest.mark.parametrize(
    ("allowed", "claimed"),
    [(("zone=a",), {"zone": "b"}), ((), {"zone": "a"}), ((f"{HOST_LABEL}=h",), {HOST_LABEL: "other"})],
)
def test_node_that_claims_another_label_is_refused(allowed: tuple[str, ...], claimed: dict[str, str]) -> None:
    with pytest.raises(BeyondLimitsError, match="does not allow the label"):
        NodeLimits(labels=allowed).allowed_labels("n1", claimed)


def test_node_does_not_take_the_label_of_another_nodes_name() -> None:
    """Jobs that name nodes find them by it."""
    said = within(NodeLimits(), "n1", hello(labels={NODE_LABEL: "n2"}))
    assert isinstance(said, Hello)
    assert said.labels == {NODE_LABEL: "n1"}


def test_node_serves_the_user_that_its_token_allows() -> None:
    limits = NodeLimits(serves="ann")
    assert [limits.allowed_user("n1", claimed) for claimed in ("ann", "*")] == ["ann", "ann"]
    with pytest.raises(BeyondLimitsError, match="allows only jobs of ann, and its agent runs those of bob"):
        limits.allowed_user("n1", "bob")
    assert NodeLimits().allowed_user("n1", "*") == "*"


def test_node_is_in_the_pool_of_its_token_whatever_it_says() -> None:
    said = within(NodeLimits(pool="fast"), "n1", hello(pool="other"))
    assert isinstance(said, Hello)
    assert said.pool == "fast"


def test_heartbeat_brings_no_label_that_the_token_does_not_allow() -> None:
    beat = Heartbeat(use=NodeUse(), sent=1.0, labels={"zone": "b"})
    with pytest.raises(BeyondLimitsError):
        within(NodeLimits(labels=("zone=a",)), "n1", beat)


@pytest.mark.parametrize(
    ("address", "network", "inside"),
    [
        ("10.0.0.7", "10.0.0.0/24", True),
        ("::ffff:10.0.0.7", "10.0.0.0/24", True),
        ("10.0.1.7", "10.0.0.0/24", False),
        ("fe80::1%eth0", "fe80::/10", True),
        ("", "10.0.0.0/24", False),
    ],
)
def test_address_is_compared_with_the_network_of_the_token(address: str, network: str, inside: bool) -> None:
    assert is_within(address, network) == inside


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServer]:
    with cluster(tmp_path_factory.mktemp("server"), tls="off") as running:
        yield running


def joined(server: ClusterServer, node_id: str, *, approved: bool = True, **limits: object) -> str:
    """The key of a node that has joined."""
    secret, _ = join_tokens.parse(server.join_token(**limits))
    key, digest = node_keys.new_key(), join_tokens.digest_of(secret)
    enrolment = server.store.enrol(
        digest, node_id, node_keys.digest_of(key), server.now_ms(), address="127.0.0.1", approved=approved
    )
    server.run(enrolment)
    return key


def answer(server: ClusterServer, said: Hello) -> FromServer | None:
    """What the server says to this hello, behind the greeting."""
    stream = AgentStream(server)
    assert isinstance(stream.hear(), Greeting)
    stream.say(said)
    return stream.hear()


def heard(server: ClusterServer, node_id: str) -> list[Hello]:
    said = [event.hello for event in server.said if isinstance(event, NodeSaidHello)]
    return [hello for hello in said if hello.node_id == node_id]


def test_nothing_is_heard_of_a_node_before_it_is_approved(
    server: ClusterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LOOK_EVERY_S", 0.01)
    key = joined(server, "new", approved=False)
    sent = answer(server, hello("new", key))
    assert isinstance(sent, Elsewhere)
    assert (sent.leader, "`tgpu nodes approve new`" in sent.why) == (None, True)
    assert heard(server, "new") == []
    assert server.hub.session_of("new") is None
    server.run(server.store.approve_nodes(["new"]))
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello("new", key))
    server.wait_until(lambda: bool(heard(server, "new")), "the hello has arrived")


def test_node_is_let_in_on_its_first_stream_when_it_is_approved_meanwhile(server: ClusterServer) -> None:
    key = joined(server, "soon", approved=False)
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello("soon", key))
    server.run(server.store.approve_nodes(["soon"]))
    server.wait_until(lambda: bool(heard(server, "soon")), "the hello has arrived", 30)


def test_node_beyond_its_limits_is_refused_with_the_reason(server: ClusterServer) -> None:
    key = joined(server, "narrow", labels=("zone=a",), pool="fast", serves="ann")
    refused = answer(server, hello("narrow", key, labels={"zone": "b"}))
    assert isinstance(refused, Refused)
    assert "does not allow the label zone=b" in refused.why
    assert heard(server, "narrow") == []
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello("narrow", key, labels={"zone": "a"}))
    server.wait_until(lambda: bool(heard(server, "narrow")), "the hello has arrived")
    (said,) = heard(server, "narrow")
    assert (said.pool, said.serves) == ("fast", "ann")
    stream.say(Heartbeat(use=NodeUse(), sent=1.0, labels={"zone": "b"}))
    while not isinstance(sent := stream.hear(), Refused):
        assert sent is not None
    assert "zone=b" in sent.why


def test_node_from_another_network_is_refused(server: ClusterServer) -> None:
    key = joined(server, "far", address="127.0.0.0/8")
    (token,) = [token for token in server.run(server.store.join_tokens()) if token.address == "127.0.0.0/8"]
    elsewhere = replace(token, digest="elsewhere", address="10.0.0.0/24", uses_left=1)
    server.run(server.store.create_join_token(elsewhere))
    digest = node_keys.digest_of(key)
    server.run(server.store.enrol("elsewhere", "far", digest, server.now_ms(), address="10.0.0.7"))
    refused = answer(server, hello("far", key))
    assert isinstance(refused, Refused)
    assert "only addresses in 10.0.0.0/24, and it connects from 127.0.0.1" in refused.why
