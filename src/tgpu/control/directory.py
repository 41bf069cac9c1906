"""Which servers there are, and where: each says so of itself every few seconds, and reads of the others."""

import asyncio

from tgpu.observe.logs import logger
from tgpu.store.cluster_port import ServerRow
from tgpu.store.port import Store, StoreUnavailableError

SAY_EVERY_S = 3.0
BELIEVED_FOR_S = 15.0


def differing(one: ServerRow, other: ServerRow) -> list[str]:
    """The names of the settings that two servers do not have alike, if both say it of each."""
    ours, theirs = _digests(one), _digests(other)
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def _digests(server: ServerRow) -> dict[str, str]:
    """By setting; one that only tells whether all are alike has none."""
    parts = (part.partition(":") for part in server.config_digest.split())
    return {name: digest for name, colon, digest in parts if colon}


def _name(server: ServerRow) -> str:
    return server.url or server.server_id


class Directory:
    def __init__(self, store: Store, own: ServerRow) -> None:
        self._store = store
        self.own = own
        self._log = logger("directory")
        self._warned: set[str] = set()
        self.servers: tuple[ServerRow, ...] = (own,)
        self.is_cut_off = False
        """The store was away when this was last said there."""

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(server.url for server in self.servers if server.url)

    @property
    def strangers(self) -> tuple[ServerRow, ...]:
        """Servers whose settings differ from this one's where they must not."""
        return tuple(s for s in self.servers if s.config_digest != self.own.config_digest)

    @property
    def complaint(self) -> str | None:
        """What to say of them, if there are any."""
        if not self.strangers:
            return None
        said = "; ".join(
            f"{_name(server)} in {', '.join(differing(self.own, server)) or 'what its version knows'}"
            for server in self.strangers
        )
        return (
            f"other servers of this cluster have other settings than the leader, {_name(self.own)}: {said}."
            " Make them alike, any may lead"
        )

    def url_of(self, server_id: str) -> str | None:
        return next((s.url for s in self.servers if s.server_id == server_id and s.url), None)

    async def keep(self) -> None:
        """Until cancelled: for servers that share their store."""
        while True:
            try:
                await self.refresh()
                self.is_cut_off = False
            except StoreUnavailableError:  # what is known here stays good for a while
                self.is_cut_off = True
            await asyncio.sleep(SAY_EVERY_S)

    async def refresh(self) -> None:
        await self._store.announce(self.own)
        self.servers = tuple(await self._store.servers(round(1000 * BELIEVED_FOR_S)))
        for server in self.strangers:
            if server.server_id not in self._warned:
                self._warned.add(server.server_id)
                self._log.error(
                    "a server of this cluster has other settings: make them alike, for whoever leads decides",
                    url=server.url,
                    settings=differing(self.own, server),
                )

    async def leave(self) -> None:
        await self._store.withdraw(self.own.server_id)
