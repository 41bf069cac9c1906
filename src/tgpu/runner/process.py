"""Runs attempts as processes of this machine, each under a supervisor that outlives the agent."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner import logs, records, warm
from tgpu.runner.cgroup import detect
from tgpu.runner.folders import Folders, is_attempt
from tgpu.runner.journal import Claim, Journals, Message, decode
from tgpu.runner.place import JOURNAL, LAUNCH, PLACE, frame
from tgpu.runner.port import AttemptEnded, AttemptStarted, LaunchSpec, LogPart, RunnerEvent
from tgpu.runner.survey import Surveyor

CHECK_S = 2.0
"""How often it is checked that every running attempt still has its supervisor."""
LAUNCH_AGAIN_S = 30.0
"""An order that nothing has come of for so long is given again; it cannot run twice."""
REFUSE_AGAIN_S = 600.0
"""How long a forgotten attempt is kept from running again: longer than any order can be under way."""
DATAGRAM_MAX = 8192
READ_AT_ONCE = 64


class _Tracked:
    """What this runner knows of an attempt that is not forgotten."""

    __slots__ = ("claim", "ended", "frame", "generations", "sent_at", "started")

    def __init__(self, generation: int, order: bytes = b"", sent_at: float = 0.0) -> None:
        self.frame = order
        """The order, until something is heard of it."""
        self.sent_at = sent_at
        self.generations = {generation}
        """The journals in which its end may stand."""
        self.claim: Claim | None = None
        self.started = False
        self.ended = False


class ProcessRunner:
    """See the port. The folder `records` belongs to one agent at a time."""

    def __init__(
        self,
        records_dir: Path,
        logs_dir: Path,
        cluster_id: str,
        *,
        cgroups: bool,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._folder = records_dir
        self._logs = logs_dir
        self._cluster_id = cluster_id
        self._cgroups = detect(cluster_id) if cgroups else None
        self._now_ms = now_ms
        self._boot = _boot_id()
        self._known: dict[str, _Tracked] = {}
        self._forgotten: dict[str, float] = {}
        """When each was forgotten that is still refused, the longest ago first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawner: warm.Spawner | None = None
        self._socket: socket.socket | None = None
        self._closed = True

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        # 1. Whoever ends from now on can tell us.
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._folders = Folders(self._folder)
        self._journals = Journals(self._folder)
        self._surveyor = Surveyor(
            self._folders, self._journals, self._boot, self._cluster_id, self._cgroups, self._now_ms
        )
        self._socket = _bind(self._folder)
        # 2. Nothing is claimed from here on that the survey does not see.
        lock = await warm.take_lock(self._folder)
        self._journals.begin(self._boot)
        found = await self._survey()
        # 3. Ready for orders.
        self._closed = False
        await self._start_spawner(lock)
        self._loop.add_reader(self._socket.fileno(), self._hear)
        self._go(self._check_for_ever())
        return found

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._spawner is not None:
            await self._spawner.close()
        self._journals.close()

    def launch(self, spec: LaunchSpec) -> None:
        if spec.attempt in self._known or spec.attempt in self._forgotten or not is_attempt(spec.attempt):
            return
        order = frame(
            LAUNCH,
            spec.attempt,
            list(spec.argv),
            dict(spec.env),
            spec.cwd,
            spec.user,
            spec.time_limit_s,
            spec.grace_s,
            spec.log_cap_bytes,
        )
        self._known[spec.attempt] = _Tracked(self._journals.current, order, self._loop.time())
        if self._spawner is not None:
            self._spawner.send(order)

    def stop(self, attempt: str, cause: Cause, detail: str) -> None:
        tracked = self._known.get(attempt)
        if tracked is None or tracked.ended:
            return
        self._folders.order_stop(attempt, cause, detail)
        if tracked.claim is None and self._folders.is_claimed(attempt):
            tracked.claim = self._journals.read().claims.get(attempt)
        if tracked.claim is not None and tracked.claim.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(tracked.claim.pid, signal.SIGUSR1)

    def forget(self, attempt: str) -> None:
        tracked = self._known.get(attempt)
        if tracked is not None and tracked.ended:
            del self._known[attempt]
            self._forgotten[attempt] = self._loop.time()
            self._journals.append(Message(attempt, forgotten=True))

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        if stream not in logs.STREAMS or not is_attempt(attempt):
            return None
        folder = self._logs / attempt
        if attempt not in self._known and not folder.is_dir() and not self._folders.is_claimed(attempt):
            return None
        return logs.read(folder, stream, offset, max_bytes)

    def sweep_logs(self, older_than_days: float) -> int:
        """Removes the output of attempts that ended before then; returns of how many."""
        before_s = self._now_ms() / 1000 - older_than_days * logs.DAY_S
        running = {attempt for attempt, tracked in self._known.items() if not tracked.ended}
        return logs.sweep(self._logs, before_s, running)

    def _hear(self) -> None:
        """Reads what supervisors say; no more at once than the loop's other work can wait for."""
        for _ in range(READ_AT_ONCE):
            try:
                assert self._socket is not None
                data = self._socket.recv(DATAGRAM_MAX)
            except BlockingIOError:
                return
            with contextlib.suppress(msgspec.DecodeError):
                message = decode(data)
                if message.exit is not None:
                    self._ended(message.attempt, message.exit)
                elif message.claim is not None:
                    self._started(message.attempt, message.claim)

    def _started(self, attempt: str, claim: Claim) -> None:
        tracked = self._known.get(attempt)
        if tracked is not None and not tracked.started and not tracked.ended:
            tracked.started = True
            tracked.claim = claim
            tracked.frame = b""
            self._on_event(AttemptStarted(attempt, claim.started_ms))

    def _ended(self, attempt: str, end: Exit) -> None:
        tracked = self._known.get(attempt)
        if tracked is not None and not tracked.ended:
            tracked.ended = True
            tracked.frame = b""
            self._on_event(AttemptEnded(attempt, end))

    async def _survey(self) -> list[RunnerEvent]:
        found, forgotten = await asyncio.to_thread(self._surveyor.survey)
        self._forgotten = dict.fromkeys(forgotten, self._loop.time())
        events: list[RunnerEvent] = []
        for attempt, about in found.items():
            tracked = self._known[attempt] = _Tracked(about.generation)
            tracked.claim = about.claim
            tracked.started = True
            if about.exit is not None:
                tracked.ended = True
                tracked.generations.add(self._journals.current)
                events.append(AttemptEnded(attempt, about.exit))
            elif about.claim is not None:
                events.append(AttemptStarted(attempt, about.claim.started_ms))
        return events

    async def _start_spawner(self, lock: int) -> None:
        """Also gives every order again of which nothing has been heard: none can run twice."""
        self._spawner = spawner = await warm.Spawner.start(self._folder, lock, self._on_spawner_death)
        base = "" if self._cgroups is None else self._cgroups.base
        folder, logs_dir = str(self._folder.absolute()), str(self._logs.absolute())
        spawner.send(frame(PLACE, folder, logs_dir, self._cluster_id, base))
        spawner.send(frame(JOURNAL, self._journals.current))
        for tracked in self._known.values():
            if tracked.frame:
                self._send_again(tracked)

    def _send_again(self, tracked: _Tracked) -> None:
        tracked.sent_at = self._loop.time()
        tracked.generations.add(self._journals.current)
        if self._spawner is not None:
            self._spawner.send(tracked.frame)

    def _on_spawner_death(self, spawner: warm.Spawner) -> None:
        if not self._closed and spawner is self._spawner:
            self._spawner = None
            self._go(self._restart_spawner(spawner))

    async def _restart_spawner(self, dead: warm.Spawner) -> None:
        await dead.close()
        await self._start_spawner(await warm.take_lock(self._folder))

    def _go(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_for_ever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            await self._find_vanished()
            await self._find_unheard()
            self._tend_journals()
            await self._refuse_no_longer()

    async def _find_vanished(self) -> None:
        """Whose supervisor is gone has either recorded its end, and we have not heard, or never will."""
        running = {
            attempt: tracked.claim
            for attempt, tracked in self._known.items()
            if tracked.claim is not None and not tracked.ended
        }
        gone = await asyncio.to_thread(_gone, running)
        if gone:
            exits = (await asyncio.to_thread(self._journals.read)).exits
            lost: dict[str, Claim | None] = {name: running[name] for name in gone if name not in exits}
            exits |= await asyncio.to_thread(self._surveyor.bury, lost, set(lost))
            for attempt in gone:
                self._ended(attempt, exits[attempt])

    async def _find_unheard(self) -> None:
        """An order of which nothing was heard was either carried out, and nobody told us, or was lost."""
        late = self._loop.time() - CHECK_S
        unheard = [name for name, tracked in self._known.items() if tracked.frame and tracked.sent_at < late]
        claimed = [name for name in unheard if self._folders.is_claimed(name)]
        if claimed:
            contents = await asyncio.to_thread(self._journals.read)
            for attempt in claimed:
                if attempt in contents.exits:
                    self._ended(attempt, contents.exits[attempt])
                elif attempt in contents.claims:
                    self._started(attempt, contents.claims[attempt])
        late = self._loop.time() - LAUNCH_AGAIN_S
        for tracked in [self._known[name] for name in unheard if name in self._known]:
            if tracked.frame and tracked.sent_at < late:
                self._send_again(tracked)

    def _tend_journals(self) -> None:
        if self._journals.is_full():
            generation = self._journals.begin(self._boot)
            if self._spawner is not None:
                self._spawner.send(frame(JOURNAL, generation))
        self._journals.remove_unused(
            generation for tracked in self._known.values() for generation in tracked.generations
        )

    async def _refuse_no_longer(self) -> None:
        before = self._loop.time() - REFUSE_AGAIN_S
        old = [
            name for name, _ in itertools.takewhile(lambda item: item[1] < before, self._forgotten.items())
        ]
        for attempt in old:
            del self._forgotten[attempt]
        await asyncio.to_thread(self._folders.drop, old)


def _gone(running: dict[str, Claim]) -> list[str]:
    return [attempt for attempt, claim in running.items() if not claim.is_alive()]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _bind(folder: Path) -> socket.socket:
    """Through the folder's descriptor, because a socket's path may have only 107 bytes."""
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.setblocking(False)
    (folder / records.SOCKET).unlink(missing_ok=True)
    where = os.open(folder, os.O_PATH)
    try:
        heard.bind(f"/proc/self/fd/{where}/{records.SOCKET}")
    finally:
        os.close(where)
    return heard
