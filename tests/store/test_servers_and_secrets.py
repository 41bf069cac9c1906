import asyncio
from dataclasses import replace

from tgpu.store.cluster_port import ServerRow
from tgpu.store.port import Store

LONG = 60_000
ONE = ServerRow("s1", "https://one:7070", "1.0", "d", 5)
TWO = ServerRow("s2", "https://two:7070", "1.0", "d", 6)


async def test_servers_are_known_as_they_announce_themselves(store: Store) -> None:
    assert await store.servers(LONG) == []
    await store.announce(TWO)
    await store.announce(ONE)
    assert await store.servers(LONG) == [ONE, TWO]
    moved = replace(TWO, url="https://new:7070", version="1.1", config_digest="e", started_ms=9)
    await store.announce(moved)
    assert await store.servers(LONG) == [ONE, moved]


async def test_a_server_that_has_been_silent_is_not_listed(store: Store) -> None:
    await store.announce(ONE)
    await asyncio.sleep(0.2)
    await store.announce(TWO)
    one, two = await store.servers(LONG)
    assert (one, two) == (ONE, TWO)
    assert one.silent_ms > two.silent_ms >= 0
    assert ONE not in await store.servers(100)
    await store.announce(ONE)
    assert ONE in await store.servers(LONG)


async def test_a_server_that_withdraws_is_gone(store: Store) -> None:
    await store.announce(ONE)
    await store.announce(TWO)
    await store.withdraw("s1")
    await store.withdraw("nobody")
    assert await store.servers(LONG) == [TWO]


async def test_the_first_proposal_of_a_secret_is_everybody_s(store: Store) -> None:
    assert await store.secret("ca", b"\x00\xffone") == b"\x00\xffone"
    assert await store.secret("ca", b"two") == b"\x00\xffone"
    assert await store.secret("peers", b"") == b""
    assert await store.secret("peers", b"late") == b""


async def test_all_who_propose_a_secret_at_once_get_the_same(store: Store) -> None:
    answers = await asyncio.gather(*(store.secret("ca", bytes([n])) for n in range(30)))
    assert len(set(answers)) == 1
    assert await store.secret("ca", b"x") == answers[0]
