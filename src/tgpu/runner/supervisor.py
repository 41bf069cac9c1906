"""One per task: starts it, keeps its output, ends it when told or when its time is up, records its end.

It lives outside the agent's session and outlives the agent. It is forked from the spawner and imports
nothing heavy; most tasks' supervisors never even set up the loop in `_watch`, because the task is over
within its first moments.
"""

import os
import resource
import select
import signal
import time

from tgpu.runner import records, task, tree
from tgpu.runner.output import Stream
from tgpu.runner.place import Order, Place

FIRST_MOMENTS_S = 0.01
"""A task that ends within this time is reported once, as over; `started` would only cost."""
LEFTOVER_GRACE_S = 2.0
"""What a task's leftovers (daemons, background children) get after its main process has ended."""
KILL_AGAIN_S = 0.05
GIVE_UP_S = 5.0
"""After so long, processes that we may not kill (a setuid program, say) are left alone."""
RETRY_S = (0.1, 0.5, 2.0, 5.0)

SIGNALS = (signal.SIGCHLD, signal.SIGTERM)


def supervise(place: Place, order: Order) -> None:
    """The whole life of a supervisor, from its fork to just before its `_exit`."""
    os.setsid()
    supervisor = Supervisor(place, order)
    if not supervisor.claim():
        return
    os.close(place.lock)  # whoever waits for this lock can see our claim now
    supervisor.run()
    supervisor.record()


