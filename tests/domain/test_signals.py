"""Signals as people write them."""

import pytest

from tgpu.domain.quantities import BadQuantityError
from tgpu.domain.signals import Warn, signal_name, signal_number, warning_parts


@pytest.mark.parametrize(
    ("written", "name"),
    [("USR1", "USR1"), ("sigusr1", "USR1"), ("10", "USR1"), (" int ", "INT"), ("SIGHUP", "HUP")],
)
def test_a_signal_is_known_by_its_name_and_by_its_number(written: str, name: str) -> None:
    assert signal_name("stop_signal", written) == name


@pytest.mark.parametrize("written", ["", "USR3", "0", "99", "1e1", "-9", "9" * 5000, "usr1;true", "²"])
def test_what_is_no_signal_is_told_what_one_looks_like(written: str) -> None:
    with pytest.raises(BadQuantityError, match="stop_signal must be a signal, such as TERM, INT, HUP"):
        signal_name("stop_signal", written)


@pytest.mark.parametrize("written", ["KILL", "9", "SIGSTOP", "tstp", "TTIN", "TTOU"])
def test_what_no_program_can_use_is_refused(written: str) -> None:
    with pytest.raises(BadQuantityError, match="a program cannot use to save its work: take TERM, INT"):
        signal_name("stop_signal", written)


def test_a_number_is_this_machines_own_and_an_unknown_name_is_sigterm() -> None:
    assert [signal_number(name) for name in ("USR1", "TERM", "INT", "NEWER")] == [10, 15, 2, 15]


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("USR1@90", ("USR1", 90, False)),
        ("10@5", ("USR1", 5, False)),
        ("SIGINT", ("INT", None, False)),
        ("B:USR2@60", ("USR2", 60, True)),
        ("main:usr2", ("USR2", None, True)),
    ],
)
def test_a_warning_is_written_as_slurm_has_it(written: str, parts: tuple[str, int | None, bool]) -> None:
    assert warning_parts("--signal", written) == parts


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("R:USR1@9", "--signal takes main: .or B:. in front of the signal"),
        ("USR1@", "--signal must be written as SIGNAL@SECONDS, such as USR1@90"),
        ("USR1@1.5", "--signal must be written as SIGNAL@SECONDS, such as USR1@90"),
        ("USR1@-1", "--signal must be written as SIGNAL@SECONDS, such as USR1@90"),
        ("@90", "--signal must be a signal, such as"),
        ("KILL@90", "--signal cannot be KILL"),
        ("USR1@99999999999", "--signal may be at most"),
    ],
)
def test_a_warning_that_cannot_be_meant_says_what_would_be_right(written: str, words: str) -> None:
    with pytest.raises(BadQuantityError, match=words):
        warning_parts("--signal", written)


def test_a_warning_reads_as_it_is_written() -> None:
    assert [str(Warn("USR1", 90)), str(Warn("INT", 5, main=True))] == ["USR1@90", "main:INT@5"]
