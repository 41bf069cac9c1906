"""Output in files of the user's own: the same bytes as in the log, written with the user's rights alone."""

import os
import pwd
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.runner.version_2 import Tree, needs_mount
from tgpu.domain.lifecycle import Cause
from tgpu.domain.output_files import OutputPaths
from tgpu.runner import output_path, writer
from tgpu.runner.user_files import UserFiles
from tgpu.runner.writer import Writer

THEY = "nobody"
SAY = "echo out; echo err >&2"


def files(output: Path | str, error: Path | str = "", *, append: bool = False) -> OutputPaths:
    return OutputPaths(output=str(output), error=str(error or output), append=append)


def test_the_file_and_the_log_have_the_same_bytes(machine: Machine, tmp_path: Path) -> None:
    out, err = tmp_path / "made" / "here" / "out.txt", tmp_path / "err.txt"
    script = "import os; os.write(1, bytes(range(256)) * 4096); os.write(2, b'oh')"
    attempt = machine.launch("python3", "-c", script, files=files(out, err), log_cap_bytes=8 << 20)
    assert machine.end_of(attempt).exit_code == 0
    assert out.read_bytes() == machine.output(attempt) == bytes(range(256)) * 4096
    assert err.read_bytes() == machine.output(attempt, "stderr") == b"oh"


def test_both_go_into_one_file_unless_errors_have_their_own(machine: Machine, tmp_path: Path) -> None:
    both = tmp_path / "both.txt"
    attempt = machine.shell(SAY, files=files(both))
    machine.end_of(attempt)
    assert sorted(both.read_text().splitlines()) == ["err", "out"]
    assert machine.output(attempt) == b"out\n"


def test_errors_alone_can_have_a_file(machine: Machine, tmp_path: Path) -> None:
    err = tmp_path / "err.txt"
    machine.end_of(machine.shell(SAY, files=OutputPaths("", str(err), append=False)))
    assert err.read_text() == "err\n"


@pytest.mark.parametrize(("append", "after"), [(False, "new\n"), (True, "old\nnew\n")])
def test_what_is_there_is_replaced_or_kept(
    machine: Machine, tmp_path: Path, append: bool, after: str
) -> None:
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    machine.end_of(machine.shell("echo new", files=files(out, append=append)))
    assert out.read_text() == after


