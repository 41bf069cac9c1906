"""Runs attempts as processes of this machine, each under a supervisor that outlives the agent."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path

import msgspec

from tgpu.domain.lifecycle import Cause
from tgpu.domain.signals import Warn, signal_number
from tgpu.observe.logs import logger
from tgpu.runner import logs, private_tmp, records, warm
from tgpu.runner.abilities import Ability
from tgpu.runner.burden import Burden, burden_of
from tgpu.runner.cgroups.preparation import Preparation
from tgpu.runner.cgroups.scope import Scope, scope_name
from tgpu.runner.devices import DEV
from tgpu.runner.entering import Entrances
from tgpu.runner.folders import Folders, forget_other_boots, is_attempt, renew_lease
from tgpu.runner.isolation import Isolation
from tgpu.runner.journal import Claim, Journals, Message, TmpLimit, decode
from tgpu.runner.known import Known, Tracked
from tgpu.runner.limits import Limits
from tgpu.runner.look import Look
from tgpu.runner.look_tasks import look_at_tasks
from tgpu.runner.place import JOURNAL, LAUNCH, PLACE, WarnAt, frame
from tgpu.runner.port import AttemptEnded, AttemptStarted, LaunchSpec, LogPart, RunnerEvent
from tgpu.runner.shell_port import Shell, ShellOrder, ShellRefusedError
from tgpu.runner.survey import Surveyor
from tgpu.runner.upkeep import Upkeep

DATAGRAM_MAX = 8192
READ_AT_ONCE = 64
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
"""Between two spawners that die young: something is wrong that a new one does not cure."""
JOURNAL_AGAIN_S = 1.0
GROWN_UP_S = 10.0
"""A spawner that lived so long could start: the next one is started at once."""


class ProcessRunner:
    """See the port. The folder of the records belongs to one agent at a time."""

    def __init__(
        self,
        records_dir: Path,
        logs_dir: Path,
        cluster_id: str,
        *,
        cgroups: bool,
        private_tmp: bool = False,
        failed_tmp: Path | None = None,
        systemd_scope: bool = False,
        complete: Callable[[Limits], Limits] = lambda limits: limits,
        devices_dir: Path = DEV,
        log_reserve_bytes: int = 0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`failed_tmp`: where private /tmp directories of failed attempts are kept; None: nowhere."""
        self._folder = records_dir
        self._logs = logs_dir
        self._failed_tmp = "" if failed_tmp is None else str(failed_tmp.absolute())
        self._cluster_id = cluster_id
        self._isolation = Isolation(
            cluster_id,
            cgroups=cgroups,
            private_tmp=private_tmp,
            complete=complete,
            devices_dir=devices_dir,
            scope=Scope(scope_name(cluster_id, str(records_dir.absolute()))) if systemd_scope else None,
        )
        self._now_ms, self._log_reserve_bytes = now_ms, log_reserve_bytes
        self._boot = _boot_id()
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawner: warm.Spawner | None = None
        self._pause_s = 0.0
        self._socket: socket.socket | None = None
        self._closed = True

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        # 1. Whoever ends from now on can tell us.
        self._loop = asyncio.get_running_loop()
        for folder in (self._folder, self._logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._known = Known(on_event)
        self._folders = Folders(self._folder)
        self._journals = Journals(self._folder)
        self._entrances = Entrances(self._folder, self._known.supervisor_of)
        self._socket = _bind(self._folder)
        forget_other_boots(self._folder)
        # 2. Nothing is claimed from here on that the survey does not see.
        lock = await warm.take_lock(self._folder)
        await asyncio.to_thread(self._isolation.prepare)
        self._cgroups = self._isolation.cgroups
        await self._begin_first_journal()
        surveyor = Surveyor(
            self._folders, self._journals, self._boot, self._cluster_id, self._cgroups, self._now_ms
        )
        found = await self._survey(surveyor)
        # 3. Ready for orders.
        self._closed = False
        await self._start_spawner(lock)
        self._loop.add_reader(self._socket.fileno(), self._hear)
        upkeep = Upkeep(
            self._known,
            self._folders,
            self._journals,
            surveyor,
            self._send_again,
            self._begin_journal,
            self._order_stop,
        )
        self._go(upkeep.go_on())
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
        await self._isolation.close(self._folder / records.LOCK)

    async def prepare(self, spec: LaunchSpec) -> None:
        """A process needs nothing before it starts."""

    def preparation(self, spec: LaunchSpec) -> Preparation | None:
        """The groups in which it will run, for what is prepared for it before; None: there are no cgroups."""
        return self._isolation.preparation(spec.attempt, spec.limits)

    def drop(self, attempt: str) -> None:
        """So nothing of it is left, either."""

    def launch(self, spec: LaunchSpec) -> None:
        if spec.attempt in self._known or not is_attempt(spec.attempt):
            self._known.was_asked_for(spec.attempt)
            return
        order = frame(
            LAUNCH,
            spec.attempt,
            list(spec.argv),
            {**spec.env, **self._isolation.visible(spec.limits)},
            spec.cwd,
            spec.user,
            spec.time_limit_s,
            spec.grace_s,
            spec.log_cap_bytes,
            spec.once,
            dict(spec.secret_env),
            spec.pty,
            self._isolation.packed(spec.limits),
            signal_number(spec.stop_signal),
            _packed(spec.warn),
            spec.checkpoint_dir,
            None if spec.files is None else (spec.files.output, spec.files.error, spec.files.append),
            spec.shared_tmp,
        )
        tracked = Tracked(set(), order, reserved_mib=spec.limits.memory_mib)
        self._known.attempts[spec.attempt] = tracked
        self._send_again(tracked)

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        tracked = self._known.attempts.get(attempt)
        if tracked is None or tracked.ended:
            return
        tracked.stop = (cause, detail, at_once)
        try:
            self._order_stop(attempt)
        except OSError as error:  # a full disk: it is tried again until it works
            logger("runner").warning("stop-not-written", attempt=attempt, error=str(error))

    def forget(self, attempt: str) -> None:
        if self._known.forget(attempt, self._loop.time()):
            with contextlib.suppress(OSError):  # on a full disk: then it is found again, and forgotten again
                self._journals.append(Message(attempt, forgotten=True))

    def heard(self, stamp_ns: int, lease_s: float) -> None:
        if any(tracked.stop is not None and not tracked.ended for tracked in self._known.attempts.values()):
            return  # an order is not carried out yet: until then this has not been heard
        try:
            renew_lease(self._folder, stamp_ns, lease_s)
        except OSError as error:  # a full disk: what lives at most once is frozen until there is room
            logger("runner").warning("lease-not-renewed", error=str(error))

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        if stream not in logs.STREAMS or not is_attempt(attempt):
            return None
        folder = self._logs / attempt
        if attempt not in self._known and not folder.is_dir() and not self._folders.is_claimed(attempt):
            return None
        return logs.read(folder, stream, offset, max_bytes)

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:
        claims = {attempt: self._known.supervisor_of(attempt) for attempt in attempts}
        running = {attempt: claim for attempt, claim in claims.items() if claim is not None}
        return await asyncio.to_thread(look_at_tasks, running, self._cgroups) if running else {}

    async def open_shell(self, order: ShellOrder) -> Shell:
        if self._closed or self._known.supervisor_of(order.attempt) is None:
            raise ShellRefusedError(f"{order.attempt} does not run on its node")
        return await self._entrances.open(order)

    async def sweep_logs(self, older_than_days: float, others: Iterable[str] = ()) -> int:
        """Removes the output of attempts that ended before then; returns of how many. `others` run, too."""
        before_s = self._now_ms() / 1000 - older_than_days * logs.DAY_S
        running = {attempt for attempt, tracked in self._known.attempts.items() if not tracked.ended}
        running.update(others)
        return await asyncio.to_thread(logs.sweep, self._logs, before_s, running)

    def burdens(self) -> list[Burden]:
        """How heavily what runs here weighs on this node's memory. May be called from any thread."""
        attempts = self._known.attempts
        return [
            burden_of(attempt, claim, attempts[attempt].reserved_mib, self._cgroups)
            for attempt, claim in self._known.running().items()
        ]

    def private_tmps(self) -> dict[str, tuple[str, TmpLimit]]:
        """By attempt of what runs here: the folder that is its private /tmp, and the limit of that."""
        claims = self._known.running().items()
        folder = self._folder.absolute() / private_tmp.FOLDER
        return {name: (str(folder / name), claim.tmp) for name, claim in claims if claim.tmp is not None}

    def supervisors(self) -> dict[int, tuple[str, Claim]]:
        """By number of process, of what runs here. May be called from any thread."""
        tracked = dict(self._known.attempts).items()
        return {one.claim.pid: (name, one.claim) for name, one in tracked if one.claim and not one.ended}

    def abilities(self) -> list[Ability]:
        return self._isolation.abilities()

    def _order_stop(self, attempt: str) -> None:
        """The stop is written first and the claim looked for afterwards; a supervisor does it the other
        way round, so one of the two sees the other."""
        tracked = self._known.attempts[attempt]
        assert tracked.stop is not None
        if self._folders.order_stop(attempt, *tracked.stop):
            tracked.stop = None  # else it is written again: an older supervisor knows nothing of links
        if tracked.claim is None and self._folders.is_claimed(attempt):
            tracked.claim = self._journals.read().claims.get(attempt)
        if tracked.claim is not None:
            tracked.claim.send(signal.SIGUSR1)

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
                    self._known.ended(message.attempt, message.exit)
                elif (claim := message.whole_claim) is not None:
                    self._known.started(message.attempt, claim)
                elif message.unclaimed:
                    self._known.unclaimed(message.attempt)

    async def _begin_first_journal(self) -> None:
        """On a full disk the last one is used further; if there is none, space is waited for."""
        while True:
            try:
                self._journals.begin(self._boot)
            except OSError as error:
                if self._journals.resume(self._boot):
                    return
                logger("runner").error("no journal can be begun, and is tried again", error=str(error))
                await asyncio.sleep(JOURNAL_AGAIN_S)
            else:
                return

    async def _survey(self, surveyor: Surveyor) -> list[RunnerEvent]:
        found, forgotten = await asyncio.to_thread(surveyor.survey)
        self._known.forgotten = dict.fromkeys(forgotten, self._loop.time())
        events: list[RunnerEvent] = []
        for attempt, about in found.items():
            tracked = Tracked({about.generation, self._journals.current}, claim=about.claim, started=True)
            self._known.attempts[attempt] = tracked
            if about.exit is not None:
                tracked.ended = True
                events.append(AttemptEnded(attempt, about.exit))
            elif about.claim is not None:
                events.append(AttemptStarted(attempt, about.claim.started_ms))
        return events

    async def _start_spawner(self, lock: int) -> None:
        """Also gives every order again of which nothing has been heard: none can run twice."""
        self._spawner = spawner = await warm.Spawner.start(self._folder, lock, self._on_spawner_death)
        folder, logs_dir = str(self._folder.absolute()), str(self._logs.absolute())
        isolation, keeps = self._isolation.packed_place(), (self._log_reserve_bytes, self._failed_tmp)
        place = (folder, logs_dir, self._cluster_id, *isolation, *keeps)
        spawner.send(frame(PLACE, *place))
        spawner.send(frame(JOURNAL, self._journals.current))
        for tracked in self._known.attempts.values():
            if tracked.order:
                self._send_again(tracked)

    def _send_again(self, tracked: Tracked) -> None:
        tracked.sent_at = self._loop.time()
        tracked.generations.add(self._journals.current)
        if self._spawner is not None:
            tracked.copies += 1
            self._spawner.send(tracked.order)

    def _begin_journal(self) -> None:
        generation = self._journals.begin(self._boot)
        if self._spawner is not None:
            self._spawner.send(frame(JOURNAL, generation))

    def _on_spawner_death(self, spawner: warm.Spawner) -> None:
        if not self._closed and spawner is self._spawner:
            self._spawner = None
            self._go(self._restart_spawner(spawner))

    async def _restart_spawner(self, dead: warm.Spawner) -> None:
        """At once if it is the first that died; the more of them die young, the later."""
        if self._loop.time() - dead.born >= GROWN_UP_S:
            self._pause_s = 0.0
        await dead.close()
        logger("runner").warning(
            "spawner-died",
            pid=dead.process.pid,
            status=dead.process.returncode,
            said=dead.last_words(),
            again_in_s=self._pause_s,
        )
        while self._spawner is None:
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            try:
                await self._start_spawner(await warm.take_lock(self._folder))
            except (OSError, warm.LockTakenError) as error:
                logger("runner").error("no-spawner", error=str(error), again_in_s=self._pause_s)

    def _go(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _packed(warn: Warn | None) -> WarnAt:
    return None if warn is None else (signal_number(warn.signal), warn.before_s, warn.main)


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
