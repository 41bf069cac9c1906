"""Secrets that are files on the node: read as the task's user, and told to nobody."""

import os
import pwd
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's job")


def test_a_variable_gets_what_its_file_says_without_the_line_end(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes("s3crät\nsecond\n".encode())
    attempt = machine.launch("sh", "-c", 'printf "%s|" "$A" "$B"', secret_env={"A": f"file:{tmp_path}/token"})
    machine.end_of(attempt)
    assert machine.output(attempt).decode() == "s3crät\nsecond||"


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("file:{}/none", "cannot read {}/none for A: No such file or directory"),
        ("file:{}", "cannot read {} for A: Is a directory"),
        ("file:{}/large", "{}/large for A is no secret: at most 64 KiB without NUL"),
        ("file:{}/nul", "{}/nul for A is no secret: at most 64 KiB without NUL"),
        ("file:/proc/self/maps", "/proc/self/maps for A is in /proc, where no secrets are kept"),
        ("file:{}/link", "{}/link for A is in /proc, where no secrets are kept"),
        ("store:hf", "there is no secret 'hf' any more; set it again: tgpu secret set hf"),
    ],
)
def test_what_cannot_be_read_is_why_it_cannot_start(
    machine: Machine, tmp_path: Path, reference: str, sentence: str
) -> None:
    (tmp_path / "large").write_bytes(b"x" * (64 * 1024 + 1))
    (tmp_path / "nul").write_bytes(b"hidden\0")
    (tmp_path / "link").symlink_to("/proc/self/environ")
    end = machine.run("true", secret_env={"A": reference.format(tmp_path)})
    assert (end.cause, end.detail) == (Cause.COULD_NOT_START, sentence.format(tmp_path))


def test_a_pipe_that_nobody_writes_to_holds_up_nothing(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert machine.run("true", secret_env={"A": f"file:{tmp_path}/pipe"}).exit_code == 0


@root_only
def test_it_is_read_as_the_task_s_user(machine: Machine, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    nobody = pwd.getpwnam("nobody")
    for name, uid in (("mine", nobody.pw_uid), ("roots", 0)):
        (tmp_path / name).write_text(f"secret of {name}")
        (tmp_path / name).chmod(0o600)
        os.chown(tmp_path / name, uid, 0)
    spec = {"user": "nobody", "cwd": "/"}
    attempt = machine.launch("sh", "-c", "echo $A", secret_env={"A": f"file:{tmp_path}/mine"}, **spec)
    machine.end_of(attempt)
    assert machine.output(attempt) == b"secret of mine\n"
    end = machine.run("true", secret_env={"A": f"file:{tmp_path}/roots"}, **spec)
    assert (end.cause, end.detail) == (
        Cause.COULD_NOT_START,
        f"cannot read {tmp_path}/roots for A: Permission denied",
    )
