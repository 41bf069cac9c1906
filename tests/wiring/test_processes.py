"""Servers and agents as processes of this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tgpu.config.settings import Settings
from tgpu.wiring import processes


def test_logs_of_servers_and_agents_are_their_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is open to all users, because the socket is in it."""
    monkeypatch.setattr(sys, "executable", "/bin/true")
    settings = Settings(home=tmp_path)
    settings.run_dir.mkdir()
    agent = processes.log_path(settings, "agent")
    agent.touch(mode=0o644)  # of an older version
    for part in ("server", "agent"):
        started = processes.start(part, settings, {}, with_parent=False)
        assert isinstance(started, subprocess.Popen)
        started.wait()
        assert processes.log_path(settings, part).stat().st_mode & 0o777 == 0o600
