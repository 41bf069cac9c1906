"""What nodes are to be told of a turn that is committed."""

from tgpu.control.gang_starts import GangStarts
from tgpu.control.hub import Hub
from tgpu.control.orders import OrderBook
from tgpu.control.reminding import remind
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.protocol.messages import Acknowledge
from tgpu.store.port import Receipt, Store


class Teller:
    """Tells nodes, and administrators, what became of a turn."""

    def __init__(self, orders: OrderBook, gangs: GangStarts, hub: Hub, store: Store) -> None:
        self._orders, self._gangs, self._hub, self._store = orders, gangs, hub, store

    async def tell(self, picture: Picture, turn: Turn, receipt: Receipt | None, now: float) -> None:
        write_orders(self._orders, self._gangs, picture, turn, receipt=receipt, now=now)
        for node_id in dict.fromkeys(turn.remind):
            await remind(picture, self._orders, self._gangs, self._store, node_id, now)
        await self._orders.reveal(self._store.secret_bodies)
        self._orders.send()
        for node_id, session, seq in turn.acknowledgements:
            if self._hub.session_of(node_id) == session:
                self._hub.send(node_id, Acknowledge(session=session, seq=seq))
        for given, outcome in turn.answers:
            if not given.answer.done():
                given.answer.set_result(outcome)
        for node_id, session in turn.settled:
            self._hub.settle(node_id, session)


def write_orders(
    orders: OrderBook, gangs: GangStarts, picture: Picture, turn: Turn, *, receipt: Receipt | None, now: float
) -> None:
    orders.settled(ended.attempt_id for ended in turn.batch.ended)
    orders.settled(gone.attempt_id for gone in turn.batch.gone)
    for assigned in turn.batch.assigned:
        placed = picture.live(assigned.attempt_id)
        if placed is not None and receipt is not None:
            place = gangs.place(picture, placed, now)
            orders.launch(placed, receipt.specs[assigned.attempt_id.job_id], now, place)
    for node_id, go in gangs.goes(picture, gangs.heard(turn.in_gangs, now)):
        orders.go(node_id, go)
    for stop in turn.batch.stop_ordered:
        if (placed := picture.live(stop.attempt_id)) is not None:
            orders.stop(placed, now)
    for attempt_id in turn.left_behind:
        if attempt_id in picture.table.holdings:
            orders.stop_left_behind(picture.table.holdings[attempt_id], now)
    for node_id, attempt in turn.forget:
        orders.forget(node_id, attempt)
