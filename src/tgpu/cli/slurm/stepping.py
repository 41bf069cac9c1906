"""Runs one step of the job that this is in: its tasks on this node, and by their keepers on the others."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Lock

from tgpu.cli.slurm.far_tasks import FarTasks
from tgpu.cli.slurm.local_tasks import LocalTasks
from tgpu.cli.slurm.step_output import StepOutput
from tgpu.cli.slurm.turns import Turn
from tgpu.dialects.slurm import exporting, gres
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.step_plan import Step, devices_of, step_of

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

    Said = dict[str, str | None]

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGCONT, signal.SIGALRM)  # fmt: skip
_LOOK_S = 0.05


def run(said: Said, argv: Sequence[str]) -> int:
    """The highest exit code among its tasks."""
    own = os.environ.get("SLURM_JOB_ID", "")
    if said.get("jobid") not in (None, own):
        raise SlurmError(
            f"--jobid: this is job {own}; `tgpu exec JOB -- PROGRAM` runs something inside another"
        )
    step = step_of(said, os.environ)
    if "pty" in said and len(step.tasks) == 1 and step.nodes == [0]:
        env = {**os.environ, **step.variables(step.tasks[0], 0)}
        os.execvpe(argv[0], list(argv), env)  # noqa: S606  it takes the place of this program
    job = "/".join(os.environ.get(name, "") for name in ("TGPU_JOB_ID", "TGPU_TASK_INDEX", "TGPU_ATTEMPT"))
    turn = Turn(job)
    if not {"overlap", "overcommit"} & said.keys() and "SLURM_STEP_ID" not in os.environ:
        cpus = int(said.get("cpus-per-task") or 1)
        each = int(os.environ.get("SLURM_CPUS_ON_NODE") or 1)
        turn.wait_for_cpus({node: cpus * len(step.on(node)) for node in step.nodes}, each)
    return _Running(step, said, turn.number()).carried_out(argv)


class _Running:
    def __init__(self, step: Step, said: Said, step_id: int) -> None:
        self._step, self._said, self._id = step, said, step_id
        self._cwd = str(Path(said.get("chdir") or ".").absolute())
        self._output = StepOutput(said, step, step_id)
        self._codes: dict[int, int] = {}
        self._lock = Lock()
        per_task = said.get("gpus-per-task")
        self._per_task = None if per_task is None else int(gres.gpus("--gpus-per-task", per_task).count)

    def carried_out(self, argv: Sequence[str]) -> int:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*_PASSED_ON, signal.SIGCHLD])
        env = self._environment()
        far = [self._far(node, argv, env) for node in self._step.nodes if node]
        near = LocalTasks(self._output.told if self._output.is_heard else None)
        near.keep_mask({signal.Signals(number) for number in mask})
        for task in self._step.on(0):
            own = {**env, **self._step.variables(task, self._id)}
            if self._per_task is not None:
                visible = env.get("CUDA_VISIBLE_DEVICES", "")
                own["CUDA_VISIBLE_DEVICES"] = devices_of(task.local, visible, self._per_task)
            near.start(task.rank, argv, own, self._cwd, self._output.files_of(task))
        for rank, (code, why) in near.failed.items():
            print(f"srun: error: {why}", file=sys.stderr)
            self._codes[rank] = code
        for one in far:
            one.start()
        near.read()
        self._wait(near, far)
        self._output.finish()
        return max(self._codes.values(), default=0)

    def _far(self, node: int, argv: Sequence[str], env: dict[str, str]) -> FarTasks:
        tasks = [
            {"rank": task.rank, "local": task.local, "env": self._step.variables(task, self._id)}
            for task in self._step.on(node)
        ]
        asked = {
            "argv": list(argv),
            "env": env,
            "cwd": self._cwd,
            "tasks": tasks,
            "gpus_per_task": self._per_task,
        }
        return FarTasks(node, asked, self._output.told_from_afar)

    def _environment(self) -> dict[str, str]:
        """A step has all of the script's environment, unless it says otherwise."""
        said = self._said.get("export")
        if said is None:
            return dict(os.environ)
        own = ("SLURM", "TGPU_", "CUDA_")
        kept = {name: value for name, value in os.environ.items() if name.startswith(own)}
        kept["PATH"] = os.environ.get("PATH", os.defpath)
        return kept | exporting.environment(said, os.environ, dict)

    def _wait(self, near: LocalTasks, far: list[FarTasks]) -> None:
        while near.live or any(one.live for one in far):
            heard = signal.sigtimedwait([*_PASSED_ON, signal.SIGCHLD], _LOOK_S)
            if heard is not None and heard.si_signo != signal.SIGCHLD and not _is_for_all(heard):
                near.send(heard.si_signo)
                for one in far:
                    one.send(heard.si_signo)
            ended = near.ended() + [end for one in far for end in one.ended()]
            for rank, code in ended:
                self._codes[rank] = code
                if code:
                    self._complain(rank, code)
            if any(code for _, code in ended) and self._said.get("kill-on-bad-exit", "0") != "0":
                near.send(signal.SIGTERM)
                for one in far:
                    one.send(signal.SIGTERM)

    def _complain(self, rank: int, code: int) -> None:
        task = self._step.tasks[rank]
        how = f"Exited with exit code {code}"
        if code > 128:  # noqa: PLR2004
            how = signal.strsignal(code - 128) or f"Killed by signal {code - 128}"
        if "quiet" not in self._said:
            print(f"srun: error: {self._step.names[task.node_rank]}: task {rank}: {how}", file=sys.stderr)


def _is_for_all(heard: signal.struct_siginfo) -> bool:
    """Whether the tasks of the step have got it, too: it came from the job's supervisor, and not from
    somebody in the job, who means the step."""
    try:
        environ = Path(f"/proc/{heard.si_pid}/environ").read_bytes() if heard.si_pid else b""
    except FileNotFoundError:
        return False  # a `kill`, which is gone
    except OSError:
        return True  # another user's
    return f"SLURM_JOB_ID={os.environ['SLURM_JOB_ID']}".encode() not in environ.split(b"\0")
