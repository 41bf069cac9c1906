"""One per task: starts it, keeps its output, ends it when told or when its time is up, records its end.

It lives outside the agent's session and outlives the agent. It is forked from the spawner and imports
nothing heavy. Most tasks are over within their first moments; then the loop in `_watch` is never set up,
and the supervisor takes another order.
"""

import os
import select
import time
from errno import ENOSPC

from tgpu.runner import checkpoint_folder, failed_tmp, memory_words, private_tmp, records, task
from tgpu.runner.cgroups.enclosure import Enclosure
from tgpu.runner.companion import TERM, Companions
from tgpu.runner.desk import Desk
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.ending import Ending
from tgpu.runner.lease import Lease
from tgpu.runner.light import signal
from tgpu.runner.output import Stream
from tgpu.runner.place import Order, Place
from tgpu.runner.private_tmp import PrivateTmp
from tgpu.runner.task_start import REASON_MAX, TaskStart
from tgpu.runner.terminal import Terminal
from tgpu.runner.time_index import LastWriter
from tgpu.runner.user_files import UserFiles

FIRST_MOMENTS_S = 0.01
"""A task that ends within this time is reported once, as over; `started` would only cost."""
RETRY_S = 2.0
BLOCK = 512
"""What the kernel counts disks in, whatever they are made of."""
SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)


def serve(place: Place, desk: Desk, message: bytes | None) -> None:
    """The whole life of a supervisor, from its fork to just before its `_exit`."""
    os.setsid()
    task.adopt_orphans()
    birth = records.birth_of(os.getpid()) or 0
    enclosure = place.enclosure()
    tmp = private_tmp.PrivateTmp() if place.private_tmp else None
    heard = True
    while message is not None:
        supervisor = Supervisor(place, desk, Order.of(message), enclosure, tmp)
        if supervisor.claim(birth):
            supervisor.run()
            heard = supervisor.record()
        else:
            desk.say_free()
        message = desk.next_order()
    enclosure.close()
    if not heard:
        place.tidy_if_last()  # the agent went before its last task: nobody else cleans up


