import asyncio
from dataclasses import replace

from tests.store.store_story import a_job
from tgpu.domain.job import LabelOp, LabelRule
from tgpu.store.cluster_port import WindowKind, WindowRow
from tgpu.store.port import Store

SERVICE = WindowRow(0, WindowKind.MAINTENANCE, "new disks", ("n1", "n2"), (), 100, 200, "ann", 5)
CLASS = WindowRow(
    0,
    WindowKind.RESERVATION,
    "class",
    (),
    (LabelRule("zone", LabelOp.IN, ("a", "b")), LabelRule("spot", LabelOp.ABSENT)),
    300,
    400,
    "bob",
    6,
    tenant_id="lab/ann",
    users=("eve",),
)


async def test_windows_are_numbered_listed_and_cancelled_once(store: Store) -> None:
    assert await store.create_window(SERVICE) == replace(SERVICE, window_id=1)
    assert await store.create_window(CLASS) == replace(CLASS, window_id=2)
    assert await store.windows() == [replace(SERVICE, window_id=1), replace(CLASS, window_id=2)]
    assert await store.cancel_window(1)
    assert not await store.cancel_window(1)
    assert not await store.cancel_window(7)
    assert await store.windows() == [
        replace(SERVICE, window_id=1, cancelled=True),
        replace(CLASS, window_id=2),
    ]


async def test_a_window_that_a_client_asks_for_again_within_a_minute_is_the_same_one(store: Store) -> None:
    first = await store.create_window(SERVICE)
    soon = SERVICE.created_ms + 30_000
    assert await store.create_window(replace(SERVICE, created_ms=soon)) == first
    others = [
        replace(SERVICE, created_ms=soon, created_by="bob"),
        replace(SERVICE, created_ms=soon, name="something else"),
        replace(SERVICE, created_ms=soon, until_ms=SERVICE.until_ms + 1),
        replace(SERVICE, created_ms=SERVICE.created_ms + 60_001),
    ]
    assert [(await store.create_window(other)).window_id for other in others] == [2, 3, 4, 5]
    for number in (1, 5):
        await store.cancel_window(number)
    assert (await store.create_window(replace(SERVICE, created_ms=soon))).window_id == 6


async def test_a_window_from_now_on_is_the_same_one_though_now_has_moved(store: Store) -> None:
    at_once = replace(SERVICE, from_ms=SERVICE.created_ms)
    later_ms = SERVICE.created_ms + 20
    first = await store.create_window(at_once)
    assert await store.create_window(replace(at_once, from_ms=later_ms, created_ms=later_ms)) == first


async def test_the_world_has_every_window_that_was_not_cancelled(store: Store) -> None:
    first = await store.create_window(SERVICE)
    second = await store.create_window(CLASS)
    assert (await store.load()).windows == [first, second]
    await store.cancel_window(1)
    assert (await store.load()).windows == [second]


async def test_changes_tell_of_windows_that_are_new_or_were_cancelled(store: Store) -> None:
    await store.submit([a_job()], 1)
    seq = (await store.load()).seq
    assert (await store.changes(seq)).windows == []
    first = await store.create_window(SERVICE)
    second = await store.create_window(CLASS)
    assert (await store.changes(seq)).windows == [first, second]
    await store.submit([a_job()], 2)
    changes = await store.changes(seq)
    assert changes.windows == [first, second]
    assert (await store.changes(changes.seq)).windows == []
    await store.cancel_window(1)
    assert (await store.changes(changes.seq)).windows == [replace(first, cancelled=True)]
    await store.cancel_window(1)
    await store.submit([a_job()], 3)
    assert (await store.changes(await store.last_seq())).windows == []


async def test_whoever_subscribed_is_woken_when_a_window_changes(store: Store) -> None:
    wakes: list[int] = []
    store.subscribe(lambda: wakes.append(1))
    await store.create_window(SERVICE)
    await asyncio.sleep(0)
    assert wakes
    wakes.clear()
    await store.cancel_window(1)
    await asyncio.sleep(0)
    assert wakes
