"""`salloc` and `srun` where there is no job yet: what they run, and what that reads."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.dialects.slurm.slurm_story import Slurm
from tests.end_to_end.whole_tgpu import an_installation


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with an_installation() as one:
        one.up()
        yield Slurm(one, one.files)


def test_a_command_runs_in_an_allocation_with_steps_of_its_own(slurm: Slurm) -> None:
    done = slurm.typed("salloc -n 2 --gres=gpu:1 sh -c 'srun sh -c \"echo \\$SLURM_PROCID\"; exit 5'")
    assert (sorted(done.stdout.split()), done.returncode) == (["0", "1"], 5)
    assert done.stderr.startswith("salloc: Granted job allocation ")
    assert slurm.typed("salloc -Q true").stderr == ""


def test_a_shell_needs_a_terminal(slurm: Slurm) -> None:
    done = slurm.typed("salloc -n 2")
    assert (done.returncode, "there is no terminal for a shell" in done.stderr) == (1, True)
    refused = slurm.typed("salloc --no-shell")
    assert (refused.returncode, "--no-shell cannot be had here" in refused.stderr) == (1, True)


def test_a_shell_on_a_terminal(slurm: Slurm) -> None:
    line = "import pty, sys; sys.exit(pty.spawn(['salloc', '-n', '2']) >> 8)"
    typed = "echo in $SLURM_NTASKS$SLURM_NTASKS\nexit 3\n"
    done = slurm.typed(f'"{sys.executable}" -c "{line}"', stdin=typed, SHELL="/bin/sh", PS1="")
    assert (done.returncode, "in 22" in done.stdout) == (3, True), done


@pytest.mark.parametrize(
    "line", ["srun cat < read.txt", "srun --input=read.txt cat", "srun -n 2 cat < read.txt"]
)
def test_a_file_is_read_as_standard_input(slurm: Slurm, line: str) -> None:
    (slurm.folder / "read.txt").write_text("a line\n")
    assert slurm(line) == "a line\n"


def test_what_a_pipe_brings_is_not_lost_without_a_word(slurm: Slurm) -> None:
    lost = slurm.typed("srun cat", stdin="a line\n")
    assert lost.stderr == "srun: warning: standard input is a pipe, and is not passed on: say --input=FILE\n"
    assert slurm.typed("srun true", stdin="").stderr == ""
    assert slurm.typed(f"srun true < {os.devnull}").stderr == ""
