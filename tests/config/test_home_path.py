"""Where an installation lives, for root and for other users."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tgpu.client import locate
from tgpu.config.home_path import former_home, home_path
from tgpu.wiring import former_home as moving
from tgpu.wiring import pidfile

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root has such a home")


class Roots:
    """Root with an installation where former versions put it."""

    def __init__(self, home: Path) -> None:
        self.environ = {"HOME": str(home / "root")}
        self.former = home / "root" / ".local" / "share" / "tgpu"
        self.system = home / "system"

    def begin(self, folder: Path) -> None:
        (folder / "run").mkdir(parents=True)
        (folder / "tgpu.db").write_text("jobs")

    def home(self) -> str:
        return home_path(self.environ, uid=0, system=str(self.system))

    def move(self) -> str | None:
        return moving.move(self.environ, uid=0, system=str(self.system))


@pytest.fixture
def roots() -> Iterator[Roots]:
    """Below a directory that only root can change, unlike /tmp."""
    with TemporaryDirectory(prefix="tgpu-test-", dir="/var/lib") as folder:
        yield Roots(Path(folder))


@pytest.mark.parametrize(
    ("environ", "uid", "home"),
    [
        ({"TGPU_HOME": "/h", "HOME": "/home/ann"}, 1000, "/h"),
        ({"TGPU_HOME": "/h", "HOME": "/root"}, 0, "/h"),
        ({"HOME": "/home/ann"}, 1000, "/home/ann/.local/share/tgpu"),
        ({"HOME": "/home/ann", "XDG_DATA_HOME": "/data"}, 1000, "/data/tgpu"),
        ({"HOME": "/home/ann", "XDG_DATA_HOME": "/data"}, 0, "/var/lib/tgpu"),
    ],
)
def test_home_of_users_and_of_root(environ: dict[str, str], uid: int, home: str) -> None:
    assert home_path(environ, uid=uid) == home


@root_only
def test_former_installation_is_used_until_it_is_moved(roots: Roots) -> None:
    assert roots.home() == str(roots.system)
    roots.begin(roots.former)
    assert roots.home() == str(roots.former)
    said = roots.move()
    assert str(said).startswith(f"moved the installation from {roots.former} to {roots.system}")
    assert roots.home() == str(roots.system)
    assert (roots.system / "tgpu.db").read_text() == "jobs"
    assert (roots.former / "tgpu.db").read_text() == "jobs", "running tasks know their files by the old path"
    assert roots.move() is None


@root_only
def test_empty_directory_is_no_obstacle_to_the_move(roots: Roots) -> None:
    roots.begin(roots.former)
    roots.system.mkdir()
    assert str(roots.move()).startswith("moved the installation")


@root_only
def test_running_installation_is_not_moved(roots: Roots) -> None:
    roots.begin(roots.former)
    lock = pidfile.claim(roots.former / "run" / "server.pid", "server")
    assert "stop it with `tgpu down`" in str(roots.move())
    assert roots.home() == str(roots.former)
    pidfile.release(lock)
    assert str(roots.move()).startswith("moved the installation")


@root_only
def test_two_installations_are_reported_and_neither_is_touched(roots: Roots) -> None:
    roots.begin(roots.former)
    roots.begin(roots.system)
    assert f"{roots.former} is not used" in str(roots.move())
    assert roots.home() == str(roots.system)
    assert (roots.former / "tgpu.db").exists()


@root_only
def test_home_of_another_user_is_never_taken_for_roots(roots: Roots) -> None:
    """Under sudo, HOME may be that of the user who calls it."""
    roots.begin(roots.former)
    os.chown(roots.former.parent, 65534, -1)
    assert former_home(roots.environ) is None
    assert (roots.home(), roots.move()) == (str(roots.system), None)


@root_only
def test_root_finds_its_client_files_where_they_were(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    roots.former.mkdir(parents=True)
    (roots.former / "token").write_text("secret")
    (roots.former / "token").chmod(0o600)
    assert locate.token(roots.environ, locate.parse("https://head:7480")) == "secret"
    os.chown(roots.former.parent, 65534, -1)
    assert locate.token(roots.environ, locate.parse("https://head:7480")) is None
