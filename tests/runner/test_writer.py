"""Writes to a user's output files: closing them can hang or fail, as writing can."""

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tgpu.runner import writer
from tgpu.runner.writer import HANGS, Writer


def test_file_whose_close_hangs_does_not_hold_up_its_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a drive of the user's own making, which takes what it was given only then, or never."""
    answered = threading.Event()
    monkeypatch.setattr(writer, "os", SimpleNamespace(write=os.write, close=lambda _: answered.wait()))
    monkeypatch.setattr(writer, "PATIENCE_S", 0.1)
    file = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    writing = Writer()
    writing.write(file, b"a line\n")
    assert not writing.close(file)
    answered.set()
    os.close(file)
    assert (writing.lost, writing.why) == (0, HANGS)
    assert (tmp_path / "out").read_bytes() == b"a line\n"


def test_file_whose_close_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def over_quota(_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(writer, "os", SimpleNamespace(close=over_quota))
    file = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    writing = Writer()
    writing.close(file)
    os.close(file)
    assert writing.why == os.strerror(errno.EDQUOT)
