"""Who comes in beside a task while it runs: programs of `exec`, and those who look at its terminal.

A program that comes in is a child of the task's supervisor, as the task is: it has the task's user,
environment and limits, it is stopped and killed with it, and the task is not over before it is. Its input
and output are the agent's business; the supervisor says only how it ended.
"""

import os
import select
import sys
from _socket import AF_UNIX, CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET
from _socket import socket as raw_socket

from tgpu.runner import calls, task
from tgpu.runner.cgroups.enclosure import Enclosure
from tgpu.runner.light import signal
from tgpu.runner.place import Order, Place, take_frame
from tgpu.runner.private_tmp import PrivateTmp
from tgpu.runner.terminal import Terminal, Viewer

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from typing import NoReturn

READ = 1 << 16
ENDS_MAX = 3
INT = 4
REASON_MAX = 2048
CANNOT_EXECUTE, NO_SUCH_COMMAND = 126, 127
TERM = "xterm"


class Caller:
    """One connection to the agent, and what came of it."""

    __slots__ = ("buffer", "conn", "ends", "pid", "viewer")

    def __init__(self, conn: raw_socket) -> None:
        self.conn = conn
        self.buffer = bytearray()
        self.ends: list[int] = []
        self.pid = 0
        self.viewer: Viewer | None = None

    def say(self, kind: bytes, body: bytes = b"") -> None:
        try:
            self.conn.send(calls.packed(kind, body))
        except OSError:  # whoever called is gone, and will be seen to be
            return


class Companions:
    """Of one task; `poller` is its supervisor's."""

    def __init__(
        self,
        place: Place,
        order: Order,
        view: PrivateTmp | None,
        poller: select.poll,
        enclosure: Enclosure,
    ) -> None:
        """`view`: the mounts that the supervisor has made for the task, if it has its own. Mounts that
        the task has made for itself are not entered: its user controls them."""
        self._place = place
        self._enclosure = enclosure
        self._order = order
        self._view = view
        self._pid = os.getpid()
        self._poller = poller
        self._callers: dict[int, Caller] = {}
        """By their sockets."""
        self._by_pid: dict[int, Caller] = {}
        self.terminal: Terminal | None = None

    def called(self, refusal: str) -> None:
        """The agent has sent a signal: perhaps somebody wants in. `refusal`: why that cannot be now."""
        conn = raw_socket(AF_UNIX, SOCK_STREAM)
        conn.setblocking(False)
        try:
            conn.connect(f"{calls.FOLDER}/{self._order.attempt}")
        except OSError:  # nobody does
            conn.close()
            return
        caller = Caller(conn)
        if refusal:
            caller.say(calls.REFUSED, refusal.encode())
            conn.close()
            return
        self._callers[conn.fileno()] = caller
        self._poller.register(conn.fileno(), select.POLLIN)

    def heed(self, fd: int, event: int) -> None:
        """Something is up with a socket of theirs."""
        caller = self._callers.get(fd)
        if caller is None:
            return
        if event & select.POLLOUT and caller.viewer is not None and self.terminal is not None:
            self.terminal.go_on(caller.viewer)
        if event & ~select.POLLOUT and not self._hear(caller):
            self._leave(caller)

    def _hear(self, caller: Caller) -> bool:
        """False once nothing more will come."""
        try:
            data, notes, _, _ = caller.conn.recvmsg(READ, CMSG_SPACE(ENDS_MAX * INT), MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for level, kind, ends in notes:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                whole = range(0, len(ends) - len(ends) % INT, INT)
                caller.ends += [int.from_bytes(ends[at : at + INT], sys.byteorder) for at in whole]
        caller.buffer += data
        while (taken := take_frame(caller.buffer)) is not None:
            self._obey(caller, taken[0], taken[1][calls.HEAD :])
        return bool(data)

    def _obey(self, caller: Caller, kind: bytes, body: bytes) -> None:
        if kind == calls.ENTER and not caller.pid:
            self._enter(caller, body)
        elif kind == calls.ATTACH and caller.viewer is None:
            if self.terminal is None:
                caller.say(calls.REFUSED, b"it has no terminal of its own: its stdin is /dev/null")
            else:
                caller.say(calls.WELCOME)
                caller.viewer = self.terminal.attach(caller.conn)
        elif caller.viewer is not None and self.terminal is not None:
            if kind == calls.INPUT:
                self.terminal.type(body)
            elif kind == calls.RESIZE:
                self.terminal.resize(*calls.unpacked_size(body))

    def _enter(self, caller: Caller, body: bytes) -> None:
        caller.say(calls.WELCOME)  # first: what the child says comes after it
        try:
            child = self._born_inside()
        except OSError as error:
            caller.say(calls.REFUSED, f"cannot start a process: {error.strerror}".encode())
            return
        if child == 0:
            self._become(caller, body)
        caller.pid = child
        self._by_pid[child] = caller
        for end in caller.ends:
            os.close(end)
        caller.ends.clear()

    def _born_inside(self) -> int:
        """A child within what holds for the task; only its parent steps out again."""
        child = -1
        try:
            self._enclosure.enter()
            child = self._enclosure.fork()
        finally:
            if child != 0:
                self._enclosure.leave()
        return child

    def _become(self, caller: Caller, body: bytes) -> "NoReturn":
        """In the child: never returns."""
        code = CANNOT_EXECUTE
        try:
            signal.set_wakeup_fd(-1)  # it is the supervisor's
            tty, term, argv = calls.unpacked_program(body)
            for number, end in enumerate(caller.ends if not tty else caller.ends * ENDS_MAX):
                os.dup2(end, number)
            order, env = self._order, dict(self._order.env)
            if tty:
                env["TERM"] = term or TERM
            account = self._place.account(order.user)
            account.complete(env)
            become = (account, self._pid, order.secret_env)
            most = order.bounds.user_pids
            task.become(argv, env, order.cwd, *become, terminal=tty, view=self._view, most_pids=most)
        except BaseException as error:  # noqa: BLE001  whatever it is, the user is told
            reason = str(error) if isinstance(error, task.Refusal) else f"{type(error).__name__}: {error}"
            code = NO_SUCH_COMMAND if reason.endswith(task.NOT_FOUND) else CANNOT_EXECUTE
            caller.say(calls.REFUSED, reason.encode(errors="replace")[:REASON_MAX])
        finally:
            os._exit(code)

    def reaped(self, pid: int, status: int) -> None:
        caller = self._by_pid.pop(pid, None)
        if caller is not None:
            caller.pid = 0
            caller.say(calls.EXITED, str(os.waitstatus_to_exitcode(status)).encode("ascii"))

    def _leave(self, caller: Caller) -> None:
        """Whoever called is gone: their program is told as by a terminal that was closed."""
        self._poller.unregister(caller.conn.fileno())
        del self._callers[caller.conn.fileno()]
        if caller.viewer is not None and self.terminal is not None:
            self.terminal.detach(caller.viewer)
        caller.conn.close()
        for end in caller.ends:
            os.close(end)
        for number in (signal.SIGHUP, signal.SIGCONT) if caller.pid else ():
            try:
                os.killpg(caller.pid, number)
            except OSError:  # it has changed its user, or is not even a session of its own yet
                continue

    def until_next_ms(self) -> float | None:
        return None if self.terminal is None else self.terminal.until_next_ms()

    def close(self) -> None:
        """The task is over, and so are they all; what the terminal had to show was shown."""
        for caller in self._callers.values():
            caller.conn.close()
