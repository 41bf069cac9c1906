"""A task's folder for checkpoints: whose it is, what outlives an attempt, and when work was saved."""

import errno
import os
import pwd
import stat
import time
from pathlib import Path

import pytest

from tests.runner.conftest import ME, PATH, Machine
from tests.small_disk import SmallDisk, needs_root, small_disk  # noqa: F401  a fixture
from tgpu.domain.lifecycle import Cause
from tgpu.runner import checkpoint_folder, records
from tgpu.runner.checkpoint_folder import variables
from tgpu.runner.disk_words import DISK_FULL

SAVES = 'echo one > $TGPU_CHECKPOINT_DIR/state; touch "$TGPU_CHECKPOINT_FILE"'


@pytest.fixture
def root() -> Path:
    """Where another user may go, too."""
    return Path("/var/tmp") / f"tgpu-checkpoints-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture(autouse=True)
def _cleared(root: Path) -> object:
    yield
    checkpoints = list(root.rglob("*")) if root.exists() else []
    for path in sorted(checkpoints, reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    if root.exists():
        root.rmdir()


def folder(root: Path, task: str = "7.0") -> str:
    return str(root / "c1" / "someone" / task)


def run(machine: Machine, root: Path, script: str, **changes: object) -> str:
    where = folder(root)
    env = {"PATH": PATH, **variables(where)}
    return machine.shell(script, **{"env": env, "checkpoint_dir": where, **changes})


@pytest.mark.parametrize("user", [ME, "nobody"])
def test_the_next_attempt_finds_what_the_one_before_has_saved(
    machine: Machine, root: Path, user: str
) -> None:
    before_ms = time.time_ns() // 1_000_000
    first = machine.end_of(run(machine, root, f"{SAVES}; exit 3", user=user))
    assert first.exit_code == 3
    assert first.checkpoint_ms is not None
    assert before_ms - 20 <= first.checkpoint_ms <= first.ended_ms
    about = Path(folder(root)).stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (pwd.getpwnam(user).pw_uid, 0o700)
    again = run(machine, root, "cat $TGPU_CHECKPOINT_DIR/state", user=user)
    assert machine.end_of(again).checkpoint_ms == first.checkpoint_ms, "it is still the last time"
    assert machine.output(again) == b"one\n"


def test_a_folder_in_which_nothing_was_put_does_not_stay(machine: Machine, root: Path) -> None:
    attempt = run(machine, root, "test -d $TGPU_CHECKPOINT_DIR")
    end = machine.end_of(attempt)
    assert (end.exit_code, end.checkpoint_ms) == (0, None)
    assert not Path(folder(root)).exists()


@pytest.mark.parametrize(("cause", "stays"), [(Cause.CANCELLED, False), (Cause.PREEMPTED, True)])
def test_an_empty_folder_of_one_that_was_stopped_stays_if_another_attempt_may_come(
    machine: Machine, root: Path, cause: Cause, stays: bool
) -> None:
    attempt = run(machine, root, "echo ready; exec sleep 100")
    machine.until_printed(attempt, b"ready")
    machine.runner.stop(attempt, cause, "")
    assert machine.end_of(attempt).cause is cause
    machine.until(lambda: Path(folder(root)).exists() is stays)


def test_another_user_cannot_look_into_it(machine: Machine, root: Path) -> None:
    machine.end_of(run(machine, root, SAVES))
    peek = machine.shell(f"ls {folder(root)}", user="nobody")
    assert machine.end_of(peek).exit_code != 0
    assert b"Permission denied" in machine.output(peek, "stderr")


@pytest.mark.skipif(os.getuid() != 0, reason="only root serves several users")
def test_another_user_cannot_learn_whose_it_is(machine: Machine, root: Path) -> None:
    own = run(machine, root, f"{SAVES}; stat -c %U $TGPU_CHECKPOINT_DIR", user="nobody")
    assert machine.end_of(own).exit_code == 0
    assert machine.output(own) == b"nobody\n"
    peek = machine.shell(f"stat {folder(root)}; stat -c %U {Path(folder(root)).parent}", user="daemon")
    assert machine.end_of(peek).exit_code == 0
    assert machine.output(peek) == b"root\n"


def test_folder_of_an_older_version_is_moved_to_its_users(machine: Machine, root: Path) -> None:
    old = root / "c1" / "7.0"
    checkpoint_folder.make(str(old), os.getuid(), os.getgid())
    (old / "state").write_text("kept\n")
    attempt = run(machine, root, "cat $TGPU_CHECKPOINT_DIR/state")
    assert machine.end_of(attempt).exit_code == 0
    assert machine.output(attempt) == b"kept\n"
    assert not old.exists()


@pytest.mark.parametrize("put", ["a link", "somebody's folder"])
def test_what_somebody_put_in_its_place_is_not_used(
    machine: Machine, root: Path, tmp_path: Path, put: str
) -> None:
    place = Path(folder(root))
    place.parent.mkdir(parents=True)
    if put == "a link":
        place.symlink_to(tmp_path)
    else:
        place.mkdir()
        os.chown(place, pwd.getpwnam("daemon").pw_uid, -1)
    script = "echo ${TGPU_CHECKPOINT_DIR-none} ${TGPU_CHECKPOINT_FILE-none}"
    attempt = run(machine, root, script, user="nobody")
    assert machine.end_of(attempt).exit_code == 0
    assert machine.output(attempt) == b"none none\n"
    assert tmp_path.stat().st_uid == os.getuid()


def test_a_folder_between_that_is_somebody_elses_is_not_passed_through(root: Path) -> None:
    (root / "c1").mkdir(parents=True)
    os.chown(root / "c1", pwd.getpwnam("daemon").pw_uid, -1)
    with pytest.raises(PermissionError):
        checkpoint_folder.make(str(root / "c1" / "7.0"), 0, 0)
    assert list((root / "c1").iterdir()) == []


def test_a_task_that_cannot_have_one_runs_without(machine: Machine, root: Path) -> None:
    root.write_text("in the way")
    attempt = run(machine, root, "echo ${TGPU_CHECKPOINT_DIR-none}")
    assert machine.end_of(attempt).exit_code == 0
    assert machine.output(attempt) == b"none\n"
    root.unlink()


@needs_root
@pytest.mark.parametrize("user", [ME, "nobody"])
def test_task_whose_folder_finds_no_space_is_not_started_without_it(
    machine: Machine,
    small_disk: SmallDisk,  # noqa: F811
    user: str,
) -> None:
    where = str(small_disk.path / "checkpoints" / "c1" / "someone" / "7.0")
    env = {"PATH": PATH, **variables(where)}
    small_disk.path.chmod(0o755)
    small_disk.use_up_inodes()
    changes = {"env": env, "checkpoint_dir": where, "user": user}
    attempt = machine.shell("echo started", **changes)
    end = machine.end_of(attempt)
    assert (end.cause, end.detail) == (Cause.NODE_LOST, DISK_FULL)
    assert machine.output(attempt) == b""
    small_disk.give_back_inodes()
    assert machine.end_of(machine.shell('test -n "$TGPU_CHECKPOINT_DIR"', **changes)).exit_code == 0


def test_folder_beyond_a_quota_is_the_users_own_to_solve() -> None:
    words = records.no_checkpoint_folder(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert words.startswith("its checkpoint folder cannot be made: Disk quota exceeded; remove")
    assert not words.startswith(DISK_FULL)


def test_a_sign_that_is_a_link_is_looked_at_itself(root: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.touch()
    os.utime(old, (1, 1))
    Path(folder(root)).mkdir(parents=True)
    assert checkpoint_folder.saved_ms(folder(root)) is None
    (Path(folder(root)) / checkpoint_folder.SIGN).symlink_to(old)
    saved_ms = checkpoint_folder.saved_ms(folder(root))
    assert saved_ms is not None
    assert saved_ms > 1_000_000


def test_time_that_no_work_can_have_been_saved_at_counts_as_none(root: Path) -> None:
    """Users may give their file any time; a report with it would be invalid for the server."""
    place = root / "c1" / "someone" / "7.0"
    place.mkdir(parents=True)
    sign = place / checkpoint_folder.SIGN
    sign.touch()
    assert checkpoint_folder.saved_ms(str(place)) is not None
    for at_s in (-631_152_000, time.time() + 10 * 365 * 86400):
        os.utime(sign, (at_s, at_s))
        assert checkpoint_folder.saved_ms(str(place)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders for others")
def test_account_made_again_with_another_number_may_pass_its_folder(root: Path) -> None:
    nobody, other = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
    for task, account in (("7.0", other), ("8.0", nobody)):
        checkpoint_folder.make_hidden(folder(root, task), account.pw_uid, account.pw_gid)
    assert can_enter(folder(root, "8.0"), nobody)
    assert not can_enter(folder(root, "7.0"), other), "the number may be another user's by now"


def can_enter(path: str, account: pwd.struct_passwd) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            list(Path(path).iterdir())
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
