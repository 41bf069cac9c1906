"""Private /tmp at the command line: the note that is shown once, `--shared-tmp`, and where a /tmp is kept."""

import os
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, a_job, an_attempt

from tests.cli.cli_process import Tgpu
from tgpu.cli import once_per_user

NOTE = "this job has a private /tmp"
MARKER = Path(".cache", "tgpu", once_per_user.MARKER)


@pytest.fixture
def noting(server: FakeTgpu) -> FakeTgpu:
    server.on_submit = lambda job: job.update(tmp_note=NOTE)
    return server


def test_note_is_shown_once_to_each_user(noting: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    first = tgpu("submit", "--", "touch", "/tmp/x")
    assert (first.stdout, first.stderr) == ("Submitted job 1\n", f"tgpu: {NOTE}\n")
    assert (tmp_path / MARKER).exists()
    assert tgpu("submit", "--", "touch", "/tmp/x").stderr == ""
    assert len(noting.submitted()) == 2, "no other request is made"


def test_quiet_submission_shows_no_note_and_does_not_use_it_up(
    noting: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    assert tgpu("submit", "-q", "--", "touch", "/tmp/x").stderr == ""
    assert not (tmp_path / MARKER).exists()
    assert NOTE in tgpu("submit", "--", "touch", "/tmp/x").stderr
    assert len(noting.submitted()) == 2


@pytest.mark.usefixtures("noting")
def test_note_is_shown_where_it_cannot_be_remembered(tgpu: Tgpu, tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("no directory")
    for _ in range(2):
        done = tgpu("submit", "--", "touch", "/tmp/x")
        assert (done.returncode, done.stderr) == (0, f"tgpu: {NOTE}\n")
    assert NOTE in tgpu("submit", "--", "touch", "/tmp/x", HOME="/nowhere").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
@pytest.mark.usefixtures("noting")
def test_root_leaves_nothing_in_the_home_of_another_user(tgpu: Tgpu, tmp_path: Path) -> None:
    home = tmp_path / "other"
    home.mkdir()
    os.chown(home, 65534, 65534)
    assert NOTE in tgpu("submit", "--", "touch", "/tmp/x", HOME=str(home)).stderr
    assert list(home.iterdir()) == []


def test_shared_tmp_is_asked_for_by_flag_and_in_a_file(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    (tmp_path / "work" / "job.yaml").write_text("command: hostname\nshared_tmp: true\n")
    tgpu("submit", "--shared-tmp", "--", "true")
    tgpu("submit", "-f", "job.yaml")
    tgpu("submit", "--", "true")
    assert [job.get("shared_tmp") for job in server.submitted()] == [True, True, None]


def test_show_says_where_the_tmp_of_a_failed_attempt_is_kept(server: FakeTgpu, tgpu: Tgpu) -> None:
    place = "/var/lib/tgpu/failed-tmp/c/1.0.1/tmp"
    failed = an_attempt(1, node_id="n1", kept_tmp=place)
    server.jobs[1] = a_job(1, status="failed", shared_tmp=True, attempts=[failed, an_attempt(1)])
    shown = tgpu("show", "1").stdout
    assert f"kept /tmp  {place} on n1\n" in shown
    assert "shares the /tmp of its node" in shown
