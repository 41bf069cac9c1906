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
