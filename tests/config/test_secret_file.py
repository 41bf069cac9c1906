"""Secrets in files and URLs: who can read them, and how they are shown."""

from pathlib import Path

import pytest

from tgpu.config.secret_file import ExposedFileError, check_settings_file, read_secret, store_url
from tgpu.config.settings import SettingsError, load
from tgpu.config.url_password import has_password, is_masked, masked

URL = "postgresql://tgpu:hunter2@db/tgpu"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, "postgresql://tgpu:***@db/tgpu"),
        ("postgresql://tgpu:p@ss@db/tgpu", "postgresql://tgpu:***@db/tgpu"),
        ("postgresql://tgpu@db/tgpu?x=1&password=p", "postgresql://tgpu@db/tgpu?x=1&password=***"),
        ("postgresql://db/tgpu?sslpassword=p&y=2", "postgresql://db/tgpu?sslpassword=***&y=2"),
    ],
)
def test_password_in_url_is_found_and_masked(url: str, shown: str) -> None:
    assert (has_password(url), is_masked(url)) == (True, False)
    assert masked(url) == shown
    assert is_masked(shown)


@pytest.mark.parametrize("url", ["", "postgresql://tgpu@db:5432/tgpu", "@/etc/tgpu/store", "https://h:7480"])
def test_url_without_password_is_shown_as_it_is(url: str) -> None:
    assert not has_password(url)
    assert masked(url) == url


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_secret_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{URL}\n")
    file.chmod(mode)
    with pytest.raises(ExposedFileError, match=f"open to other users; run: chmod 600 {file}"):
        read_secret(file, "the database's URL")
    file.chmod(0o400)
    assert read_secret(file, "the database's URL") == URL


@pytest.mark.parametrize("text", [b"", b"\n", b"a\nb\n", b"\xff"])
def test_secret_file_without_one_line_is_refused_without_its_text(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(text)
    file.chmod(0o600)
    with pytest.raises(SettingsError, match=str(file)):
        read_secret(file, "the join token")


def test_store_is_read_from_its_file_only_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "store"
    settings = load({"TGPU_HOME": str(tmp_path), "TGPU_STORE": f"@{file}"})
    assert settings.store == f"@{file}"
    with pytest.raises(SettingsError, match="No such file"):
        store_url(settings)
    file.touch(0o600)
    file.write_text(URL)
    assert store_url(settings) == URL


def test_store_file_is_named_by_its_whole_path(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="give its whole path"):
        store_url(load({"TGPU_HOME": str(tmp_path), "TGPU_STORE": "@store"}))


@pytest.mark.parametrize(
    ("text", "mode", "refused"),
    [
        (f'store = "{URL}"\n', 0o644, True),
        (f"\"store\" = '''{URL}'''\n", 0o640, True),
        (f'store = "{URL}"\n', 0o600, False),
        ('store = "@/etc/tgpu/store"\n', 0o644, False),
    ],
)
def test_settings_file_with_a_password_must_be_private(
    tmp_path: Path, text: str, mode: int, refused: bool
) -> None:
    file = tmp_path / "tgpu.toml"
    file.write_text(text)
    file.chmod(mode)
    if not refused:
        check_settings_file({}, tmp_path)
        return
    with pytest.raises(ExposedFileError, match=f"chmod 600 {file}") as caught:
        check_settings_file({}, tmp_path)
    assert "hunter2" not in str(caught.value)
