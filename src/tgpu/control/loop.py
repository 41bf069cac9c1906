"""The control loop: takes in what happened, decides, commits, and only then tells the nodes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from time import perf_counter

from tgpu.control import committer, device_health, node_disks, node_orders, returns, series, wishes
from tgpu.control.alerts import PICTURE_DRIFT, STORE_RESTORED, Alerts
from tgpu.control.committed_orders import Teller
from tgpu.control.containment import Containment
from tgpu.control.deadlines import Deadlines
from tgpu.control.duties import Duties
from tgpu.control.gang_starts import GangStarts
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox, NodesOrderGiven
from tgpu.control.losses import LEASE_PART, Losses
from tgpu.control.lost_book import LostBook
from tgpu.control.needs import Needs
from tgpu.control.node_news import NodeNews
from tgpu.control.observer import Observer, measure
from tgpu.control.orders import OrderBook
from tgpu.control.pacing import whole_every_s
from tgpu.control.periods import Periods
from tgpu.control.picture_loader import load
from tgpu.control.reconciler import drift
from tgpu.control.series_book import SeriesBook
from tgpu.control.set_aside import changes_without
from tgpu.control.settling import Settling
from tgpu.control.start_estimates import StartEstimates
from tgpu.control.turn import Turn
from tgpu.control.usage_samples import UsageSamples
from tgpu.control.windows import Windows
from tgpu.core.engine import PLAIN
from tgpu.core.holdings import hold
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan
from tgpu.core.planner import is_settled
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node_orders import NodeOrder, NodesOrdered, NodeVerb
from tgpu.observe.logs import logger
from tgpu.store.port import Batch, DeposedError, Receipt, Store, StoreUnavailableError

TICK_S = 1.0
SHORTEST_NAP_S = 0.01
"""Between two ticks, however many moments lie close together."""
STORE_RETRY_S = 1.0
GATHER_S = 0.008
"""For so long after a turn submissions are gathered, while others wait already: a flood of them costs turns
by time, not by job."""
MOST_REPORTS = 3000
"""Of what nodes said, in one turn: when a whole cluster speaks at once, users are heard in between."""
RECONCILE_SHARE = 0.003
"""The most of its time that a leader spends on it: an urgent task seldom has to wait for it."""


@dataclass(frozen=True, slots=True)
class Timers:
    node_silent_s: float = 15.0
    reconcile_s: float = 10.0
    duties_s: float = 60.0
    gang_start_s: float = 300.0
    estimate_s: float = 0.0
    """Between two estimates of all pending jobs' starts, or longer; 0: there are none."""


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
        complaints: Callable[[], Mapping[str, str | None]] = dict,
    ) -> None:
        """`complaints`: by alert, what is wrong with the other servers, if anything."""
        self._store = store
        self._inbox = inbox
        self._hub = hub
        self._timers = timers
        self._now_ms = now_ms
        self._observer = observer
        self._publish = publish
        self._orders = OrderBook(hub)
        self._deadlines = Deadlines()
        self.needs = Needs()
        self.series = SeriesBook()
        self._lost = LostBook()
        self._losses = Losses(timers.node_silent_s)
        self._gangs = GangStarts(timers.gang_start_s)
        self._teller = Teller(self._orders, self._gangs, hub, store)
        self._windows = Windows()
        self._periods = Periods(store)
        self._settling: Settling | None = None
        self._complaints = complaints
        self.alerts = Alerts(observer, now_ms)
        self.containment = Containment(self.alerts, observer)
        self.estimates: StartEstimates | None = None
        if timers.estimate_s:
            failed = partial(self.containment.side_work_failed, "the estimate of starts")
            self.estimates = StartEstimates(store, observer, timers.estimate_s, failed)
        failed = partial(self.containment.side_work_failed, "periodic work")
        self._duties = Duties(store, self.alerts, observer, timers.duties_s, now_ms, failed)
        self._epoch = 0
        self._seq = 0
        self._next_tick = 0.0
        self._next_reconcile = 0.0
        self._stale, self._unsaid = False, True  # `_unsaid`: a stale picture needs all reports again
        self._next_whole = 0.0
        self._newest_job_id = 0
        self._owed: list[tuple[TaskId, str]] = []
        self._log = logger("control")
        self.policy, self.picture = policy, Picture(policy)
        self.stopwatch: Callable[[], float] = perf_counter  # where time is virtual, decisions take none
        self.engine = PLAIN
        """What plans are made with: compiled code once a cluster is worth it."""
        self.samples = UsageSamples()
        self.leads = False
        self.planning = asyncio.Lock()
        """Held while a plan is made beside the loop: whoever wants to look at the picture waits for it."""

    async def run(self, epoch: int) -> None:
        """Leads with this epoch until cancelled, or until somebody with a newer one does."""
        self._loop = asyncio.get_running_loop()
        await self._take_over_somehow(epoch)
        ticking, duties = asyncio.create_task(self._ticks()), asyncio.create_task(self._duties.run(epoch))
        estimating = None if self.estimates is None else asyncio.create_task(self.estimates.run(self, epoch))
        rested = self._loop_time()
        try:
            while True:
                await self._inbox.wait()
                if self.picture.waiting:
                    await self._inbox.gather(rested + GATHER_S - self._loop_time())
                began = perf_counter()
                try:
                    await self.turn()
                    self._observer.observe_cycle(perf_counter() - began)
                except StoreUnavailableError as error:
                    self._log.error("the store is away", error=str(error))
                    self._stale = True
                    await asyncio.sleep(STORE_RETRY_S)
                    self._inbox.wake()
                except DeposedError:
                    raise
                except Exception as error:  # noqa: BLE001  nothing but the lease ends a term
                    await self._contain(error)
                rested = self._loop_time()
                if duties.done():
                    duties.result()  # over in peace only if another leads: then this term ends, too
        finally:
            self.leads = False
            self._hub.listens_to = lambda _: True
            self.alerts.end()
            ticking.cancel()
            duties.cancel()
            if estimating is not None:
                estimating.cancel()

    def order_nodes(self, order: NodeOrder) -> "asyncio.Future[NodesOrdered]":
        """Carried out by the next turn; the answer is there once it is committed."""
        answer: asyncio.Future[NodesOrdered] = asyncio.get_running_loop().create_future()
        self._inbox.order(NodesOrderGiven(order, answer))
        return answer

    async def _contain(self, error: Exception) -> None:
        """The picture may assume what was not committed: it is loaded again, and nodes report again."""
        self._unsaid = (self._stale and self._unsaid) or self.containment.scope.loses_words
        self._stale = True
        await asyncio.sleep(self.containment.failed(error, self._loop_time()))
        self._inbox.wake()

    async def _take_over_somehow(self, epoch: int) -> None:
        while not self.leads:
            try:
                await self._take_over(epoch)
            except (DeposedError, StoreUnavailableError):
                raise
            except Exception as error:  # noqa: BLE001  the next server would fail as well
                await self._contain(error)

    async def _take_over(self, epoch: int) -> None:
        self._epoch = epoch
        self._inbox.take()  # what was said to an earlier term is said again to this one
        await self._reload()
        now = self._loop_time()
        self._hub.heard.update(dict.fromkeys(self.picture.places, now))
        self._hub.listens_to = lambda node_id: self.containment.listens_to(node_id, self._loop_time())
        self._next_reconcile = now + self._timers.reconcile_s
        sessions = {node_id: place.node.session for node_id, place in self.picture.places.items()}
        self._hub.lead(self._store.cluster_id, epoch, LEASE_PART * self._timers.node_silent_s, sessions)
        self.leads = True
        self._inbox.store_changed()

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(self._nap_s())
            self._inbox.wake()

    def _nap_s(self) -> float:
        """Until the next tick, or until the clock lets a task start or give way, if that is before."""
        moment_ms = self.picture.moments.next_ms
        nap_s = TICK_S if moment_ms is None else (moment_ms - self._now_ms()) / 1000
        return min(TICK_S, max(SHORTEST_NAP_S, nap_s))

    async def turn(self) -> None:
        """One cycle, in the order in which it must happen."""
        if self._stale:
            await self._reload(from_scratch=self._unsaid)
        if self._loop_time() >= self._next_reconcile:
            await self._reconcile()
        events, store_changed = self.containment.news(self._inbox, MOST_REPORTS, self._loop_time())
        turn = Turn(Batch(self._now_ms(), self._seq), self.series, self._lost)
        self.picture.now_ms = turn.batch.at_ms
        await self._periods.roll(self._epoch, self.picture)
        # 1. What users asked for.
        if store_changed:
            await self._take_in_wishes(turn)
        while self._owed:
            wishes.cancel(self.picture, *self._owed.pop(), turn)
        for task in self.needs.settle(self.picture, turn):
            self._deadlines.watch(task)
        for given in self._inbox.take_orders():
            turn.answers.append((given, await self._take_in_order(given, turn)))
        # 2. What nodes said.
        news = NodeNews(self.picture, turn, self._hub, self._settling)
        self._inbox.put_back(await news.take_in(events, self._store))
        # 3. What time has brought.
        if self._loop_time() >= self._next_tick:
            self._take_in_time(turn)
        if self._settling is not None:
            await self._settle_restore()
        self._deadlines.watch_again(self.picture, turn)
        self._deadlines.take_in(self.picture, turn)  # also who came too late in this very turn
        self._windows.apply(self.picture, nodes_changed=bool(turn.batch.nodes))
        series.settle(self.picture, turn)
        # 4. Decide.
        await self._decide(turn)
        careful = self.containment.scope.careful
        for part in committer.parts(turn, one_by_one=careful):
            with committer.blamed_job(part, careful=careful):
                # 5. Commit, in one transaction.
                receipt = await self._commit(part)
                # 6. Tell the nodes what was committed.
                await self._teller.tell(self.picture, part, receipt, self._loop_time())
        self.containment.went_well(self._inbox, self._loop_time())

    async def _take_in_wishes(self, turn: Turn) -> None:
        changes = await self._store.changes(self._seq)
        self.containment.set_jobs_aside(changes.unreadable.jobs)
        changes = changes_without(changes, self.containment.jobs)
        if changes.rearranged:
            await self._reload()
            turn.series = self.series
            return
        self._seq = turn.batch.seen_seq = changes.seq
        wishes.take_in(self.picture, changes, turn)
        series.take_in(self.picture, changes, turn)
        self.needs.take_in(self.picture, changes)
        self._windows.take_in(changes.windows)
        for task in (*changes.altered, *changes.submitted):
            self._deadlines.watch(task)
            self._newest_job_id = max(self._newest_job_id, task.task_id.job_id)
        if changes.more:
            self._inbox.store_has_more()

    async def _take_in_order(self, given: NodesOrderGiven, turn: Turn) -> NodesOrdered:
        order = given.order
        try:
            if order.verb is NodeVerb.REMOVE:
                outcome = await node_orders.remove(self.picture, order, self._hub, self._store, self._epoch)
                returns.close_lost(outcome.node_ids, self.picture.now_ms, turn)
            else:
                outcome = node_orders.take_in(self.picture, order, turn)
        except Exception as error:
            if not given.answer.done():
                given.answer.set_exception(error)
            raise
        if outcome.node_ids:
            self._log.info(order.verb, nodes=outcome.node_ids, by=order.by, reason=order.reason)
        return outcome

    def _take_in_time(self, turn: Turn) -> None:
        now = self._loop_time()
        self._next_tick = now + TICK_S / 2  # well before the next tick: timers are not exact
        self._gangs.late(self.picture, now, turn)
        if self._losses.was_stalled(now):
            self._hub.heard.update(dict.fromkeys(self._hub.heard, now))
        hub = self._hub
        for node_id in self._losses.take_in(self.picture, hub.heard, now, turn, hub.is_connected):
            self._log.warning("node", node_id=node_id, state=NodeState.OFFLINE)
            self._hub.drop(node_id)  # at once: what it says from now on was said too late
        self._orders.say_again(self.picture, now)  # not what is lost: its node may be back when this is sent
        with self.containment.beside("a usage sample"):
            connected = [place.node for place in self.picture.places.values() if place.reachable]
            self.samples.take(self.picture.now_ms, connected, self._hub.use)
        of_nodes = device_health.alerts(self.picture) | node_disks.alerts(self.picture)
        self.alerts.tell_all(self._losses.alerts | of_nodes)
        self.alerts.tell_all({**self._hub.alerts(now), **self._complaints()})

    async def _reconcile(self) -> None:
        """Between turns nothing of ours is on its way, so a difference is drift: counted, then mended."""
        began = self.stopwatch()
        await self._store.commit(self._epoch, Batch(self._now_ms()))  # deposed, it would otherwise not notice
        summary = await self._store.live_summary(self._newest_job_id)
        found = drift(self.picture, summary, self.containment.jobs)
        await self._periods.refresh(self.picture)
        pause_s = max(self._timers.reconcile_s, (self.stopwatch() - began) / RECONCILE_SHARE)
        self._next_reconcile = self._loop_time() + pause_s
        text = f"the picture in memory differed from the store in {found} facts and was mended: report a bug"
        self.alerts.tell(PICTURE_DRIFT, text if found else None)
        if found:
            self._log.error("the picture had drifted", facts=found)
            self._observer.count_drift(found)
            await self._reload()

    async def _settle_restore(self) -> None:
        """The store was put back from a copy: nothing starts before it is known what runs on the nodes."""
        assert self._settling is not None
        text = self._settling.tend(self.picture, self._hub, self._loop_time())
        self.alerts.tell(STORE_RESTORED, text)
        if text is None:
            await self._store.settle_restore(self._epoch)
            self._settling = None
            self._next_whole = 0.0

    async def _decide(self, turn: Turn) -> None:
        """At every turn what an event may have cured; from time to time everything."""
        if self._settling is not None or not self.containment.may_plan(self._loop_time()):
            return
        whole = self._loop_time() >= self._next_whole
        if not self.picture.waiting or (not whole and is_settled(self.picture)):
            return
        began = self.stopwatch()
        made = await self._planned(turn, whole=whole)
        if whole:
            self._next_whole = self._loop_time() + whole_every_s(self.picture, self.stopwatch() - began)
        for fault in made.faults:
            self.containment.plug_in_failed(fault.name, fault.text)
        if made.more:
            self._inbox.go_on()
        self._observer.observe_decision(self.stopwatch() - began)

    async def _planned(self, turn: Turn, *, whole: bool) -> Plan:
        """A whole one in a thread if by compiled code, which lets go of the interpreter: nodes and users are
        served meanwhile, and nothing touches the picture. Others are done before a thread had begun."""
        decide = partial(committer.decide, self.picture, self.policy, turn, whole=whole, engine=self.engine)
        if self.engine is PLAIN or not whole:
            return decide()
        async with self.planning:
            return await asyncio.to_thread(decide)

    async def _commit(self, turn: Turn) -> Receipt | None:
        if not turn.batch:
            return None
        began = perf_counter()
        try:
            receipt = await committer.commit(self._store, self._epoch, self.picture, turn)
        except StoreUnavailableError:
            self._stale = True  # the picture assumed what was not committed; nothing was acknowledged
            raise
        self.containment.scope.committed = True
        self._observer.observe_commit(perf_counter() - began)
        if receipt.refused:
            self._log.info("refused", changes=Counter(type(change).__name__ for change in receipt.refused))
            self._stale = any(isinstance(change, committer.NOT_HANDED_BACK) for change in receipt.refused)
        with self.containment.beside("the metrics of a turn"):
            measure(self._observer, turn)
        if self.estimates is not None:
            with self.containment.beside("the score of expected starts"):
                self.estimates.committed(turn)
        self._deadlines.heard(receipt)
        if self.needs.heard(receipt) | series.heard(self.picture, self.series, receipt):
            self._inbox.go_on()
        with self.containment.beside("the notice of events"):
            self._publish(receipt.events)
        return receipt

    async def _reload(self, *, from_scratch: bool = False) -> None:
        """The store's word instead of ours; who is connected only the hub knows. `from_scratch`: what nodes
        said meanwhile is lost, so each of them has to say it again."""
        world, picture = await load(self._store, self.policy, self._now_ms(), self.containment)
        holdings = self.picture.table.holdings.values()
        unwritten = [each for each in holdings if not each.state.is_live and not each.stays]
        if from_scratch:
            self._hub.hang_up()
            unwritten = []
        self.picture = picture
        for holding in unwritten:
            hold(self.picture, holding)
        node_disks.show(self.picture, self._hub)
        self._windows = Windows(world.windows)
        if world.restored and self._settling is None:
            self._settling = Settling(self.picture.places, self._loop_time() + self._timers.node_silent_s)
        self._seq, self._lost = world.seq, LostBook(world.lost)
        self._stale, self._unsaid, self._next_whole = False, True, 0.0
        self._deadlines = Deadlines()
        of_tasks = (task.task_id.job_id for task in world.tasks)  # of a series none may be live just now
        self._newest_job_id = max(chain(of_tasks, (job.job_id for job in world.series)), default=0)
        self._owed = [(task.task_id, task.cancel_by) for task in world.tasks if task.cancel_by is not None]
        for task in world.tasks:
            self._deadlines.watch(task)
        self.needs = Needs()
        self.needs.begin(self.picture, world.needs)
        self.series = series.begin(self.picture, world)
        self._gangs.expect(self.picture, self._loop_time())

    def _loop_time(self) -> float:
        return self._loop.time()
