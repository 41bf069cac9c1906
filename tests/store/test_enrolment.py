import asyncio
from dataclasses import replace

import pytest

from tests.store.store_story import a_node, end, running
from tgpu.domain.lifecycle import Happening
from tgpu.domain.node_limits import Admission, NodeLimits
from tgpu.store.cluster_port import (
    Applicant,
    Enrolled,
    JoinToken,
    JoinTokenExpiredError,
    JoinTokenLimitError,
    JoinTokenUsedError,
    NodeInUseError,
    UnknownJoinTokenError,
)
from tgpu.store.port import Batch, DeposedError, Store

TOKEN = JoinToken(0, "d1", "rack 7", "ann", 5, 100, pool="fast")


async def test_join_tokens_are_numbered_listed_and_revoked_once(store: Store) -> None:
    assert await store.create_join_token(TOKEN) == replace(TOKEN, token_id=1)
    other = await store.create_join_token(JoinToken(0, "d2", "", "bob", 6, None, uses_left=None))
    assert other.token_id == 2
    assert await store.join_tokens() == [replace(TOKEN, token_id=1), other]
    assert await store.revoke_join_token(1)
    assert not await store.revoke_join_token(1)
    assert not await store.revoke_join_token(7)
    assert await store.join_tokens() == [replace(TOKEN, token_id=1, revoked=True), other]


async def test_a_node_joins_once_by_a_token_and_has_a_key_from_then_on(store: Store) -> None:
    await store.create_join_token(TOKEN)
    assert await store.node_key_digest("n1") is None
    assert await store.enrol("d1", "n1", "k1", 50) == Enrolled("n1", 1, "fast", replaced=False)
    assert await store.node_key_digest("n1") == "k1"
    with pytest.raises(JoinTokenUsedError, match="for a new one"):
        await store.enrol("d1", "n2", "k2", 51)
    assert await store.node_key_digest("n2") is None
    assert await store.join_tokens() == [replace(TOKEN, token_id=1, uses_left=0)]


async def test_a_token_that_is_unknown_revoked_or_expired_lets_nobody_in(store: Store) -> None:
    await store.create_join_token(TOKEN)
    await store.create_join_token(replace(TOKEN, digest="d2"))
    await store.revoke_join_token(2)
    with pytest.raises(UnknownJoinTokenError, match="no such join token"):
        await store.enrol("d3", "n1", "k", 50)
    with pytest.raises(UnknownJoinTokenError, match="was revoked"):
        await store.enrol("d2", "n1", "k", 50)
    with pytest.raises(JoinTokenExpiredError):
        await store.enrol("d1", "n1", "k", 100)
    assert await store.node_key_digest("n1") is None
    assert (await store.enrol("d1", "n1", "k", 99)).token_id == 1


async def test_a_token_without_a_number_of_uses_and_without_an_end_lets_everybody_in(store: Store) -> None:
    token = await store.create_join_token(replace(TOKEN, uses_left=None, expires_ms=None))
    for n in range(5):
        await store.enrol("d1", f"n{n}", f"k{n}", 10**12)
    assert await store.join_tokens() == [token]


async def test_a_node_that_joins_again_has_a_new_key_instead_of_its_old_one(store: Store) -> None:
    await store.create_join_token(replace(TOKEN, uses_left=2, pool=None))
    await store.enrol("d1", "n1", "old", 50)
    assert await store.enrol("d1", "n1", "new", 51) == Enrolled("n1", 1, None, replaced=True)
    assert await store.node_key_digest("n1") == "new"


async def test_of_many_that_join_at_once_as_many_get_in_as_the_token_allows(store: Store) -> None:
    await store.create_join_token(replace(TOKEN, uses_left=3))
    answers = await asyncio.gather(
        *(store.enrol("d1", f"n{n}", "k", 50) for n in range(20)), return_exceptions=True
    )
    assert sum(isinstance(answer, Enrolled) for answer in answers) == 3
    assert sum(isinstance(answer, JoinTokenUsedError) for answer in answers) == 17
    keys = await store.node_key_digests([f"n{n}" for n in range(20)])
    assert keys.count("k") == 3


