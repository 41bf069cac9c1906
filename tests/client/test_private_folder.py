"""Folders for pickles: other users can change none of the levels above them."""

import os
import pwd
from pathlib import Path

import pytest

from tgpu.client import private_folder
from tgpu.client.private_folder import UnsafeFolderError

OTHER = pwd.getpwnam("nobody").pw_uid

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def test_missing_levels_are_created_for_their_owner_alone(tmp_path: Path) -> None:
    private_folder.make(tmp_path / "a" / "b")
    private_folder.make(tmp_path / "a" / "b")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_folder_below_one_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    with pytest.raises(UnsafeFolderError, match=f"shared may be changed by other users .mode 0{mode:o}"):
        private_folder.make(shared / "mine")


def test_folder_of_its_own_below_a_sticky_one_is_accepted(tmp_path: Path) -> None:
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    private_folder.make(sticky / "mine")
    with pytest.raises(UnsafeFolderError, match="choose a folder of your own below it"):
        private_folder.check(sticky)


@as_root
def test_folder_or_link_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir()
    os.chown(theirs, OTHER, -1)
    with pytest.raises(UnsafeFolderError, match=f"theirs belongs to uid {OTHER}"):
        private_folder.make(theirs / "mine")
    link.symlink_to(tmp_path)
    private_folder.make(link / "mine")
    os.chown(link, OTHER, -1, follow_symlinks=False)
    with pytest.raises(UnsafeFolderError, match=f"link belongs to uid {OTHER}"):
        private_folder.make(link / "mine")


def test_links_are_followed_to_what_they_lead_through(tmp_path: Path) -> None:
    (tmp_path / "open" / "below").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open/below")
    with pytest.raises(UnsafeFolderError, match="open may be changed by other users"):
        private_folder.make(tmp_path / "link" / "mine")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnsafeFolderError, match="too many links"):
        private_folder.check(tmp_path / "loop")


@as_root
def test_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.touch()
    private_folder.check_file(path)
    os.chown(path, OTHER, -1)
    with pytest.raises(UnsafeFolderError, match="not a file of this user"):
        private_folder.check_file(path)
