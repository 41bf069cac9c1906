"""How a task is started, what it gets, and what is recorded of its end."""

import grp
import os
import pwd
import signal
import stat
import time
from pathlib import Path

import pytest

from tests.runner.conftest import ME, PATH, Machine, processes_of
from tgpu.domain.lifecycle import Cause
from tgpu.runner.port import AttemptEnded, AttemptStarted, LogPart

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's job")


def test_an_exit_code_is_recorded_with_its_times(machine: Machine) -> None:
    before = time.time_ns() // 1_000_000
    end = machine.run("sh", "-c", "exit 7")
    assert (end.cause, end.exit_code, end.signal, end.detail) == (Cause.EXITED, 7, None, "")
    assert before <= end.started_ms <= end.ended_ms <= time.time_ns() // 1_000_000
    assert machine.run("true").exit_code == 0


def test_a_signal_is_recorded(machine: Machine) -> None:
    end = machine.run("sh", "-c", "kill -SEGV $$")
    assert (end.cause, end.exit_code, end.signal) == (Cause.SIGNALLED, None, signal.SIGSEGV)


def test_what_it_used_is_recorded_with_what_its_children_used(machine: Machine) -> None:
    hungry = "x = bytearray(80 << 20)\nfor _ in range(3_000_000): pass"
    end = machine.run("sh", "-c", f'python3 -c "{hungry}"; true')
    assert end.peak_memory_mib >= 80
    assert end.cpu_ms > 20
    assert machine.run("true").cpu_ms < 20, "a supervisor that is used again starts from nothing"


def test_the_environment_is_the_orders_and_a_few_names(machine: Machine) -> None:
    attempt = machine.launch("env", env={"PATH": PATH, "A": "b=ü\n2", "HOME": "/nowhere"})
    machine.end_of(attempt)
    account = pwd.getpwnam(ME)
    lines = machine.output(attempt).decode()
    assert sorted(lines.replace("ü\n2", "ü2").splitlines()) == sorted(
        [
            f"PATH={PATH}",
            "A=b=ü2",
            "HOME=/nowhere",
            f"USER={ME}",
            f"LOGNAME={ME}",
            f"SHELL={account.pw_shell}",
            f"TGPU_ATTEMPT_KEY={machine.cluster}:{attempt}",
        ]
    )


def test_it_starts_clean(machine: Machine, tmp_path: Path) -> None:
    """Its own session, no inherited descriptors, nothing blocked or ignored, an empty input."""
    script = "umask; ls /proc/self/fd | wc -l; grep -E '^Sig(Blk|Ign)' /proc/self/status; wc -c; pwd"
    attempt = machine.shell(f"{script}; echo $$; cut -d' ' -f6 /proc/$$/stat", cwd=str(tmp_path))
    machine.end_of(attempt)
    *rest, pid, session = machine.output(attempt).decode().split()
    ignored = int(rest.pop(5), 16) & ~(0b11 << 31)  # glibc's posix_spawn ignores its own 32 and 33
    assert ignored == 0
    assert rest == ["0022", "4", "SigBlk:", "0" * 16, "SigIgn:", "0", str(tmp_path)]
    assert pid == session


