"""A whole tgpu, driven as a person would: real processes, real SQLite, a home of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tgpu.client import Client
from tgpu.runner.cgroups.detect import detect
from tgpu.wiring import pidfile

TGPU = str(Path(sys.executable).with_name("tgpu"))


class Installation:
    """One TGPU_HOME and the commands a person would type."""

    def __init__(self, home: Path, program: Sequence[str] = (TGPU,)) -> None:
        self.home, self._program = home, program
        self.files = home.parent / "files"
        self.files.mkdir(exist_ok=True)
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TGPU_")},
            "TGPU_HOME": str(home),
            "TGPU_LISTEN": "127.0.0.1:0",
            "TGPU_HEARTBEAT_S": "0.5",
        }

    def tgpu(self, *arguments: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self._program, *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=self.files,
            **options,
        )
        if check and done.returncode:
            raise AssertionError(
                f"tgpu {' '.join(arguments)} → {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.tgpu(arguments[0], "--json", *arguments[1:]).stdout)

    def client(self) -> Client:
        return Client(f"unix://{self.home}/run/tgpu.sock")

    def up(self, *flags: str) -> None:
        self.tgpu("up", "--detach", "--simulate-gpus", "8", "--cpus", "16", "--memory", "32G", *flags)

    def submit(self, *arguments: str) -> int:
        job_id = self.json("submit", *arguments)["job_id"]
        assert isinstance(job_id, int)
        return job_id

    def sleeper(self, *flags: str, seconds: float = 300) -> int:
        return self.submit(*flags, "--", "sleep", str(seconds))

    def show(self, job_id: int) -> Any:
        """What `tgpu show --json` prints, asked without a process of its own: who waits asks often."""
        with self.client() as client:
            return client.job(job_id)

    def status(self, job_id: int) -> str:
        status = self.show(job_id)["status"]
        assert isinstance(status, str)
        return status

    def wait_status(self, job_id: int, *wanted: str, within_s: float = 60) -> Any:
        self.wait_until(lambda: self.status(job_id) in wanted, f"job {job_id} {wanted}", within_s)
        return self.show(job_id)

    @staticmethod
    def wait_until(is_so: Callable[[], bool], what: str, within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within_s} s: {what}")
            time.sleep(0.05)

    def pid(self, part: str) -> int | None:
        return pidfile.holder(self.home / "run" / f"{part}.pid")

    def kill(self, *parts: str) -> None:
        """As a crash would: SIGKILL, and wait until it is gone."""
        for part in parts:
            pid = self.pid(part)
            assert pid is not None, f"no {part} to kill"
            os.kill(pid, signal.SIGKILL)
            self.wait_until(lambda part=part: self.pid(part) is None, f"{part} dead")

    def pretend_reboot(self) -> None:
        """Nothing of before lives, and the records are from another life of the machine."""
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody sees another die, and records it
            for pid in strays(self.home):
                send(pid, number)
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
        for journal in self.home.glob("agent/*/exits.*"):
            journal.write_bytes(journal.read_bytes().replace(boot_id, b"0" * len(boot_id)))

    def remove(self) -> None:
        """Everything that was started here ends, jobs included."""
        if self.pid("server") and self.pid("agent"):
            self.tgpu("cancel", "all", check=False)
        for part in ("up", "agent", "server"):
            pid = self.pid(part)
            if pid is not None:
                send(pid, signal.SIGKILL)
        for pid in strays(self.home):
            send(pid, signal.SIGKILL)
        for cluster in self.home.glob("agent/*/claims"):
            cgroups = detect(cluster.parent.name).cgroups
            if cgroups is not None:
                cgroups.close()
        shutil.rmtree(self.home.parent, ignore_errors=True)


@contextmanager
def an_installation(program: Sequence[str] = (TGPU,)) -> Iterator[Installation]:
    """In a folder of its own, which every user may enter. `program`: the command `tgpu`."""
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    one = Installation(base / "home", program)
    try:
        yield one
    finally:
        one.remove()


def after(gate: Path, then: str, *, first: str = "true") -> list[str]:
    """The command of a job that does something `first`, and the rest when a test has made the file `gate`."""
    return ["--", "sh", "-c", f"{first}; until test -e {gate}; do sleep 0.05; done; {then}"]


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has gone by itself
        os.kill(pid, number)


def strays(home: Path) -> list[int]:
    """Processes that still carry this installation in their environment, command line or directory."""
    needle = str(home).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            text += os.fsencode((entry / "cwd").readlink())
        except OSError:
            continue
        if needle in text:
            found.append(int(entry.name))
    return found
