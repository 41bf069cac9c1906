"""Overview feed: one snapshot of the cluster a second for all streams of this server together.

A snapshot is asked for only while a stream is open. Views (what callers of one visibility see) are compared
and encoded once each, and their changes are kept for a few seconds; a stream that has fallen further behind
gets the whole again. Few views are kept: if more are in use, some change places at every snapshot, and a
stream without one keeps the state that it was last sent until it gets the whole again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

from tgpu.api.overview_view import OverviewView, Snapshot, snapshot_of
from tgpu.api.ports import Live, NoLeaderError
from tgpu.api.visibility import EVERYONE, Visibility
from tgpu.domain.views import Alert
from tgpu.observe.logs import logger, trace_of

EVERY_S = 1.0
WORK_SHARE = 0.3
"""The most of its time that a server spends on views of streams."""
MOST_VIEWS = 64
"""With 10,000 nodes of 8 GPUs each, a view takes a megabyte, and some milliseconds for each snapshot."""
CHANGED_PLACES = 16
"""Views that leave their places to others at a snapshot."""
_KEPT = 8
"""Changes that are kept for streams that are behind."""


class Source(Protocol):
    """What snapshots are made from."""

    @property
    def live(self) -> Live: ...

    @property
    def now_ms(self) -> Callable[[], int]: ...


class _Shared:
    """A view with its latest changes."""

    def __init__(self, view: OverviewView) -> None:
        self.view = view
        self.version = 0
        self._changes: deque[bytes] = deque(maxlen=_KEPT)
        self._whole: bytes | None = None

    def update(self, snapshot: Snapshot, alerts: Sequence[Alert]) -> bool:
        changes = self.view.update(snapshot, alerts)
        if changes is None:
            return False
        self.version += 1
        self._changes.append(_frame(changes))
        self._whole = None
        return True

    def since(self, version: int) -> bytes:
        behind = self.version - version
        if 0 <= behind <= len(self._changes):
            return b"".join(list(self._changes)[len(self._changes) - behind :])
        return self.whole()

    def whole(self) -> bytes:
        if self._whole is None:
            self._whole = _frame(self.view.whole())
        return self._whole


def _frame(document: bytes) -> bytes:
    return b"event: overview\ndata: %s\n\n" % document


class Subscription:
    """One stream: what it has been sent, and how it is woken."""

    def __init__(self, feed: "OverviewFeed", wake: Callable[[], None]) -> None:
        self._feed, self.wake = feed, wake
        self.visibility = EVERYONE
        self._of: _Shared | None = None
        self._version = 0

    def next(self, visibility: Visibility) -> bytes:
        """What this stream has not been sent yet; empty if that is nothing."""
        self.visibility = visibility
        shared = self._feed.shared(visibility)
        if shared is None:
            return b""
        frame = shared.since(self._version) if shared is self._of else shared.whole()
        self._of, self._version = shared, shared.version
        return frame


class OverviewFeed:
    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._views: dict[Visibility, _Shared] = {}
        """The oldest first."""
        self._waiting: dict[Visibility, None] = {}
        """Visibilities of streams for which there is no view; in the order in which they get one."""
        self._snapshot: Snapshot | None = None
        self._alerts: tuple[Alert, ...] = ()
        self._ticking: asyncio.Task[None] | None = None
        self._log = logger("overview")

    @contextmanager
    def subscription(self, source: Source, wake: Callable[[], None]) -> Iterator[Subscription]:
        """`wake` is called whenever there may be something new."""
        made = Subscription(self, wake)
        self._subscriptions.add(made)
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick(source))
        try:
            yield made
        finally:
            self._subscriptions.discard(made)

    def shared(self, visibility: Visibility) -> _Shared | None:
        """None: there is no snapshot yet, or too many other views are in use."""
        found = self._views.get(visibility)
        if found is not None or self._snapshot is None:
            return found
        if len(self._views) >= MOST_VIEWS:
            self._waiting.setdefault(visibility)
            return None
        return self._make(visibility, self._snapshot)

    def _make(self, visibility: Visibility, snapshot: Snapshot) -> _Shared:
        self._waiting.pop(visibility, None)
        made = self._views[visibility] = _Shared(OverviewView(visibility, snapshot, self._alerts))
        return made

    async def _tick(self, source: Source) -> None:
        """While there are streams; the first of the next ones begins with a new snapshot."""
        loop = asyncio.get_running_loop()
        while self._subscriptions:
            began, worked_s = loop.time(), 0.0
            try:
                if await self._look(source):
                    worked_s = await self._update()
            except Exception as error:  # noqa: BLE001  streams go on with what they know
                self._log.error("no overview could be made", trace=trace_of(error))
            pause_s = max(EVERY_S / 2, worked_s * (1 / WORK_SHARE - 1))
            await asyncio.sleep(max(pause_s, EVERY_S - (loop.time() - began)))
        self._views.clear()
        self._waiting.clear()
        self._snapshot = None

    async def _look(self, source: Source) -> bool:
        """Whether there is a snapshot."""
        try:
            snapshot: Snapshot | None = snapshot_of(await source.live.overview())
            self._alerts = tuple(await source.live.alerts())
        except NoLeaderError as error:
            snapshot = self._snapshot
            known = next((each for each in self._alerts if each.name == "no-leader"), None)
            since_ms = source.now_ms() if known is None else known.since_ms
            self._alerts = (Alert("no-leader", str(error), since_ms),)
        self._snapshot = snapshot
        return snapshot is not None

    async def _update(self) -> float:
        """All views, with other work in between; returns the seconds that it took."""
        assert self._snapshot is not None
        snapshot, worked_s = self._snapshot, 0.0
        new = self._change_places(snapshot)
        for visibility, shared in list(self._views.items()):
            began = perf_counter()
            if shared.update(snapshot, self._alerts):
                new.add(visibility)
            worked_s += perf_counter() - began
            await asyncio.sleep(0)
        for each in self._subscriptions:
            if each.visibility in new or each.visibility not in self._views:
                each.wake()
        return worked_s

    def _change_places(self, snapshot: Snapshot) -> set[Visibility]:
        """The oldest views leave their places to streams that wait for one; returns those that were made."""
        used = {each.visibility for each in self._subscriptions}
        self._views = {visibility: shared for visibility, shared in self._views.items() if visibility in used}
        self._waiting = {each: None for each in self._waiting if each in used}
        missing = len(self._views) + len(self._waiting) - MOST_VIEWS
        for visibility in list(self._views)[: max(0, min(missing, CHANGED_PLACES))]:
            del self._views[visibility]
            self._waiting[visibility] = None
        made = set(list(self._waiting)[: MOST_VIEWS - len(self._views)])
        for visibility in made:
            self._make(visibility, snapshot)
        return made