@root_only
def test_it_runs_as_the_user_with_all_groups_and_home(machine: Machine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    attempt = machine.shell('id -u; id -g; id -G; echo "$HOME $USER $LOGNAME"; umask', user="nobody")
    end = machine.end_of(attempt)
    assert end.exit_code == 0
    account = pwd.getpwnam("nobody")
    groups = os.getgrouplist("nobody", account.pw_gid)
    assert machine.output(attempt).decode().splitlines() == [
        str(account.pw_uid),
        str(account.pw_gid),
        " ".join(map(str, groups)),
        f"{account.pw_dir} nobody nobody",
        "0022",
    ]
    assert grp.getgrgid(account.pw_gid)


@root_only
def test_it_cannot_enter_what_its_user_may_not(machine: Machine, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    end = machine.run("true", user="nobody", cwd=str(closed))
    assert end.cause is Cause.COULD_NOT_START
    assert end.detail.endswith("Permission denied")


@root_only
def test_another_users_program_that_is_missing_could_not_start(machine: Machine) -> None:
    end = machine.run("python3.99", user="nobody")
    assert (end.cause, end.detail) == (Cause.COULD_NOT_START, "python3.99: command not found")
    assert (end.exit_code, end.started_ms) == (None, None)


@root_only
def test_another_users_long_task_dies_with_its_supervisor(machine: Machine) -> None:
    attempt = machine.launch("sleep", "60", user="nobody")
    machine.start_of(attempt)
    supervisor = machine.runner._known.attempts[attempt].claim.pid
    os.kill(supervisor, signal.SIGKILL)
    assert machine.end_of(attempt).cause is Cause.SUPERVISOR_LOST
    assert processes_of(machine, attempt) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"argv": ("python3.99",)}, "python3.99: command not found"),
        ({"argv": ("/no/such",)}, "/no/such: no such file"),
        ({"argv": ("/etc/passwd",)}, "/etc/passwd: permission denied"),
        ({"argv": ("HERE/orphan",)}, "HERE/orphan: its interpreter (the first line, #!) does not exist"),
        ({"argv": ("HERE/nothing",)}, "HERE/nothing: Exec format error"),
        ({"argv": ()}, "there is no command"),
        ({"argv": ("true", "a\0b")}, "true: embedded null byte"),
        ({"argv": ("true",), "cwd": "/no/such"}, "cannot enter /no/such: No such file or directory"),
        ({"argv": ("true",), "cwd": "here"}, "cannot enter 'here': it is not an absolute path"),
        ({"argv": ("true",), "user": "no-such"}, "there is no user 'no-such' on this machine"),
    ],
)
def test_what_cannot_start_says_why(
    machine: Machine, tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    for name, text in (("orphan", "#!/no/such\n"), ("nothing", "\0")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    argv = tuple(word.replace("HERE", str(tmp_path)) for word in changes.pop("argv"))
    end = machine.run(*argv, **changes)
    assert (end.cause, end.exit_code, end.started_ms) == (Cause.COULD_NOT_START, None, None)
    assert end.detail == sentence.replace("HERE", str(tmp_path))


def test_a_task_that_lasts_is_told_as_started_then_as_ended(machine: Machine) -> None:
    attempt = machine.shell("sleep 0.2; exit 3")
    end = machine.end_of(attempt)
    started, ended = machine.events
    assert (
        started == AttemptStarted(attempt, end.started_ms) or abs(started.started_ms - end.started_ms) < 100
    )
    assert ended == AttemptEnded(attempt, end)


def test_it_may_close_everything(machine: Machine) -> None:
    script = "import os, time; os.closerange(0, 256); time.sleep(0.2); os._exit(5)"
    assert machine.run("python3", "-c", script).exit_code == 5


def test_three_hundred_short_tasks_lose_no_end(machine: Machine) -> None:
    attempts = [machine.launch("true") for _ in range(300)]
    assert {machine.end_of(attempt).exit_code for attempt in attempts} == {0}
    ended = [event.attempt for event in machine.events if isinstance(event, AttemptEnded)]
    assert sorted(ended) == sorted(attempts)


def test_records_and_logs_are_for_the_agent_alone(machine: Machine) -> None:
    attempt = machine.shell("echo secret")
    machine.end_of(attempt)
    for folder in (machine.home / "records", machine.home / "logs", machine.home / "logs" / attempt):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_output_there_are_no_files_and_an_empty_log(machine: Machine) -> None:
    attempt = machine.launch("true")
    machine.end_of(attempt)
    assert machine.runner.read_log(attempt, "stdout", 0, 100) == LogPart(0, b"")
    assert machine.runner.read_log("99.0.1", "stdout", 0, 100) is None
    assert machine.runner.read_log("../records", "stdout", 0, 100) is None
    assert not (machine.home / "logs" / attempt).exists()
