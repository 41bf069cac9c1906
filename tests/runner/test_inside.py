"""Programs that come in beside a running task, and a task's own terminal."""

import asyncio
import errno
import os
import pwd
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.runner.conftest import ME, PATH, Machine, is_running
from tgpu.domain.lifecycle import Cause
from tgpu.runner.cgroups.enclosure import Enclosure
from tgpu.runner.companion import Companions
from tgpu.runner.shell_port import CHUNK, Over, Shell, ShellOrder, ShellRefusedError

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's job")


class Inside:
    """A shell, driven in few words."""

    def __init__(self, machine: Machine, order: ShellOrder) -> None:
        self._loop = machine.loop
        self.shell: Shell = self._loop.run_until_complete(machine.runner.open_shell(order))
        self.printed = {1: b"", 2: b""}
        self.over: Over | None = None

    def read_until(self, is_so: Callable[[], object], within_s: float = 60) -> None:
        async def read() -> None:
            while not is_so() and self.over is None:
                said = await self.shell.read()
                if isinstance(said, Over):
                    self.over = said
                else:
                    assert len(said.data) <= CHUNK
                    self.printed[said.stream] += said.data

        try:
            self._loop.run_until_complete(asyncio.wait_for(read(), within_s))
        except TimeoutError:
            raise AssertionError(f"not within {within_s} s; it said {self.printed}") from None

    def read_to_end(self) -> Over:
        self.read_until(lambda: False)
        self.shell.close()
        assert self.over is not None
        return self.over

    def until_printed(self, text: bytes) -> None:
        self.read_until(lambda: text in self.printed[1])
        assert text in self.printed[1], (self.printed, self.over)

    def type(self, data: bytes) -> None:
        self._loop.run_until_complete(asyncio.wait_for(self.shell.write(data), 10))

    def type_soon(self, *pieces: bytes) -> "asyncio.Task[None]":
        """While something else is waited for."""

        async def type_them() -> None:
            for piece in pieces:
                await self.shell.write(piece)

        return self._loop.create_task(type_them())


def running(machine: Machine, *argv: str, **changes: object) -> str:
    attempt = machine.launch(*(argv or ("sleep", "100")), **changes)
    machine.start_of(attempt)
    return attempt


def enter(machine: Machine, attempt: str, *command: str, **more: object) -> Inside:
    return Inside(machine, ShellOrder(attempt, command, **more))  # type: ignore[arg-type]


def stop(machine: Machine, attempt: str) -> None:
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    machine.end_of(attempt)


def test_a_program_has_what_the_task_has(machine: Machine, tmp_path: Path) -> None:
    env = {"PATH": PATH, "CUDA_VISIBLE_DEVICES": "3", "A": "ü"}
    attempt = running(machine, cwd=str(tmp_path), env=env)
    inside = enter(machine, attempt, "sh", "-c", "pwd; echo $CUDA_VISIBLE_DEVICES $A $HOME; id -un; exit 3")
    assert inside.read_to_end() == Over(3)
    home = pwd.getpwnam(ME).pw_dir
    assert inside.printed[1].decode().split() == [str(tmp_path), "3", "ü", home, ME]
    stop(machine, attempt)


def test_its_input_and_its_two_outputs_are_its_own(machine: Machine) -> None:
    attempt = running(machine)
    inside = enter(machine, attempt, "sh", "-c", "tr a-z A-Z; echo bad >&2")
    typing = inside.type_soon(b"x" * 300_000, b"")
    assert inside.read_to_end() == Over(0)
    assert inside.printed == {1: b"X" * 300_000, 2: b"bad\n"}
    assert typing.done()
    assert machine.output(attempt) == b"", "nothing of it is the task's output"
    stop(machine, attempt)


def test_a_terminal_has_a_size_that_changes(machine: Machine) -> None:
    attempt = running(machine)
    script = "stty size; trap 'stty size; exit 5' WINCH; tty; while :; do sleep 0.05; done"
    inside = enter(machine, attempt, "sh", "-c", script, tty=True, rows=33, cols=111, term="vt100")
    inside.until_printed(b"/dev/pts/")
    assert b"33 111" in inside.printed[1]
    inside.shell.resize(50, 90)
    assert inside.read_to_end() == Over(5)
    assert b"50 90" in inside.printed[1]
    stop(machine, attempt)


