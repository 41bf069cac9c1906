import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))

from fake_tgpu import FakeTgpu

from tests.cli.cli_process import Tgpu
from tgpu.cli.main import main


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeTgpu]:
    fake = FakeTgpu(tmp_path / "home" / "run" / "tgpu.sock")
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A small environment with a home of its own, whether or not a server runs there."""
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "TGPU_HOME": str(tmp_path / "home"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


@pytest.fixture
def tgpu(
    tmp_path: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Tgpu]:
    """Runs the command in this process, where it costs little: `tgpu("list", "--json", VARIABLE="x")`.
    What needs a process of its own (signals, terminals, pipes) starts one with `cli_process.TGPU`."""
    work = tmp_path / "work"
    work.mkdir()

    def run(*args: str, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        with monkeypatch.context() as patch:
            for name in os.environ:
                patch.delenv(name)
            for name, value in {**environ, **more}.items():
                patch.setenv(name, value)
            time.tzset()
            patch.chdir(work)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            capfd.readouterr()
            try:
                code = main(args)
            except SystemExit as left:
                code = left.code or 0
            said = capfd.readouterr()
        return subprocess.CompletedProcess(args, code, said.out, said.err)

    yield run
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
