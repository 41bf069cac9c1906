"""`tgpu web`: prints a one-time link, and opens it without showing it to other users."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal

from tests.cli.cli_process import Tgpu
from tgpu.cli import browser
from tgpu.client.private_folder import UnsafeFolderError

URL = "http://tgpu-1.localhost:7480/ui/signin#code=abc&x"
LINK = {"url": URL, "expires_at": "2030-01-31T12:05:00.000Z"}


def test_web_prints_the_link(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /session/links"] = LINK
    said = tgpu("web", "--print")
    assert (said.returncode, said.stdout) == (0, f"{URL}\n")
    assert "valid once" in said.stderr
    assert json.loads(tgpu("web", "--json").stdout) == LINK
    assert tgpu("web", "-q").stdout == f"{URL}\n"
    assert len(server.asked("POST", "/session/links")) == 3


def test_web_says_why_there_is_no_link(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /session/links"] = Refusal(409, "this server has no port for browsers")
    said = tgpu("web")
    assert said.returncode
    assert "no port for browsers" in said.stderr


def test_no_browser_is_opened_without_a_display_over_ssh_or_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    assert browser.is_available()
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5 10.0.0.2 22")
    assert not browser.is_available()
    monkeypatch.delenv("SSH_CONNECTION")
    monkeypatch.delenv("DISPLAY")
    assert not browser.is_available()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not browser.is_available()


def test_browser_gets_a_private_file_that_leads_to_the_link_and_is_removed(tmp_path: Path) -> None:
    opener, noted = tmp_path / "opener", tmp_path / "noted"
    opener.write_text(
        f'#!/bin/sh\necho "$1" > {noted}.tmp; cat "${{1#file://}}" >> {noted}.tmp; mv {noted}.tmp {noted}\n'
    )
    opener.chmod(0o755)
    work = f"from tgpu.cli import browser; browser._KEEP_S = 1; browser.open_page({URL!r})"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "BROWSER": f"{opener} %s",
    }
    subprocess.run([sys.executable, "-c", work], env=environ, check=True, timeout=60)
    deadline = time.monotonic() + 60
    while not noted.exists() or list((tmp_path / "run" / "tgpu").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    argument, page = noted.read_text().split("\n", 1)
    assert argument.startswith(f"file://{tmp_path}/run/tgpu/signin-")
    assert "code=" not in argument
    assert "url=http://tgpu-1.localhost:7480/ui/signin#code=abc&amp;x" in page


def test_redirect_file_is_readable_by_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    path = browser.write_redirect(URL, folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    os.utime(path, (1, 1))
    newer = browser.write_redirect(URL, folder)
    assert list(folder.iterdir()) == [newer], "older files are removed"
    folder.chmod(0o777)
    with pytest.raises(UnsafeFolderError):
        browser.write_redirect(URL, folder)
