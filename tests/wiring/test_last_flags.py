"""Flags of the last `tgpu up`: kept without passwords, in a file for its owner alone."""

import json
from pathlib import Path

import pytest

from tgpu.config.settings import Settings, load
from tgpu.wiring import last_flags, processes, up

URL = "postgresql://tgpu:hunter2@127.0.0.1:1/tgpu"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = load({"TGPU_HOME": str(tmp_path)})
    made.run_dir.mkdir()
    return made


def flags_file(settings: Settings) -> Path:
    return settings.run_dir / "flags.json"


def test_flags_are_kept_privately_and_without_a_password(settings: Settings) -> None:
    last_flags.remember(settings, {"store": URL, "simulate_gpus": 8, "node_labels": ("zone=a",)})
    assert flags_file(settings).stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in flags_file(settings).read_text()
    kept = last_flags.recall(settings)
    assert kept == {
        "store": "postgresql://tgpu:***@127.0.0.1:1/tgpu", "simulate_gpus": 8, "node_labels": ("zone=a",),
    }  # fmt: skip
    assert last_flags.as_environ(kept)["TGPU_NODE_LABELS"] == "zone=a"


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_flags_of_an_older_version_lose_their_password_when_they_are_read(
    settings: Settings, mode: int
) -> None:
    file = flags_file(settings)
    file.write_text(json.dumps({"store": URL}))
    file.chmod(mode)
    assert last_flags.recall(settings) == {"store": URL}, "this start can still use it"
    assert "hunter2" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_flags_are_shown_without_a_password() -> None:
    assert last_flags.in_words({"store": URL}) == "store = postgresql://tgpu:***@127.0.0.1:1/tgpu"


def test_start_without_the_password_of_the_last_start_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It must not start on another store instead."""
    monkeypatch.setenv("TGPU_HOME", str(settings.home))
    monkeypatch.delenv("TGPU_STORE", raising=False)
    last_flags.remember(settings, {"store": URL})
    monkeypatch.setattr(processes, "start", lambda *_, **__: pytest.fail("a part was started"))
    assert up.run({}, detach=True, install_service=False, reload=False) == 1
    said = capsys.readouterr().err
    assert "its password is not kept" in said
    assert "--store @FILE" in said


def test_parts_get_no_secret_that_is_not_for_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: dict[str, dict[str, str]] = {}

    def popen(words: list[str], **given: object) -> None:
        assert not any("hunter2" in word for word in words)
        started[words[-1]] = dict(given["env"])  # type: ignore[call-overload]

    monkeypatch.setattr(processes.subprocess, "Popen", popen)
    environ = {"TGPU_STORE": URL, "TGPU_TOKEN": "t", "TGPU_JOIN_TOKEN": "j", "TGPU_JOIN": "j", "PATH": "/bin"}
    for part in processes.PARTS:
        processes.start(part, settings, environ, with_parent=False)
        assert (settings.run_dir / f"{part}.log").stat().st_mode & 0o777 == 0o600
    assert started["server"] == {"TGPU_STORE": URL, "PATH": "/bin", "TGPU_HOME": str(settings.home)}
    assert started["agent"] == {"PATH": "/bin", "TGPU_HOME": str(settings.home)}
