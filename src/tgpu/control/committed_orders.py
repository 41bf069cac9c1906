"""What nodes are to be told of a turn that is committed."""

from tgpu.control.gang_starts import GangStarts
from tgpu.control.orders import OrderBook
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.store.port import Receipt


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
