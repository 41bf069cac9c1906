"""The control loop: takes in what happened, decides, commits, and only then tells the nodes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from tgpu.control import committer, reports, wishes
from tgpu.control.deadlines import Deadlines
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.observer import Observer
from tgpu.control.orders import OrderBook
from tgpu.control.picture_loader import picture_of
from tgpu.control.reconciler import drift
from tgpu.control.turn import Turn
from tgpu.core.engine import PLAIN
from tgpu.core.picture import Picture, Place
from tgpu.core.plan import Fault
from tgpu.core.planner import is_settled, plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event
from tgpu.domain.lifecycle import AttemptState, NodeState
from tgpu.observe.logs import logger
from tgpu.protocol.messages import Acknowledge
from tgpu.store.port import Batch, Receipt, Store, StoreUnavailableError

TICK_S = 1.0
STORE_RETRY_S = 1.0
GATHER_S = 0.004
"""How long submissions are gathered while others wait already: a flood costs turns by time, not by job."""
WHOLE_EVERY_S = 1.0
FACTS_PER_PERIOD = 20_000


@dataclass(frozen=True, slots=True)
class Timers:
    node_silent_s: float = 15.0
    reconcile_s: float = 10.0


class Control:
    """Owns the picture. Everything reaches it through the inbox and the store."""

    def __init__(
        self,
        *,
        store: Store,
        inbox: Inbox,
        hub: Hub,
        policy: Policy,
        timers: Timers,
        now_ms: Callable[[], int],
        observer: Observer,
        publish: Callable[[Sequence[Event]], None],
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._hub = hub
        self._timers = timers
        self._now_ms = now_ms
        self._observer = observer
        self._publish = publish
        self._orders = OrderBook(hub)
        self._deadlines = Deadlines()
        self._epoch = 0
        self._seq = 0
        self._next_tick = 0.0
        self._next_reconcile = 0.0
        self._stale = False
        self._next_whole = 0.0
        self._reported: set[str] = set()
        self._newest_job_id = 0
        self._owed: list[tuple[TaskId, str]] = []
        self._log = logger("control")
        self.policy = policy
        self.picture = Picture(policy)
        self.engine = PLAIN
        """What plans are made with: compiled code once a cluster is worth it."""
        self.leads = False

    async def run(self) -> None:
        """Until cancelled, or until somebody with a newer epoch leads."""
        self._loop = asyncio.get_running_loop()
        await self._take_over()
        ticking = asyncio.create_task(self._ticks())
        try:
            while True:
                await self._inbox.wait()
                if self.picture.waiting:
                    await self._inbox.gather(GATHER_S)
                began = perf_counter()
                try:
                    await self.turn()
                    self._observer.observe_cycle(perf_counter() - began)
                except StoreUnavailableError as error:
                    self._log.error("the store is away", error=str(error))
                    self._stale = True
                    await asyncio.sleep(STORE_RETRY_S)
                    self._inbox.wake()
        finally:
            self.leads = False
            ticking.cancel()

    async def _take_over(self) -> None:
        self._epoch = await self._store.claim()
        self._store.subscribe(self._inbox.store_changed)
        await self._reload()
        now = self._loop_time()
        self._hub.heard.update(dict.fromkeys(self.picture.places, now))
        self._next_reconcile = now + self._timers.reconcile_s
        self._hub.lead(self._store.cluster_id, self._epoch)
        self.leads = True
        self._inbox.store_changed()

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._inbox.wake()

    async def turn(self) -> None:
        """One cycle, in the order in which it must happen."""
        if self._stale:
            await self._reload()
            self._hub.hang_up()  # what was said meanwhile is lost: let every node say it again
        if self._loop_time() >= self._next_reconcile:
            await self._reconcile()
        events, store_changed = self._inbox.take()
        turn = Turn(Batch(self._now_ms()))
        self.picture.now_ms = turn.batch.at_ms
        # 1. What users asked for.
        while self._owed:
            wishes.cancel(self.picture, *self._owed.pop(), turn)
        if store_changed:
            await self._take_in_wishes(turn)
        # 2. What nodes said.
        for event in events:
            reports.take_in(self.picture, event, turn)
        # 3. What time has brought.
        if self._loop_time() >= self._next_tick:
            self._take_in_time(turn)
        # 4. Decide.
        self._decide(turn)
        # 5. Commit, in one transaction.
        receipt = await self._commit(turn)
        # 6. Tell the nodes what was committed.
        await self._tell(turn, receipt)

    async def _take_in_wishes(self, turn: Turn) -> None:
        changes = await self._store.changes(self._seq)
        self._seq = changes.seq
        wishes.take_in(self.picture, changes, turn)
        for task in changes.submitted:
            self._deadlines.watch(task)
            self._newest_job_id = max(self._newest_job_id, task.task_id.job_id)
        if changes.more:
            self._inbox.store_has_more()

    def _take_in_time(self, turn: Turn) -> None:
        now = self._loop_time()
        self._next_tick = now + TICK_S / 2  # well before the next tick: timers are not exact
        self._deadlines.take_in(self.picture, turn)
        self._orders.say_again(self.picture, now)
        for place in self.picture.places.values():
            silent = now - self._hub.heard.get(place.node.node_id, now) >= self._timers.node_silent_s
            offline = place.node.state is NodeState.OFFLINE
            if silent and not offline:
                self._become(place, NodeState.OFFLINE, turn)
            elif offline and place.reachable and not silent:
                self._become(place, NodeState.READY, turn)

    def _become(self, place: Place, state: NodeState, turn: Turn) -> None:
        self._log.warning("node", node_id=place.node.node_id, state=state)
        turn.batch.nodes.append(self.picture.set_state(place.node.node_id, state))

    async def _reconcile(self) -> None:
        """Between turns nothing of ours is on its way, so a difference is drift: counted, then mended."""
        self._next_reconcile = self._loop_time() + self._timers.reconcile_s
        await self._store.commit(self._epoch, Batch(self._now_ms()))  # deposed, it would otherwise not notice
        found = drift(self.picture, await self._store.live_summary(self._newest_job_id))
        if found:
            self._log.error("the picture had drifted", facts=found)
            self._observer.count_drift(found)
            await self._reload()

    def _decide(self, turn: Turn) -> None:
        """At every turn what an event may have cured; from time to time everything."""
        whole = self._loop_time() >= self._next_whole
        if not self.picture.waiting or (not whole and is_settled(self.picture)):
            return
        began = perf_counter()
        made = plan(self.picture, self.policy, whole=whole, engine=self.engine)
        if whole:
            self._next_whole = self._loop_time() + self._whole_every_s()
        for fault in made.faults:
            self._report(fault)
        committer.assume(self.picture, made, turn)
        if made.more:
            self._inbox.wake()
        self._observer.observe_decision(perf_counter() - began)

    def _whole_every_s(self) -> float:
        """The larger the cluster, the longer a whole cycle takes, and the more time there is between two."""
        facts = len(self.picture.places) + len(self.picture.placed) + len(self.picture.waiting)
        return WHOLE_EVERY_S * (1 + facts / FACTS_PER_PERIOD)

    def _report(self, fault: Fault) -> None:
        """Once per plug-in: it would fail again in every cycle."""
        if fault.name not in self._reported:
            self._reported.add(fault.name)
            self._log.error("a plug-in failed and is left out", name=fault.name, error=fault.text)

    async def _commit(self, turn: Turn) -> Receipt | None:
        if not turn.batch:
            return None
        began = perf_counter()
        try:
            receipt = await committer.commit(self._store, self._epoch, self.picture, turn)
        except StoreUnavailableError:
            self._stale = True  # the picture assumed what was not committed; nothing was acknowledged
            raise
        self._observer.observe_commit(perf_counter() - began)
        if receipt.refused:
            self._log.warning("refused", changes=[type(change).__name__ for change in receipt.refused])
        self._measure(turn)
        self._publish(receipt.events)
        return receipt

    async def _tell(self, turn: Turn, receipt: Receipt | None) -> None:
        now = self._loop_time()
        for ended in turn.batch.ended:
            self._orders.settled([ended.attempt_id])
        for assigned in turn.batch.assigned:
            placed = self.picture.live(assigned.attempt_id)
            if placed is not None and receipt is not None:
                self._orders.launch(placed, receipt.specs[assigned.attempt_id.job_id], now)
        for stop in turn.batch.stop_ordered:
            placed = self.picture.live(stop.attempt_id)
            if placed is not None:
                self._orders.stop(placed, now)
        for node_id, attempt in turn.forget:
            self._orders.forget(node_id, attempt)
        for node_id in dict.fromkeys(turn.remind):
            await self._remind(node_id, now)
        self._orders.send()
        for node_id, session, seq in turn.acknowledgements:
            if self._hub.session_of(node_id) == session:
                self._hub.send(node_id, Acknowledge(session=session, seq=seq))

    async def _remind(self, node_id: str, now: float) -> None:
        """A node came back with orders open: launches may have to be written anew from the store."""
        for placed in list(self.picture.places[node_id].attempts.values()):
            if placed.state is AttemptState.STOPPING:
                self._orders.stop(placed, now)
            elif placed.state is AttemptState.ASSIGNED and not self._orders.knows_launch(placed.attempt_id):
                job = await self._store.job(placed.attempt_id.job_id)
                if job is not None:
                    self._orders.launch(placed, job.spec, now)
            elif placed.state is AttemptState.ASSIGNED:
                self._orders.relaunch(placed, now)

    async def _reload(self) -> None:
        """The store's word instead of ours; who is connected only the hub knows."""
        world = await self._store.load()
        self.picture = picture_of(world, self.policy, self._now_ms())
        for node_id in self.picture.places:
            self.picture.set_reachable(node_id, reachable=self._hub.session_of(node_id) is not None)
        self._seq = world.seq
        self._stale = False
        self._next_whole = 0.0
        self._deadlines = Deadlines()
        self._newest_job_id = max((task.task_id.job_id for task in world.tasks), default=0)
        self._owed = [(task.task_id, task.cancel_by) for task in world.tasks if task.cancel_by is not None]
        for task in self.picture.waiting.values():
            self._deadlines.watch(task)

    def _measure(self, turn: Turn) -> None:
        self._observer.count_placements(len(turn.batch.assigned))
        for priority_class, waited_s in turn.waits:
            self._observer.observe_wait(priority_class, waited_s)
        for outcome, seconds in turn.completions:
            self._observer.observe_completion(outcome, seconds)
        for ended in turn.batch.ended:
            if ended.exit.started_ms is not None:
                ran_s = (ended.exit.ended_ms - ended.exit.started_ms) / 1000
                self._observer.observe_run(ended.happening, ran_s)

    def _loop_time(self) -> float:
        return self._loop.time()
