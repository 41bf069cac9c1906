import pytest

from tgpu.domain.command_signature import program_in, program_of, signature_of
from tgpu.domain.job import Group, JobSpec, Request


def spec(*commands: tuple[str, ...] | str, user: str = "ada", name: str = "") -> JobSpec:
    return JobSpec(user, tuple(Group(command, Request()) for command in commands), name=name)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (("python", "train.py", "--lr", "0.1"), "train.py"),
        (("/usr/bin/python3.11", "-u", "/home/ada/train.py"), "train.py"),
        (("env", "A=1", "./run.sh"), "run.sh"),
        (("bash", "-c", "cd /tmp\nexec ./simulate --seed 1"), "simulate"),
        (("bash", "-c"), "bash"),
        (("python",), "python"),
        ("#!/bin/sh\nset -e\npython -m eval x", "eval"),
        ("echo 'unfinished", "echo"),
        ("", ""),
        ((), ""),
        (("a#b\x07c",), "abc"),
    ],
)
def test_program_is_the_script_rather_than_its_interpreter(
    command: tuple[str, ...] | str, program: str
) -> None:
    assert program_of(command) == program


def test_signature_differs_with_any_argument_and_keeps_the_program() -> None:
    first, second = (signature_of(spec(("python", "train.py", seed))) for seed in ("1", "2"))
    assert first != second
    assert program_in(first) == program_in(second) == "train.py"


def test_signature_depends_on_commands_of_all_groups_and_on_nothing_else() -> None:
    one = signature_of(spec(("a",), ("b",)))
    assert one == signature_of(spec(("a",), ("b",), user="bob", name="x"))
    assert one != signature_of(spec(("a",), ("c",)))


def test_signature_is_short_and_printable_for_any_command() -> None:
    for command in (("x" * 100_000,), ("\udcff\x00",), "\x1b[31m" * 50):
        made = signature_of(spec(command))
        assert len(made) < 64
        assert made.isprintable()
        made.encode()