class Supervisor:
    """What is true of one task now."""

    def __init__(self, place: Place, order: Order) -> None:
        self.place = place
        self.order = order
        self.pid = os.getpid()
        self.claim_line = b""
        self.started_ms: int | None = None
        self.main = -1
        self.status: int | None = None
        self.alone = True
        """No process of the tree is left."""
        self.refusal = ""
        self.told_to_stop = False
        self.stopping: tuple[str, str] | None = None
        """Why the tree is being ended: cause and detail; the first reason stays."""
        self.kill_at: float | None = None
        self.give_up_at: float | None = None
        self.left_alone = False
        self.in_cgroup = False
        self.streams: list[Stream] = []

    def claim(self) -> bool:
        """From here on nobody else will run this attempt. False: somebody else has, or the disk is full;
        then there is nothing to say, and the agent asks again."""
        attempt = self.order.attempt
        birth = records.birth_of(self.pid) or 0
        if not records.claim(attempt, self.place.generation):
            return False
        self.claim_line = records.claim_line(attempt, self.pid, birth, _now_ms())
        try:
            records.write_line(self.place.journal, self.claim_line)
        except OSError:
            os.unlink(f"{records.CLAIMS}/{attempt}")
            return False
        return True

    def run(self) -> None:
        # The agent writes the stop first and looks for the claim afterwards, we the other way round:
        # one of us sees the other.
        self.stopping = self._read_stop()
        if self.stopping is not None:
            return
        task.adopt_orphans()
        deadline = time.monotonic() + self.order.time_limit_s if self.order.time_limit_s else None
        try:
            refusals = self._start()
        except OSError as error:  # no room for another process, or for its pipes
            self.refusal = f"cannot start a process: {error.strerror}"
            return
        caught = signal.sigtimedwait(SIGNALS, FIRST_MOMENTS_S)
        self.told_to_stop = caught is not None and caught.si_signo == signal.SIGTERM
        self._reap()
        if not self.alone:
            self._watch(deadline, refusals)
        self.refusal = os.read(refusals, task.REASON_MAX).decode() if not self.refusal else self.refusal
        for stream in self.streams:
            stream.drain()

    def _start(self) -> int:
        """Forks the task; returns the pipe on which it says why it could not be executed."""
        refusals, refuse = os.pipe()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        self.started_ms = _now_ms()
        self.main = os.fork()
        if self.main == 0:
            self._become_task(refuse, out_end, err_end)
        self.alone = False
        os.close(refuse)
        os.close(out_end)
        os.close(err_end)
        folder = f"{self.place.logs}/{self.order.attempt}"
        for pipe, name in ((out, "stdout"), (err, "stderr")):
            os.set_blocking(pipe, False)
            self.streams.append(Stream(pipe, folder, name, self.order.log_cap_bytes))
        return refusals

    def _become_task(self, refuse: int, out_end: int, err_end: int) -> None:
        order = self.order
        try:
            os.setsid()
            os.dup2(out_end, 1)
            os.dup2(err_end, 2)
            order.env["TGPU_ATTEMPT_KEY"] = f"{self.place.cluster_id}:{order.attempt}"
            task.become(order.argv, order.env, order.cwd, order.user, self.place.own, self.pid)
        except BaseException as error:  # noqa: BLE001  whatever it is, the user is told
            reason = str(error) if isinstance(error, task.Refusal) else f"{type(error).__name__}: {error}"
            os.write(refuse, reason.encode(errors="replace")[: task.REASON_MAX])
        finally:
            os._exit(127)  # noqa: SLF001  this is how a forked child must end

    def _watch(self, deadline: float | None, refusals: int) -> None:
        """The loop for a task that lives on."""
        wake = self._catch_signals()
        poller = select.poll()
        poller.register(wake, select.POLLIN)
        poller.register(refusals, select.POLLIN)
        pipes = {stream.pipe: stream for stream in self.streams}
        for pipe in pipes:
            poller.register(pipe, select.POLLIN)
        while not self.alone and not self.left_alone:
            for fd, _ in poller.poll(self._until_next(deadline)):
                if fd == wake:
                    self.told_to_stop |= signal.SIGTERM in os.read(wake, 512)
                elif fd == refusals:
                    poller.unregister(fd)
                    self._executed(refusals)
                elif not pipes[fd].pump():
                    poller.unregister(fd)
            self._reap()
            self._heed(deadline)

    def _catch_signals(self) -> int:
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return wake

    def _executed(self, refusals: int) -> None:
        """The task has become the user's program, or has said why not."""
        self.refusal = os.read(refusals, task.REASON_MAX).decode()
        if self.refusal:
            return
        self.place.tell(self.claim_line)
        if self.place.cgroups is not None:
            self.in_cgroup = self.place.cgroups.gather(self.order.attempt, self.pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.alone = True
                return
            if pid == 0:
                return
            if pid == self.main:
                self.status = status

    def _heed(self, deadline: float | None) -> None:
        """Does what is due: a stop, the time limit, the leftovers of a task that has ended, a kill."""
        now = time.monotonic()
        if self.alone:
            return
        if self.stopping is None and self.status is None:
            if self.told_to_stop:
                self._begin_end(self._read_stop() or SHUTDOWN, now)
            elif deadline is not None and now >= deadline:
                limit = f"it ran longer than its limit of {self.order.time_limit_s} s"
                self._begin_end(("time-limit", limit), now)
        if self.status is not None and self.kill_at is None:
            tree.terminate(self.pid)
            self.kill_at = now + LEFTOVER_GRACE_S
        if self.kill_at is not None and now >= self.kill_at:
            self._kill(now)

    def _begin_end(self, reason: tuple[str, str], now: float) -> None:
        self.stopping = reason
        self.kill_at = now + self.order.grace_s
        tree.terminate(self.pid)

    def _kill(self, now: float) -> None:
        if self.in_cgroup and self.place.cgroups is not None:
            self.place.cgroups.kill(self.order.attempt)
        if tree.kill(self.pid):
            self.give_up_at = None
        elif self.give_up_at is None:
            self.give_up_at = now + GIVE_UP_S
        self.left_alone = self.give_up_at is not None and now >= self.give_up_at
        self.kill_at = now + KILL_AGAIN_S

    def _until_next(self, deadline: float | None) -> float | None:
        """Milliseconds until something is due; None: for ever."""
        due = self.kill_at
        if due is None and self.stopping is None and self.status is None:
            due = deadline
        return None if due is None else max(0.0, (due - time.monotonic()) * 1000 + 1)

    def _read_stop(self) -> tuple[str, str] | None:
        try:
            fd = os.open(f"{records.STOPS}/{self.order.attempt}", os.O_RDONLY)
        except FileNotFoundError:
            return None
        cause, _, detail = os.read(fd, 1 << 16).decode().partition("\n")
        os.close(fd)
        return cause, detail

    def record(self) -> None:
        """On disk first, and however long that takes; then the agent is told, if there is one."""
        line = self._exit_line()
        waits = iter(RETRY_S)
        while True:
            try:
                records.write_line(self.place.journal, line)
                os.fdatasync(self.place.journal)
                break
            except OSError:
                time.sleep(next(waits, RETRY_S[-1]))
        if self.in_cgroup and self.place.cgroups is not None:
            self.place.cgroups.remove(self.order.attempt)
        self.place.tell(line)

    def _exit_line(self) -> bytes:
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        exit_code = None if code is None or code < 0 or self.refusal else code
        number = None if code is None or code >= 0 else -code
        if self.stopping is not None:
            cause, detail = self.stopping
        elif self.refusal:
            cause, detail = "could-not-start", self.refusal
        else:
            cause, detail = "exited" if number is None else "signalled", ""
        lost = sum(stream.lost for stream in self.streams)
        notes = [
            detail,
            f"{lost} bytes of output could not be written" if lost else "",
            "processes that may not be killed were left running" if self.left_alone else "",
        ]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return records.exit_line(
            self.order.attempt,
            cause,
            exit_code=exit_code,
            signal=number,
            detail="; ".join(filter(None, notes)),
            started_ms=None if self.refusal else self.started_ms,
            ended_ms=_now_ms(),
            cpu_ms=round((used.ru_utime + used.ru_stime) * 1000),
            peak_memory_mib=used.ru_maxrss // 1024,
        )


SHUTDOWN = ("rebooted", "it was told to end by the system, most likely because the machine shut down")
"""A SIGTERM that the agent did not announce."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _noted(_number: int, _frame: object) -> None:
    """The wake-up pipe says it all; without a handler nothing would be written to it."""
