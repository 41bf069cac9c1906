"""A private installation for one benchmark: 8 simulated GPUs and 2 CPUs in a home of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from tgpu.client import Client
from tgpu.runner.cgroups.detect import detect

TGPU = Path(sys.executable).parent / "tgpu"
UP = ("up", "--detach", "--simulate-gpus", "8", "--cpus", "2", "--listen", "127.0.0.1:0")
KILL_ROUNDS = 50


class Installation:
    """`with Installation() as it:`: up inside, gone without a trace after."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="tgpu-bench-")).resolve()
        self.home = self.base / "home"
        self.work = self.base / "work"
        """Where jobs run: whatever is left of them is recognised by it."""
        self.work.mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TGPU_")}
        self.environ = {**clean, "TGPU_HOME": str(self.home)}

    def __enter__(self) -> Self:
        try:
            self.tgpu(*UP)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_failure: object) -> None:
        self.remove()

    def tgpu(self, *words: str) -> str:
        """What the command printed; its own words are the error if it fails."""
        done = subprocess.run(
            [TGPU, *words], env=self.environ, cwd=self.work, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"tgpu {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    @property
    def socket(self) -> str:
        return str(self.home / "run" / "tgpu.sock")

    @property
    def tcp(self) -> tuple[str, int]:
        address = (self.home / "run" / "address").read_text(encoding="utf-8").strip()
        host, _, port = address.removeprefix("http://").rpartition(":")
        return host, int(port)

    def client(self) -> Client:
        return Client(f"unix://{self.socket}", timeout=120)

    def pid(self, part: str) -> int:
        return int((self.home / "run" / f"{part}.pid").read_text(encoding="ascii"))

    def hold_all_cpus(self, client: Client) -> int:
        """A sleeper on the whole node, so that whatever is submitted after it waits."""
        job_id = client.submit(["sleep", "3600"], cpu_request=2, cwd=str(self.work))["job_id"]
        wait_until(lambda: client.job(job_id)["status"] == "running", "the sleeper runs")
        return int(job_id)

    def remove(self) -> None:
        """Server and agent first, so that nothing new starts; then jobs that would run on."""
        try:
            subprocess.run([TGPU, "down"], env=self.environ, capture_output=True, timeout=60, check=False)
        finally:
            for _ in range(KILL_ROUNDS):
                left = list(self._leftovers())
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if not left:
                    break
                time.sleep(0.02)
            self._remove_cgroups()
            shutil.rmtree(self.base, ignore_errors=True)

    def _remove_cgroups(self) -> None:
        """An installation keeps its cgroup for when it comes back; this one never will."""
        for cluster in (self.home / "agent").glob("*"):
            cgroups = detect(cluster.name).cgroups
            if cgroups is not None:
                cgroups.close()

    def _leftovers(self) -> Iterator[int]:
        """Processes that work below our private directory, or were started for our home: all are ours."""
        mark = f"TGPU_HOME={self.home}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                works_here = (entry / "cwd").readlink().is_relative_to(self.base)
                if works_here or mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


def wait_until(is_so: Callable[[], bool], what: str, within_s: float = 60.0, every_s: float = 0.02) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {within_s:g} s: {what}")
        time.sleep(every_s)