def test_control_c_reaches_the_program_and_not_the_task(machine: Machine) -> None:
    attempt = running(machine)
    inside = enter(machine, attempt, "sh", "-c", "echo up; exec sleep 100", tty=True)
    inside.until_printed(b"up")
    inside.type(b"\x03")
    assert inside.read_to_end() == Over(128 + signal.SIGINT)
    assert not [event for event in machine.events if getattr(event, "exit", None)]
    stop(machine, attempt)


def test_what_cannot_be_run_says_so(machine: Machine, tmp_path: Path) -> None:
    attempt = running(machine)
    assert enter(machine, attempt, "nonsense").read_to_end() == Over(127, "nonsense: command not found")
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert enter(machine, attempt, str(plain)).read_to_end() == Over(126, f"{plain}: Permission denied")
    stop(machine, attempt)


def test_it_ends_with_the_task(machine: Machine) -> None:
    attempt = running(machine)
    inside = enter(machine, attempt, "sh", "-c", "trap '' HUP TERM; echo $$; sleep 100; sleep 100")
    inside.until_printed(b"\n")
    pid = int(inside.printed[1])
    machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    over = inside.read_to_end()
    assert over.exit_code in (None, 128 + signal.SIGKILL)
    machine.end_of(attempt)
    assert not is_running(pid)


def test_who_goes_away_hangs_up(machine: Machine) -> None:
    attempt = running(machine)
    inside = enter(machine, attempt, "sh", "-c", "echo $$; sleep 100")
    inside.until_printed(b"\n")
    inside.shell.close()
    machine.until(lambda: not is_running(int(inside.printed[1])))
    stop(machine, attempt)


def test_nobody_waits_for_what_a_program_left_behind(machine: Machine) -> None:
    attempt = running(machine)
    assert enter(machine, attempt, "sh", "-c", "sleep 100 & echo x").read_to_end() == Over(0)
    stop(machine, attempt)


def test_what_nobody_reads_is_not_kept(machine: Machine) -> None:
    attempt = running(machine)
    inside = enter(machine, attempt, "sh", "-c", "echo $$; exec cat /dev/zero")
    inside.until_printed(b"\n")
    pid = int(inside.printed[1].split(b"\n")[0])
    time.sleep(0.3)
    before = Path(f"/proc/{pid}/io").read_text()
    time.sleep(0.3)
    assert Path(f"/proc/{pid}/io").read_text() == before, "it waits for its reader"
    inside.shell.close()
    machine.until(lambda: not is_running(pid))
    stop(machine, attempt)


def test_several_come_in_at_once(machine: Machine) -> None:
    attempt = running(machine)

    async def all_of_them() -> list[Shell]:
        orders = [ShellOrder(attempt, ("sh", "-c", f"exit {code}")) for code in range(5)]
        return await asyncio.gather(*(machine.runner.open_shell(order) for order in orders))

    shells = machine.loop.run_until_complete(all_of_them())
    overs = [machine.loop.run_until_complete(shell.read()) for shell in shells]
    assert overs == [Over(code) for code in range(5)]
    for shell in shells:
        shell.close()
    assert list((machine.home / "records" / "shells").iterdir()) == []
    stop(machine, attempt)


def test_what_does_not_run_cannot_be_entered(machine: Machine) -> None:
    attempt = machine.launch("true")
    machine.end_of(attempt)
    for name in (attempt, "99.0.1", "../../etc"):
        with pytest.raises(ShellRefusedError, match="does not run"):
            enter(machine, name, "true")


def test_the_supervisor_that_is_asked_after_an_agents_restart_answers(machine: Machine) -> None:
    attempt = running(machine)
    machine.close()
    machine.open()
    assert enter(machine, attempt, "sh", "-c", "exit 9").read_to_end() == Over(9)
    stop(machine, attempt)


@root_only
def test_another_users_task_is_entered_as_that_user(machine: Machine) -> None:
    attempt = running(machine, user="nobody")
    inside = enter(machine, attempt, "sh", "-c", "id -un; echo ok > $(tty); exit", tty=True)
    assert inside.read_to_end() == Over(0)
    assert inside.printed[1].split() == [b"nobody", b"ok"], "the terminal is that user's to open"
    stop(machine, attempt)


