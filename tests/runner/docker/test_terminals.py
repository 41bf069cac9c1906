"""A container's own terminal: typing into it, leaving it, coming back, also with another agent."""

import asyncio
from collections.abc import Callable

import pytest

from tests.runner.docker.conftest import ContainerNode
from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker.terminal import KEPT
from tgpu.runner.shell_port import Output, Over, Shell, ShellOrder, ShellRefusedError

WITHIN_S = 30


def attach(node: ContainerNode, attempt: str, rows: int = 24, cols: int = 80) -> Shell:
    order = ShellOrder(attempt=attempt, command=(), tty=True, rows=rows, cols=cols)
    return node.wait_for(node.runner.open_shell(order))


def read_until(node: ContainerNode, shell: Shell, enough: Callable[[bytes], bool]) -> bytes:
    async def read() -> bytes:
        seen = b""
        while not enough(seen):
            said = await shell.read()
            assert isinstance(said, Output), f"it was over after {seen!r}"
            seen += said.data
        return seen

    return node.wait_for(asyncio.wait_for(read(), WITHIN_S))


def read_to_end(node: ContainerNode, shell: Shell) -> bytes:
    async def read() -> bytes:
        seen = b""
        while not isinstance(said := await shell.read(), Over):
            seen += said.data
        return seen

    return node.wait_for(asyncio.wait_for(read(), WITHIN_S))


def typed(node: ContainerNode, shell: Shell, text: bytes) -> None:
    node.wait_for(shell.write(text))


def test_a_shell_in_a_terminal_is_typed_into_and_its_output_is_the_log(node: ContainerNode) -> None:
    attempt = node.launch("sh", pty=True)
    node.start_of(attempt)
    shell = attach(node, attempt, rows=40, cols=100)
    typed(node, shell, b"test -t 0 && test -t 1 && echo is-a-$((40+2))\n")
    seen = read_until(node, shell, lambda seen: b"is-a-42" in seen)
    # What engines take for "detach" goes to the program like any other key.
    typed(node, shell, b"echo \x10\x11ctrl-$((1+1))\n")
    seen += read_until(node, shell, lambda seen: b"ctrl-2" in seen)
    typed(node, shell, b"exit 7\n")
    seen += read_to_end(node, shell)
    end = node.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.EXITED, 7)
    assert node.output(attempt) == seen
    assert node.output(attempt, "stderr") == b""


def test_its_size_follows_who_looks_on(node: ContainerNode) -> None:
    attempt = node.shell("trap 'stty size' WINCH; echo begun; while :; do sleep 0.1; done", pty=True)
    node.until_printed(attempt, b"begun")
    shell = attach(node, attempt, rows=33, cols=99)
    read_until(node, shell, lambda seen: b"33 99" in seen)
    node.loop.call_soon(shell.resize, 50, 132)
    read_until(node, shell, lambda seen: b"50 132" in seen)
    typed(node, shell, b"\x03")
    assert node.end_of(attempt).signal == 2, "Ctrl-C went to the job"


def test_who_leaves_and_comes_back_sees_what_was_printed(node: ContainerNode) -> None:
    attempt = node.shell("echo first; read line; echo got $line; read line", pty=True)
    node.until_printed(attempt, b"first")
    first, second = attach(node, attempt), attach(node, attempt)
    first.close()
    typed(node, second, b"one\n")
    node.until_printed(attempt, b"got one")
    second.close()
    again = attach(node, attempt)
    seen = read_until(node, again, lambda seen: b"got one" in seen)
    assert seen == b"first\r\none\r\ngot one\r\n"
    typed(node, again, b"\n")
    assert node.end_of(attempt).exit_code == 0


def test_a_terminal_outlives_its_agent_and_what_was_printed_meanwhile_is_there(node: ContainerNode) -> None:
    counting = "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done"
    script = f"echo begun; read go; {counting}; read line; echo got $line"
    attempt = node.shell(script, pty=True)
    node.until_printed(attempt, b"begun")
    shell = attach(node, attempt)
    typed(node, shell, b"go\n")
    node.until_printed(attempt, b"line 2")
    node.close()
    node.wait_for(asyncio.sleep(0.2))
    node.open()
    shell = attach(node, attempt)
    read_until(node, shell, lambda seen: b"line 5" in seen)
    typed(node, shell, b"all\n")
    read_to_end(node, shell)
    assert node.end_of(attempt).exit_code == 0
    lines = [b"begun", b"go", *(b"line %d" % i for i in range(1, 6)), b"all", b"got all"]
    assert node.output(attempt) == b"".join(line + b"\r\n" for line in lines)


def test_one_that_ended_while_the_agent_was_away_has_its_output(node: ContainerNode) -> None:
    attempt = node.shell("echo begun; sleep 0.5; echo done; exit 4", pty=True)
    node.until_printed(attempt, b"begun")
    node.close()
    node.engine.ask("POST", f"/containers/{node.name_of(attempt)}/wait")
    node.events.clear()
    node.open()
    assert node.end_of(attempt).exit_code == 4
    assert node.output(attempt) == b"begun\r\ndone\r\n"


def test_one_who_takes_nothing_holds_up_nobody_and_is_told_what_they_missed(node: ContainerNode) -> None:
    attempt = node.shell("stty -opost; echo begun; read go; yes | head -c 2000000; echo end", pty=True)
    node.until_printed(attempt, b"begun")
    sleeper, reader = attach(node, attempt), attach(node, attempt)
    typed(node, reader, b"\n")
    seen = read_to_end(node, reader)
    assert seen.endswith(b"y\nend\n")
    assert b"were not shown" not in seen
    assert len(seen) > 2_000_000
    late = read_to_end(node, sleeper)
    assert b"bytes were not shown]" in late
    assert late.endswith(b"y\nend\n")
    assert len(late) < 2 * KEPT + 1000
    assert node.end_of(attempt).exit_code == 0


def test_who_has_none_says_so(node: ContainerNode) -> None:
    attempt = node.shell("echo begun; sleep 100")
    node.until_printed(attempt, b"begun")
    with pytest.raises(ShellRefusedError, match="it has no terminal of its own: its stdin is /dev/null"):
        attach(node, attempt)


def test_a_program_that_is_not_there_is_told_as_anywhere_else(node: ContainerNode) -> None:
    attempt = node.shell("echo ready; sleep 100", grace_s=0)
    node.until_printed(attempt, b"ready")

    def over(*command: str, tty: bool = False) -> Output | Over:
        shell = node.wait_for(node.runner.open_shell(ShellOrder(attempt, command, tty=tty)))
        try:
            return node.wait_for(shell.read())
        finally:
            node.loop.call_soon(shell.close)

    assert over("nosuch") == Over(127, "nosuch: command not found")
    assert over("nosuch", tty=True) == Over(127, "nosuch: command not found")
    assert over("/bin/nosuch") == Over(127, "/bin/nosuch: no such file")
    assert over("/etc/marker") == Over(126, "/etc/marker: Permission denied")
    assert over("echo", "OCI runtime exec failed") == Output(1, b"OCI runtime exec failed\n")
