"""When a task's tree is ended, and how: told to, out of time, or left over when its main process is gone."""

import os
import time

from tgpu.runner import records, tree
from tgpu.runner.light import signal
from tgpu.runner.place import Order, Place

LEFTOVER_GRACE_S = 2.0
"""What a task's leftovers (daemons, background children) get after its main process has ended."""
KILL_AGAIN_S = 0.05
HANG_UP_AGAIN_S = 0.2
"""A shell that is just about to wait for keys may take no notice of the first SIGHUP."""
GIVE_UP_S = 5.0
"""After so long, processes that we may not kill (a setuid program, say) are left alone."""
SUPERSEDED = "superseded"
SHUTDOWN = ("rebooted", "it was told to end by the system, most likely because the machine shut down")
"""A SIGTERM is not the agent's: its stops come as a file and SIGUSR1."""


class Ending:
    """A warning before the time limit, if it is to have one; at the end its stop signal (SIGTERM, unless it
    has chosen another) to the whole tree, a grace, then SIGKILL until nobody is left."""

    def __init__(self, place: Place, order: Order) -> None:
        self._place = place
        self._order = order
        self._pid = os.getpid()
        self._deadline = time.monotonic() + order.time_limit_s if order.time_limit_s is not None else None
        self._warn_at: float | None = None
        if self._deadline is not None and order.warn is not None:
            self._warn_at = self._deadline - order.warn[1]
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._hang_up_at: float | None = None
        """Of a shell that waited to be typed to when its end began, and does still."""
        self._in_cgroup = False
        self._frozen = False
        self.reason: tuple[str, str] | None = None
        """Cause and detail; the first reason stays, whatever comes later."""
        self.gave_up = False
        self.main = -1
        """The task's main process, once it runs."""

    def read_stop(self) -> tuple[str, str] | None:
        """What the agent has written down for this attempt, if anything."""
        cause, _, detail = self._stop_text().removesuffix(records.AT_ONCE).partition("\n")
        return (cause, detail) if cause else None

    def _stop_text(self) -> str:
        path = f"{records.STOPS}/{self._order.attempt}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return ""
        except OSError:  # it is a link, written on a full disk
            text = os.readlink(path)  # noqa: PTH115  pathlib is too heavy here
            bare = text.removeprefix(records.LINK_AT_ONCE)
            return bare if bare == text else bare + records.AT_ONCE
        text = os.read(fd, 1 << 16).decode()
        os.close(fd)
        return text

    def _stops_at_once(self) -> bool:
        return self._stop_text().endswith(records.AT_ONCE)

    def look_for_stop(self, *, shutdown: bool = False) -> None:
        """`shutdown`: whatever told us to end was not the agent, unless it has written so."""
        if self.reason is None and self._kill_at is None:
            stop = self.read_stop() or (SHUTDOWN if shutdown else None)
            if stop is not None:
                self._begin(stop, time.monotonic())

    @property
    def is_superseded(self) -> bool:
        """Another attempt of its task runs: of one that lives at most once, this one may not run any more."""
        return self._order.once and self.reason is not None and self.reason[0] == SUPERSEDED

    def freeze(self) -> None:
        """All of it: what is stopped cannot fork, and who was born meanwhile is found by the next call."""
        self._frozen = True
        if self._in_cgroup and self._place.cgroups is not None:
            self._place.cgroups.freeze(self._order.attempt)
        tree.stop(self._pid)

    def thaw(self) -> None:
        self._frozen = False
        tree.go_on(self._pid)
        if self._in_cgroup and self._place.cgroups is not None:
            self._place.cgroups.thaw(self._order.attempt)

    def use_cgroup(self) -> None:
        """The task has groups of its name."""
        self._in_cgroup = True

    def heed(self, signals: set[int], *, main_ended: bool) -> None:
        """Does what is due now; `signals` are those caught since it was last called."""
        now = time.monotonic()
        told = signals & {signal.SIGUSR1, signal.SIGTERM}
        if not main_ended:
            if told:
                self.look_for_stop(shutdown=signal.SIGTERM in signals)
            self._look_at_limit(now)
        if self._hang_up_at is not None and now >= self._hang_up_at:
            self._hang_up(now, main_ended=main_ended)
        if told and self._kill_at is not None and self._stops_at_once():
            self._kill_at = now  # also if a grace period has begun
        if main_ended and self._kill_at is None:
            tree.terminate(self._pid, wake=not self._frozen)
            self._kill_at = now + LEFTOVER_GRACE_S
        if self._kill_at is not None and now >= self._kill_at:
            self._kill(now)

    def _look_at_limit(self, now: float) -> None:
        if self._warn_at is not None and now >= self._warn_at:
            self._warn_at = None
            self._warn()
        if self.reason is None and self._deadline is not None and now >= self._deadline:
            limit = f"it ran longer than its limit of {self._order.time_limit_s} s"
            self._begin(("time-limit", limit), now)

    def until_next_ms(self, *, main_ended: bool) -> float | None:
        """How long nothing is due; None: for ever."""
        limit = self._deadline if self._warn_at is None else self._warn_at
        due = limit if self._kill_at is None and not main_ended else self._kill_at
        if due is not None and self._hang_up_at is not None:
            due = min(due, self._hang_up_at)
        return None if due is None else max(0.0, (due - time.monotonic()) * 1000 + 1)

    def _warn(self) -> None:
        warn = self._order.warn
        if warn is not None and self.reason is None:
            number, _, main_only = warn
            every = tree.members(self._pid)
            tree.warn({pid: every[pid] for pid in every if pid == self.main or not main_only}, number)

    def _begin(self, reason: tuple[str, str], now: float) -> None:
        """Processes left by the main process keep the whole grace period: behind a shell that dies at once,
        a program may still be saving its work. Without a grace period the stop signal is not sent: whether
        the task exits by itself or is killed would be a race."""
        self.reason = reason
        if self.is_superseded or self._stops_at_once():
            self._kill_at = now
            return
        self._kill_at = now + self._order.grace_s
        # Looked at before: a program may ignore SIGTERM from the first one on, while it saves its work.
        waits = self._order.pty and tree.is_waiting_shell(self.main)
        tree.terminate(self._pid, wake=not self._frozen, number=self._order.stop_signal)
        if waits:
            self._hang_up(now, main_ended=False)

    def _hang_up(self, now: float, *, main_ended: bool) -> None:
        """Until it is gone, or something runs in it."""
        waits = not main_ended and tree.is_waiting_shell(self.main)
        self._hang_up_at = now + HANG_UP_AGAIN_S if waits else None
        if waits:
            tree.hang_up(self._pid, self.main)

    def _kill(self, now: float) -> None:
        if self._in_cgroup and self._place.cgroups is not None:
            self._place.cgroups.kill(self._order.attempt)
        killed = tree.kill(self._pid)
        if self._frozen and self._in_cgroup and self._place.cgroups is not None:
            self._place.cgroups.thaw(self._order.attempt)  # only to die: version 1 holds up SIGKILL too
        if killed:
            self._give_up_at = None
        elif self._give_up_at is None:
            self._give_up_at = now + GIVE_UP_S
        self.gave_up = self._give_up_at is not None and now >= self._give_up_at
        self._kill_at = now + KILL_AGAIN_S