@root_only
def test_mounts_that_a_task_has_made_for_itself_are_not_entered(machine: Machine, tmp_path: Path) -> None:
    script = f"mount -t tmpfs none {tmp_path} && touch {tmp_path}/here && echo ready && exec sleep 100"
    attempt = running(machine, "unshare", "-m", "sh", "-c", script)
    machine.until_printed(attempt, b"ready")
    inside = enter(machine, attempt, "ls", str(tmp_path))
    assert inside.read_to_end() == Over(0)
    assert "logs" in inside.printed[1].decode().split()
    stop(machine, attempt)


# A task's own terminal


def attach(machine: Machine, attempt: str, **more: object) -> Inside:
    return Inside(machine, ShellOrder(attempt, (), tty=True, **more))  # type: ignore[arg-type]


def test_a_task_with_a_terminal_prints_to_its_log_and_to_who_looks_on(machine: Machine) -> None:
    attempt = running(machine, "sh", "-c", "echo before; read a; echo got $a; stty size; exit 4", pty=True)
    machine.until(lambda: b"before" in machine.output(attempt))
    first, second = attach(machine, attempt), attach(machine, attempt, rows=20, cols=60)
    first.until_printed(b"before\r\n")
    second.until_printed(b"before\r\n")
    first.type(b"word\n")
    assert second.read_to_end() == Over()
    first.read_to_end()
    assert machine.end_of(attempt).exit_code == 4
    for one in (first, second):
        assert b"got word\r\n20 60\r\n" in one.printed[1]
    assert b"before\r\nword\r\ngot word\r\n20 60\r\n" in machine.output(attempt)


def test_who_comes_back_sees_the_last_screenful_and_goes_on(machine: Machine) -> None:
    script = "seq 1 30000; while read a; do echo got $a; done"
    attempt = running(machine, "sh", "-c", script, pty=True)
    machine.until(lambda: b"30000\r\n" in machine.output(attempt))
    first = attach(machine, attempt)
    first.until_printed(b"30000\r\n")
    assert 60_000 < len(first.printed[1]) <= 64 * 1024
    assert first.printed[1].split(b"\r\n")[0].isdigit()
    first.shell.close()
    machine.close()
    machine.open()
    again = attach(machine, attempt)
    again.type(b"back\n")
    again.until_printed(b"got back\r\n")
    again.shell.close()
    stop(machine, attempt)


def test_who_does_not_read_holds_up_the_task_only_for_a_moment(machine: Machine, tmp_path: Path) -> None:
    script = f"read a; head -c 2000000 /dev/zero | tr '\\0' x; echo; echo done > {tmp_path}/said; read a"
    attempt = running(machine, "sh", "-c", script, pty=True)
    sleeper, reader = attach(machine, attempt), attach(machine, attempt)
    reader.type(b"\n")
    reader.read_until(lambda: len(reader.printed[1]) > 2_000_000)
    machine.until((tmp_path / "said").exists)
    sleeper.until_printed(b"bytes were not shown")
    for one in (sleeper, reader):
        one.shell.close()
    stop(machine, attempt)


def test_a_task_without_a_terminal_says_so(machine: Machine) -> None:
    attempt = running(machine)
    with pytest.raises(ShellRefusedError, match="no terminal of its own: its stdin is /dev/null"):
        attach(machine, attempt)
    stop(machine, attempt)


def test_a_supervisor_that_gets_nobody_in_is_outside_again_itself() -> None:
    """Else what freezes the task, or ends it for want of memory, would take its supervisor for part of it."""
    steps: list[str] = []

    class HalfWay(Enclosure):
        def enter(self) -> None:
            steps.append("in")
            raise OSError(errno.EPERM, "the kernel fences off no GPUs")

        def leave(self) -> None:
            steps.append("out")

    companions = Companions.__new__(Companions)
    companions._enclosure = HalfWay(SimpleNamespace(tasks="0", supervisors="0"))
    with pytest.raises(OSError, match="fences off"):
        companions._born_inside()
    assert steps == ["in", "out"]
