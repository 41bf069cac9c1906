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
from tgpu.dialects.slurm import exporting, step_gpus
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.step_plan import Step, step_of

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tgpu.dialects.slurm.step_gpus import StepGpus
    from tgpu.dialects.slurm.step_plan import Task

    Said = dict[str, str | None]

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGCONT, signal.SIGALRM)  # fmt: skip
_LOOK_S = 0.05
_ATTEMPT = ("TGPU_JOB_ID", "TGPU_TASK_INDEX", "TGPU_ATTEMPT")


def run(said: Said, argv: Sequence[str]) -> int:
    """The highest exit code among its tasks."""
    own = os.environ.get("SLURM_JOB_ID", "")
    if said.get("jobid") not in (None, own):
        raise SlurmError(
            f"--jobid: this is job {own}; `tgpu exec JOB -- PROGRAM` runs something inside another"
        )
    step = step_of(said, os.environ)
    gpus = step_gpus.asked(said, step)
    turn = Turn("/".join(os.environ.get(name, "") for name in _ATTEMPT))
    if "pty" in said and len(step.tasks) == 1 and step.nodes == [0]:
        taken = _taken(turn, {}, 1, gpus, said)
        env = {**os.environ, **step.variables(step.tasks[0], 0), **_found(taken, gpus, step.tasks[0])}
        turn.keep_through_exec()
        os.execvpe(argv[0], list(argv), env)  # noqa: S606  it takes the place of this program
    cpus: dict[int, int] = {}
    each = int(os.environ.get("SLURM_CPUS_ON_NODE") or 1)
    if "overcommit" not in said:
        cpus = {node: step.cpus_on(node) for node in step.nodes}
        _refuse_more_than_there_are(max(cpus.values()), each)
    taken = _taken(turn, cpus, each, gpus, said)
    return _Running(step, said, turn.number(), gpus, taken).carried_out(argv)


def _refuse_more_than_there_are(cpus: int, each: int) -> None:
    """What the job's own tasks need is not more, though flags of `tgpu submit` may have given it less."""
    tasks, nodes, of_task = (
        int(text) if (text := os.environ.get(name, "")).isdigit() else 1
        for name in ("SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "SLURM_CPUS_PER_TASK")
    )
    if cpus > max(each, -(-tasks // max(1, nodes)) * of_task) and "SLURM_STEP_ID" not in os.environ:
        raise SlurmError(
            f"Unable to create step for job {os.environ.get('SLURM_JOB_ID')}: More processors requested than "
            f"permitted: it asks for {cpus} CPUs on one node, where the job has {each}; ask for fewer tasks, "
            "for more in the job's #SBATCH lines, or say --overcommit"
        )


def _taken(
    turn: Turn, cpus: dict[int, int], each: int, gpus: StepGpus | None, said: Said
) -> dict[int, list[str]]:
    """The step's GPUs by node, once it has them and its CPUs. A step in a step has what that has."""
    named = {} if gpus is None else gpus.among(os.environ, os.environ.get("SLURM_JOB_ID", ""))
    if "overlap" in said or "SLURM_STEP_ID" in os.environ:
        return {node: names[:count] for node, (count, names) in named.items()}
    return turn.wait_for(cpus, each, named)


def _found(taken: dict[int, list[str]], gpus: StepGpus | None, task: Task) -> dict[str, str]:
    """Of GPUs, by a task on this node."""
    return {} if gpus is None else step_gpus.variables(taken[0], task.local, gpus.per_task)


class _Running:
    def __init__(
        self, step: Step, said: Said, step_id: int, gpus: StepGpus | None, taken: dict[int, list[str]]
    ) -> None:
        self._step, self._said, self._id = step, said, step_id
        self._gpus, self._taken = gpus, taken
        self._cwd = str(Path(said.get("chdir") or ".").absolute())
        self._output = StepOutput(said, step, step_id)
        self._codes: dict[int, int] = {}
        self._lock = Lock()

    def carried_out(self, argv: Sequence[str]) -> int:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*_PASSED_ON, signal.SIGCHLD])
        env = self._environment()
        far = [self._far(node, argv, env) for node in self._step.nodes if node]
        near = LocalTasks(self._output.told if self._output.is_heard else None)
        near.keep_mask({signal.Signals(number) for number in mask})
        for task in self._step.on(0):
            own = {**env, **self._step.variables(task, self._id), **_found(self._taken, self._gpus, task)}
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
            "gpus": self._taken.get(node),
            "gpus_per_task": self._gpus and self._gpus.per_task,
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
