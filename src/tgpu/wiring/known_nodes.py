"""Judgement of requests by the nodes on record, for a server that cannot ask the leader in time."""

from collections.abc import Sequence
from time import monotonic

from tgpu.core.explain import never_fits
from tgpu.core.never_gangs import gang_never_fits
from tgpu.core.picture import Picture
from tgpu.core.policy import Policy
from tgpu.core.populating import populate
from tgpu.domain.job import Gang, Request
from tgpu.store.port import Store

KEPT_S = 5.0
"""How long the nodes are not read again."""


class KnownNodes:
    def __init__(self, store: Store, policy: Policy) -> None:
        self._store, self._policy = store, policy
        self._picture = Picture(policy)
        self._until = 0.0

    async def never_fits(self, requests: Sequence[Request]) -> list[str | None]:
        picture = await self._read()
        verdicts = {request: never_fits(request, picture) for request in set(requests)}
        return [verdicts[request] for request in requests]

    async def gang_never_fits(self, gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        return gang_never_fits(gang, members, await self._read())

    async def _read(self) -> Picture:
        if monotonic() >= self._until:
            picture = Picture(self._policy)
            populate(picture, await self._store.nodes())
            self._picture, self._until = picture, monotonic() + KEPT_S
        return self._picture
