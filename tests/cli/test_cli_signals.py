"""Signals on the command line, and when work was last saved."""

import time

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job

from tests.cli.cli_process import Tgpu


def sent(server: FakeTgpu) -> dict[str, object]:
    names = ("stop_signal", "warn_signal", "warn_s", "warn_main")
    return {name: value for name, value in server.submitted()[-1].items() if name in names}


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        ("--stop-signal USR1", {"stop_signal": "USR1"}),
        ("--stop-signal=sigint", {"stop_signal": "INT"}),
        ("--signal USR1@90", {"warn_signal": "USR1", "warn_s": 90}),
        ("--signal=B:10@60", {"warn_signal": "USR1", "warn_s": 60, "warn_main": True}),
        ("--signal main:USR2", {"warn_signal": "USR2", "warn_main": True}),
    ],
)
def test_a_signal_reaches_its_fields(
    server: FakeTgpu, tgpu: Tgpu, flags: str, fields: dict[str, object]
) -> None:
    done = tgpu("submit", *flags.split(), "--time", "1h", "--", "hostname")
    assert done.returncode == 0, done.stderr
    assert sent(server) == fields


def test_a_file_may_say_it_either_way(server: FakeTgpu, tgpu: Tgpu) -> None:
    for text in ("signal: USR1@90", "warn_signal: USR1\nwarn_s: 90s"):
        job = f"command: hostname\ntime: 1h\nstop_signal: 12\n{text}\n"
        done = tgpu("submit", "-f", "-", stdin=job)
        assert done.returncode == 0, done.stderr
        assert sent(server) == {"stop_signal": "USR2", "warn_signal": "USR1", "warn_s": 90}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--stop-signal KILL", "--stop-signal cannot be KILL"),
        ("--stop-signal NOPE", "--stop-signal must be a signal, such as TERM, INT, HUP, USR1 or USR2"),
        ("--signal USR1@soon", "--signal must be written as SIGNAL@SECONDS, such as USR1@90"),
        ("--signal R:USR1@9", "--signal takes main: (or B:) in front of the signal"),
    ],
)
def test_a_signal_that_cannot_be_meant_is_refused_here_already(
    server: FakeTgpu, tgpu: Tgpu, flags: str, sentence: str
) -> None:
    done = tgpu("submit", *flags.split(), "--", "hostname")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert server.submitted() == []


def test_what_is_said_twice_is_refused(tgpu: Tgpu, server: FakeTgpu) -> None:
    done = tgpu("submit", "-f", "-", stdin="command: x\nsignal: USR1@90\nwarn_s: 5\n")
    assert done.returncode == 2
    assert "says warn_s a second time" in done.stderr
    assert server.submitted() == []


def test_a_refusal_of_the_server_names_the_flag(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /jobs"] = Refusal(422, "warn_signal is sent before the time limit, so give it one")
    done = tgpu("submit", "--signal", "USR1", "--", "hostname")
    assert "--signal is sent before the time limit, so give it one" in done.stderr


def test_show_tells_of_signals_and_of_the_last_save(server: FakeTgpu, tgpu: Tgpu) -> None:
    saved = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 185))
    server.jobs[7] = a_job(
        7,
        stop_signal="USR2",
        warn_signal="USR1",
        warn_s=90,
        warn_main=True,
        last_saved_at=saved,
        requeue_on_timeout=True,
    )
    shown = tgpu("show", "7").stdout
    assert "stopped by SIGUSR2, warned by SIGUSR1 to its main process 1m30s before its end" in shown
    assert "before its end, waits again at its time limit" in shown
    line = next(line for line in shown.splitlines() if "last saved" in line)
    assert line.split()[2:] in (["3m05s", "ago"], ["3m06s", "ago"], ["3m07s", "ago"], ["3m08s", "ago"])