async def test_a_removed_node_is_forgotten_with_its_key(store: Store) -> None:
    epoch = await store.claim()
    await store.create_join_token(TOKEN)
    await store.enrol("d1", "n1", "k1", 50)
    await store.commit(epoch, Batch(51, nodes=[a_node("n1"), a_node("n2")]))
    assert await store.remove_nodes(epoch, ["n1", "n9"]) == ["n1"]
    assert (await store.nodes(), await store.node_key_digest("n1")) == ([a_node("n2")], None)
    assert await store.remove_nodes(epoch, ["n1"]) == []


async def test_a_node_is_not_removed_while_it_holds_something_nor_by_a_deposed_leader(store: Store) -> None:
    epoch = await running(store)
    await store.commit(epoch, Batch(51, nodes=[a_node("n1")]))
    with pytest.raises(NodeInUseError, match="node n1 still holds 1 attempt: drain it"):
        await store.remove_nodes(epoch, ["n1"])
    await store.commit(epoch, Batch(60, ended=[end(Happening.SUCCEEDED)]))
    newer = await store.claim()
    with pytest.raises(DeposedError):
        await store.remove_nodes(epoch, ["n1"])
    assert await store.nodes() == [a_node("n1")]
    assert await store.remove_nodes(newer, ["n1"]) == ["n1"]


async def test_a_node_that_nobody_let_in_keeps_the_key_that_it_shows_first(store: Store) -> None:
    assert await store.keep_key("n1", "k1", 5)
    assert await store.keep_key("n1", "k1", 6), "it comes again"
    assert not await store.keep_key("n1", "k2", 7), "another machine of that name"
    assert await store.node_key_digest("n1") == "k1"
    await store.remove_nodes(await store.claim(), ["n1"])
    assert await store.keep_key("n1", "k2", 8)


LIMITED = replace(
    TOKEN, uses_left=None, node_name="n1", labels=("ssd", "zone=a"), serves="ann", address="10.0.0.0/24"
)


async def test_token_with_limits_is_kept_whole_and_lets_in_only_its_node_and_network(store: Store) -> None:
    assert await store.create_join_token(LIMITED) == replace(LIMITED, token_id=1)
    assert await store.join_tokens() == [replace(LIMITED, token_id=1)]
    with pytest.raises(JoinTokenLimitError, match="is for node n1: start the agent with --name n1"):
        await store.enrol("d1", "n2", "k", 50, address="10.0.0.7")
    with pytest.raises(JoinTokenLimitError, match=r"in 10.0.0.0/24, and this one connects from 10.0.1.7"):
        await store.enrol("d1", "n1", "k", 50, address="10.0.1.7")
    assert await store.admissions(["n1"]) == [None]
    await store.enrol("d1", "n1", "k", 50, address="10.0.0.7")
    assert await store.admissions(["n9", "n1"]) == [None, Admission(True, LIMITED.limits)]


async def test_node_waits_for_approval_once(store: Store) -> None:
    await store.create_join_token(replace(TOKEN, uses_left=None))
    await store.keep_key("home", "k", 1)
    await store.enrol("d1", "n2", "k", 50, address="10.0.0.7", approved=False)
    await store.enrol("d1", "n1", "k", 51, approved=False)
    await store.enrol("d1", "n3", "k", 52)
    assert await store.applicants() == [Applicant("n1", 1, 51, ""), Applicant("n2", 1, 50, "10.0.0.7")]
    limits = NodeLimits(pool="fast")
    assert await store.admissions(["n1", "n3", "home"]) == [
        Admission(False, limits), Admission(True, limits), Admission(True, NodeLimits()),
    ]  # fmt: skip
    assert await store.approve_nodes(["n1", "n3", "n9"]) == ["n1"]
    assert await store.approve_nodes(["n1"]) == []
    assert await store.admissions(["n1"]) == [Admission(True, limits)]
    await store.remove_nodes(await store.claim(), ["n2"])
    assert await store.applicants() == []


async def test_node_that_joins_again_waits_for_approval_again(store: Store) -> None:
    await store.create_join_token(replace(TOKEN, uses_left=None))
    await store.enrol("d1", "n1", "old", 50)
    await store.enrol("d1", "n1", "new", 51, approved=False)
    assert [applicant.node_id for applicant in await store.applicants()] == ["n1"]