class Supervisor:
    """What is true of one task now."""

    def __init__(
        self, place: Place, desk: Desk, order: Order, enclosure: Enclosure, tmp: PrivateTmp | None
    ) -> None:
        self.enclosure = enclosure
        named = (order.cwd, *(order.files or ())[:2])
        self.tmp = None if order.shared_tmp or not private_tmp.is_for(*named) else tmp
        self.place = place
        self.desk = desk
        self.order = order
        self.pid = os.getpid()
        self.claim_line = b""
        self.started_ms: int | None = None
        self.main = -1
        self.status: int | None = None
        self.cpu_s = 0.0
        self.peak_kib = 0
        self.blocks_read = self.blocks_written = 0
        self.alone = True
        """No process of the tree is left."""
        self.ran_on = False
        """It outlived its first moments."""
        self.refusals = -1
        """Where a forked task says why it could not become the user's program."""
        self.refusal = ""
        self.kept_tmp = ""
        self.signals: set[int] = set()
        """What was caught and not yet heeded."""
        self.ending = Ending(place, order)
        self.lease = Lease(order)
        self.streams: list[Stream] = []
        self.files: UserFiles | None = None
        self.terminal: Terminal | None = None
        self.companions: Companions | None = None

    def claim(self, birth: int) -> bool:
        """From here on nobody else will run it. False: another supervisor has it, or the disk is full."""
        attempt, place, bounds = self.order.attempt, self.place, self.order.bounds
        tmp = None if self.tmp is None else (self.order.user, bounds.disk_mib, bounds.disk_limit_mib)
        self.claim_line = records.claim_line(attempt, self.pid, birth, _now_ms(), tmp)
        try:
            return records.claim(attempt, place.generation, place.journal, self.claim_line)
        except OSError:
            place.tell(records.unclaimed_line(attempt))
            return False

    def run(self) -> None:
        # The agent writes the stop first and looks for the claim afterwards, we the other way round:
        # one of us sees the other.
        self.ending.reason = self.ending.read_stop()
        if self.lease.is_over:
            self.desk.leave()
            self.lease.await_start(self.ending)
        if self.ending.reason is not None:
            return
        try:
            self._start()
        except task.Refusal as refusal:
            self.refusal = str(refusal)
        except OSError as error:  # no room for another process, for its pipes, or on the disk
            self.refusal = records.not_started(error)
        if not self.alone and not self._is_over_at_once():
            self.desk.leave()
            self.ran_on = True
            self._watch()
        if self.refusals >= 0:
            self._read_refusal()
        for stream in self.streams:
            stream.close()
        if self.files is not None:
            self.files.close()
        if self.companions is not None:
            self.companions.close()

    def _start(self) -> None:
        order, place = self.order, self.place
        order.env["TGPU_ATTEMPT_KEY"] = f"{place.cluster_id}:{order.attempt}"
        self.enclosure.prepare(order.attempt, order.bounds)
        self._prepare_tmp()
        ends = self._open_streams(f"{place.logs}/{order.attempt}")
        self.started_ms = _now_ms()
        start = TaskStart(place, order, self.enclosure, self.tmp, self.files)
        try:
            self.enclosure.enter()
            self.main = start.start(*ends)
            self.alone, self.ending.main = False, self.main
        finally:
            self.refusals = start.refusals
            self.enclosure.leave()
            for end in set(ends):
                os.close(end)

    def _prepare_tmp(self) -> None:
        if self.tmp is None:
            return
        try:
            self.tmp.prepare(self.order.attempt, self.order.bounds.memory_limit_mib)
        except OSError as error:  # it gets no less than its node says that it has
            if error.errno == ENOSPC:
                raise
            raise task.Refusal(f"cannot make its private /tmp: {error.strerror}") from None
        finally:
            os.chdir(self.place.folder)

    def _open_streams(self, folder: str) -> tuple[int, int]:
        """The task's ends of stdout and stderr: of a terminal, both are the same."""
        order, ends = self.order, []
        if order.files is not None:
            self.desk.leave()  # a thread writes them, beside which no other task could be given its view
            self.files = UserFiles(*order.files, own_tmp=self.tmp is not None)
        if order.pty:
            order.env.setdefault("TERM", TERM)
            self.terminal = Terminal(folder, order.log_cap_bytes, self.files)
            self.streams.append(self.terminal)
            return self.terminal.slave, self.terminal.slave
        writer = LastWriter()
        for name in ("stdout", "stderr"):
            pipe, end = os.pipe()
            os.set_blocking(pipe, False)
            self.streams.append(Stream(pipe, folder, name, order.log_cap_bytes, self.files, writer))
            ends.append(end)
        return ends[0], ends[1]

    def _is_over_at_once(self) -> bool:
        until = time.monotonic() + FIRST_MOMENTS_S
        while (left := until - time.monotonic()) > 0:
            caught = signal.sigtimedwait(SIGNALS, left)
            if caught is None:
                break
            if caught.si_signo != signal.SIGCHLD:
                self.signals.add(caught.si_signo)
                break
            self._reap()
            if self.status is not None:
                break
        return self.alone

    def _watch(self) -> None:
        """The loop for a task that lives on."""
        wake = self._catch_signals()
        poller = select.poll()
        companions = self._open(poller, wake)
        pipes = {stream.pipe: stream for stream in self.streams}
        while True:
            self._reap()
            if self.alone or self.ending.gave_up:
                return
            main_ended = self.status is not None
            self.lease.heed(self.ending)
            self.ending.heed(self.signals, main_ended=main_ended)
            if signal.SIGUSR1 in self.signals:
                companions.called(self._why_none_may_enter(main_ended=main_ended))
            self.signals.clear()
            for fd, event in poller.poll(self._until_next_ms(main_ended=main_ended)):
                if fd == wake:
                    self.signals.update(os.read(wake, 512))
                elif fd == self.refusals:
                    poller.unregister(fd)
                    self._read_refusal()
                    self._executed()
                elif fd not in pipes:
                    companions.heed(fd, event)
                elif not pipes[fd].pump():
                    poller.unregister(fd)

    def _open(self, poller: select.poll, wake: int) -> Companions:
        """Lets the poller watch all that this task can bring about."""
        companions = self.companions = Companions(self.place, self.order, self.tmp, poller, self.enclosure)
        poller.register(wake, select.POLLIN)
        for stream in self.streams:
            poller.register(stream.pipe, select.POLLIN)
        if self.terminal is not None:
            companions.terminal = self.terminal
            self.terminal.watch(poller)
        if self.refusals >= 0:
            poller.register(self.refusals, select.POLLIN)
        else:
            self._executed()
        return companions

    def _why_none_may_enter(self, *, main_ended: bool) -> str:
        if main_ended or self.ending.reason is not None:
            return "it is coming to its end"
        return "it is frozen, because its node is cut off from all servers" if self.lease.is_over else ""

    def _until_next_ms(self, *, main_ended: bool) -> float | None:
        """How long nothing is due; None: for ever."""
        due = [self.ending.until_next_ms(main_ended=main_ended), self.lease.until_next_ms()]
        if self.companions is not None:
            due.append(self.companions.until_next_ms())
        return min((ms for ms in due if ms is not None), default=None)

    def _catch_signals(self) -> int:
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return wake

    def _read_refusal(self) -> None:
        """Empty, if the task has become the user's program."""
        self.refusal = os.read(self.refusals, REASON_MAX).decode(errors="replace")
        os.close(self.refusals)
        self.refusals = -1

    def _executed(self) -> None:
        if self.refusal:
            return
        self.place.tell(self.claim_line)
        if self.enclosure.keep():
            self.ending.use_cgroup()

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.alone = True
                return
            if pid == 0:
                return
            self.cpu_s += used.ru_utime + used.ru_stime
            self.peak_kib = max(self.peak_kib, used.ru_maxrss)
            self.blocks_read += used.ru_inblock
            self.blocks_written += used.ru_oublock
            if pid == self.main:
                self.status = status
            elif self.companions is not None:
                self.companions.reaped(pid, status)

    def record(self) -> bool:
        """On disk first, then the agent is told. False: there is none. A full disk: the agent is told before,
        and what the task left is removed, since that may be what fills it."""
        left_files = self.tmp is not None and not self.tmp.release()
        line = self._exit_line(left_files=left_files)
        if records.is_recorded(self.place.journal, line):
            return self._leave(line, left_files=left_files)
        self.desk.leave()  # nobody may wait for us as long as this takes
        if self.kept_tmp:
            failed_tmp.discard(self.kept_tmp)
            line = self._exit_line(left_files=False)
        self._leave(line, left_files=left_files)
        while not records.is_recorded(self.place.journal, line):
            self.place.tell(line)  # to the next agent, if there is another one by now
            time.sleep(RETRY_S)
        return self.place.tell(line)

    def _leave(self, line: bytes, *, left_files: bool) -> bool:
        """Gives up what the task had, and tells the agent of its end."""
        reason = self.ending.reason  # others: another attempt may be about to use it
        if reason is None or reason[0] in checkpoint_folder.FINAL:
            checkpoint_folder.remove_if_empty(self.order.checkpoint_dir)
        self.enclosure.release()
        if left_files:
            self.desk.leave()  # nobody may wait until they are removed
        self.desk.say_free()  # before the agent hears of the end and sends the next order
        heard = self.place.tell(line)
        if self.tmp is not None:
            self.tmp.clear()
        return heard

    def _exit_line(self, *, left_files: bool) -> bytes:
        """`left_files`: in its private /tmp."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        exit_code = None if code is None or code < 0 or self.refusal else code
        number = None if code is None or code >= 0 else -code
        if self.ending.reason is not None:
            cause, detail = self.ending.reason
        elif self.refusal:
            cause = "node-lost" if self.refusal == DISK_FULL else "could-not-start"
            detail = private_tmp.explained(self.refusal, own=self.tmp is not None)
        else:
            cause, detail = "exited" if number is None else "signalled", ""
        peak_mib, limit_mib = self._peak_mib(), self.order.bounds.memory_limit_mib
        if code != 0 or self.ran_on:
            kills = self.enclosure.oom_kills()
            at_limit = kills > 0 and self.enclosure.was_at_limit()
            cause, killed = memory_words.verdict(cause, number, kills, at_limit, peak_mib, limit_mib)
            detail = detail or killed
        lost = sum(stream.lost for stream in self.streams)
        notes = [
            detail,
            f"{lost} bytes of output could not be written" if lost else "",
            "" if self.files is None else self.files.last_words(),
            "processes that may not be killed were left running" if self.ending.gave_up else "",
        ]
        return records.exit_line(
            self.order.attempt,
            cause,
            exit_code=exit_code,
            signal=number,
            detail="; ".join(filter(None, notes)),
            started_ms=None if self.refusal else self.started_ms,
            ended_ms=_now_ms(),
            cpu_ms=round(self._cpu_s() * 1000),
            peak_memory_mib=peak_mib,
            memory_limit_mib=limit_mib or None,
            checkpoint_ms=checkpoint_folder.saved_ms(self.order.checkpoint_dir),
            disks=(BLOCK * self.blocks_read, BLOCK * self.blocks_written) if self.ran_on else None,
            kept_tmp=self._keep_tmp() if left_files and failed_tmp.is_failure(cause, code) else "",
        )

    def _keep_tmp(self) -> str:
        """Where the private /tmp of this attempt is from now on; empty: it is removed."""
        if self.tmp is None or not self.place.failed_tmp:
            return ""
        self.desk.leave()  # a name is looked up, which may take a while
        try:
            owner = failed_tmp.owner(lambda: self.place.account(self.order.user))
            self.kept_tmp = self.tmp.keep(self.place.failed_tmp, *owner)
        except OSError:  # then it goes, as that of any other task
            return ""
        return self.kept_tmp

    def _cpu_s(self) -> float:
        """A parent that ignores SIGCHLD does not count what its children used; a group does."""
        return max(self.cpu_s, self.enclosure.cpu_s()) if self.ran_on else self.cpu_s

    def _peak_mib(self) -> int:
        """Of a task that lasted, what its group held; of any other, its largest process."""
        held = self.enclosure.peak_bytes() if self.ran_on else 0
        return max(self.peak_kib // 1024, -(-held // memory_words.MIB))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _noted(_number: int, _frame: object) -> None:
    """The wake-up pipe says it all; without a handler nothing would be written to it."""
