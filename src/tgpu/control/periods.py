"""GPU-hours by period: a new one begins at midnight, and what the picture knows of them is put right."""

from tgpu.core.picture import Picture
from tgpu.domain.periods import period_until_ms
from tgpu.domain.quota import Period
from tgpu.store.port import Store


class Periods:
    """Of one term: the first look is at once, for a period may have ended while nobody led."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next_ms = 0

    async def roll(self, epoch: int, picture: Picture) -> None:
        """Between turns: nothing of ours is on its way, so what the store says is how it is."""
        if picture.now_ms < self._next_ms:
            return
        for tenant in await self._store.roll_periods(epoch, picture.now_ms):
            picture.set_tenant(tenant)
        until_ms = period_until_ms(Period.DAY, picture.now_ms)  # every period begins with some day
        assert until_ms is not None, "a day ends"
        self._next_ms = until_ms

    async def refresh(self, picture: Picture) -> None:
        """What was settled here was settled by our own clock: the store goes by the nodes'."""
        if picture.hours.used:
            for tenant in await self._store.tenants():
                picture.hours.set(tenant)
