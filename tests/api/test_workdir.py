"""Complaints about working directories: as their user finds them, and nothing of other users."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgpu.api.accounts import Account
from tgpu.api.workdir import complaint


@pytest.fixture
def place() -> Iterator[Path]:
    """Which every user may pass."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def nobody() -> Account:
    row = pwd.getpwnam("nobody")
    return Account(row.pw_name, row.pw_uid, row.pw_gid, row.pw_dir)


def test_directory_is_found_through_links_and_upwards(place: Path, nobody: Account) -> None:
    (place / "real" / "deep").mkdir(parents=True)
    (place / "file").touch()
    (place / "link").symlink_to("real/deep")
    (place / "absolute").symlink_to(place / "link")
    (place / "loop").symlink_to("loop")
    for good in ("real", "link", "absolute/../deep/.", "link/../../real//deep/"):
        assert complaint(f"{place}/{good}", nobody) is None
    for missing in ("none", "link/none", "absolute/../none"):
        assert "there is no directory" in (complaint(f"{place}/{missing}", nobody) or "")
    assert "is not a directory" in (complaint(f"{place}/file", nobody) or "")
    assert "Too many levels" in (complaint(f"{place}/loop", nobody) or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="the server sees no more than its own user does")
def test_links_in_directories_closed_to_the_user_are_not_followed(place: Path, nobody: Account) -> None:
    """Whether there is one, and where it leads, would show in what is said about the path behind it."""
    private = place / "private"
    private.mkdir(mode=0o700)
    (private / "link").symlink_to(place)
    assert complaint(f"{private}/link/none", nobody) is None
    assert complaint(f"{private}/none/none", nobody) is None
