"""A container's signals, and the folder in which it saves its work."""

import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.docker.conftest import ContainerNode
from tgpu.domain.lifecycle import Cause
from tgpu.domain.signals import Warn
from tgpu.runner.checkpoint_folder import variables

TELLS = (
    "trap 'echo usr1' USR1; trap 'echo usr2; exit 4' USR2; trap 'echo term; exit 5' TERM; "
    "echo up; while true; do sleep 0.1; done"
)


@pytest.fixture
def folder() -> Iterator[str]:
    """Below a path that other users may pass, and that no job is allowed to mount."""
    root = tempfile.mkdtemp(prefix="tgpu-checkpoints-", dir="/var/tmp")
    Path(root).chmod(0o755)
    yield f"{root}/c1/7.0"
    shutil.rmtree(root)


def test_a_container_is_stopped_by_the_signal_it_has_chosen(node: ContainerNode) -> None:
    attempt = node.shell(TELLS, stop_signal="USR2", grace_s=30)
    node.until_printed(attempt, b"up")
    node.runner.stop(attempt, Cause.PREEMPTED, "")
    end = node.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.PREEMPTED, 4)
    assert node.output(attempt).split() == [b"up", b"usr2"]


def test_a_container_is_warned_once_before_its_time_limit_also_if_its_agent_starts_anew(
    node: ContainerNode,
) -> None:
    attempt = node.shell(TELLS, time_limit_s=12, warn=Warn("USR1", 8), grace_s=30)
    node.until_printed(attempt, b"usr1")
    node.close()
    node.open()
    end = node.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.TIME_LIMIT, 5)
    assert node.output(attempt).split() == [b"up", b"usr1", b"term"]


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_what_a_container_saved_is_there_for_the_next_attempt(
    node: ContainerNode, folder: str, user: str
) -> None:
    given = {"env": variables(folder), "checkpoint_dir": folder, "user": user}
    save = 'echo one > $TGPU_CHECKPOINT_DIR/state && touch "$TGPU_CHECKPOINT_FILE"'
    end, _ = node.run(save, **given)
    assert (end.exit_code, end.checkpoint_ms is not None) == (0, True)
    about = Path(folder).stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (pwd.getpwnam(user).pw_uid, 0o700)
    _, printed = node.run("cat $TGPU_CHECKPOINT_DIR/state", **given)
    assert printed == "one\n"


def test_a_folder_in_which_a_container_put_nothing_does_not_stay(node: ContainerNode, folder: str) -> None:
    end, _ = node.run('test -d "$TGPU_CHECKPOINT_DIR"', env=variables(folder), checkpoint_dir=folder)
    assert end.exit_code == 0
    assert not Path(folder).exists()


def test_a_container_that_cannot_have_a_folder_runs_without(node: ContainerNode, folder: str) -> None:
    Path(folder).parent.write_text("in the way")
    _, printed = node.run(
        "echo ${TGPU_CHECKPOINT_DIR-none}", env=variables(folder), checkpoint_dir=folder, user="nobody"
    )
    assert printed == "none\n"


def test_a_folder_in_which_a_container_that_never_ran_or_was_cancelled_put_nothing_does_not_stay(
    node: ContainerNode, folder: str
) -> None:
    given = {"env": variables(folder), "checkpoint_dir": folder}
    end, _ = node.run("true", network="other", **given)
    assert (end.cause, Path(folder).exists()) == (Cause.COULD_NOT_START, False)
    attempt = node.shell("echo ready; sleep 100", grace_s=0, **given)
    node.until_printed(attempt, b"ready")
    assert Path(folder).exists()
    node.runner.stop(attempt, Cause.CANCELLED, "")
    node.end_of(attempt)
    assert not Path(folder).exists()


def test_a_folder_of_one_that_gives_way_stays_for_the_next_attempt(node: ContainerNode, folder: str) -> None:
    attempt = node.shell("echo ready; sleep 100", grace_s=0, env=variables(folder), checkpoint_dir=folder)
    node.until_printed(attempt, b"ready")
    node.runner.stop(attempt, Cause.PREEMPTED, "")
    node.end_of(attempt)
    assert Path(folder).exists()
