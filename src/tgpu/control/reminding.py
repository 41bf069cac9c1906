"""A node came back with orders open: it is told again what it should have done."""

from tgpu.control.containment import about_job
from tgpu.control.gang_starts import GangStarts
from tgpu.control.orders import OrderBook
from tgpu.core.holdings import holdings_on
from tgpu.core.picture import Picture
from tgpu.domain.lifecycle import AttemptState
from tgpu.store.port import Store


async def remind(  # noqa: PLR0917  whoever knows a part of it
    picture: Picture, orders: OrderBook, gangs: GangStarts, store: Store, node_id: str, now: float
) -> None:
    """Launches may have to be written anew from the store."""
    for placed in list(picture.places[node_id].attempts.values()):
        if placed.state is AttemptState.STOPPING:
            orders.stop(placed, now)
        elif placed.state is AttemptState.ASSIGNED and not orders.knows_launch(placed.attempt_id):
            with about_job(placed.attempt_id.job_id):
                job = await store.job(placed.attempt_id.job_id)
                if job is not None:
                    orders.launch(placed, job.spec, now, gangs.place(picture, placed, now))
        elif placed.state is AttemptState.ASSIGNED:
            orders.relaunch(placed, now)
    for holding in holdings_on(picture, node_id):
        if not holding.stays:
            orders.stop_left_behind(holding, now)