def test_it_grows_while_the_task_runs(machine: Machine, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    attempt = machine.shell("echo now; sleep 60", files=files(out), grace_s=0)
    machine.until(lambda: out.exists() and out.read_text() == "now\n")
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    assert machine.end_of(attempt).cause is Cause.CANCELLED


def test_a_terminal_is_written_down_too(machine: Machine, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    attempt = machine.shell("tty >/dev/null && echo on a terminal", files=files(out), pty=True)
    machine.end_of(attempt)
    assert out.read_bytes() == machine.output(attempt) == b"on a terminal\r\n"


def test_what_is_no_file_is_refused(machine: Machine, tmp_path: Path) -> None:
    link = tmp_path / "out.txt"
    link.symlink_to("/dev/full")
    end = machine.end_of(machine.shell("echo lost", files=files(link)))
    assert end.cause is Cause.COULD_NOT_START
    assert end.detail == f"cannot write its output to {link}: it is not a file"


def test_what_cannot_be_written_is_counted_and_told(tmp_path: Path) -> None:
    out, before = tmp_path / "out.txt", resource.getrlimit(resource.RLIMIT_FSIZE)
    theirs = UserFiles(str(out), str(out), append=0)
    theirs.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # as a full disk would
    try:
        theirs.copy(b"0123456789abc", is_error=False)
    finally:
        theirs.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert out.read_bytes() == b"0123456789"
    assert theirs.last_words() == f"3 bytes of output could not be written to {out}: File too large"


def test_a_drive_that_hangs_is_waited_for_only_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PATIENCE_S", 0.05)
    reading, hanging = os.pipe()  # nobody reads it: a write hangs as one to a drive that is away
    slow = Writer()
    for _ in range(40):
        slow.write(hanging, bytes(1 << 16))
    lost_while_it_hung = slow.lost
    assert 20 << 16 < lost_while_it_hung < 40 << 16  # so much is kept in memory, and no more
    assert slow.why == "its drive does not answer"

    taken = len(os.read(reading, 1 << 20))
    while slow._ahead > 1 << 18:
        taken += len(os.read(reading, 1 << 20))
        slow.write(hanging, b"")
    slow.write(hanging, b"it is back")
    assert slow.lost == lost_while_it_hung
    assert slow.close() is False  # it hangs again
    assert slow.lost > lost_while_it_hung


def test_nowhere_is_a_place(machine: Machine) -> None:
    attempt = machine.shell("echo here", files=files("/dev/null"))
    assert machine.end_of(attempt).exit_code == 0
    assert machine.output(attempt) == b"here\n"


def test_a_pipe_that_nobody_reads_holds_up_nobody(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    begun = time.monotonic()
    end = machine.end_of(machine.shell("echo x", files=files(tmp_path / "pipe")))
    assert end.cause is Cause.COULD_NOT_START
    assert time.monotonic() - begun < machine.patience_s


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of somebody else's, whom a root agent serves."""
    with tempfile.TemporaryDirectory() as folder:
        account = pwd.getpwnam(THEY)
        os.chown(folder, account.pw_uid, account.pw_gid)
        yield Path(folder)


def test_what_its_user_may_not_write_nobody_writes_for_them(machine: Machine, theirs: Path) -> None:
    """The agent is root here, and could."""
    precious = machine.home / "precious.txt"
    precious.write_text("kept\n")
    link = theirs / "out.txt"
    link.symlink_to(precious)
    for path in (precious, link):
        attempt = machine.shell("echo mine now", files=files(path), user=THEY)
        end = machine.end_of(attempt)
        assert end.cause is Cause.COULD_NOT_START
        assert end.detail == f"cannot write its output to {path}: Permission denied"
    assert precious.read_text() == "kept\n"


def test_a_link_that_somebody_else_has_put_there_leads_nowhere(machine: Machine, theirs: Path) -> None:
    """They may write what it points to, and would overwrite it."""
    theirs.chmod(0o1777)
    precious, planted, own = theirs / "precious.txt", theirs / "out.txt", theirs / "own.txt"
    precious.write_text("kept\n")
    account = pwd.getpwnam(THEY)
    os.chown(precious, account.pw_uid, account.pw_gid)
    planted.symlink_to(precious)
    os.chown(planted, account.pw_uid + 1000, -1, follow_symlinks=False)
    own.symlink_to(planted.name)
    os.chown(own, account.pw_uid, -1, follow_symlinks=False)
    for path in (planted, own):
        end = machine.end_of(machine.shell("echo gone", files=files(path), user=THEY))
        assert end.cause is Cause.COULD_NOT_START
        assert end.detail == f"cannot write its output to {path}: another user has put a link there"
    assert precious.read_text() == "kept\n"

    own.unlink()
    own.symlink_to(precious.name)
    os.chown(own, account.pw_uid, -1, follow_symlinks=False)
    assert machine.end_of(machine.shell("echo new", files=files(own), user=THEY)).exit_code == 0
    assert precious.read_text() == "new\n"


def test_a_link_of_another_users_in_the_middle_of_a_path_is_not_followed(
    machine: Machine, theirs: Path
) -> None:
    """Their own file is where it leads, and they would overwrite it."""
    theirs.chmod(0o1777)
    account = pwd.getpwnam(THEY)
    home, planted, own = theirs / "home", theirs / "results", theirs / "own"
    home.mkdir()
    planted.symlink_to(home)
    own.symlink_to(f"../{theirs.name}/home/")
    for path, uid in ((home, account.pw_uid), (planted, account.pw_uid + 1000), (own, account.pw_uid)):
        os.chown(path, uid, -1, follow_symlinks=False)
    end = machine.end_of(machine.shell("echo gone", files=files(planted / "out.txt"), user=THEY))
    assert end.cause is Cause.COULD_NOT_START
    assert "another user has put a link there" in end.detail
    out = own / "." / "new" / ".." / "new" / "out.txt"
    assert machine.end_of(machine.shell("echo new", files=files(out), user=THEY)).exit_code == 0
    assert (home / "new" / "out.txt").read_text() == "new\n"


@pytest.mark.parametrize("path", ["/proc/self/oom_score_adj", "/proc/self/fd/1", "/sys/kernel/uevent_helper"])
def test_files_of_the_kernel_are_no_output_files(path: str) -> None:
    with pytest.raises(OSError, match=r"file system of the kernel|No such file"):
        output_path.opened(path)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path in (tmp_path / "a", tmp_path / "a" / "out.txt"):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            output_path.opened(str(path))


def test_no_descriptor_is_left_open_by_a_path_that_is_refused(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208  as one list
    with pytest.raises(IsADirectoryError):
        output_path.opened(f"{tmp_path}/folder/")
    os.close(output_path.opened(f"{tmp_path}/folder/out.txt"))
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_output_is_written_with_the_rights_of_its_user_alone() -> None:
    """The kernel lets only root change this number, and asks who writes, not who opened the file."""
    sleeper = subprocess.Popen(["sleep", "60"])
    slack = Path(f"/proc/{sleeper.pid}/timerslack_ns")
    account = pwd.getpwnam(THEY)
    theirs = Writer()
    theirs.write_as(account.pw_uid, account.pw_gid)
    try:
        before = slack.read_text()
        file = os.open(slack, os.O_WRONLY)
        theirs.write(file, b"70000")
        assert theirs.close()
        assert (theirs.lost, theirs.why) == (5, "Operation not permitted")
        assert slack.read_text() == before
        os.write(file, b"70000")  # only that thread has given up its rights
        assert slack.read_text() == "70000\n"
        os.close(file)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_the_supervisor_of_another_users_task_writes_its_files_as_that_user(
    machine: Machine, theirs: Path
) -> None:
    attempt = machine.shell("echo x; sleep 100", files=files(theirs / "out.txt"), user=THEY)
    machine.until(lambda: (theirs / "out.txt").exists() and (theirs / "out.txt").read_text())
    machine.start_of(attempt)
    supervisor = machine.runner._known.supervisor_of(attempt).pid
    threads = [status.read_text() for status in Path(f"/proc/{supervisor}/task").glob("*/status")]
    users = {line for status in threads for line in status.splitlines() if line.startswith("Uid:")}
    uid = pwd.getpwnam(THEY).pw_uid
    assert users == {"Uid:\t0\t0\t0\t0", f"Uid:\t0\t0\t0\t{uid}"}, "it cannot be killed as that user's"
    machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    machine.end_of(attempt)


def test_what_is_typed_before_the_program_runs_costs_no_output(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    theirs = UserFiles(str(out), str(out), append=0)
    theirs.copy(b"typed too early", is_error=False)
    theirs.open()
    theirs.copy(b"printed", is_error=False)
    inherited = [file for file in theirs._files if os.get_inheritable(file)]
    theirs.close()
    assert out.read_bytes() == b"printed"
    assert not inherited  # by programs of `tgpu exec`


def test_the_file_is_its_users(machine: Machine, theirs: Path) -> None:
    out = theirs / "new" / "out.txt"
    attempt = machine.shell("id -un", files=files(out), user=THEY)
    assert machine.end_of(attempt).exit_code == 0
    assert out.read_text() == f"{THEY}\n"
    assert {out.stat().st_uid, out.parent.stat().st_uid} == {pwd.getpwnam(THEY).pw_uid}


ARE_BORN = """
import os, sys
from tgpu.runner import spawner
from tgpu.runner.cgroups import born
from tgpu.runner.writer import Writer
group = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
nowhere, busy = os.open("/dev/null", os.O_WRONLY), Writer()
sys.setswitchinterval(spawner.NEVER_S)
children = []
for _ in range(20):
    for _ in range(50):
        busy.write(nowhere, b"x")
    children.append(born.fork_into(group))
    if children[-1] == 0:
        os.write(1, b".")
        os._exit(0)
for child in children:
    os.waitpid(child, 0)
busy.close()
"""


@needs_mount
def test_a_child_is_born_whatever_another_thread_is_about(tree: Tree) -> None:
    """As one that writes a task's output file: the child must not wait for a thread that it does not have. It
    has no other threads in the product, so this is a process of its own."""
    folder = tree.group("of-its-own")
    done = subprocess.run([sys.executable, "-c", ARE_BORN, str(folder)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, 20 * b"."), done.stderr


def test_line_printed_in_pieces_stays_whole_in_a_file_that_tasks_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LINE_S", 60.0)
    path = tmp_path / "all.txt"
    opened = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(2)]
    first, second = Writer(), Writer()
    first.write(opened[0], b"one\nchan")
    until(lambda: path.read_bytes() == b"one\n")
    second.write(opened[1], b"other\n")
    until(lambda: path.read_bytes() == b"one\nother\n")
    first.write(opened[0], b"ged\nno end")
    assert first.close()
    assert second.close()
    assert path.read_bytes() == b"one\nother\nchanged\nno end"
    for file in opened:
        os.close(file)


@pytest.mark.parametrize("piece", [b"loss 0.5\r", b"Password: ", b"x" * (writer.LINE_MAX + 1)])
def test_output_without_a_line_end_is_not_held_back_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    monkeypatch.setattr(writer, "LINE_S", 0.01)
    path = tmp_path / "out.txt"
    opened, live = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), Writer()
    live.write(opened, piece)
    until(lambda: path.read_bytes() == piece)
    assert live.close()
    os.close(opened)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)
