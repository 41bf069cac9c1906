#!/usr/bin/env python3
# ruff: noqa: T201  a demonstration talks
"""tgpu in one minute, on any machine: the five things of the README, on 8 simulated GPUs with three users.

Everything happens in a temporary home that is removed at the end, also after an error or Ctrl-C. Started by
root it submits for three Unix users of this machine; otherwise all three are you. The exit code is 0 only if
each step did what is printed.
"""

import contextlib
import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tgpu.client import Client, TgpuError
from tgpu.runner.cgroups.detect import detect

TGPU = Path(sys.executable).parent / "tgpu"
EXAMPLES = Path(__file__).resolve().parent
STRANGERS = ("nobody", "daemon", "games", "mail", "bin")
COMMAND_S = 30
PAUSE_S = 0.7  # so that eyes can follow


class DemoError(Exception):
    """Something did not go as it was told."""


class Stage:
    """A private installation, and the people in front of it."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="tgpu-demo-")).resolve()
        self.base.chmod(0o755)  # other users pass through to the socket
        self.work = self.base / "work"
        shutil.copytree(EXAMPLES, self.work, ignore=shutil.ignore_patterns("__pycache__"))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TGPU_")}
        self.home = self.base / "home"
        home = {"TGPU_HOME": str(self.home), "PWD": str(self.work)}
        self.environ = {**clean, **home, "PYTHONUNBUFFERED": "1"}
        self.me = pwd.getpwuid(os.geteuid()).pw_name
        self.able = {self.me}
        """Who can run the command themselves."""

    def quietly(self, *words: str, user: str | None = None) -> "subprocess.CompletedProcess[str]":
        who: dict[str, Any] = {}
        environ = self.environ
        if user is not None and user != self.me:
            account = pwd.getpwnam(user)
            who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            environ = {**environ, "HOME": str(self.work), "USER": user, "LOGNAME": user}
        return subprocess.run(
            [TGPU, *words],
            env=environ,
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
            **who,
        )

    def run(self, *words: str, user: str | None = None) -> str:
        """Shows the command and what it says; who cannot run it has the administrator do so."""
        user = user if user in self.able else None
        print(bold(f"{user or self.me}$ tgpu {shlex.join(words)}"), flush=True)
        done = self.quietly(*words, user=user)
        said = "".join(f"  {line}\n" for line in (done.stdout + done.stderr).splitlines())
        print(said, flush=True)
        if done.returncode:
            raise DemoError(f"`tgpu {shlex.join(words)}` ended with {done.returncode}")
        time.sleep(PAUSE_S)
        return done.stdout

    def up(self) -> None:
        self.run("up", "--detach", "--simulate-gpus", "8", "--cpus", "16", "--listen", "127.0.0.1:0")

    def submit(self, user: str, gpus: int, name: str, *script: str, **more: int | str) -> int:
        """By the command where its user can run it; else an administrator submits for them, in Python."""
        if user in self.able:
            flags = [word for key, value in more.items() for word in (f"--{key}", str(value))]
            said = self.run("submit", "--gpus", str(gpus), "--name", name, *flags, *script, user=user)
            return int(said.split()[-1])
        names = {"class": "priority_class"}
        asked = {"user_id": user, "gpu_request": gpus, "name": name}
        asked |= {names.get(key, key): value for key, value in more.items()}
        shown = "".join(f", {key}={value!r}" for key, value in asked.items())
        print(bold(f">>> Client().submit({['sh', *script]}{shown})"), flush=True)
        with Client(f"unix://{self.environ['TGPU_HOME']}/run/tgpu.sock") as client:
            job_id = client.submit(["sh", *script], cwd=str(self.work), **asked)["job_id"]
        print(f"  {{'job_id': {job_id}, …}}\n", flush=True)
        time.sleep(PAUSE_S)
        return int(job_id)

    def ask(self, *words: str) -> Any:  # noqa: ANN401  whatever JSON the command prints
        done = self.quietly(*words, "--json")
        if done.returncode:
            raise DemoError(f"`tgpu {shlex.join(words)}`: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def live(self) -> list[str]:
        """The ids of jobs that wait or run."""
        return self.quietly("list", "--quiet").stdout.split()

    def wait_status(self, job_id: int, wanted: str) -> None:
        wait_until(lambda: self.ask("show", str(job_id))["status"] == wanted, f"job {job_id} is {wanted}")

    def people(self) -> list[str]:
        """Three users of this machine; for who is not root, three times the same."""
        others = [name for name in STRANGERS if exists(name)] if os.geteuid() == 0 else []
        people = [self.me, *others, self.me, self.me][:3]
        self.able |= {name for name in people if name != self.me and self._can(name)}
        return people

    def _can(self, user: str) -> bool:
        """The program, or its interpreter, may lie where only root may go."""
        try:
            return self.quietly("list", "--quiet", user=user).returncode == 0
        except OSError:
            return False

    def clear(self) -> None:
        """Whatever happened: nothing of ours is left."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.quietly("down")
        with contextlib.suppress(DemoError):
            wait_until(lambda: not self._kill_leftovers(), "all processes have ended")
        for cluster in (self.base / "home" / "agent").glob("*"):
            cgroups = detect(cluster.name).cgroups  # kept for an installation that comes back
            if cgroups is not None:
                cgroups.close()
        shutil.rmtree(self.base, ignore_errors=True)

    def _kill_leftovers(self) -> list[int]:
        left = list(self._leftovers())
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def _leftovers(self) -> Iterator[int]:
        """Jobs, supervisors, server and agent work below our directory or were started for it."""
        mark = f"TGPU_HOME={self.environ['TGPU_HOME']}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    works_here = (entry / "cwd").readlink().is_relative_to(self.base)
                    if works_here or mark in (entry / "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)


def play(stage: Stage) -> None:
    """The five things of the README, in its order."""
    say("One command gives this machine a queue. Here it simulates 8 GPUs.")
    stage.up()
    ada, bob, eve = stage.people()
    run_and_watch(stage)
    training, sweep = queue_jobs(stage, ada, bob)
    ask_why(stage, eve)
    let_the_urgent_job_pass(stage, eve, sweep)
    pull_the_plug(stage, training)
    say("The demonstration ends what still runs.")
    stage.run("cancel", ",".join(stage.live()))
    wait_until(lambda: not stage.live(), "all jobs have ended")
    stage.run("down")


def run_and_watch(stage: Stage) -> None:
    say("1. Run something and watch it: its output, its exit code, a GPU of its own.")
    shown = stage.run("run", "--gpus", "1", "--", "sh", "-c", "echo I have GPU $CUDA_VISIBLE_DEVICES")
    expect("I have GPU 0" in shown, "the job saw one GPU")


def queue_jobs(stage: Stage, ada: str, bob: str) -> tuple[int, list[int]]:
    say("2. Queue jobs and go home. Each runs as the user that submitted it, on GPUs of its own.")
    training = stage.submit(ada, 4, "training", "train_demo.py", "--epochs", "600")
    said = stage.run("submit", "--gpus", "2", "--time", "6h", "--count", "2", "--name", "sweep",
                     "sleep_job.sh", "300")  # fmt: skip
    first, last = map(int, said.rsplit(maxsplit=1)[1].split("-"))
    sweep = list(range(first, last + 1))
    for job_id in (training, *sweep):
        stage.wait_status(job_id, "running")
    patient = stage.submit(bob, 2, "patient", "sleep_job.sh", "300")
    expect(stage.ask("show", str(patient))["status"] == "pending", "no GPU is free for the next job")
    stage.run("list")
    return training, sweep


def ask_why(stage: Stage, eve: str) -> None:
    say("3. Ask why a job is pending: what it needs, which jobs hold it, when it starts, what would help.")
    asking = stage.submit(eve, 2, "asking", "sleep_job.sh", "1")
    shown = stage.run("why", str(asking), user=eve)
    expect(stage.ask("why", str(asking))["waiting"], f"job {asking} is pending")
    expect("GPU" in shown, "the reason names what is missing")
    stage.run("cancel", str(asking), user=eve)


def let_the_urgent_job_pass(stage: Stage, eve: str, sweep: list[int]) -> None:
    say("4. Let the urgent job pass: as few jobs of lower classes as possible are preempted, and requeued.")
    urgent = stage.submit(eve, 2, "urgent", "sleep_job.sh", "2", **{"class": "high"})
    wait_until(lambda: stage.ask("show", str(urgent))["started_at"] is not None, "the urgent job starts")
    stage.run("list")
    ended = [each["cause"] for job_id in sweep for each in stage.ask("show", str(job_id))["attempts"]]
    expect(ended.count("preempted") == 1, "one job of the sweep was preempted, and no other")
    stage.run("wait", str(urgent), user=eve)


def pull_the_plug(stage: Stage, training: int) -> None:
    say("5. Pull the plug: kill -9 for server and agent. Running jobs go on, and nothing runs twice.")
    before = stage.ask("show", str(training))["attempts"]
    for part in ("server", "agent"):
        pid = int((stage.home / "run" / f"{part}.pid").read_text().split()[0])
        print(bold(f"{stage.me}$ kill -9 {pid}    # the {part}"), flush=True)
        os.kill(pid, signal.SIGKILL)
    stage.up()
    stage.run("list")
    job = stage.ask("show", str(training))
    expect(job["status"] == "running", "the training still runs")
    expect([each["number"] for each in job["attempts"]] == [each["number"] for each in before],
           "it is still its first attempt")  # fmt: skip
    said = stage.run("logs", "--tail", "4", str(training))
    expect("epoch" in said, "its output is there")
    stage.run("stats")


def say(text: str) -> None:
    print(f"# {text}", flush=True)


def bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def expect(is_so: bool, what: str) -> None:
    if not is_so:
        raise DemoError(f"it is not so that {what}")


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + COMMAND_S
    while not is_so():
        if time.monotonic() > deadline:
            raise DemoError(f"after {COMMAND_S} s it is still not so that {what}")
        time.sleep(0.1)


def interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, interrupt)
    stage = Stage()
    began = time.monotonic()
    try:
        play(stage)
    except KeyboardInterrupt:
        print("\nStopped; clearing up.", file=sys.stderr)
        return 130
    except (DemoError, TgpuError, subprocess.TimeoutExpired) as error:
        print(f"The demonstration failed: {error}", file=sys.stderr)
        return 1
    finally:
        stage.clear()
    say(f"That was tgpu in {time.monotonic() - began:.0f} s; everything is removed. Yours: `tgpu up`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
