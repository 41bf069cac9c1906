"""Servers say which settings they do not have alike, and nobody is told what these are."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tgpu.config.settings import Settings
from tgpu.control import directory as directory_module
from tgpu.control.directory import Directory
from tgpu.store.cluster_port import ServerRow
from tgpu.store.memory import MemoryStore
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring.settings_digest import digest_of


def row(name: str, digest: str) -> ServerRow:
    return ServerRow(name, f"https://{name}:7480", "1", digest, 0)


def complaint(*others: ServerRow) -> str | None:
    async def meet() -> str | None:
        store = MemoryStore("c")
        directory = Directory(store, row("a", digest_of(Settings(home=Path("/h")))))
        for other in others:
            await store.announce(other)
        await directory.refresh()
        return directory.complaint

    return asyncio.run(meet())


def test_the_settings_that_differ_are_named_and_whose_they_are() -> None:
    alike = Settings(home=Path("/elsewhere"), log_level="debug")
    other = replace(alike, node_silent_s=97.0, admins=("secret-name",))
    assert complaint(row("b", digest_of(alike))) is None
    assert complaint(row("b", digest_of(alike)), row("c", digest_of(other))) == (
        "other servers of this cluster have other settings than the leader, https://a:7480: https://c:7480 in"
        " admins, node_silent_s. Make them alike, any may lead"
    )
    assert "97.0" not in digest_of(other)
    assert "secret" not in digest_of(other)


def test_a_server_knows_whether_it_is_cut_off_from_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "SAY_EVERY_S", 0.01)

    async def story() -> None:
        store = MemoryStore("c")
        directory = Directory(store, row("a", "d"))
        announce, asked = store.announce, asyncio.Event()

        async def away(_: ServerRow) -> None:
            asked.set()
            raise StoreUnavailableError("away")

        keeping = asyncio.create_task(directory.keep())
        try:
            monkeypatch.setattr(store, "announce", away)
            async with asyncio.timeout(20):
                await asked.wait()
                while not directory.is_cut_off:  # noqa: ASYNC110  nobody is told
                    await asyncio.sleep(0.01)
                monkeypatch.setattr(store, "announce", announce)
                while directory.is_cut_off:  # noqa: ASYNC110  nobody is told
                    await asyncio.sleep(0.01)
        finally:
            keeping.cancel()

    asyncio.run(story())
